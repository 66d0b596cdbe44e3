"""What is found of a deploy, how rarely that is wrong, and how it is said; docs/dev/evidence.md has the odds."""

from collections.abc import Callable
from math import sqrt
from random import Random

import pytest
from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server as SimulatedServer
from uwsgi_headroom.analysis.deploys import explanation
from uwsgi_headroom.analysis.deploys.explanation import DeployPart, describe, describe_room, describe_usual
from uwsgi_headroom.analysis.deploys.judgement import Batch, DeployChange, Judgement, Sides, find_usual, is_usual, judge
from uwsgi_headroom.analysis.deploys.spread import Amounts, compare, find_boundary, from_normal
from uwsgi_headroom.code_look import Line
from uwsgi_headroom.history.window import CodeWindow, LineUse, WaitWindow

Make = Callable[[Random], Batch]


def batch(
    random: Random, *, rate: float = 10, time: float = 0.1, cpu: float = 0.05, errors: float = 0.0, grown: float = 0.0
) -> Batch:
    """A second of a server with exponential times."""
    requests = sum(random.random() < rate / 40 for _ in range(40))
    times = sum(random.expovariate(1 / time) for _ in range(requests))
    used = sum(random.expovariate(1 / cpu) for _ in range(requests))
    failed = sum(random.random() < errors for _ in range(requests))
    return Batch(1.0, requests, times, used, failed, grown + random.gauss(0, 1e5))


def sides(random: Random, before: Make, after: Make, seconds: int = 600) -> tuple[Sides, Sides]:
    return Sides([before(random) for _ in range(900)]), Sides([after(random) for _ in range(seconds)])


def test_student_and_normal():
    """The 97.5th percentile of Student's t with 10 degrees of freedom, and the 99.95th with 30, from tables."""
    assert from_normal(1.95996, 10) == pytest.approx(2.2281, abs=0.01)
    assert from_normal(-3.2905, 30) == pytest.approx(-3.6460, abs=0.01)
    assert from_normal(30.0, 1) == float("inf")


def test_a_random_walk_stays_below_the_boundary_at_all_times():
    """Looked at after each of 3,000 steps, at most 1 of 20 walks without a drift crosses the boundary for 1 of 20; a
    test at each step that ignores the other looks is crossed by a third of them."""
    random, crossed, fooled = Random(2), 0, 0
    for _ in range(100):
        place, above, once = 0.0, False, False
        for step in range(1, 3001):
            place += random.gauss(0, 1)
            above |= place / sqrt(step) > find_boundary(step, 30, 0.05)
            once |= place / sqrt(step) > 1.645
        crossed, fooled = crossed + above, fooled + once
    assert 1 <= crossed <= 10
    assert fooled > 30


def test_batches_that_resemble_their_neighbours_are_joined():
    """A backend that is slow for 20 s at a time makes seconds alike: the spread of their mean is that of 20 s."""
    random = Random(3)

    def drifting(seconds: int) -> list[tuple[float, float]]:
        level, pairs = 0.0, []
        for _ in range(seconds):
            level = 0.95 * level + random.gauss(0, 0.06)
            pairs.append((10 * (1 + level) + random.gauss(0, 0.5), 10.0))
        return pairs

    difference = compare(Amounts(drifting(4800), relative=True), Amounts(drifting(4800), relative=True))
    assert difference
    assert difference.joined >= 8
    # The variance of the mean of a first-order process of 0.95 is 39 times that of as many independent numbers.
    independent = 2 * (0.06**2 / (1 - 0.95**2) + 0.05**2) / 4800
    assert 10 * independent < sum(difference.variances) < 80 * independent
    assert compare(Amounts(drifting(60), relative=True), Amounts(drifting(60), relative=True)) is None


@pytest.mark.parametrize(
    ("subject", "changed"),
    [("time", {"time": 0.12}), ("cpu", {"cpu": 0.06}), ("errors", {"errors": 0.02}), ("memory", {"grown": 1e5})],
)
def test_each_quantity_is_found_alone_and_its_like_is_not(subject, changed):
    """20 % more time or CPU time, 2 % errors and 6 MB a minute are found; the same two times over are no change, and
    the other way round it is better, but for memory."""
    random = Random(4)

    def with_change(random: Random) -> Batch:
        return batch(random, **changed)

    worse = judge(*sides(random, batch, with_change))
    assert (worse.status, [change.subject for change in worse.worse]) == ("worse", [subject])
    assert judge(*sides(random, with_change, with_change)).status == "same"
    better = judge(*sides(random, with_change, batch))
    assert better.status == ("same" if subject == "memory" else "better")


def test_minutes_before_and_seconds_after():
    """What is known by the minute is compared with minutes, so that it takes some: no change is never one, and 40 % is
    found by nearly all; by chance, too few minutes differ enough to be counted apart."""

    def minute(random: Random) -> Batch:
        return Batch(*map(sum, zip(*[batch(random) for _ in range(60)], strict=True)))  # type: ignore[arg-type]

    found: dict[float, list[str]] = {0.1: [], 0.14: []}
    for seed in range(1, 6):
        random = Random(seed)
        before = Sides([minute(random) for _ in range(40)])
        for time, said in found.items():
            said.append(judge(before, Sides([batch(random, time=time) for _ in range(1800)])).status)
            assert judge(before, Sides([batch(random, time=time) for _ in range(240)])).status == "early"
    assert set(found[0.1]) <= {"same", "early"}
    assert found[0.1].count("same") >= 4
    assert set(found[0.14]) <= {"worse", "early"}
    assert found[0.14].count("worse") >= 4


def filling() -> Make:
    """A new process takes 30 MB for each factor e of its age, and that comes to an end."""
    ages = iter(range(60, 3000))
    return lambda random: batch(random, grown=30e6 / (next(ages) + 60))


def started() -> Make:
    """Times that come down again by themselves are no batches of one kind."""
    ages = iter(range(1500))
    return lambda random: batch(random, rate=2, time=0.15 if next(ages) < 700 else 0.1)


def longer(time: float) -> Make:
    return lambda random: batch(random, time=time)


@pytest.mark.parametrize(
    ("before", "after", "seconds", "more", "status"),
    [
        (batch, filling(), 1500, {}, "same"),
        # 20 % longer is no news where the load alone makes 20 %.
        (batch, longer(0.12), 600, {}, "worse"),
        (batch, longer(0.12), 600, {"expected": 1.2}, "early"),
        # An overload that ends makes requests faster without a better version, and less CPU time still counts.
        (batch, longer(0.07), 600, {}, "better"),
        (batch, longer(0.07), 600, {"overloaded": True}, "same"),
        (lambda random: batch(random, rate=2), started(), 1500, {}, "early"),
    ],
)
def test_what_is_no_change(before, after, seconds, more, status):
    """A process that fills up, a load, the end of an overload or a long start does not make a version worse."""
    assert judge(*sides(Random(6), before, after, seconds), **more).status == status


def test_a_burst_of_errors_is_not_a_rate():
    """Fifty errors of one bad second are no more certain than one."""
    before, after = sides(Random(5), batch, batch)
    batches = list(after.batches)
    batches[300] = batches[300]._replace(requests=60.0, errors=50.0)
    assert judge(before, Sides(batches)).status == "same"


def test_what_is_usual_explains_a_change_that_leads_to_it():
    """A request took 0.1 s and takes 0.138 s. That is as on other days if it took about so long at this hour or
    longer, and not if other days are faster, or differ so much that the time before was as usual, too."""

    def days(*means: float) -> list[list[Batch]]:
        return [[Batch(60.0, 200, 200 * mean, None, 0.0, None)] for mean in means]

    for means, explains in (
        ((0.135, 0.142, 0.139, 0.136), True),
        ((0.15, 0.151, 0.149, 0.15), True),
        ((0.12, 0.121, 0.12, 0.119), False),
        ((0.1, 0.14, 0.09, 0.15), False),
    ):
        assert is_usual(find_usual(days(*means)), judged()) is explains, means
    gap = find_usual([*days(0.14, 0.14), [], *days(0.14)])
    assert describe_usual(gap, judged()).startswith("At this hour of 3 of the last 14 days a request took 140 ms (")
    assert find_usual(days(0.14, 0.14)) is None


JUDGED = judge(*sides(Random(10), batch, longer(0.138)))


def judged(**changes: object) -> Judgement:
    return replace(JUDGED, **changes)


def test_the_function_in_which_a_part_grew():
    """Where the code is looked at on both sides, the part that grew names its function; one that did not grow, none.
    The headroom is named if it shrank, too."""
    watch, server = ScriptedWatch(), SimulatedServer(1, 2)
    watch.seconds(server, 20, lambda _second: server.serve(1, 1, 0.1))
    window = watch.watch.history.window(15)

    def side(cpu: float, render: float, query: float) -> explanation.Side:
        lines = [
            LineUse(Line("render", "shop/views.py", 3), render, {"cpu": render}, {}),
            LineUse(Line("query", "shop/orders.py", 9), query, {"backend": query}, {}),
        ]
        waits = WaitWindow(15.0, 0.0, {"cpu": cpu, "backend": 1.0 - cpu}, {})
        code = CodeWindow(threads=100.0, looks=100, lines=tuple(lines))
        return explanation.Side(replace(window, waits=waits), code=code)

    grown = explanation.list_parts(side(0.2, 10, 80), side(0.6, 45, 40))
    assert {part.name: part.function for part in grown} == {"CPU": "render", "backend": "query"}
    assert [part.function_growth for part in grown if part.name == "CPU"] == [pytest.approx(0.035)]
    assert {part.function for part in explanation.list_parts(side(0.2, 10, 80), side(0.6, 15, 80))} == {""}
    before, after = (
        replace(side(0.2, 1, 1), headroom=room, usable=usable) for room, usable in ((6.7, 2.1), (6.5, 1.4))
    )
    assert describe_room(judged(), before, after) == " Headroom 2.1x → 1.4x until requests wait."
    assert describe_room(judged(), after, before) == describe_room(judged(status="same"), before, after) == ""


def test_the_sentence():
    """The first sentence names the change, its interval, what makes it up, and what the load would have made."""
    parts = (
        DeployPart("CPU", 0.05, 0.0768, "render", 0.021),
        DeployPart("postgres", 0.02, 0.0312),
        DeployPart("DNS", 0.01, 0.008),
    )
    sentence = describe(judged(expected=1.02), "the reload at 14:02", 600, parts)
    assert sentence == (
        "Since the reload at 14:02 (10 min ago) a request takes 40 % longer (likely 31 to 49 %; 99 ms → 139 ms): "
        "CPU +27 ms (`render` +21 ms), postgres +11 ms; load alone would make +2.0 ms."
    )
    cpu = judged(changes=(DeployChange("cpu", 0.05, 0.0768, 0.31, 0.49, "worse"),))
    assert describe(cpu, "the reload at 14:02", 600, parts).endswith("50 ms → 77 ms): `render` +21 ms.")
    assert describe(judged(status="same", bound=0.09), "the reload at 14:02", 600) == (
        "Since the reload at 14:02 (10 min ago) there is no change above 10 % in the time or CPU time of a request."
    )
    assert describe(judged(status="early", requests=(9000, 210), needed=487), "the reload at 14:02", 60) == (
        "Since the reload at 14:02 (60 s ago) it is too early: 210 of about 490 requests."
    )

"""What is judged beside the samples: findings, other programs, saturated backends, an objective."""

import asyncio
import itertools
import random
import re

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT
from tests.analysis.test_findings import full
from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from tests.watch.sampling import until
from uwsgi_headroom.analysis.backends import ALL
from uwsgi_headroom.analysis.capacity import LEAST_SLICES
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import ROWS, SEVERITIES, Finding, collect_findings
from uwsgi_headroom.analysis.findings.hold import HOLD_SECONDS, Hold
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import Objective
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.estimator import Division
from uwsgi_headroom.history.response_times.totals import BatchHistory, Misses
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import State, Waits
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch import judging, recorder
from uwsgi_headroom.watch.judging import LimitHour, ObjectiveWatch, OtherPrograms
from uwsgi_headroom.watch.recorder import Verdicts
from uwsgi_headroom.watch.watch import Watch


@pytest.fixture
def judged_at(monkeypatch):
    """The times of all judgements, in seconds since the start of the simulated server."""
    times: list[float] = []

    def note(_: Verdicts, time: float, *_more: object) -> None:
        times.append(time - 1_700_000_000)

    monkeypatch.setattr(Verdicts, "judge", note)
    return times


def test_every_five_seconds(judged_at):
    """The first judgement needs ten seconds of history; the next ones follow every five seconds."""
    ScriptedWatch().seconds(Server(), 26)
    assert judged_at == [10.0, 15.0, 20.0, 25.0]


def test_a_sample_is_not_judged(judged_at):
    watch, server = Watch("shop", Unix("/run/shop.stats")), Server()
    for second in range(30):
        watch._record(float(second), server.read(float(second)))
    assert watch.history.seconds > 20
    assert judged_at == []


def test_what_was_judged_or_is_down_is_not_judged(judged_at, monkeypatch):
    monkeypatch.setattr(judging, "JUDGE_SECONDS", 2.0)
    watch = ScriptedWatch().seconds(Server(), 12)
    assert judged_at == [10.0, 12.0]
    watch.now += 2.5
    assert watch.watch.state == "up"
    watch.watch.judge.judge_if_due()
    watch.watch._record(watch.now, Server().read(watch.now))
    watch.read(ReadError("refused", "nothing listens here"), watch.now)
    assert judged_at == [10.0, 12.0]


def test_a_judgement_that_takes_long_is_followed_by_a_long_pause(judged_at):
    """Judging takes a thousandth of a CPU at most: after 20 ms, the next judgement is 20 s later."""
    clock = itertools.count(step=0.02)
    ScriptedWatch(cpu=lambda: next(clock)).seconds(Server(), 55)
    assert judged_at == [10.0, 30.0, 50.0]


def test_an_error_in_it_loses_no_sample(monkeypatch, judged_at):
    watch, server = ScriptedWatch(), Server()
    with monkeypatch.context() as broken:
        broken.setattr(judging, "collect_findings", lambda _figures: 1 / 0)
        watch.seconds(server, 17)
    assert len(watch.watch.reader.faults) == 1
    assert watch.watch.integrals.totals.observed_seconds == 17.0
    assert watch.watch.state == "up"
    watch.seconds(server, 8)
    assert judged_at == [20.0, 25.0]


async def test_judging_lives_with_the_sampler(monkeypatch):
    judged: list[object] = []
    monkeypatch.setattr(judging.Judge, "judge_if_due", lambda judge: judged.append(judge._find_reading()))
    with bad_servers.answers("unix", document("minified")) as address:
        watch = Watch("shop", Unix(address.removeprefix("unix://")))
        for number in (1, 2):
            sampling = asyncio.create_task(watch.sample())
            await until(lambda number=number: len(judged) == number)
            sampling.cancel()
            await asyncio.wait({sampling})
        await watch.reader.read()
        assert len(judged) == 2
        await watch.reader.close()


FEW, MANY = (15, 1.0), (40, 14.0)
"""Requests per second, and threads that wait for the backend."""


def with_backend(seconds: int, *, saturated: bool = True) -> ScriptedWatch:
    """A server whose load changes every eight seconds. A backend with room is as fast with many requests."""
    server, watch = Server(processes=1, threads=16), ScriptedWatch()

    def second(now: int) -> None:
        rate, threads = FEW if now // 8 % 2 else MANY
        if not saturated:
            threads = rate * FEW[1] / FEW[0]
        server.serve(1, rate, each=threads / rate)
        server.waits = Waits(threads={"backend": threads}, busy=round(threads))

    return watch.seconds(server, seconds, second)


def test_a_saturated_backend_is_known_after_a_minute_and_a_half():
    """Each slice is taken once, and four times of low and of high load are enough; of one with room nothing is said."""
    watch = with_backend(90)
    found = watch.watch.backends.find_saturation(ALL)
    assert (round(found.low), round(found.high)) == (FEW[0], MANY[0])
    assert watch.watch.figures(watch.watch.reading, (60.0,))[0].saturation == found
    assert with_backend(90, saturated=False).watch.backends.find_saturation(ALL) is None
    assert with_backend(30).watch.backends.find_saturation(ALL) is None


def beside_others(minutes: int, cost: float) -> ScriptedWatch:
    """A server whose load changes each minute, beside a proxy with so many CPU seconds per request, and a job."""
    rng = random.Random(5)
    server, watch = Server(processes=1, idle=0.5, others=0.5), ScriptedWatch()

    def minute(second: int) -> None:
        if second % 60 == 0:
            server.others = 0.5 + cost * (rate := rng.choice([20, 50, 80]))
            rates[:] = [rate]
        server.serve(1, rates[0], each=0.001, cpu=0.001)

    rates: list[int] = []
    return watch.seconds(server, minutes * 60, minute)


def test_proxy_is_found_after_some_minutes():
    assert beside_others(LEAST_SLICES, cost=0.02).watch.other_programs.others_follow is None
    watch = beside_others(LEAST_SLICES + 2, cost=0.02)
    assert watch.watch.other_programs.others_follow is True
    document = watch.document(60.0)
    cpu = document.cpu
    assert (cpu.others > 0, cpu.others_follow) == (True, True)
    factor = (cpu.own + cpu.others + cpu.idle) / (cpu.own + cpu.others)
    assert abs(document.headroom.by_limit["cpu"] - factor) < 1e-9
    assert watch.history().headroom.cpu[-1] is not None


def test_job_that_runs_anyway_does_not_follow():
    """Another program uses half a CPU all the time. An hour of slices is kept, each once, however often it is asked."""
    watch = beside_others(LEAST_SLICES + 2, cost=0.0).watch
    assert watch.other_programs.others_follow is False
    again = OtherPrograms()
    again.update(watch.history)
    again.update(watch.history)
    assert list(again._pairs) == list(watch.other_programs._pairs)
    assert again._pairs.maxlen == 60


def test_what_limited_the_server_is_known_for_an_hour():
    hour = LimitHour()
    assert hour.at(5.0) is None
    for at, code in ((10.0, None), (20.0, "errors"), (25.0, "errors"), (30.0, None)):
        hour.note(at, code)
    assert [hour.at(time) for time in (5.0, 19.0, 20.0, 29.0, 31.0)] == [None, None, "errors", "errors", None]
    hour.note(3700.0, "loop_held")
    assert (hour.at(25.0), hour.at(3699.0), hour.at(3701.0)) == (None, None, "loop_held")


SLO = Slo(1.0, 0.99)
BINS = Bins((SLO.threshold,))


def add(history: BatchHistory, at: float, requests: int, slow: int) -> None:
    counts = [0.0] * len(BINS)
    counts[BINS.find(0.1)], counts[BINS.find(3.0)] = float(requests - slow), float(slow)
    history.add(at, 5.0, 0.2, requests, 0, Division(counts, [0.0] * len(BINS)), Misses(requests, slow))


FLOW = Flow(
    requests=1, throughput=2.0, response_time=0.1, littles_law=1.0, observed=1.0, queue_wait=0.0, queue_length=0.0
)


def judge(watch: ObjectiveWatch, *, threads_known: bool = True, **flow: float) -> Objective:
    return watch.judge(replace(FLOW, **flow), 0.2, threads_known=threads_known)


def test_without_data_it_is_not_judged():
    """Before the first batch, and with stats-no-cores even if there are earlier ones, which is the reason then."""
    history = BatchHistory(BINS)
    young = judge(ObjectiveWatch(SLO, history))
    add(history, 10.0, 500, 0)
    hidden = judge(ObjectiveWatch(SLO, history), threads_known=False)
    assert (young.unjudged, young.windows, young.level) == ("not judged yet", (), None)
    assert "stats-no-cores" in hidden.unjudged
    assert hidden.windows == ()


def test_windows_end_with_the_last_batch():
    history = BatchHistory(BINS)
    watch = ObjectiveWatch(SLO, history)
    for place in range(1, 721):
        add(history, 1000.0 + 5 * place, 10, 1 if place > 660 else 0)
    figures = judge(watch)
    assert [(burn.seconds, burn.requests, burn.slow) for burn in figures.windows] == [(300, 600, 60), (3600, 7200, 60)]
    assert [burn.rate for burn in figures.windows] == [pytest.approx(10), pytest.approx(10 / 12)]
    add(history, 4605.0, 10, 10)
    assert [burn.slow for burn in judge(watch).windows] == [69, 70]
    # The wait of the window changes nothing: the count of each batch has the wait of its own time.
    history = BatchHistory(BINS)
    add(history, 10.0, 500, 0)
    watch = ObjectiveWatch(SLO, history)
    judged = judge(watch)
    assert judged.unjudged is None
    assert replace(judge(watch, queue_wait=3.0), queue_wait=judged.queue_wait) == judged


def test_load_limit_of_the_last_hour():
    """Load that grew from 10 to 21 requests a second within the hour, and was slow from 18 on, has a limit between."""
    history = BatchHistory(BINS)
    for place in range(1, 721):
        minute = (place - 1) // 12
        load = 10 + minute // 5
        add(history, 5.0 * place, 5 * load, load if load >= 18 else 0)
    found = judge(ObjectiveWatch(SLO, history), throughput=10.0)
    assert found.load_multiple_reached
    assert 1.6 < found.load_multiple < 1.9


def figures_of(waits: dict[State, float] | None = None, queued: float = 0.0, **more: float) -> Figures:
    reading = Server(processes=2, threads=4, cpus=8.0).read(AT)
    rows = full(waits, queued=queued, **more)
    server = describe_server(reading)
    assert server
    return compute_figures(Known(rows, server))


def look(hold: Hold, findings: list[Finding], at: float, *, is_whole: bool = True) -> list[Finding]:
    return hold.look(findings, at, EPOCH + at, is_whole=is_whole)


LOCKED, SLEEPS = (collect_findings(figures_of({state: 8.0}, queued=30.0)) for state in ("lock", "sleep"))


def seen(findings: list[Finding], at: float = 100.0) -> Hold:
    hold = Hold()
    look(hold, findings, at - 5.0)
    look(hold, findings, at)
    return hold


def test_a_finding_begins_when_two_looks_agree():
    """Or 10 s after a look that no other followed: a server with few samples is looked at seldom."""
    hold = Hold()
    assert look(hold, LOCKED, 100.0) == []
    assert hold.alerts(105.0) == []
    assert [held.named.code for held in hold.alerts(110.0)] == ["application_lock"]
    assert look(hold, LOCKED, 105.0) == LOCKED
    once = Hold()
    look(once, LOCKED, 100.0)
    look(once, [], 105.0)
    assert once.alerts(120.0) == []


def test_what_people_see_takes_no_part():
    hold = Hold()
    for at in (100.0, 101.0, 102.0):
        assert hold.show(LOCKED, at, EPOCH, is_whole=True) == []
        assert hold.show(LOCKED, at, EPOCH, is_whole=False) == LOCKED
    look(hold, LOCKED, 103.0)
    assert hold.show(LOCKED, 104.0, EPOCH, is_whole=True) == LOCKED
    assert hold.show([], 104.0, EPOCH, is_whole=True) == []


def test_a_finding_stays_for_as_long_as_its_window():
    """And says when it was last seen."""
    hold = seen(LOCKED)
    later = look(hold, [], 100.0 + HOLD_SECONDS - 1)
    assert [each.code for each in later] == ["application_lock"]
    assert later[0].evidence.startswith(f"{LOCKED[0].evidence} Last seen at ")
    assert hold.since("application_lock") == EPOCH + 95.0
    assert look(hold, [], 100.0 + HOLD_SECONDS) == []
    assert hold.since("application_lock") is None
    # The order of what is seen now is kept.
    for findings in (LOCKED, SLEEPS, collect_findings(figures_of(None, queued=5.0, refused=0.2))):
        assert look(seen(findings), findings, 105.0) == findings


def test_lost_requests_are_no_wait():
    """A block of workers that keep restarting, with the requests that they lost, does not stand for a wait."""
    (wait,) = [each for each in SLEEPS if each.harms]
    loops, loses = (next(row for row in ROWS if row.code == code) for code in ("respawn_loop", "requests_lost"))
    requests = replace(wait, code="requests_lost", kind=loses, harms=())
    lost = replace(wait, code="respawn_loop", kind=loops, severity="critical", harms=(requests,))
    hold = seen([lost])
    look(hold, [wait], 105.0)
    assert {each.code for each in look(hold, [wait], 110.0)} == {"respawn_loop", wait.code}


def test_the_deeper_cause_stays():
    """Requests wait all the time; whether the lock is seen as the cause varies. One block is shown, with one title."""
    hold = seen(LOCKED, 0.0)
    titles = {look(hold, each, 5.0 * place)[0].title for place, each in enumerate([LOCKED, SLEEPS, SLEEPS, LOCKED] * 5)}
    assert titles == {LOCKED[0].title}
    assert LOCKED[0].title != SLEEPS[0].title
    # A graver one is shown at once, and a lesser one when that was not seen for long.
    hold = seen(SLEEPS)
    assert look(hold, LOCKED, 105.0)[0] == LOCKED[0]
    for at in range(110, 165, 5):
        assert look(hold, SLEEPS, float(at))[0].title == LOCKED[0].title
    assert look(hold, SLEEPS, 165.0)[0] == SLEEPS[0]


def test_nothing_is_held_from_a_part_of_a_window():
    hold = seen(LOCKED)
    assert look(hold, [], 105.0, is_whole=False) == []
    assert look(hold, [], 110.0) == []
    hold = seen(LOCKED)
    assert look(hold, SLEEPS, 105.0, is_whole=False) == SLEEPS
    hold.interrupt()
    assert hold.before_outage >= {SLEEPS[0].code}
    assert hold.alerts(106.0) == []


PAGED = Kind("queue_wait", "critical", "Requests wait.", "{n} wait.", waiting=2, page_after=60.0)
CAUSE = Kind("application_lock", "critical", "A lock is held.", "{n} wait for it.", page_after=60.0)


def test_what_alerts_say_is_fixed():
    """It changes with the row or the severity, and not while it is a page: else it would be another alert."""
    hold = seen([PAGED.found(n=4)], 5.0)

    def named() -> list[tuple[str, str, bool]]:
        return [(held.named.code, held.named.public.evidence, held.is_page) for held in hold.alerts(hold_at)]

    hold_at = 10.0
    look(hold, [PAGED.found(n=8)], hold_at)
    assert named() == [("queue_wait", "4 wait.", False)]
    look(hold, [replace(CAUSE.found(n=8), harms=(PAGED.found(n=8),))], 15.0)
    assert named() == [("application_lock", "8 wait for it.", False)]
    hold_at = 62.0
    assert named() == [("application_lock", "8 wait for it.", False)]  # it was seen for 10 s only
    cause = [replace(CAUSE.found(n=8), harms=(PAGED.found(n=8),))]
    for hold_at in (20.0, 40.0, 60.0):
        look(hold, cause, hold_at)
    assert named() == [("application_lock", "8 wait for it.", True)]
    deeper = replace(CAUSE.found(n=9), code="request_stuck", harms=(PAGED.found(n=9),))
    hold_at = 65.0
    assert look(hold, [deeper], hold_at)[0] == deeper
    assert named() == [("application_lock", "8 wait for it.", True)]


@pytest.mark.parametrize(("cause", "harm", "expected"), [(300, 75, 75), (300, 0, 5), (60, 0, 60), (300, 600, 300)])
def test_a_harm_does_not_wait_for_its_cause(cause, harm, expected):
    """A page comes as soon as the harm alone would be one, unless the row of the cause has a time of its own."""
    refused = replace(PAGED.found(n=4), code="clients_refused", kind=replace(PAGED, page_after=harm))
    known = replace(CAUSE.found(n=8), kind=replace(CAUSE, page_after=cause), harms=(refused,))
    mild = replace(known, harms=(replace(refused, severity="warning"),))

    def paged_at(*begin: Finding) -> int:
        hold, looks = Hold(), [*begin, *[known] * 150]
        for at, finding in zip(range(0, 600, 5), looks, strict=False):
            look(hold, [finding], at)
            if any(held.is_page for held in hold.alerts(at)):
                return at
        raise AssertionError

    assert paged_at() == expected
    assert paged_at(refused) == min(expected, max(harm, 5))
    assert paged_at(mild, mild) == (cause if expected == cause else 10 + harm)


def test_what_is_over_is_no_page():
    """A burst stays in the window for a minute; where it comes again, and goes on, it is a page, to its end."""
    goes_on = replace(PAGED.found(n=4), code="clients_refused")
    over = replace(goes_on, is_over=True)
    hold = seen([goes_on], 5.0)
    pages = []
    for at in range(10, 155, 5):
        now = goes_on if at == 120 else over
        look(hold, [now], float(at))
        pages += [at for held in hold.alerts(float(at)) if held.is_page]
    assert pages == [*range(120, 155, 5)]
    look(hold, [replace(over, severity="warning")], 240.0)
    assert [held.is_page for held in hold.alerts(240.0)] == [False]


def test_alerts_know_five_problems():
    """The worst; what is good to know is none."""
    many = [replace(PAGED.found(n=1), code=f"problem_{number}", severity="warning") for number in range(6)]
    findings = [PAGED.found(n=1), *many, replace(PAGED.found(n=1), code="note", severity="info")]
    hold = seen(findings)
    look(hold, findings, 155.0)
    known = [(held.named.severity, held.is_page) for held in hold.alerts(160.0)]
    assert known == [("critical", True), *[("warning", False)] * 4]


def test_no_code_stands_twice_and_the_worst_is_first():
    chance = random.Random(33)
    hold = Hold()
    states: list[State] = ["lock", "sleep", "client", "backend", "cpu", "cpu_wait", "unknown"]
    for place in range(200):
        waits: dict[State, float] = {state: chance.uniform(0.0, 4.0) for state in chance.sample(states, 3)}
        queued, refused = chance.choice([0.0, 0.5, 5.0, 40.0]), chance.choice([0.0, 0.2])
        now = collect_findings(figures_of(chance.choice([waits, None]), queued=queued, refused=refused))
        look(hold, now, 7.0 * place)
        found = look(hold, now, 7.0 * place + 1)
        codes = [code for each in found for code in (each.code, *[harm.code for harm in each.harms])]
        assert len(codes) == len(set(codes))
        order = [SEVERITIES.index(each.severity) for each in found]
        assert order == sorted(order)
        if now:
            assert order[0] <= SEVERITIES.index(now[0].severity)


def test_since_the_reload(monkeypatch):
    """Within a minute after it a finding says so, unless it, or the exporter, was not there before."""

    def evidence(before_reload: int, fails_before: bool, fails_after: int = 0) -> str:
        watch, server = ScriptedWatch(), Server(processes=2, threads=2)

        def fail(_second: int) -> None:
            server.serve(1, 5)
            server[1].exceptions += 2

        def work(_second: int) -> None:
            server.serve(1, 5)

        watch.seconds(server, before_reload, fail if fails_before else work)
        server.reload(watch.now)
        watch.seconds(server, fails_after, work)
        watch.seconds(server, 40, fail)
        found = next(each for each in watch.document().findings if each.code == "exceptions")
        assert found.severity == "warning"
        return found.evidence

    monkeypatch.setattr(recorder, "AFTER_RELOAD_SECONDS", 300.0)
    assert "It began within a minute of the reload at " in evidence(200, fails_before=False)
    assert "It began" not in evidence(200, fails_before=True)
    assert "It began" not in evidence(30, fails_before=False)
    began = r" It began 3 min( \d+ s)? after the reload at \d\d:\d\d: if that was a deploy, roll back first"
    assert re.search(began, evidence(200, fails_before=False, fails_after=180))
    assert "It began" not in evidence(200, fails_before=False, fails_after=400)

"""Findings stay for a while after they were last seen, and say with what they began."""

import random
import re

import pytest
from msgspec.structs import replace

from tests.analysis.test_diagnosis import full
from tests.analysis.test_findings import AT
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import ROWS, SEVERITIES, Finding, collect_findings
from uwsgi_headroom.analysis.findings.hold import HOLD_SECONDS, Hold
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import State
from uwsgi_headroom.watch import recorder


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
    """A hold that has seen these findings twice, the second time at this time."""
    hold = Hold()
    look(hold, findings, at - 5.0)
    look(hold, findings, at)
    return hold


def test_a_finding_begins_when_two_looks_agree():
    """Or 10 s after a look that no other followed: a server with few samples is looked at seldom."""
    hold = Hold()
    assert look(hold, LOCKED, 100.0) == []
    assert hold.alerts(105.0) == []
    assert [held.named.code for held, _ in hold.alerts(110.0)] == ["application_lock"]
    assert look(hold, LOCKED, 105.0) == LOCKED
    once = Hold()
    look(once, LOCKED, 100.0)
    look(once, [], 105.0)
    assert once.alerts(120.0) == []


def test_what_people_see_takes_no_part():
    """A request for the page changes nothing, however often it is asked for; of a part of a window it shows all."""
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


def test_the_order_of_what_is_seen_now_is_kept():
    """Holding changes nothing about findings that are all seen now."""
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


def test_a_graver_finding_is_shown_at_once():
    """What is worse, or deeper, replaces what is held; a lesser one follows when that was not seen for long."""
    hold = seen(SLEEPS)
    assert look(hold, LOCKED, 105.0)[0] == LOCKED[0]
    for at in range(110, 165, 5):
        assert look(hold, SLEEPS, float(at))[0].title == LOCKED[0].title
    assert look(hold, SLEEPS, 165.0)[0] == SLEEPS[0]


def test_nothing_is_held_from_a_part_of_a_window():
    """As after an outage: what was before it is over."""
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
        return [(held.named.code, held.named.public.evidence, page) for held, page in hold.alerts(hold_at)]

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
    """A page comes as soon as the harm alone would be one, unless the row of the cause has a time of its own. The harm
    counts from where it is critical, also before its cause was seen."""
    refused = replace(PAGED.found(n=4), code="clients_refused", kind=replace(PAGED, page_after=harm))
    known = replace(CAUSE.found(n=8), kind=replace(CAUSE, page_after=cause), harms=(refused,))
    mild = replace(known, harms=(replace(refused, severity="warning"),))

    def paged_at(*begin: Finding) -> int:
        hold, looks = Hold(), [*begin, *[known] * 150]
        for at, finding in zip(range(0, 600, 5), looks, strict=False):
            look(hold, [finding], at)
            if any(page for _, page in hold.alerts(at)):
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
        pages += [at for _, page in hold.alerts(float(at)) if page]
    assert pages == [*range(120, 155, 5)]
    look(hold, [replace(over, severity="warning")], 240.0)
    assert [page for _, page in hold.alerts(240.0)] == [False]


def test_alerts_know_five_problems():
    """The worst; what is good to know is none."""
    many = [replace(PAGED.found(n=1), code=f"problem_{number}", severity="warning") for number in range(6)]
    findings = [PAGED.found(n=1), *many, replace(PAGED.found(n=1), code="note", severity="info")]
    hold = seen(findings)
    look(hold, findings, 155.0)
    assert [(held.named.severity, page) for held, page in hold.alerts(160.0)] == [
        ("critical", True),
        *[("warning", False)] * 4,
    ]


def test_no_code_stands_twice_and_the_worst_is_first():
    """Whatever is held beside whatever is seen."""
    chance = random.Random(33)
    hold = Hold()
    states: list[State] = ["lock", "sleep", "client", "backend", "cpu", "cpu_wait", "unknown"]
    for place in range(200):
        waits: dict[State, float] = {state: chance.uniform(0.0, 4.0) for state in chance.sample(states, 3)}
        figures = figures_of(
            chance.choice([waits, None]),
            queued=chance.choice([0.0, 0.5, 5.0, 40.0]),
            refused=chance.choice([0.0, 0.2]),
        )
        now = collect_findings(figures)
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
    later = evidence(200, fails_before=False, fails_after=180)
    assert re.search(
        r" It began 3 min( \d+ s)? after the reload at \d\d:\d\d: if that was a deploy, roll back first", later
    )
    assert "It began" not in evidence(200, fails_before=False, fails_after=400)

"""Findings stay for a while after they were last seen, and say with what they began."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from tests.analysis.test_diagnosis import full
from tests.analysis.test_findings import AT
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import SEVERITIES, Finding, collect_findings
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import State
from uwsgi_headroom.watch.judging import HOLD_SECONDS, HeldFindings


def figures_of(waits: dict[State, float] | None = None, queued: float = 0.0, **more: float) -> Figures:
    reading = Server(processes=2, threads=4, cpus=8.0).read(AT)
    rows = full(waits, queued=queued, **more)  # type: ignore[arg-type]
    server = describe_server(reading)
    assert server
    return compute_figures(rows, server)


def shown(held: HeldFindings, figures: Figures, now: float) -> list[Finding]:
    return held.hold(figures, collect_findings(figures), now, EPOCH + now)


LOCK, SLEEP = figures_of({"lock": 8.0}, queued=30.0), figures_of({"sleep": 8.0}, queued=30.0)


def test_a_finding_stays_for_as_long_as_its_window() -> None:
    """And says when it was last seen."""
    held = HeldFindings()
    first = shown(held, LOCK, 100.0)[0]
    assert first == collect_findings(LOCK)[0]
    later = held.hold(LOCK, [], 100.0 + HOLD_SECONDS - 1, EPOCH + HOLD_SECONDS)
    assert [each.code for each in later] == ["application_lock"]
    assert later[0].evidence.startswith(f"{first.evidence} Last seen at ")
    assert held.hold(LOCK, [], 100.0 + HOLD_SECONDS, EPOCH) == []


def test_the_order_of_what_is_seen_now_is_kept() -> None:
    """Holding changes nothing about findings that are all seen now."""
    for figures in (LOCK, SLEEP, figures_of(None, queued=5.0, refused=0.2)):
        assert shown(HeldFindings(), figures, 0.0) == collect_findings(figures)


def test_lost_requests_are_no_wait() -> None:
    """A block of workers that keep restarting, with the requests that they lost, does not stand for a wait."""
    (wait,) = [each for each in collect_findings(SLEEP) if each.harms]
    lost = replace(
        wait, code="respawn_loop", severity="critical", harms=(replace(wait, code="requests_lost", harms=()),)
    )
    held = HeldFindings()
    assert [each.code for each in held.hold(SLEEP, [lost], 100.0, EPOCH)] == ["respawn_loop"]
    assert {each.code for each in held.hold(SLEEP, [wait], 105.0, EPOCH)} == {"respawn_loop", wait.code}


def test_the_deeper_cause_stays() -> None:
    """Requests wait all the time; whether the lock is seen as the cause varies. One block is shown, with one title."""
    held = HeldFindings()
    titles = {
        shown(held, figures, 5.0 * place)[0].title for place, figures in enumerate([LOCK, SLEEP, SLEEP, LOCK] * 5)
    }
    assert titles == {collect_findings(LOCK)[0].title}
    assert len({collect_findings(figures)[0].title for figures in (LOCK, SLEEP)}) == 2


def test_a_graver_finding_is_shown_at_once() -> None:
    """What is worse, or deeper, replaces what is held."""
    held = HeldFindings()
    shown(held, SLEEP, 0.0)
    assert shown(held, LOCK, 5.0)[0] == collect_findings(LOCK)[0]


def test_nothing_is_held_from_a_part_of_a_window() -> None:
    """As after an outage: what was before it is over."""
    held = HeldFindings()
    shown(held, LOCK, 0.0)
    short = replace(LOCK, window=replace(LOCK.window, observed_seconds=20.0))
    assert held.hold(short, [], 5.0, EPOCH) == []
    assert held.hold(LOCK, [], 10.0, EPOCH) == []


def test_no_code_stands_twice_and_the_worst_is_first() -> None:
    """Whatever is held beside whatever is seen."""
    chance = random.Random(33)
    held = HeldFindings()
    states: list[State] = ["lock", "sleep", "client", "backend", "cpu", "cpu_wait", "unknown"]
    for place in range(400):
        waits: dict[State, float] = {state: chance.uniform(0.0, 4.0) for state in chance.sample(states, 3)}
        figures = figures_of(
            chance.choice([waits, None]),
            queued=chance.choice([0.0, 0.5, 5.0, 40.0]),
            refused=chance.choice([0.0, 0.2]),
        )
        found = shown(held, figures, 7.0 * place)
        codes = [code for each in found for code in (each.code, *[harm.code for harm in each.harms])]
        assert len(codes) == len(set(codes))
        order = [SEVERITIES.index(each.severity) for each in found]
        assert order == sorted(order)
        now = collect_findings(figures)
        if now:
            assert order[0] <= SEVERITIES.index(now[0].severity)


def test_since_the_reload() -> None:
    """A finding that begins within a minute after a reload says so; one that was there before does not, nor one of a
    server that was not watched before."""

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

    assert "It began within a minute of the reload at " in evidence(200, fails_before=False)
    assert "It began" not in evidence(200, fails_before=True)
    assert "It began" not in evidence(30, fails_before=False)
    later = evidence(200, fails_before=False, fails_after=180)
    assert re.search(
        r" It began 3 min( \d+ s)? after the reload at \d\d:\d\d: if that was a deploy, roll back first", later
    )
    assert "It began" not in evidence(200, fails_before=False, fails_after=1000)

"""Harms are joined to the cause that explains them: one block, one change, in words that do not jitter."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Literal

import pytest

from tests.analysis.test_findings import AT
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.bottlenecks import connections_hold_threads
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, Severity, collect_findings, find_harm, first_act, lock_waits
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Options, Outage, Setup
from uwsgi_headroom.words.formats import rate


def judge(window_: Window, server: Server | None = None, setup: Setup | None = None) -> list[Finding]:
    reading = (server or Server(processes=2, threads=4, cpus=8.0)).read(AT)
    if setup:
        reading = replace(reading, host=replace(reading.host, setup=setup))
    return collect_findings(compute_figures(window_, describe_server(reading)))


def full(waits: dict[str, float] | None, *, queued: float = 30.0, refused: float = 0.0, **more: object) -> Window:
    """A minute of two workers whose four threads are all in service, while requests wait."""
    rows = (worker(number, 600, each=0.2, cpu=0.6, busy=240.0) for number in (1, 2))
    queues = {"queue_seconds": {"app.sock": 60 * queued}, "queue_full_seconds": {"app.sock": 60 * refused}}
    return replace(window(60, *rows, waits=waits, **more), full_seconds=60.0, **queues)


def test_three_harms_of_one_cause_are_one_block() -> None:
    """Refused clients, the wait and full threads come of the lock: one block has them as evidence, and one change."""
    findings = judge(full({"lock": 7.0, "sleep": 1.0}, refused=0.2), Server(processes=2, threads=4, cpus=8.0))
    grave = [finding for finding in findings if finding.severity != "info"]
    assert [finding.code for finding in grave] == ["application_lock"]
    (block,) = grave
    assert block.severity == "critical"
    assert block.title == (
        "Clients are refused at app.sock, whose listen queue is full: the threads wait for a lock of the application."
    )
    assert [harm.code for harm in block.harms] == ["clients_refused", "queue_wait", "saturation"]
    assert "Raise `threads`" not in block.change
    assert block.change.count("If the queue fills only in bursts") == 1


@pytest.mark.parametrize(
    ("waits", "code", "clause"),
    [
        ({"lock": 8.0}, "application_lock", "the threads wait for a lock of the application"),
        ({"client": 8.0}, "slow_clients", "slow clients hold the threads"),
        ({"backend": 8.0}, "waits_for_backend", "the threads wait for backends"),
        ({"sleep": 8.0}, "saturation", "all threads are busy"),
        (None, "saturation", "all threads are busy"),
    ],
)
def test_the_deepest_cause_is_named(waits: dict[str, float] | None, code: str, clause: str) -> None:
    """Busy threads are the cause only where nothing explains why they are busy."""
    first = judge(full(waits))[0]
    assert (first.code, first.severity) == (code, "critical")
    assert first.title == f"Requests wait in the listen queue: {clause}."


@pytest.mark.parametrize(("completed", "is_cause"), [(30, True), (500, True), (700, False)])
def test_requests_that_are_killed_hold_the_threads(completed: int, is_cause: bool) -> None:
    """Each worker has a thread, and `harakiri` ends requests that hold it for most of the time. What the completed ones
    took promises nothing of more workers then. If they take most of the time, they are what has to be served."""
    rows = (worker(number, completed, each=0.05, busy=60.0) for number in (1, 2, 3, 4))
    waiting = {"queue_seconds": {"app.sock": 120.0}, "queue_full_seconds": {"app.sock": 0.0}}
    killed = replace(window(60, *rows, waits={"sleep": 4.0}), full_seconds=60.0, harakiris=16, respawns=16, **waiting)
    by_code = {finding.code: finding for finding in judge(killed, Server(processes=4, threads=1, cpus=8.0))}
    assert ("queue_wait" in by_code or "saturation" in by_code) != is_cause
    block = by_code["harakiri"]
    assert bool(block.harms) == is_cause
    assert ("hold the threads until `harakiri` kills the workers" in block.title) == is_cause
    assert "Raise `processes`" not in block.change
    if is_cause:
        assert {harm.code for harm in block.harms} >= {"queue_wait", "saturation"}


@pytest.mark.parametrize("waits", [{"client": 8.0}, {"backend": 8.0}, {"lock": 8.0}])
def test_what_fills_the_threads_is_one_block_without_a_queue(waits: dict[str, float]) -> None:
    """Threads in use are said once, with what they wait for."""
    grave = [finding for finding in judge(full(waits, queued=0.0)) if finding.severity != "info"]
    assert [[harm.code for harm in finding.harms] for finding in grave] == [["saturation"]]


def test_without_a_cause_nothing_is_advised() -> None:
    """Requests wait while threads are free all the time, and it is known what they wait for: more would be free too."""
    rows = [worker(number, 600, each=0.1, cpu=0.6, busy=60.0) for number in (1, 2)]
    calm = window(60, *rows, waits={"sleep": 2.0}, **{"app.sock": 60 * 2.0})
    first = judge(calm)[0]
    assert first.title == "Requests wait in the listen queue: it is not known why."
    assert first.change == "Run `py-spy dump --pid 101` to see what the workers do while requests wait."
    burst = judge(replace(calm, full_seconds=6.0))[0]
    assert burst.title == "Requests wait in the listen queue: bursts fill all threads."
    assert burst.change.startswith(("Raise `threads`", "Raise `processes`"))


@pytest.mark.parametrize(("requests", "severity"), [(10, "warning"), (40, "critical")])
def test_a_few_requests_that_met_by_chance_are_not_critical(requests: int, severity: str) -> None:
    """Ten requests in a minute, of which three met, wait as long on average as they are served: nobody needs a call.
    With four times as many, somebody waits nearly all the time."""
    rare = window(60, worker(1, requests, each=0.93, cpu=4.0, busy=0.93 * requests), **{"app.sock": 0.95 * requests})
    first = judge(rare, Server(processes=1, threads=1, cpus=1.0))[0]
    assert (first.harms[0].code if first.harms else first.code, first.severity) == ("queue_wait", severity)


def test_harakiri_that_cannot_fire_is_not_advised() -> None:
    """With threads, each further request of the worker resets its timer."""
    server = Server(processes=2, threads=4)
    server[1].request_starts = (int(server.read(AT).time) - 90,)
    setup = Setup(Options(harakiri=5), 4096, "threads", None, False)
    stuck = next(each for each in judge(full(None, queued=0.0), server, setup) if each.code == "request_stuck")
    assert "`harakiri` (5 s) does not end these requests" in stuck.change
    assert "as the last resort" not in stuck.change


def test_titles_do_not_jitter() -> None:
    """Small changes of the figures change no title: an alert that quotes it, or a reader, sees one problem."""
    chance = random.Random(33)
    shapes = [{"lock": 7.0}, {"sleep": 7.0}, {"client": 7.0}, {"backend": 7.0}, {"cpu": 4.0, "cpu_wait": 4.0}, None]
    for waits in shapes:
        titles = set()
        for _ in range(20):
            part = chance.uniform(0.97, 1.03)
            scaled = waits and {state: threads * part for state, threads in waits.items()}
            found = judge(full(scaled, queued=30.0 * part, refused=0.2 * part))
            titles.add(tuple(each.title for each in found))
        assert len(titles) == 1, titles


def test_the_faces_agree() -> None:
    """The status is the severity of the first block, and the sentence is its title, whatever is joined."""
    chance = random.Random(7)
    for _ in range(300):
        states = chance.sample(["lock", "sleep", "client", "backend", "cpu", "cpu_wait", "unknown"], 3)
        waits = {state: chance.uniform(0.0, 4.0) for state in states}
        window_ = full(
            chance.choice([waits, None]),
            queued=chance.choice([0.0, 0.5, 5.0, 40.0]),
            refused=chance.choice([0.0, 0.01, 0.3]),
            cpu=chance.choice([None, (1.0, 0.0, 7.0), (1.0, 6.0, 1.0)]),
        )
        reading = Server(processes=2, threads=4, cpus=8.0).read(AT)
        figures = compute_figures(window_, describe_server(reading))
        findings = collect_findings(figures)
        if worst_status(findings) == "ok":
            continue
        assert verdict_sentence(figures.headroom, findings) == findings[0].title
        codes = [each.code for finding in findings for each in (finding, *finding.harms)]
        assert len(codes) == len(set(codes)), "a finding stands twice"
        for finding in findings:
            assert all(harm.severity >= finding.severity for harm in finding.harms)  # critical < info < warning
            assert finding.title.count(": ") <= 1
            assert not re.search(r"\d+(\.\d+)? ?(%|ms|s|x)\b", finding.title.replace("30 s", "")), finding.title


def test_an_outage_is_said() -> None:
    """After an outage the verdict is the outage, not what its end did to the figures."""
    reading = Server(processes=2, threads=4).read(AT)
    rows = [worker(number, 30, each=0.1, busy=0.5) for number in (1, 2)]
    figures = compute_figures(window(5, *rows), describe_server(reading), outage=Outage(20.0, reading.time))
    first = collect_findings(figures)[0]
    assert (first.code, first.severity) == ("was_down", "warning")
    assert first.title.startswith("uWSGI was down for 20 s, until ")
    assert "All figures are from the 5.0 s since then." in first.evidence


@pytest.mark.parametrize(
    ("scope", "kind"),
    [("worker", lock_waits.LOCK), ("file", lock_waits.LOCK_OF_ALL), (None, lock_waits.LOCK)],
)
def test_what_a_lock_permits(scope: Literal["worker", "file"] | None, kind: Kind) -> None:
    """Where it is known how much a lock is held, the finding has its limit, and says whether processes help."""
    lock = LockFigures(scope, 0.08, 0.6, 0.82, 83.0, 83.0, 83.0) if scope else None
    figures = compute_figures(full({"lock": 8.0}), describe_server(Server(processes=2, threads=4).read(AT)))
    first = collect_findings(replace(figures, lock=lock))[0]
    assert first.kind is kind
    assert ("At most 83" in first.evidence) == bool(scope)


def test_clients_that_keep_their_connections() -> None:
    """Requests wait while uWSGI calls nearly all threads free, and the kernel sees them wait for clients: they wait for
    the next request of a connection. Slow clients would be in service."""
    rows = [worker(number, 60, each=0.05, cpu=0.1, busy=6.0) for number in (1, 2)]
    kept = window(60, *rows, waits={"client": 0.15, "sleep": 0.05})
    first = judge(replace(kept, queue_seconds={"app.sock": 300.0}, queue_full_seconds={"app.sock": 0.0}))[0]
    assert first.title == (
        "Requests wait in the listen queue: clients that keep connections open hold the threads between requests."
    )
    assert "`http11-socket`" in first.change
    assert first.severity == "critical"
    reading = Server(processes=2, threads=4).read(1000.0)
    for waiting, held in ((300.0, True), (0.0, False)):
        of = replace(kept, queue_seconds={"app.sock": waiting}, queue_full_seconds={"app.sock": 0.0})
        record = describe_server(reading)
        assert record
        assert connections_hold_threads(compute_figures(of, record)) is held


def test_settings_stand_beside_the_words() -> None:
    """What the advice sets to a number is in the finding, too, and so is what it promises."""
    first = judge(full({"other": 8.0}))[0]
    (option, value) = first.settings[0]
    assert f"Raise `{option}` from 4 to {value}" in first.change
    assert first.serves
    assert f"at least {rate(first.serves)}" in first.change
    assert judge(full({"lock": 8.0}))[0].settings == ()


def test_nothing_is_promised_to_requests_that_sleep() -> None:
    """A sleep until a rate limit lets a request go on looks like any other, and more threads would sleep as well."""
    first = judge(full({"sleep": 8.0}))[0]
    assert first.serves is None
    assert "serves at least" not in first.change
    assert first_act(first.change).startswith(
        "Raise `threads` from 4 to 26, unless a rate limit or retries make requests wait"
    )


def test_cheaper_mode_that_keeps_workers_in_reserve() -> None:
    """Requests wait while the workers in reserve are not spawned: more processes would stay in reserve as well."""
    server = Server(processes=4, threads=1, cpus=8.0)
    server.cheap(3)
    server.cheap(4)
    rows = [worker(number, 300, each=0.2, cpu=0.6, busy=60.0) for number in (1, 2)]
    waiting = window(60, *rows, waits={"sleep": 2.0}, **{"app.sock": 60 * 5.0})
    first = judge(waiting, server)[0]
    assert first.settings == (("cheaper", 3), ("cheaper-initial", 3))
    assert "Raise `cheaper` and `cheaper-initial` to 3" in first.change
    assert "Raise `processes`" not in first.change


def test_the_worst_harm_is_that_of_the_verdict() -> None:
    """A refusal comes before a wait, as harm or as the finding itself; full threads are a harm only while they hurt."""

    def found(code: str, severity: Severity = "critical", *harms: Finding) -> Finding:
        return Finding(code=code, severity=severity, title="It is.", evidence="So.", harms=harms)

    refused, waits, full = found("clients_refused"), found("queue_wait"), found("saturation", "warning")
    assert find_harm([found("saturation", "critical", waits, refused), found("exceptions")]) == "clients_refused"
    assert find_harm([found("application_lock", "warning", full)]) is None
    assert find_harm([found("exceptions"), waits]) is None
    assert find_harm([waits]) == "queue_wait"
    assert find_harm([]) is None

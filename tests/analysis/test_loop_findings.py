"""Findings about event loops that calls hold up."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from msgspec import structs

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import LoopHold, LoopUse, Options, Setup, State, Waits

SETUP = Setup(Options(gevent=20, complete=True), 4096, "async", None, False)
SLEEP = LoopHold("sleep")


def findings(
    held: Mapping[int, float | None],
    uses: Mapping[int, LoopUse] | None,
    *,
    queued: float = 0.0,
    requests: int = 100,
    ages: Mapping[int, float | None] | None = None,
    needs_right: bool = False,
    only: int | None = None,
) -> dict[str, Finding]:
    """The findings of a minute of two workers with coroutines. held: seconds in which each loop was held; queued:
    requests that wait; requests: that each worker has completed; only: the worker that has requests in service."""
    record = describe_server(Server(processes=2, threads=20).read(1000.0))
    assert record
    workers = tuple(
        [
            structs.replace(each, ages=(ages or {0: 0.1}) if only in (None, each.worker_id) else {})
            for each in record.workers
        ]
    )
    waits = Waits(off="one thread", needs_right=needs_right, loops=uses)
    record = structs.replace(record, workers=workers, setup=SETUP, waits=waits, address="/run/stats")
    rows = [
        structs.replace(
            worker(number, requests, busy=60 * len(ages or {0: 0}), cpu=3.0, up=60.0), loop_held_seconds=seconds
        )
        for number, seconds in held.items()
    ]
    figures = compute_figures(window(60, *rows, **{"app.sock": 60 * queued}), record)
    return {finding.code: finding for finding in collect_findings(figures)}


def use(hold: LoopHold = SLEEP, seconds: float = 0.0) -> LoopUse:
    return LoopUse(hold, held=seconds > 0, longest=seconds)


@pytest.mark.parametrize(
    ("part", "seconds", "severity"),
    [
        (0.05, 0.5, None),
        (0.12, 0.5, "info"),
        (0.3, 0.5, "info"),
        (0.6, 0.5, "warning"),
        (0.05, 4.0, "warning"),
    ],
)
def test_how_long_a_loop_is_held(part: float, seconds: float, severity: str | None) -> None:
    """Short calls now and then are none; half of the time, or one long call, is a warning."""
    found = findings({1: 60 * part, 2: 0.0}, {1: use(seconds=seconds)}).get("loop_held")
    assert (found.severity if found else None) == severity
    assert not found or found.worker_id == 1


def test_a_call_that_holds_the_loop_now_counts_from_its_start() -> None:
    """Where CPUs are scarce, it takes long until a call is seen to compute: all that time it held the loop."""
    held = {1: use(LoopHold("cpu"), seconds=60.0)}
    found = findings({1: 30.0, 2: 0.0}, held, ages={0: 70.0}, requests=0)["loop_held"]
    assert "for 100 % of the last 60 s, one of them for 60 s" in found.evidence
    assert "restart worker 1 with `kill -KILL 101`" in found.change


@pytest.mark.parametrize(
    ("hold", "doing", "change"),
    [
        (LoopHold("backend", "10.0.0.5:5432", "connection"), "connecting to 10.0.0.5:5432", "monkey-patch"),
        (LoopHold("backend", "10.0.0.5:5432"), "waiting for 10.0.0.5:5432", "psycogreen"),
        (LoopHold("lock", "", "file"), "waiting for the lock of a file", "threadpool"),
        (LoopHold("child"), "waiting for a child process", "threadpool"),
        (LoopHold("cpu"), "computing", "another process"),
        (LoopHold("interpreter_lock"), "waiting for the interpreter lock", "another process"),
    ],
)
def test_what_holds_a_loop(hold: LoopHold, doing: str, change: str) -> None:
    """It is named, and the one change is about it."""
    found = findings({1: 50.0, 2: 50.0}, {1: use(hold, 2.0), 2: use(hold, 1.0)})["loop_held"]
    assert f"workers 1 and 2 are blocked by calls that are {doing}." in found.title
    assert change in found.change
    assert "10.0.0.5" not in "".join(found.public)


@pytest.mark.parametrize(("seconds", "severity"), [(5.0, "critical"), (0.5, "warning")])
def test_all_loops_held_by_long_calls(seconds: float, severity: str) -> None:
    """Requests end one after another, each after a call that holds all others: as bad as if none ended. Short calls
    that fill the time are a busy server."""
    found = findings({1: 59.0, 2: 59.0}, {1: use(seconds=seconds), 2: use(seconds=seconds)}, requests=5)["loop_held"]
    assert found.severity == severity


@pytest.mark.parametrize(
    ("requests", "held", "severity"), [(0, 59.0, "critical"), (0, 20.0, "warning"), (9, 59.0, "warning")]
)
def test_no_request_goes_on(requests: int, held: float, severity: str) -> None:
    """All that are in service are in the worker that is held: that another one is free ends none of them."""
    found = findings({1: held, 2: 0.0}, {1: use(seconds=12.0)}, requests=requests, only=1)["loop_held"]
    assert found.severity == severity


def test_loops_that_different_calls_hold() -> None:
    """The title is about the worst, and the evidence names the others."""
    found = findings({1: 40.0, 2: 50.0}, {1: use(), 2: use(LoopHold("cpu"), 5.0)})["loop_held"]
    assert found.worker_id == 2
    assert found.evidence.endswith("block worker 1.")


@pytest.mark.parametrize("requests", [30, 0])
def test_requests_that_wait_for_a_held_loop(requests: int) -> None:
    """It is their cause, and it is why requests are stuck."""
    by_code = findings({1: 50.0, 2: 50.0}, {1: use(), 2: use()}, queued=5.0, requests=requests, ages={0: 50.0})
    assert next(iter(by_code)) == "loop_held"
    assert by_code["loop_held"].severity == "critical"
    assert "request_stuck" not in by_code


@pytest.mark.parametrize(
    ("age", "requests", "longest", "restarts"),
    [(40.0, 0, 12.0, True), (40.0, 9, 31.0, True), (40.0, 9, 12.0, False), (10.0, 0, 12.0, False)],
)
def test_a_loop_that_never_goes_on(age: float, requests: int, longest: float, restarts: bool) -> None:
    """Its worker is restarted first, by the signal that ends it; a loop that goes on is not."""
    held = {1: use(seconds=longest)}
    found = findings({1: 59.0, 2: 0.0}, held, requests=requests, ages={0: age}, only=1)["loop_held"]
    assert found.change.startswith("Run `py-spy dump --pid 101` to find the call")
    assert ("`kill -KILL 101`" in found.change) == restarts


def test_requests_that_wait_for_another_reason() -> None:
    """A loop that is held for a tenth of the time is not their cause."""
    by_code = findings({1: 8.0, 2: 0.0}, {1: use()}, queued=5.0)
    assert by_code["loop_held"].severity == "info"
    assert next(iter(by_code)) == "queue_wait"


def test_loops_that_may_not_be_seen() -> None:
    """The advice is who can see them."""
    found = findings({1: None, 2: None}, None, queued=5.0, needs_right=True)["queue_wait"]
    assert "sudo $(command -v uwsgi-headroom) check /run/stats" in found.change


def test_every_state_has_words() -> None:
    """Whatever holds a loop, the title ends with it."""
    states: tuple[State, ...] = ("disk", "pipe", "client", "dns", "cpu_wait")
    for state in states:
        found = findings({1: 50.0, 2: 0.0}, {1: use(LoopHold(state))})["loop_held"]
        assert re.fullmatch("The event loop of worker 1 is blocked by calls that are waiting for .*", found.title)

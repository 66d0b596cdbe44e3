"""Workers that are idle while requests wait lack no capacity: what keeps them from accepting is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_findings import findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings.accepting import (
    ACCEPT_NOTHING,
    HOLDER_ACCEPTS_NOTHING,
    HOLDER_GONE,
    HOLDER_STOPPED,
    WORKERS_STOPPED,
)
from uwsgi_headroom.history.window import Window


def waiting(idle: float | None = 30.0) -> Window:
    """A minute of four idle workers while three requests wait; idle: seconds in which a thread was free meanwhile."""
    rows = (worker(number, 50, each=0.05, cpu=0.1, busy=3.0) for number in range(1, 5))
    return replace(window(60, *rows, **{"app.sock": 180.0}), idle_queue_seconds=idle)


def prefork(**more: int) -> Server:
    return Server(processes=4, threads=1, queue=3, **more)


def test_the_stopped_holder_of_the_accept_lock() -> None:
    """The worker that holds the lock is named with its PID, and no capacity is advised."""
    server = prefork(accept_lock=102)
    server[2].stopped = True
    first = next(iter(findings_by_code(waiting(), server).values()))
    assert (first.kind, first.severity, first.worker_id) == (HOLDER_STOPPED, "critical", 2)
    assert "worker 2 (PID 102)" in first.title
    assert first.change.startswith("Resume the stopped worker: `kill -CONT 102`.")
    assert first.evidence.startswith("For 30 s of 60 s (50 %)")
    assert "102" not in "".join(first.public)


def test_a_holder_that_is_not_stopped() -> None:
    """It may be ended: uWSGI starts another worker."""
    first = next(iter(findings_by_code(waiting(), prefork(accept_lock=103)).values()))
    assert (first.kind, first.worker_id) == (HOLDER_ACCEPTS_NOTHING, 3)
    assert "`kill -KILL 103`" in first.change


def test_a_holder_that_is_gone() -> None:
    """The lock of a process that is no worker was never released."""
    first = next(iter(findings_by_code(waiting(), prefork(accept_lock=999)).values()))
    assert first.kind is HOLDER_GONE
    assert "PID 999" in first.title


def test_no_cpu_is_idle() -> None:
    """A worker that waits for a CPU takes no request either: then the CPUs are the cause, with and without a lock."""
    full = replace(waiting(), cpu=window(60, cpu=(0.6, 0.0, 1.4)).cpu)
    for server in (prefork(cpus=2), prefork(cpus=2, accept_lock=103)):
        by_code = findings_by_code(full, server)
        assert "accept_blocked" not in by_code
        assert "no CPU is idle" in next(iter(by_code.values())).title


def test_without_a_lock() -> None:
    """Nothing is known of the cause then, except that it is no lack of capacity."""
    first = next(iter(findings_by_code(waiting(), prefork()).values()))
    assert first.kind is ACCEPT_NOTHING
    assert "`processes`" not in first.change
    assert first.settings == ()


@pytest.mark.parametrize("idle", [None, 0.0, 11.9])
def test_seldom_idle(idle: float | None) -> None:
    """Below a fifth of the time, or unknown, it is no finding: requests that arrive together wait for a moment."""
    assert "accept_blocked" not in findings_by_code(waiting(idle), prefork(accept_lock=101))


def test_a_stopped_worker_while_nobody_waits() -> None:
    """The others serve: a warning, which names it."""
    server = prefork()
    server[1].stopped = True
    calm = replace(waiting(0.0), queue_seconds={"app.sock": 0.0})
    by_code = findings_by_code(calm, server)
    assert list(by_code) == ["workers_stopped"]
    finding = by_code["workers_stopped"]
    assert (finding.kind, finding.worker_id) == (WORKERS_STOPPED, 1)
    assert "`kill -CONT 101`" in finding.change

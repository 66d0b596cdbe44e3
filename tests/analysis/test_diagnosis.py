"""Harms are joined to the cause that explains them: one block and one change."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import describe, figures_of
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import connections_hold_threads
from uwsgi_headroom.analysis.findings import ROWS, Finding, Severity, collect_findings, find_harm, lock_waits
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Setup

TWO = Server(processes=2, threads=4, cpus=8.0)


def judge(of: Window, server: Server = TWO, setup: Setup | None = None) -> list[Finding]:
    return collect_findings(figures_of(of, describe(server, **({"setup": setup} if setup else {}))))


def full(waits: dict[str, float] | None, *, queued: float = 30.0, refused: float = 0.0, **more: object) -> Window:
    """A minute of two workers whose four threads are all in service, while requests wait."""
    rows = (worker(number, 600, each=0.2, cpu=0.6, busy=240.0) for number in (1, 2))
    queues = {"queue_seconds": {"app.sock": 60 * queued}, "queue_full_seconds": {"app.sock": 60 * refused}}
    return replace(window(60, *rows, waits=waits, **more), full_seconds=60.0, **queues)


@pytest.mark.parametrize(
    ("scope", "kind"), [("worker", lock_waits.LOCK), ("file", lock_waits.LOCK_OF_ALL), (None, lock_waits.LOCK)]
)
def test_what_a_lock_permits(scope, kind):
    """Where it is known how much a lock is held, the finding has its limit, and says whether processes help."""
    lock = LockFigures(scope, 0.08, 0.6, 0.82, 83.0, 83.0, 83.0) if scope else None
    first, *_ = collect_findings(replace(figures_of(full({"lock": 8.0}), TWO), lock=lock))
    assert first.kind is kind
    assert ("At most 83" in first.evidence) == bool(scope)


@pytest.mark.parametrize(("waiting", "held"), [(300.0, True), (0.0, False)])
def test_clients_that_keep_their_connections(waiting, held):
    """Requests wait while uWSGI calls nearly all threads free, and the kernel sees them wait for clients: they wait for
    the next request of a connection. Slow clients would be in service."""
    rows = [worker(number, 60, each=0.05, cpu=0.1, busy=6.0) for number in (1, 2)]
    kept = window(60, *rows, waits={"client": 0.15, "sleep": 0.05}, **{"app.sock": waiting})
    assert connections_hold_threads(figures_of(kept, TWO)) is held
    grave = [(each.severity, "`http11-socket`" in each.change) for each in judge(kept) if each.severity != "info"]
    assert grave == [("critical", True)] * held


def test_the_worst_harm_is_that_of_the_verdict():
    """A refusal comes before a wait, as harm or as the finding itself; full threads are a harm only while they hurt."""

    def found(code: str, severity: Severity = "critical", *harms: Finding) -> Finding:
        kind = next(row for row in ROWS if row.code == code)
        return Finding(code=code, severity=severity, title="It is.", evidence="So.", kind=kind, harms=harms)

    refused, waits, full = found("clients_refused"), found("queue_wait"), found("saturation", "warning")
    assert find_harm([found("saturation", "critical", waits, refused), found("exceptions")]) == "clients_refused"
    assert find_harm([found("application_lock", "warning", full)]) is None
    assert find_harm([found("exceptions"), waits]) is None
    assert find_harm([waits]) == "queue_wait"
    assert find_harm([]) is None

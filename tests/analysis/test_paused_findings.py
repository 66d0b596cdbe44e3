"""Findings about paused workers."""

from __future__ import annotations

import pytest

from tests.analysis.test_findings import findings_by_code, idle
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings.causes import PAUSED


def paused(*worker_ids: int) -> Server:
    server = Server()
    for worker_id in worker_ids:
        server[worker_id].state = "pause"
    return server


@pytest.mark.parametrize(("queued", "severity"), [(0.0, "warning"), (3.0, "critical")])
def test_a_paused_server_is_not_ok(queued: float, severity: str) -> None:
    """It looks idle, but the next request waits until somebody resumes it. More workers would be paused as well."""
    rows = window(60, *(worker(number, 0, up=0.0) for number in range(1, 5)), **{"app.sock": 60 * queued})
    by_code = findings_by_code(rows, paused(1, 2, 3, 4))
    code, finding = next(iter(by_code.items()))
    assert (code, finding.kind, finding.severity) == ("workers_paused", PAUSED, severity)
    assert "all workers are paused" in finding.title.lower()
    assert ("3.0 requests wait" in finding.evidence) == (queued > 0)
    assert {found.change for found in by_code.values() if found.severity != "info"} == {finding.change}


def test_some_paused_workers_are_named() -> None:
    """The others still serve; workers in cheaper mode's reserve do not count."""
    finding = findings_by_code(idle(), paused(2, 3))["workers_paused"]
    assert (finding.severity, finding.title) == ("warning", "Workers 2 and 3 are paused.")
    server = paused(1, 2)
    server.cheap(3)
    server.cheap(4)
    assert findings_by_code(idle(), server)["workers_paused"].title == "All workers are paused."
    assert "workers_paused" not in findings_by_code(idle())

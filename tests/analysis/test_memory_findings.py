"""When memory for more workers is a finding, and its severity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.memory import FEW_MORE_WORKERS
from uwsgi_headroom.kernel.facts import Memory
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_server

MB = 1_000_000


def find_memory(
    available: int, *, source: Source = "uss", workers: int = 20, limited_by: str = "cgroup"
) -> Finding | None:
    """The finding about an idle server with workers of 100 MB each and this much memory left."""
    reading = Server().read(1000.0)
    taken = WorkerMemory(100 * MB, source, (workers if source == "uss" else 1) * 100 * MB, {})
    memory = Memory(taken, AvailableMemory(available, limited_by))  # type: ignore[arg-type]
    reading = replace(reading, host=replace(reading.host, memory=memory))
    rows = [worker(worker_id, 500, each=0.01, cpu=0.5, busy=5.0) for worker_id in (1, 2, 3, 4)]
    figures = compute_figures(window(60.0, *rows), describe_server(reading))
    findings = collect_findings(figures)
    assert {finding.code for finding in findings} <= {"memory_headroom_low"}
    return findings[0] if findings else None


def test_room_for_two_more_workers_is_no_finding() -> None:
    """If two or more workers fit, there is no finding."""
    assert find_memory(200 * MB) is None


@pytest.mark.parametrize(
    ("available", "workers", "severity", "title"),
    [
        (199 * MB, 20, "info", "There is memory for only one more worker."),
        (99 * MB, 20, "warning", "There is no memory for another worker."),
        (99 * MB, 9, "info", "There is no memory for another worker."),
        (39 * MB, 4, "warning", "There is no memory for another worker."),
    ],
)
def test_little_memory(available: int, workers: int, severity: str, title: str) -> None:
    """Room for one worker is good to know; no room, and less than a tenth of the workers' memory, is a warning."""
    finding = find_memory(available, workers=workers)
    assert finding
    assert (finding.severity, finding.title) == (severity, title)
    assert f"100 MB of memory; {available // MB} MB are available within the limit of its cgroup" in finding.evidence


def test_an_upper_bound_is_not_certain() -> None:
    """With anonymous memory as the source, the finding is that another worker may not fit; a warning needs less than a
    tenth of a single worker."""
    finding = find_memory(99 * MB, source="anonymous", limited_by="host")
    assert finding
    assert (finding.kind, finding.title) == (FEW_MORE_WORKERS, "There is no memory for another worker.")
    assert finding.evidence == "A worker takes at most 100 MB of memory; 99 MB are available on this host."
    scarce = find_memory(9 * MB, source="anonymous")
    assert scarce
    assert scarce.severity == "warning"

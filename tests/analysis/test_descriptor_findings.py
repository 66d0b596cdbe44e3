"""Findings about file descriptors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from tests.analysis.test_findings import idle
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.reading import describe_server


def with_open(*numbers: int | None, most: int | None = 1000, exceptions: int = 0) -> dict[str, Finding]:
    """The findings about a calm server whose workers have so many descriptors open."""
    record = describe_server(Server(processes=len(numbers)).read(1000.0))
    assert record
    workers = [
        structs.replace(worker, open_fds=number, most_fds=most)
        for worker, number in zip(record.workers, numbers, strict=True)
    ]
    window = replace(idle(workers=len(numbers)), exceptions=exceptions)
    figures = compute_figures(window, structs.replace(record, workers=tuple(workers)))
    return {finding.code: finding for finding in collect_findings(replace(figures))}


@pytest.mark.parametrize(
    ("numbers", "most", "severity"),
    [
        ((799, 10), 1000, None),
        ((800, 10), 1000, "warning"),
        ((996, 10), 1000, "warning"),
        ((997, 10), 1000, "critical"),
        ((1000, 1000), 1000, "critical"),
        ((100_000, 10), None, None),  # not limited
        ((None, None), 1000, None),  # hidden
    ],
)
def test_near_and_at_the_limit(numbers: tuple[int | None, ...], most: int | None, severity: str | None) -> None:
    """A worker near its limit is a warning, one at it is critical and a cause."""
    finding = with_open(*numbers, most=most).get("descriptors_used_up")
    assert (finding.severity if finding else None) == severity
    assert bool(finding and finding.clause) == (severity == "critical")


def test_the_workers_are_named_and_what_to_raise() -> None:
    """The title has no figure; the change has the limit of now."""
    finding = with_open(998, 20, 999, 900)["descriptors_used_up"]
    assert finding.title == "Workers 1 and 3 have hardly any file descriptors left."
    assert finding.change.startswith("To gain time, restart the workers that have few descriptors left: `kill -TERM ")
    assert "Worker 3 has 999 of 1000 file descriptors open (100 %); 3 of 4 workers have at least" in finding.evidence
    assert "raise `max-fd` from 1000" in finding.change
    failing = with_open(1000, 20, exceptions=400)
    assert failing["descriptors_used_up"].title == (
        "Requests raise exceptions that the application does not catch: worker 1 has hardly any file descriptors left."
    )
    assert "exceptions" not in failing
    assert "exceptions" in with_open(900, 20, exceptions=400)
    assert with_open(20, 900)["descriptors_used_up"].title == "Worker 2 has few file descriptors left."

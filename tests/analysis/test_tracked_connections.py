"""The finding about the kernel's table of tracked connections."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import TrackedConnections


@pytest.mark.parametrize(
    ("entries", "dropped", "severity"),
    [
        (899, 0, None),
        (900, 0, "warning"),
        (1000, 0, "warning"),
        (800, 1, "warning"),  # some entries have expired since
        (1000, 19, "warning"),  # below a hundredth of the requests
        (1000, 20, "critical"),
        (700, 20, None),  # dropped for another reason
        (899, None, None),
    ],
)
def test_a_full_table(entries: int, dropped: int | None, severity: str | None) -> None:
    """It is a warning before it is full, and critical only while the kernel counts drops: it may drop our clients."""
    server = describe_server(Server().read(1000.0))
    assert server
    server = msgspec.structs.replace(server, tracked=TrackedConnections(entries, 1000, 0))
    quiet = window(60.0, *(worker(number, 500, each=0.01, cpu=0.5, busy=5.0) for number in (1, 2, 3, 4)))
    figures = compute_figures(replace(quiet, untracked=dropped), server)
    found = {each.code: each for each in collect_findings(figures)}.get("connections_tracked")
    assert (found.severity if found else None) == severity
    if found:
        assert "nf_conntrack_max=2000" in found.change
        assert ("may have dropped" in found.title) == bool(dropped)

"""Twenty random variations of each scenario whose requests only wait, simulated: the expected verdict still holds."""

from __future__ import annotations

import pytest

from tests.support.simulated_queue import SOCKET, simulate
from tests.support.simulated_server import Server
from tools.scenarios.everything import vary
from tools.scenarios.judge import Seen, differences
from tools.scenarios.rows import ROWS
from tools.scenarios.run import counted
from tools.scenarios.scenario import Scenario
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.verdict import worst_status
from uwsgi_headroom.reading import describe_server

VARIATIONS = 20


def can_be_simulated(row: Scenario) -> bool:
    """Whether the verdict depends only on threads and the queue."""
    server = row.server
    wrapped = server.before or server.cpus or server.quota or server.nginx
    plain = not (server.options or server.tcp_stats or server.bare or wrapped)
    only_waits = all(load.io_ms and not load.cpu_ms and load.path == "/" for load in row.loads)
    steady = not any(load.io_ms > 5000 for load in row.loads)  # otherwise the verdict is about the age of a request
    # The clients of the simulated queue do not leave.
    patient = not any(load.patience_ms and load.patience_ms <= load.io_ms for load in row.loads)
    return (
        bool(row.loads)
        and plain
        and only_waits
        and steady
        and patient
        and not (row.events or row.burners or row.as_nobody)
    )


SIMULATED = [row for row in ROWS if can_be_simulated(row)]


def see(row: Scenario, seed: int) -> Seen:
    """The result of a check on a simulated scenario, as far as it does not depend on processes."""
    loads = [counted(load, row.server) for load in row.loads]
    window = simulate(loads, row.server.processes, row.server.threads, row.lead, row.seconds, seed)
    waiting = round(window.queue_seconds[SOCKET] / window.seconds)
    server = Server(processes=row.server.processes, threads=row.server.threads, queue=waiting, cpus=64.0)
    reading = server.read(1000.0)
    figures = compute_figures(window, describe_server(reading))
    findings = collect_findings(figures)
    return Seen(
        outcome="ok" if (status := worst_status(findings)) == "ok" else status,
        exit_status=0,
        findings=tuple(
            {
                "code": finding.code,
                "severity": finding.severity,
                "title": finding.title,
                "evidence": finding.evidence,
                "meaning": finding.meaning,
                "change": finding.change,
            }
            for finding in findings
        ),
        limit=figures.headroom.first,
    )


@pytest.mark.parametrize("row", SIMULATED, ids=lambda row: row.name)
def test_variations_are_judged_as_their_row(row: Scenario) -> None:
    """Other sizes, service times and arrivals at the same share of the load do not change the verdict."""
    for number in range(VARIATIONS):
        varied = vary(row, number)
        seen = see(varied, number)
        assert not list(differences(varied, seen)), (varied.server, varied.loads, seen)


def test_there_are_enough() -> None:
    """The simulated scenarios include quiet, busy and full servers with one thread and with several."""
    assert len(SIMULATED) >= 8
    assert {row.expected.outcome for row in SIMULATED} == {"ok", "warning", "critical"}

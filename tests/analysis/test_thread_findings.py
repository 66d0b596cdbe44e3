"""The finding about threads that do not end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from tests.support.windows import window, worker
from tools.support.simulated_server import Server
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Tasks


def found(threads: int | None, growth: int | None, *, respawns: int = 0, tasks: Tasks | None = None) -> Finding | None:
    """The finding about two workers of 4 request threads, of which the first has so many threads, and the second 14."""
    record = describe_server(Server(processes=2, threads=4).read(1000.0))
    assert record
    calm = window(60.0, *(worker(number, 500, each=0.01, cpu=0.5, busy=5.0) for number in (1, 2)))
    first, second = calm.workers
    workers = (
        structs.replace(first, process_threads=threads, threads_growth=growth, respawns=respawns),
        structs.replace(second, process_threads=14, threads_growth=0),
    )
    figures = compute_figures(replace(calm, workers=workers), structs.replace(record, tasks=tasks))
    return {each.code: each for each in collect_findings(figures)}.get("threads_growing")


@pytest.mark.parametrize(
    ("threads", "growth", "respawns", "is_found"),
    [
        (104, 4, 0, True),
        (103, 99, 0, False),  # a pool of 99 that fills up
        (36, 32, 0, False),
        (200, 3, 0, False),
        (132, 0, 0, False),  # a library's, one for each CPU
        (104, 20, 1, False),  # another process
        (104, None, 0, False),  # not known at the start of the window
        (None, None, 0, False),
    ],
)
def test_many_threads_that_grow_in_number(
    threads: int | None, growth: int | None, respawns: int, is_found: bool
) -> None:
    """A worker that has many threads beside its own, and more than before, is a warning."""
    finding = found(threads, growth, respawns=respawns)
    assert bool(finding) == is_found
    assert not finding or (finding.severity, finding.clause) == ("warning", "")


def test_when_the_limit_is_reached() -> None:
    """The evidence has the rate, the limit, and when it is reached."""
    growing, unlimited = found(504, 40, tasks=Tasks(600, 1000)), found(504, 40)
    assert growing
    assert unlimited
    assert growing.title == "Worker 1 keeps starting threads that do not end."
    assert growing.evidence.startswith(
        "Worker 1 has 504 threads, and 4 of them serve requests; 60 s ago there were 464."
    )
    assert "600 of the 1,000 processes and threads that `pids.max` permits are in use; at" in growing.evidence
    assert growing.evidence.endswith(" none is left in 10 min.")
    assert "pids.max` permits" not in unlimited.evidence


@pytest.mark.parametrize(
    ("used", "threads", "is_found"), [(800, 394, True), (799, 700, False), (800, 393, False), (1000, 900, True)]
)
def test_near_the_limit_of_the_cgroup(used: int, threads: int, is_found: bool) -> None:
    """Without growth it is a finding if most of the limit is in use, half of it by threads that serve no request."""
    finding = found(threads, 0, tasks=Tasks(used, 1000))
    assert bool(finding) == is_found
    if finding:
        assert finding.title == "The threads of the workers take up most of the limit of processes."
        assert finding.change.startswith("Raise the limit of processes (`TasksMax` of the unit")


def test_an_empty_cgroup() -> None:
    """Where nothing is known of the threads, a limit says nothing."""
    assert found(None, None, tasks=Tasks(0, 1)) is None

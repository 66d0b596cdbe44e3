"""The findings about threads that do not end, and about threads that are in use."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from msgspec import structs

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.health import THREADS_GROW, THREADS_NEAR_LIMIT
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Tasks
from uwsgi_headroom.response_times.bins import share_bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow


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
    assert not finding or finding.kind is THREADS_GROW


def test_when_the_limit_is_reached() -> None:
    """The evidence has the rate, the limit, and when it is reached."""
    growing, unlimited = found(504, 40, tasks=Tasks(600, 1000)), found(504, 40)
    assert growing
    assert unlimited
    assert (growing.kind, growing.worker_id) == (THREADS_GROW, 1)
    assert growing.evidence.startswith("Worker 1 has 504 threads, 40 more than 60 s ago, and 4 of them serve requests.")
    assert "permits 1,000 processes and threads, and 600 are in use" in growing.evidence
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
        assert finding.kind is THREADS_NEAR_LIMIT


def test_an_empty_cgroup() -> None:
    """Where nothing is known of the threads, a limit says nothing."""
    assert found(None, None, tasks=Tasks(0, 1)) is None


def found_with(
    fast: float, slow: float, number: int, code: str, busy: float, routes: RouteWindow | None = None
) -> Finding | None:
    """The finding of this code about a minute with a thousand requests, of which so many are slow. fast, slow: response
    times in seconds; busy: the seconds for which the four threads of a worker are in use together."""
    bins, mean = share_bins(), (fast * (1000 - number) + slow * number) / 1000
    counts = [0.0] * len(bins)
    counts[bins.find(fast)], counts[bins.find(slow)] = 1000.0 - number, float(number)
    times = ResponseTimeWindow(bins, 0.02, 1000, counts, [0.0] * len(bins))
    full = window(60.0, *(worker(each, 500, each=mean, busy=busy) for each in (1, 2)))
    record = describe_server(Server(processes=2, threads=4).read(1000.0))
    assert record
    figures = compute_figures(full, record, response_times=times, routes=routes)
    return next((each for each in collect_findings(figures) if each.code == code), None)


def full_with(fast: float, slow: float, number: int, routes: RouteWindow | None = None) -> Finding:
    """What is said if seven of eight threads are busy."""
    block = found_with(fast, slow, number, "saturation", 210.0, routes)
    assert block
    return block


def slowest(fast: float, slow: float, number: int) -> str:
    """The sentence about the slowest requests; the advice names the flag where there is one."""
    block = full_with(fast, slow, number)
    said = "".join(re.findall(r"The slowest .* or more\.", block.evidence))
    assert bool(said) == ("`--routes`" in block.change)
    return said


@pytest.mark.parametrize(
    ("fast", "slow", "number", "part"),
    [(0.1, 10.0, 15, "1 %"), (0.05, 0.6, 120, "10 %"), (0.05, 2.0, 60, "5 %")],
)
def test_the_slowest_requests_occupy_threads(fast: float, slow: float, number: int, part: str) -> None:
    """The share that takes at least so long is the one that is known to occupy most threads."""
    assert slowest(fast, slow, number).startswith(f"The slowest {part} of the requests take at least ")


def test_the_route_of_the_slowest_requests() -> None:
    """Where routes are on, the one that holds most threads is named, and no flag is."""
    block = full_with(0.1, 10.0, 15, RouteWindow(60.0, {"/report": 300.0, "/": 120.0}))
    assert re.search(r"The slowest 1 % .* or more\. `/report` holds 71 % of all busy threads\.", block.evidence)
    assert "--routes" not in block.change


@pytest.mark.parametrize(
    ("fast", "slow", "number", "said"),
    [
        (0.05, 2.0, 60, True),
        (0.05, 3.0, 40, True),  # fewer than the 95th percentile shows
        (0.05, 0.3, 120, False),
        (0.05, 2.0, 8, False),  # little of the threads
        (0.05, 2.0, 140, False),  # not few
        (0.1, 60.0, 2, False),
        (0.1, 0.1, 10, False),
    ],
)
def test_a_few_slow_requests_while_threads_are_free(fast: float, slow: float, number: int, said: bool) -> None:
    """They are named if they are of another kind, with the way to find their paths unless that is on."""
    found = found_with(fast, slow, number, "few_slow_requests", 84.0)
    assert bool(found) == said
    if found:
        assert re.match(r"The slowest [46] % .* Half of all requests take at most [56]\d ms\.$", found.evidence)
        assert "`--routes`" in found.change
        routes = RouteWindow(60.0, {"/report": 120.0, "/": 48.0})
        named = found_with(fast, slow, number, "few_slow_requests", 84.0, routes)
        assert named
        assert "`/report` holds 71 %" in named.evidence
        assert "`--routes`" not in named.change


@pytest.mark.parametrize(("fast", "slow", "number"), [(0.1, 0.4, 100), (0.1, 10.0, 5), (0.1, 0.1, 10)])
def test_requests_that_differ_little(fast: float, slow: float, number: int) -> None:
    """Nothing is said of requests whose times are of one kind, nor of fewer than one in a hundred."""
    assert not slowest(fast, slow, number)

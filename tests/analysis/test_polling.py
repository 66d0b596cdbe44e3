"""Workers with coroutines whose loops only look for a free core: their CPU time is no limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import ConcurrencyKind, Options, Setup


def figures_of(
    busy: float, in_kernel: float, kind: ConcurrencyKind = "async", full: float = 0.0, cpu: float = 57.0
) -> Figures:
    """A minute of two workers of ten cores, ten waiting requests, and all the CPU of the first worker in use: the share
    of its cores, and the share of the kernel in its CPU time. full: seconds in which all cores are in use; cpu: CPU
    seconds of the first worker."""
    record = describe_server(Server(processes=2, threads=10).read(1000.0))
    assert record
    record = structs.replace(record, setup=Setup(Options(gevent=10, complete=True), 4096, kind, None, False))
    rows = [
        structs.replace(worker(1, 1500, busy=600 * busy, cpu=cpu, up=60.0), system_seconds=cpu * in_kernel),
        structs.replace(worker(2, 1500, busy=600 * busy, cpu=3.0, up=60.0), system_seconds=0.3),
    ]
    minute = replace(window(60, *rows, **{"app.sock": 600.0}), full_seconds=full)
    return compute_figures(minute, record)


@pytest.mark.parametrize(
    ("busy", "in_kernel", "kind", "polls"),
    [
        (1.0, 0.45, "async", True),
        (1.0, 0.32, "async", True),
        (1.0, 0.15, "async", False),  # requests compute
        (0.8, 0.45, "async", False),  # there are free cores
        (1.0, 0.45, "threads", False),  # each thread waits in accept(2)
    ],
)
def test_who_polls(busy: float, in_kernel: float, kind: ConcurrencyKind, polls: bool) -> None:
    """Only coroutines, with hardly a free core, and much CPU time in the kernel."""
    figures = figures_of(busy, in_kernel, kind)
    assert figures.polling == ({1: pytest.approx(0.95)} if polls else {})
    loads = [each.interpreter_load for each in figures.balance.workers]
    assert loads == [None if polls else pytest.approx(0.95), pytest.approx(0.05)]


def test_bursts() -> None:
    """Also where the cores are all in use only at times."""
    assert figures_of(0.6, 0.45, full=12.0).polling
    assert not figures_of(0.6, 0.45, full=3.0).polling


def test_a_worker_full_of_streams_does_not_poll() -> None:
    """If others have free cores, they take the requests: the full worker hardly computes, and its CPU time counts."""
    figures = figures_of(1.0, 0.45, cpu=3.0)
    assert not figures.polling
    assert not figures.headroom.is_upper_bound


def test_the_cores_are_the_limit() -> None:
    """Not the interpreter that only looks; the evidence says why it uses CPU time."""
    polling, computing = figures_of(1.0, 0.45), figures_of(1.0, 0.15)
    assert polling.headroom.first == "threads"
    assert computing.headroom.first == "hottest_interpreter"
    found = collect_findings(polling)
    assert "interpreter_bound" not in {each.code for each in found}
    assert "uWSGI looks for one without a pause: that is how worker 1 can use 0.95 CPUs." in found[0].evidence

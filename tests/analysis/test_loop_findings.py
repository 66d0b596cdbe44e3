"""Event loops: calls that hold them up, and loops that only look for a free core, whose CPU time is no limit."""

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers, describe, figures_of
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.record import Blocker, ConcurrencyKind, LoopUse, Waits

SLEEP = Blocker("sleep")


def use(hold: Blocker = SLEEP, seconds: float = 0.0) -> LoopUse:
    return LoopUse(hold, held=seconds > 0, longest=seconds)


def polling(
    busy: float,
    in_kernel: float,
    kind: ConcurrencyKind = "async",
    full: float = 0.0,
    cpu: float = 57.0,
    held: float | None = None,
    counted: bool = True,
) -> Figures:
    """A minute of two workers of ten cores, ten waiting requests, and all the CPU of the first worker in use: the share
    of its cores, and the share of the kernel in its CPU time. full: seconds in which all cores are in use; cpu: CPU
    seconds of the first worker; held: seconds in which a call seems to hold its loop."""
    of = window(
        60, *(worker(n, 1500, busy=600 * busy, cpu=used, up=60.0) for n, used in ((1, cpu), (2, 3.0))), app=600.0
    )
    of = change_workers(change_workers(of, system_seconds=0.3), 1, system_seconds=cpu * in_kernel)
    of = change_workers(replace(of, full_seconds=full, is_counted=counted), 1, loop_held_seconds=held)
    waits = Waits(off="one thread", loops=held and {1: use(Blocker("cpu"), held)})
    setup = judging.setup(kind, gevent=10, complete=True)
    return figures_of(of, replace(describe(Server(2, 10)), setup=setup, waits=waits))


@pytest.mark.parametrize(
    ("found", "polls"),
    [
        (polling(1.0, 0.45), True),
        (polling(1.0, 0.32), True),
        (polling(0.6, 0.45, full=12.0), True),  # the cores are all in use only at times
        (polling(0.6, 0.45, full=3.0), False),
        (polling(1.0, 0.15), False),  # requests compute
        (polling(0.8, 0.45), False),  # there are free cores
        (polling(1.0, 0.45, "threads"), False),  # each thread waits in accept(2)
    ],
)
def test_who_polls(found, polls):
    """Only coroutines, with hardly a free core, and much CPU time in the kernel."""
    assert found.polling == ({1: pytest.approx(0.95)} if polls else {})
    loads = [each.interpreter_load for each in found.workers]
    assert loads == [None if polls else pytest.approx(0.95), pytest.approx(0.05)]


def test_a_worker_full_of_streams_does_not_poll():
    """If others have free cores, they take the requests: the full worker hardly computes, and its CPU time counts."""
    found = polling(1.0, 0.45, cpu=3.0)
    assert (found.polling, found.headroom.is_upper_bound) == ({}, False)


def test_the_cores_are_the_limit():
    """Not the interpreter that only looks; the evidence says why it uses CPU time."""
    found = [polling(1.0, in_kernel) for in_kernel in (0.45, 0.15)]
    assert [each.headroom.first for each in found] == ["threads", "hottest_interpreter"]
    first, *others = collect_findings(found[0])
    assert "interpreter_bound" not in [each.code for each in others]
    assert "that is how worker 1 can use 0.95 CPUs." in first.evidence

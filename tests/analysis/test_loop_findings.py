"""Event loops: calls that hold them up, and loops that only look for a free core, whose CPU time is no limit."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers, describe, figures_of, judge
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.record import Blocker, ConcurrencyKind, LoopUse, Waits

SLEEP = Blocker("sleep")


def findings(
    held: Mapping[int, float | None],
    uses: Mapping[int, LoopUse] | None,
    *,
    queued: float = 0.0,
    requests: int = 100,
    ages: Mapping[int, float | None] | None = None,
    only: int | None = None,
) -> dict[str, Finding]:
    """The findings of a minute of two workers with coroutines. held: seconds in which each loop was held; queued:
    requests that wait; requests: that each worker has completed; only: the worker that has requests in service."""
    setup = judging.setup("async", gevent=20, complete=True)
    waits = Waits(off="one thread", needs_right=uses is None, loops=uses)
    record = describe(Server(processes=2, threads=20), setup=setup, waits=waits, address="/run/stats")
    served = {number: (ages or {0: 0.1}) if only in (None, number) else {} for number in (1, 2)}
    workers = tuple(replace(each, ages=served[each.worker_id]) for each in record.workers)
    of = window(
        60, *(worker(n, requests, busy=60 * len(ages or {0: 0}), cpu=3.0, up=60.0) for n in held), app=60 * queued
    )
    for number, seconds in held.items():
        of = change_workers(of, number, loop_held_seconds=seconds)
    return judge(of, replace(record, workers=workers))


def use(hold: Blocker = SLEEP, seconds: float = 0.0) -> LoopUse:
    return LoopUse(hold, held=seconds > 0, longest=seconds)


def test_a_call_that_holds_the_loop_now_counts_from_its_start():
    """Where CPUs are scarce, it takes long until a call is seen to compute: all that time it held the loop."""
    held = {1: use(Blocker("cpu"), seconds=60.0)}
    found = findings({1: 30.0, 2: 0.0}, held, ages={0: 70.0}, requests=0)["loop_held"]
    assert "for 100 % of the last 60 s, one of them for 60 s" in found.evidence
    assert "`kill -KILL 101`" in found.change


@pytest.mark.parametrize(
    ("hold", "doing", "change"),
    [
        (Blocker("backend", "10.0.0.5:5432", "connection"), "connecting to 10.0.0.5:5432", "monkey-patch"),
        (Blocker("backend", "10.0.0.5:5432"), "waiting for 10.0.0.5:5432", "psycogreen"),
        (Blocker("lock", "", "file"), "waiting for the lock of a file", "threadpool"),
        (Blocker("child"), "waiting for a child process", "threadpool"),
        (Blocker("cpu"), "computing", "another process"),
        (Blocker("interpreter_lock"), "waiting for the interpreter lock", "another process"),
    ],
)
def test_what_holds_a_loop(hold, doing, change):
    """It is named, and the one change is about it."""
    found = findings({1: 50.0, 2: 50.0}, {1: use(hold, 2.0), 2: use(hold, 1.0)})["loop_held"]
    assert f"workers 1 and 2 are blocked by calls that are {doing}." in found.title
    assert change in found.change
    assert "10.0.0.5" not in "".join(found.public)


@pytest.mark.parametrize("state", ["disk", "pipe", "client", "dns", "cpu_wait"])
def test_every_state_has_words(state):
    """Whatever holds a loop, the title ends with it."""
    found = findings({1: 50.0, 2: 0.0}, {1: use(Blocker(state))})["loop_held"]
    assert "is blocked by calls that are waiting for " in found.title


def test_loops_that_different_calls_hold():
    """The title is about the worst, and the evidence names the others."""
    found = findings({1: 40.0, 2: 50.0}, {1: use(), 2: use(Blocker("cpu"), 5.0)})["loop_held"]
    assert found.worker_id == 2
    assert found.evidence.endswith("block worker 1.")


@pytest.mark.parametrize(
    ("age", "requests", "longest", "restarts"),
    [(40.0, 0, 12.0, True), (40.0, 9, 31.0, True), (40.0, 9, 12.0, False), (10.0, 0, 12.0, False)],
)
def test_a_loop_that_never_goes_on(age, requests, longest, restarts):
    """Its worker is restarted first, by the signal that ends it; a loop that goes on is not."""
    held = {1: use(seconds=longest)}
    found = findings({1: 59.0, 2: 0.0}, held, requests=requests, ages={0: age}, only=1)["loop_held"]
    assert found.change.startswith("Run `py-spy dump --pid 101` to find the call")
    assert ("`kill -KILL 101`" in found.change) == restarts


def test_loops_that_may_not_be_seen():
    """The advice is who can see them."""
    found = findings({1: None, 2: None}, None, queued=5.0)["queue_wait"]
    assert "sudo $(command -v uwsgi-headroom) check /run/stats" in found.change


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


@pytest.mark.parametrize(("counted", "in_kernel", "held"), [(True, 0.45, 1), (False, 0.45, 0), (False, 0.15, 1)])
def test_who_polls_is_not_held(counted, in_kernel, held):
    """Where no request is counted, a loop that looks for a free core seems to be held by a call; and no count is
    said."""
    found = collect_findings(polling(1.0, in_kernel, held=60.0, counted=counted))
    loops = [each for each in found if each.code == "loop_held"]
    assert len(loops) == held
    assert all(("completed" in each.evidence) == counted for each in loops)


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

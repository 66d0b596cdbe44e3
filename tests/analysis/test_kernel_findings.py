"""Findings about what the kernel limits or measures: memory, CPUs, and the time of event loops."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers, describe, figures_of, findings_by_code, judge, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.capacity import count_more_workers, fits
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, cpus
from uwsgi_headroom.analysis.shortages import count_calls, gets_no_cpu
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_memory
from uwsgi_headroom.record import Blocker, ConcurrencyKind, LoopUse, Waits

MB = 1_000_000


def memory_of(per_worker: int, available: int, source: Source = "uss", workers: int = 4) -> Memories:
    taken = WorkerMemory(per_worker, source, workers * per_worker, {})
    return Memories(taken, AvailableMemory(available, "cgroup"))


def test_how_many_workers_fit():
    """The number of workers that fit is available memory over that of one worker, rounded down."""
    room = describe_memory(memory_of(180 * MB, 719 * MB))
    assert (count_more_workers(room), room.source, room.limited_by) == (3, "uss", "cgroup")
    assert (room.per_worker, room.available, room.together) == (180 * MB, 719 * MB, 720 * MB)


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        Memories(None, None),
        Memories(None, AvailableMemory(10, "host")),
        Memories(WorkerMemory(10, "uss", 10, {}), None),
        memory_of(0, 10),
    ],
)
def test_unknown_memory(unknown):
    """If either is unknown, there is no figure, and the clause says so."""
    assert describe_memory(unknown) is None
    assert fits(None, 2) == "check first that memory suffices for 2 more workers"


@pytest.mark.parametrize(
    ("more", "available", "source", "clause"),
    [
        (2, 1200, "uss", "2 more workers of 180 MB each fit into the 1.2 GB available"),
        (1, 1200, "uss", "1 more worker of 180 MB fits into the 1.2 GB available"),
        (2, 240, "uss", "of which there is room for 1 only: 180 MB each, 240 MB available"),
        (1, 60, "uss", "for which there is no room: 180 MB, 60 MB available"),
        (2, 1200, "anonymous", "2 more workers of at most 180 MB each fit into the 1.2 GB available"),
        (2, 240, "anonymous", "of which there is room for 1 for certain: at most 180 MB each, 240 MB available"),
        (1, 60, "anonymous", "for which there may be no room: at most 180 MB, 60 MB available"),
    ],
)
def test_whether_they_fit_in_words(more, available, source, clause):
    """The clause for advice to add processes; with an upper bound, it says only what is certain."""
    assert fits(describe_memory(memory_of(180 * MB, available * MB, source)), more) == clause


@pytest.mark.parametrize(
    ("limited_by", "word"), [("affinity", "cpu-affinity"), ("quota", "CPUQuota"), ("host", "Add CPUs")]
)
def test_cpu_bound_names_the_limit(limited_by, word):
    """The advice is for the smallest limit: affinity mask, quota or host, of which only the last is not uWSGI's own."""
    rows = [worker(number, 600, cpu=28.0, busy=60.0) for number in (1, 2, 3, 4)]
    found = findings_by_code(window(60, *rows), cpus=UsableCpus(2.0, limited_by, 8, 8, None))
    assert word in found["cpu_bound"].change
    assert found["cpu_bound"].of_host == (limited_by == "host")
    assert found["more_workers_than_cpus"].evidence.startswith("4 workers are busy, ")


def beside(own: float, idle: float, others: float | None, waits: dict[str, float] | None = None) -> dict[str, Finding]:
    """Findings about a server that uses this many CPUs, with this many idle and in use by others."""
    rows = (worker(number, 500, each=0.01, cpu=15 * own, busy=5.0) for number in (1, 2, 3, 4))
    server = Server(cpus=own + idle + (others or 0.0))
    return findings_by_code(window(60.0, *rows, cpu=(own, idle, others), waits=waits), server)


@pytest.mark.parametrize(("waiting", "expected"), [(0.03, "info"), (0.05, "warning")])
def test_others_that_leave_nothing_are_a_warning(waiting, expected):
    """If requests wait for it, or that is not known."""
    waits = {"sleep": 0.3 - waiting, "cpu": 0.1, "cpu_wait": waiting}
    assert severity(beside(0.1, 0.0, 1.9, waits), "cpu_used_by_others") == expected
    unknown = beside(0.1, 0.0, 1.9)["cpu_used_by_others"]
    assert (unknown.kind, unknown.of_host) == (cpus.USED_BY_OTHERS, True)


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ({"cpu": 0.1, "cpu_wait": 0.3}, True),
        ({"cpu": 0.1, "cpu_wait": 0.1, "sleep": 0.3}, False),  # they mostly sleep
        ({"cpu": 0.1, "unknown": 0.3}, False),
    ],
)
@pytest.mark.parametrize("cpu", [(0.1, 1.0, 0.9), None])
def test_requests_wait_for_a_cpu(waits, found, cpu):
    """Measured, that is a cause, also if half of the CPUs are idle or that is not known. Others are
    idle, so that its own CPUs may be too few."""
    rows = [worker(number, 60, each=0.24, cpu=3.0, busy=14.4) for number in (1, 2)]
    server = Server(processes=2, threads=2, cpus=2.0)
    finding = judge(window(60, *rows, cpu=cpu, waits=waits), server).get("cpu_wait")
    assert (finding is not None and not finding.of_host) == found
    first, *_ = judge(window(60, *rows, waits=waits, app=60.0), server)
    assert (first == "cpu_wait") == found


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
    assert found.polling == {}


def test_the_cores_are_the_limit():
    """Not the interpreter that only looks; the evidence says why it uses CPU time."""
    found = [polling(1.0, in_kernel) for in_kernel in (0.45, 0.15)]
    assert [each.headroom.first for each in found] == ["threads", "hottest_interpreter"]
    first, *others = collect_findings(found[0])
    assert "interpreter_bound" not in [each.code for each in others]
    assert "that is how worker 1 can use 0.95 CPUs." in first.evidence


@pytest.mark.parametrize(
    ("turn", "seconds", "asking", "queries"),
    [
        (0.0008, 0.4, 0.1, 200),  # 395 ms of a page with 301 queries, beside others that compute
        (0.0008, 0.4, 0.01, None),  # it hardly asks: its threads take turns at the interpreter
        (0.01, 5.0, 0.5, None),  # it is put on a CPU as often as any that computes
        (0.002, 0.1, 0.5, None),  # 25 queries
        (None, 0.4, 0.1, None),
        (0.0008, None, 0.1, 600),
    ],
)
def test_requests_that_ask_again_and_again(turn, seconds, asking, queries):
    """The queries of a request, to one digit, and no more than there are."""
    figures = SimpleNamespace(
        waits=True,
        share=lambda state: asking * (state == "backend"),
        window=SimpleNamespace(is_counted=seconds is not None),
        flow=SimpleNamespace(response_time=seconds),
        server=SimpleNamespace(sample=SimpleNamespace(turn=turn)),
    )
    assert count_calls(figures) == queries


@pytest.mark.parametrize(
    ("waiting", "total", "idle", "starves"),
    [
        (8.0, 8.0, 0.0, True),
        (8.0, 8.0, 0.5, False),
        (4.0, 8.0, 0.0, False),  # half of their time
        (0.3, 0.3, 0.0, False),  # of a server at rest, beside a busy program
    ],
)
def test_requests_that_get_no_cpu(waiting, total, idle, starves):
    """They last, and are not stuck: seen where a cgroup's weight is a hundredth of another's."""
    figures = SimpleNamespace(
        waits=SimpleNamespace(threads={"cpu_wait": waiting}, share=lambda state: waiting / total),
        cpu=SimpleNamespace(idle=idle),
        server=SimpleNamespace(cpu_count=1.0),
    )
    assert gets_no_cpu(figures) is starves

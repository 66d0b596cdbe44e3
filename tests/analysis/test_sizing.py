"""The size of the next step: the offered work fits, and memory, CPUs and interpreters stop it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import advise_capacity
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.sizing import count_needed_threads, more_processes, more_threads
from uwsgi_headroom.analysis.usable import erlang_wait
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import Memory as MemoryFacts
from uwsgi_headroom.kernel.memory import AvailableMemory, WorkerMemory
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Backlog, State, Waits

TCP = "127.0.0.1:8000"
MB = 1_000_000


def figures(of: Window, server: Server, memory: MemoryFacts | None = None) -> Figures:
    reading = server.read(60.0)
    facts = replace(reading.host, waits=Waits(), **({"memory": memory} if memory else {}))
    record = describe_server(replace(reading, host=facts))
    assert record is not None
    return compute_figures(of, record)


def minute(
    processes: int,
    busy: float,
    queued: float,
    *,
    each: float = 0.2,
    cpu: float = 0.0,
    full: float = 0.0,
    **more: object,
) -> Window:
    """A minute of this many workers. busy: their busy threads in all, which gives the rate by Little's law; cpu:
    seconds of a request; full: seconds at the TCP queue's limit."""
    requests = round(60 * busy / each / processes)
    rows = (
        worker(number, requests, each=each, cpu=requests * cpu, busy=60 * busy / processes)
        for number in range(1, processes + 1)
    )
    made = window(60, *rows, waits={"other": busy * (1 - cpu / each), "cpu": busy * cpu / each}, **{TCP: 60 * queued})
    return replace(made, queue_full_seconds={TCP: full}, **more)


def overload(**more: object) -> Window:
    """2x4 of 80 clients whose requests take 200 ms: 40 wait in the full queue, and 10 attempts a second fail."""
    return minute(2, 8.0, 40.0, full=59.0, overflows=600, full_seconds=60.0, **more)


SMALL = Server(processes=2, threads=4, cpus=2.0)


@pytest.mark.parametrize("state", ["lock", "disk", "child", "unknown"])
def test_nothing_is_promised_of_what_may_be_scarce(state: State) -> None:
    """The model supposes that any number of requests can wait at once for what they wait for."""
    busy = overload()
    assert busy.waits
    scarce = replace(busy, waits=replace(busy.waits, seconds={state: 60 * 8.0}))
    assert more_threads(figures(scarce, SMALL), 4).most is None
    assert more_threads(figures(busy, SMALL), 4).most is not None


def test_a_lock_bounds_the_promise() -> None:
    """One that is known to permit 30 requests a second does so with more threads as well; with twice the processes,
    twice as many, unless it is that of a file."""
    now = figures(overload(), SMALL)
    lock = LockFigures("worker", 0.06, 0.7, 0.7, 30.0, 30.0, 30.0)
    assert more_threads(replace(now, lock=lock), 4).most == 30.0
    step = more_processes(replace(now, lock=lock))
    assert step.most == 30.0 * step.processes / 2 < (more_processes(now).most or 0.0)
    assert more_processes(replace(now, lock=replace(lock, scope="file"))).most == 30.0


def test_an_overload_is_sized_by_what_was_there() -> None:
    """58 requests, 10 of them between two attempts, take three quarters of the threads of 2x39; all served at once."""
    step = more_threads(figures(overload(), SMALL), 4)
    assert (step.threads, step.stopped_by) == (39, None)
    assert step.most == pytest.approx(0.93 * 78 / 0.2)


def test_the_advice_says_what_the_step_will_do() -> None:
    """The offered work, the throughput, and that a full queue hides how long requests will wait."""
    assert advise_capacity(figures(overload(), SMALL)).change.startswith(
        "Raise `threads` from 4 to 39: on average, at least 48 requests are in service or waiting, and all workers "
        "together have 8 threads. After this step, uWSGI can serve at least 363/s (it serves 40.0/s now). How "
        "long requests will wait after this step is not known: the clients that the full queue turned away were not "
        "counted. "
    )


def test_where_all_is_served_erlangs_formula_gives_the_threads() -> None:
    """Six of eight threads are busy and hardly a request waits: with twelve, the load may grow by half until nine are.
    Of a single thread the wait decides."""
    assert count_needed_threads(figures(minute(2, 6.0, 0.1), SMALL)) == 12
    assert count_needed_threads(figures(minute(1, 0.4, 0.1), Server(processes=1, threads=1))) == 2
    assert erlang_wait(2, 0.4, 0.2) < 0.25 * 0.2 <= erlang_wait(1, 0.4, 0.2)
    step = more_threads(figures(minute(2, 7.0, 1.0), SMALL), 4)
    assert step.threads == 7
    assert "How long" not in advise_capacity(figures(minute(2, 7.0, 1.0), SMALL)).change


def test_bursts_need_more_than_random_arrivals() -> None:
    """With half of the threads busy on average, 30 requests wait while all are: 38 at once in bursts."""
    bursts = minute(2, 4.0, 3.0, full_seconds=6.0)
    assert count_needed_threads(figures(bursts, SMALL)) == pytest.approx(8 + 30)
    assert (
        "in bursts, all 8 threads are busy, and 30 more requests wait" in advise_capacity(figures(bursts, SMALL)).change
    )


def test_unknown_offered_work_gives_the_smallest_step() -> None:
    """Without threads and running times nothing can be sized: one process more, without a promise."""
    unknown = window(60, worker(1, 300, each=None, busy=None), worker(2, 300, each=None, busy=None))
    step = more_processes(figures(unknown, Server(processes=2, cores=False)))
    assert (step.processes, step.threads, step.most) == (3, 0, None)


def memory(room: int, source: str = "uss") -> MemoryFacts:
    worker_memory = WorkerMemory(100 * MB, source, 400 * MB, {})  # type: ignore[arg-type]
    return MemoryFacts(worker_memory, AvailableMemory(100 * MB * room + 1, "host"))


SINGLE = Server(processes=4, threads=1, cpus=8.0)


def test_memory_stops_processes() -> None:
    """44 requests at once need 59 processes; three more have room, and the advice says what was needed."""
    full = minute(4, 4.0, 40.0, full_seconds=60.0)
    assert more_processes(figures(full, SINGLE, memory(100))).wanted == 59
    step = more_processes(figures(full, SINGLE, memory(3)))
    assert (step.processes, step.wanted, step.stopped_by) == (7, 59, "memory")
    assert (
        "Raise `processes` from 4 to 7 (3 more workers of 100 MB each fit into the 300 MB"
        in advise_capacity(figures(full, SINGLE, memory(3))).change
    )
    assert (
        "There is not enough memory for the 59 processes that the load needs"
        in advise_capacity(figures(full, SINGLE, memory(3))).change
    )


def test_processes_for_a_floor_come_in_steps() -> None:
    """How many clients ask without waiting for answers is not known, so the first step is eight times as many."""
    full = figures(minute(4, 4.0, 40.0, full_seconds=60.0), SINGLE, memory(100))
    step = more_processes(full)
    assert (step.processes, step.stopped_by) == (32, "step")
    assert step.most == pytest.approx(0.93 * 32 / 0.2)
    assert "Then run `check` again: the load may need up to 59 processes" in advise_capacity(full).change


@pytest.mark.parametrize("is_measured", [True, False])
@pytest.mark.parametrize(("arrive", "processes"), [(1.02, 7), (1.2, 8), (1.9, 13)])
def test_a_queue_that_is_not_always_full_says_how_many_arrive(arrive: float, processes: int, is_measured: bool) -> None:
    """A queue of 40 takes no more for 1 - 1/r of the time, and is in its last two states for 1 - 1/r² of it, if r times
    as many requests arrive as are served: the step is 1.6 times what arrives, however many wait."""
    full = minute(4, 4.0, 40.0, full_seconds=60.0)
    window_ = replace(
        full,
        queue_full_seconds={"app.sock": 60.0 if is_measured else 60 * (1 - 1 / arrive**2)},
        brimming_seconds=60 * (1 - 1 / arrive) if is_measured else None,
    )
    overloaded = figures(window_, SINGLE, memory(100))
    assert more_processes(overloaded).processes == processes
    faster = f"about {arrive:.1f} times as fast as" if arrive > 1.02 else "slightly faster than"
    assert f"requests arrive {faster} uWSGI serves them" in advise_capacity(overloaded).change
    always = figures(replace(full, queue_full_seconds={"app.sock": 60.0}), SINGLE, memory(100))
    assert more_processes(always).wanted == 59


@pytest.mark.parametrize(("refused", "factor", "threads"), [(2334, "2.0", 11), (20_000, "4.5", 24)])
def test_counted_refusals_bound_how_many_arrive(refused: int, factor: str, threads: int) -> None:
    """2x4 serve 40/s beside a TCP queue that is full for 95 % of the time, and 39/s are refused: that is 2.0 times as
    many attempts, whatever keeps the queue full. Many retries bound nothing. The retries are the reserve for growth."""
    window_ = replace(minute(2, 8.0, 41.0, full_seconds=60.0), queue_full_seconds={TCP: 57.0}, overflows=refused)
    known = figures(window_, SMALL)
    of_tcp = msgspec.structs.replace(known.server, queues={TCP: Backlog(41, 40, None)})
    overloaded = compute_figures(replace(window_, refused=refused), of_tcp)
    assert more_threads(overloaded, 4).threads == threads
    arrive = f"with retries, requests arrive {factor} times as fast as uWSGI serves them"
    assert f"to {threads}: {arrive}. After this step, uWSGI can serve at least" in advise_capacity(overloaded).change


def test_memory_without_room_is_said() -> None:
    """With no room at all, and with an upper bound of what a worker takes, the clause about memory says so."""
    full = minute(4, 4.0, 40.0, full_seconds=60.0)
    assert "for which there is no room: 100 MB each" in advise_capacity(figures(full, SINGLE, memory(0))).change
    assert "room for 3 for certain" in advise_capacity(figures(full, SINGLE, memory(3, "anonymous"))).change


def test_cpus_stop_processes() -> None:
    """Requests of 50 ms of CPU: 4 CPUs serve 80 a second, which five processes of two threads nearly do."""
    full = minute(3, 6.0, 40.0, each=0.1, cpu=0.05, full_seconds=60.0)
    step = more_processes(figures(full, Server(processes=3, threads=2, cpus=4.0)))
    assert step.stopped_by == "cpu"
    assert step.processes < 10
    assert step.most == pytest.approx(0.93 * 80, rel=0.05)


def test_a_step_that_serves_no_more_has_no_figure() -> None:
    """One worker gets nearly as much as other programs leave: that two serve at least less than now is no promise."""
    full = replace(minute(1, 8.0, 40.0, cpu=0.022, full_seconds=60.0), cpu=window(60, cpu=(0.88, 0.0, 1.12)).cpu)
    result = figures(full, Server(processes=1, threads=8, cpus=2.0))
    assert 0 < (more_processes(result).most or 0.0) < (result.flow.throughput or 0.0)
    assert "serves at least" not in advise_capacity(result).change


def test_interpreters_stop_threads() -> None:
    """With 20 ms of CPU a worker serves 50 a second. Where CPUs are idle, processes help more than threads; where none
    are, the threads stop where the CPUs do."""
    full = minute(2, 8.0, 40.0, cpu=0.02, full_seconds=60.0)
    step = more_threads(figures(full, Server(processes=2, threads=4, cpus=16.0)), 4)
    assert step.stopped_by == "interpreters"
    assert 8 < step.threads < 32
    change = advise_capacity(figures(full, Server(processes=2, threads=4, cpus=16.0))).change
    assert change.startswith("Raise `processes` from 2 to 16 ")
    assert "Additional `threads` would wait for the interpreter lock." in change
    small = advise_capacity(figures(full, SMALL)).change
    assert small.startswith("Raise `threads` from 4 to ")
    assert "After this step, add CPUs to serve even more." in small


def test_other_programs_leave_less_cpu() -> None:
    """Only the CPUs that the workers use or that are idle serve more requests."""
    full = minute(2, 8.0, 40.0, cpu=0.01, full_seconds=60.0)
    shared = replace(full, cpu=window(60, cpu=(0.4, 0.6, 1.0)).cpu)
    step = more_threads(figures(shared, SMALL), 4)
    assert step.most == pytest.approx(0.93 * 100, rel=0.04)
    assert step.stopped_by == "cpu"


def test_other_programs_that_use_all_cpus_leave_a_share() -> None:
    """Linux gives a server its share of the CPUs when it needs it, so requests that hardly compute are still served."""
    full = minute(2, 8.0, 40.0, cpu=0.0002, full_seconds=60.0)
    crowded = replace(full, cpu=window(60, cpu=(0.01, 0.0, 1.99)).cpu)
    assert more_threads(figures(crowded, SMALL), 4).threads == 32


def test_no_setting_is_beyond_what_can_be_set() -> None:
    """Ten thousand requests that wait are no reason for ten thousand threads."""
    step = more_threads(figures(minute(2, 8.0, 10_000.0, full_seconds=60.0), SMALL), 4)
    assert (step.threads, step.stopped_by) == (1024, "size")


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0, 40),
    st.floats(0, 300),
    st.floats(0, 60),
    st.floats(0, 1),
    st.none() | st.integers(0, 10_000),
)
def test_any_step_is_larger_and_promises_no_less(
    processes: int, threads: int, busy: float, queued: float, full: float, part: float, overflows: int | None
) -> None:
    """Whatever was measured, a step adds threads or processes, and its figures are finite."""
    made = minute(processes, busy, queued, cpu=0.2 * part, full=full, full_seconds=full, overflows=overflows)
    result = figures(made, Server(processes=processes, threads=threads, cpus=2.0))
    for step in (more_threads(result, threads), more_processes(result)):
        assert step.threads * step.processes > threads * processes
        assert step.most is None or 0 < step.most < inf


def test_a_server_without_workers_has_no_step_that_fails() -> None:
    """A document may have none."""
    result = figures(window(60), Server(processes=1))
    empty = replace(result, server=msgspec.structs.replace(result.server, workers=()), ceiling=0)
    assert more_processes(empty).processes == 1

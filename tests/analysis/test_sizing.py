"""The size of the next step: the offered work fits, and memory, CPUs and interpreters stop it."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, figures_of, findings_by_code, setup
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import advise_capacity
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.sizing import count_needed_threads, more_processes, more_threads
from uwsgi_headroom.analysis.usable import erlang_wait
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, WorkerMemory
from uwsgi_headroom.kernel.waits.worker_threads import WHO_MAY_KNOW
from uwsgi_headroom.record import Backlog, Waits

TCP = "127.0.0.1:8000"
MB = 1_000_000


def figures(of: Window, server: Server, room: int | None = None, source: str = "uss") -> Figures:
    """room: so many workers of 100 MB fit into memory. source: of the figure of a worker."""
    memory = Memories(WorkerMemory(100 * MB, source, 400 * MB, {}), AvailableMemory(100 * MB * (room or 0) + 1, "host"))
    return figures_of(of, describe(server, waits=Waits(), **({} if room is None else {"memory": memory})))


def minute(
    processes: int, busy: float, queued: float, each: float = 0.2, cpu: float = 0.0, full: float = 0.0, **more: object
) -> Window:
    """A minute of this many workers whose threads are all in use. busy: their busy threads in all, which gives the rate
    by Little's law; cpu: seconds of a request; full: seconds at the TCP queue's limit."""
    requests = round(60 * busy / each / processes)
    numbers = range(1, processes + 1)
    rows = (worker(n, requests, each=each, cpu=requests * cpu, busy=60 * busy / processes) for n in numbers)
    made = window(60, *rows, waits={"backend": busy * (1 - cpu / each), "cpu": busy * cpu / each}, **{TCP: 60 * queued})
    return replace(made, **{"queue_full_seconds": {TCP: full}, "full_seconds": 60.0, **more})


OVERLOAD = minute(2, 8.0, 40.0, full=59.0, overflows=600)
"""2x4 of 80 clients whose requests take 200 ms: 40 wait in the full queue, and 10 attempts a second fail."""

SMALL = Server(processes=2, threads=4, cpus=2.0)
SINGLE = Server(processes=4, threads=1, cpus=8.0)


@pytest.mark.parametrize("state", ["lock", "disk", "child", "unknown"])
def test_nothing_is_promised_of_what_may_be_scarce(state):
    """The model supposes that any number of requests can wait at once for what they wait for."""
    scarce = replace(OVERLOAD, waits=replace(OVERLOAD.waits, seconds={state: 60 * 8.0}))
    assert more_threads(figures(scarce, SMALL), 4).most is None
    assert more_threads(figures(OVERLOAD, SMALL), 4).most is not None


def test_a_lock_bounds_the_promise():
    """One that is known to permit 30 requests a second does so with more threads as well; with twice the processes,
    twice as many, unless it is that of a file."""
    now = figures(OVERLOAD, SMALL)
    lock = LockFigures("worker", 0.06, 0.7, 0.7, 30.0, 30.0, 30.0)
    assert more_threads(replace(now, lock=lock), 4).most == 30.0
    step = more_processes(replace(now, lock=lock))
    assert step.most == 30.0 * step.processes / 2 < more_processes(now).most
    assert more_processes(replace(now, lock=replace(lock, scope="file"))).most == 30.0


BURSTS = minute(2, 4.0, 3.0, full_seconds=6.0)


def with_cpus(of: Window, *cpu: float) -> Window:
    return replace(of, cpu=window(60, cpu=cpu).cpu)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        # 58 requests, 10 of them between two attempts, take three quarters of the threads of 2x39; all served at once.
        (OVERLOAD, {"threads": 39, "most": pytest.approx(0.93 * 78 / 0.2), "stopped_by": None}),
        (minute(2, 7.0, 1.0, full_seconds=0.0), {"threads": 7}),
        # Only the CPUs that the workers use or that are idle serve more requests.
        (
            with_cpus(minute(2, 8.0, 40.0, cpu=0.01), 0.4, 0.6, 1.0),
            {"most": pytest.approx(0.93 * 100, rel=0.04), "stopped_by": "cpu"},
        ),
        # Linux gives a server its share of the CPUs when it needs it, so requests that hardly compute are served.
        (with_cpus(minute(2, 8.0, 40.0, cpu=0.0002), 0.01, 0.0, 1.99), {"threads": 32}),
        # Ten thousand requests that wait are no reason for ten thousand threads.
        (minute(2, 8.0, 10_000.0), {"threads": 1024, "stopped_by": "size"}),
    ],
)
def test_more_threads(of, expected):
    """As many as the offered work takes, unless something stops them."""
    step = more_threads(figures(of, SMALL), 4)
    assert {name: getattr(step, name) for name in expected} == expected


@pytest.mark.parametrize(("waiting", "option"), [(0.0, "threads"), (2.0, "processes")])
def test_work_outside_of_the_lock_needs_threads(waiting, option):
    """As much CPU time in a library without the interpreter lock needs no processes. Since it is not known how much of
    it is under the lock after all, nothing is promised."""
    of = change_workers(minute(2, 8.0, 40.0, cpu=0.05), interpreter_lock_seconds=60 * waiting)
    now = figures(of, Server(processes=2, threads=4, cpus=8.0))
    advice = advise_capacity(now)
    assert [name for name, _ in advice.settings] == [option]
    assert (advice.serves is None, "interpreters" not in now.headroom.by_limit) == (not waiting, not waiting)


FULL = minute(4, 4.0, 40.0)


@pytest.mark.parametrize(
    ("of", "server", "room", "expected"),
    [
        # 44 requests at once need 59 processes. How many clients ask without waiting for answers is not known, so the
        # first step is eight times as many.
        (FULL, SINGLE, 100, {"processes": 32, "wanted": 59, "stopped_by": "step", "most": 0.93 * 32 / 0.2}),
        (FULL, SINGLE, 3, {"processes": 7, "wanted": 59, "stopped_by": "memory"}),
        # Requests of 50 ms of CPU: 4 CPUs serve 80 a second, which five processes of two threads nearly do.
        (
            minute(3, 6.0, 40.0, each=0.1, cpu=0.05),
            Server(processes=3, threads=2, cpus=4.0),
            None,
            {"stopped_by": "cpu", "most": 0.93 * 80},
        ),
        # Without threads and running times nothing can be sized: one process more, without a promise.
        (
            window(60, *(worker(number, 300, each=None, busy=None) for number in (1, 2))),
            Server(processes=2, cores=False),
            None,
            {"processes": 3, "threads": 0, "most": None},
        ),
    ],
)
def test_more_processes(of, server, room, expected):
    """As many as the offered work takes, unless memory or CPUs stop them."""
    step = more_processes(figures(of, server, room))
    found = {name: getattr(step, name) for name in expected if name != "most"}
    assert found == {name: each for name, each in expected.items() if name != "most"}
    most = expected.get("most", step.most)
    assert step.most == (most and pytest.approx(most, rel=0.05))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (figures(OVERLOAD, SMALL), "Raise `threads` from 4 to 39: on average, at least 48 requests are in service"),
        (figures(OVERLOAD, SMALL), "uWSGI can serve at least 363/s (it serves 40.0/s now). How long requests "),
        (figures(BURSTS, SMALL), "in bursts, all 8 threads are busy, and 30 more requests wait"),
        (figures(FULL, SINGLE, 100), "Then run `check` again: the load may need up to 59 processes"),
        (figures(FULL, SINGLE, 3), "Raise `processes` from 4 to 7 (3 more workers of 100 MB each fit into the 300 MB"),
        (figures(FULL, SINGLE, 3), "There is not enough memory for the 59 processes that the load needs"),
        (figures(FULL, SINGLE, 0), "for which there is no room: 100 MB each"),
        (figures(FULL, SINGLE, 3, "anonymous"), "room for 3 for certain"),
    ],
)
def test_the_advice_says_what_the_step_will_do(found, words):
    """The offered work, the throughput, what stops the step, and that a full queue hides how long requests wait."""
    assert words in advise_capacity(found).change
    assert "How long" not in advise_capacity(figures(minute(2, 7.0, 1.0, full_seconds=0.0), SMALL)).change


def test_processes_that_do_not_fit_are_no_setting():
    """They need memory first and promise nothing, and no alert says to set them. Without exact memory, they may fit."""
    full, may_fit = (advise_capacity(figures(FULL, SINGLE, 0, source)) for source in ("uss", "anonymous"))
    assert (full.change.partition(".")[0], full.settings, full.serves) == ("Add memory first", (), None)
    assert may_fit.settings == (("processes", 32),)
    assert may_fit.serves
    reloads = setup(can_reload_workers=True, complete=True)
    of = window(20, worker(1, 150, busy=15.0, up=17.0, respawns=1), app=180.0)
    now = figures(of, Server(processes=1, threads=1), 0)
    in_turn = advise_capacity(replace(now, server=replace(now.server, setup=reloads)))
    assert "while one is replaced" in in_turn.change
    assert in_turn.settings == ()


@pytest.mark.parametrize(
    ("of", "server", "needed"),
    [
        # Erlang's formula: six of eight threads are busy; with twelve, the load may grow by half until nine are.
        (minute(2, 6.0, 0.1, full_seconds=0.0), SMALL, 12),
        (minute(1, 0.4, 0.1, full_seconds=0.0), Server(processes=1, threads=1), 2),  # of one thread the wait decides
        # With half of the threads busy on average, 30 requests wait while all are. They wait 150 ms: a third of it is
        # not noticed beside 200 ms, and 24 threads do the same work at least three times as fast.
        (BURSTS, SMALL, 24),
        # 200 requests of 5 ms every 2 s at 4x1 wait 125 ms on average, and 20 ms in 25 workers; 104 are there at once.
        (minute(4, 0.5, 12.5, each=0.005, full_seconds=7.5), SINGLE, 25),
    ],
)
def test_the_threads_that_are_needed(of, server, needed):
    """Bursts need more than random arrivals, and seldom a thread for each request."""
    assert count_needed_threads(figures(of, server)) == pytest.approx(needed)
    assert erlang_wait(2, 0.4, 0.2) < 0.25 * 0.2 <= erlang_wait(1, 0.4, 0.2)


@pytest.mark.parametrize("is_measured", [True, False])
@pytest.mark.parametrize(("arrive", "processes"), [(1.02, 7), (1.2, 8), (1.9, 13)])
def test_a_queue_that_is_not_always_full_says_how_many_arrive(arrive, processes, is_measured):
    """A queue of 40 takes no more for 1 - 1/r of the time, and is in its last two states for 1 - 1/r² of it, if r times
    as many requests arrive as are served: the step is 1.6 times what arrives, however many wait."""
    full = {"app.sock": 60.0 if is_measured else 60 * (1 - 1 / arrive**2)}
    of = replace(FULL, queue_full_seconds=full, brimming_seconds=60 * (1 - 1 / arrive) if is_measured else None)
    overloaded = figures(of, SINGLE, 100)
    assert more_processes(overloaded).processes == processes
    faster = f"about {arrive:.1f} times as fast as" if arrive > 1.02 else "slightly faster than"
    assert f"requests arrive {faster} uWSGI serves them" in advise_capacity(overloaded).change


@pytest.mark.parametrize(("refused", "factor", "threads"), [(2334, "2.0", 11), (20_000, "4.5", 24)])
def test_counted_refusals_bound_how_many_arrive(refused, factor, threads):
    """2x4 serve 40/s beside a TCP queue that is full for 95 % of the time, and 39/s are refused: that is 2.0 times as
    many attempts, whatever keeps the queue full. Many retries bound nothing. The retries are the reserve for growth."""
    of = minute(2, 8.0, 41.0, full=57.0, overflows=refused, refused=refused)
    of_tcp = replace(figures(of, SMALL).server, queues={TCP: Backlog(41, 40, None)})
    overloaded = figures_of(of, of_tcp)
    assert more_threads(overloaded, 4).threads == threads
    assert f"with retries, requests arrive {factor} times as fast as" in (change := advise_capacity(overloaded).change)
    assert "were not counted" not in change


def test_a_step_that_serves_no_more_has_no_figure():
    """One worker gets nearly as much as other programs leave: that two serve less than now is no promise."""
    full = with_cpus(minute(1, 8.0, 40.0, cpu=0.022), 0.88, 0.0, 1.12)
    result = figures(full, Server(processes=1, threads=8, cpus=2.0))
    assert 0 < more_processes(result).most < result.flow.throughput
    assert "serves at least" not in advise_capacity(result).change


def test_interpreters_stop_threads():
    """With 20 ms of CPU a worker serves 50 a second. Where CPUs are idle, processes help more than threads; where none
    are, the threads stop where the CPUs do."""
    full = minute(2, 8.0, 40.0, cpu=0.02)
    large = figures(full, Server(processes=2, threads=4, cpus=16.0))
    step = more_threads(large, 4)
    assert step.stopped_by == "interpreters"
    assert 8 < step.threads < 32
    assert advise_capacity(large).change.startswith("Raise `processes` from 2 to 16 ")
    small = advise_capacity(figures(full, SMALL)).change
    assert small.startswith("Raise `threads` from 4 to ")
    assert "After this step, add CPUs to serve even more." in small


@settings(max_examples=50)
@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0, 40),
    st.floats(0, 300),
    st.floats(0, 60),
    st.floats(0, 1),
    st.none() | st.integers(0, 10_000),
)
def test_any_step_is_larger_and_promises_no_less(processes, threads, busy, queued, full, part, overflows):
    """Whatever was measured, a step adds threads or processes, and its figures are finite."""
    made = minute(processes, busy, queued, cpu=0.2 * part, full=full, full_seconds=full, overflows=overflows)
    result = figures(made, Server(processes=processes, threads=threads, cpus=2.0))
    for step in (more_threads(result, threads), more_processes(result)):
        assert step.threads * step.processes > threads * processes
        assert step.most is None or 0 < step.most < inf


def test_a_server_without_workers_has_no_step_that_fails():
    """A document may have none."""
    result = figures(window(60), Server(processes=1))
    empty = replace(result, server=replace(result.server, workers=()), ceiling=0)
    assert more_processes(empty).processes == 1


HIDDEN = Waits(off=WHO_MAY_KNOW, needs_right=True)


@pytest.mark.parametrize(
    ("address", "argument"),
    [
        ("unix:///run/a b$(x).stats", "'/run/a b$(x).stats'"),
        ("127.0.0.1:1717", "127.0.0.1:1717"),
        ("http://127.0.0.1:80/stats?...", "--all"),
        ("", "--all"),
    ],
)
def test_the_command_can_be_pasted(address, argument):
    """A socket's name, which others may have chosen, is quoted for the shell. Where the address is not known in full,
    as in a review of history, the command checks all servers of the host."""
    full = window(60, *(worker(number, 1200, cpu=0.6, busy=480.0) for number in range(1, 5)), **{"app.sock": 1800.0})
    found = findings_by_code(full, Server(processes=4, threads=8, cpus=8.0), waits=HIDDEN, address=address)
    assert f"check {argument}` on uWSGI's host" in found["saturation"].change

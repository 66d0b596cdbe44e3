"""Event loops that a call holds up: by where their thread is blocked, or by its progress while it runs."""

import os

import pytest

from tests.kernel.waits.test_sampler import IDLE, MEMORY, SLEEPS, line_of, of_x86_64, polling, sampled
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.kernel.waits import descriptors, loops, worker_threads
from uwsgi_headroom.kernel.waits.sampler import WaitSampler, WaitSetting
from uwsgi_headroom.kernel.waits.system_calls import Blocked
from uwsgi_headroom.record import Blocker, LoopUse, Options, Setup

ASYNC = Setup(Options(gevent=20), None, "async", None, None)
EVENTS: Blocked = (232, (9, 0, 0, 0, 0, 0, 0))  # epoll_wait(2)
FLOCK: Blocked = (73, (5, 2, 0, 0, 0, 0, 0))
RUNS = "running"

pytestmark = of_x86_64


class Watched:
    """Workers with coroutines, five samples a second. calls, switches, cpu: of threads; looked: pids looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hands = MovableClock()
        self.sampler = WaitSampler(WaitSetting(), self.hands.clock.monotonic)
        self.serve(2)
        self.calls: dict[int, object] = {}
        self.switches = 0
        self.cpu = 1.0
        self.looked: list[int] = []
        monkeypatch.setattr(worker_threads, "read_generation", lambda _: (1000, 2000, 3000))
        monkeypatch.setattr(worker_threads, "read_memory_map", lambda _: MEMORY)
        monkeypatch.setattr(worker_threads, "list_threads", lambda pid: [pid])
        monkeypatch.setattr(worker_threads, "read_system_call", self._read)
        counts = {"voluntary_ctxt_switches": lambda: [b"%d" % self.switches]}
        monkeypatch.setattr(loops.procfs, "read_status", lambda name, _: counts[name]())
        monkeypatch.setattr(loops, "read_schedule", lambda *_: (self.cpu * self.hands.clock.monotonic() * 1e9, 0, 0))

    def serve(self, workers: int) -> None:
        self.server = Server(processes=workers, threads=20)
        self.server.busy(*[5] * workers)

    def _read(self, pid: int, _: int) -> bytes:
        self.looked.append(pid)
        return line_of(self.calls.get(pid, EVENTS))

    def look(self, times: int = 1, switches: int = 0, requests: int = 0) -> dict[int, LoopUse]:
        """The last of so many samples; between two, a thread that runs gives up its CPU so often."""
        for _ in range(times):
            self.hands.move(0.2)
            self.switches += switches
            self.server[1].requests += requests
            waits = sampled(self.sampler, self.server, ASYNC)
            assert waits.loops is not None
            assert waits.off
        return dict(waits.loops)


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_a_loop_that_waits_for_events(watched):
    """It is not held, and neither is one that waits for a lock of uWSGI's own, nor one in a call that is not known."""
    assert watched.look(20) == {}
    for call in (IDLE, (4711, (0, 0, 0, 0, 0, 0, 0))):
        watched.calls[101] = call
        assert watched.look(20) == {}


@pytest.mark.parametrize(
    ("call", "hold"), [(SLEEPS, Blocker("sleep")), (FLOCK, Blocker("lock", "", "file"))], ids=["sleep", "flock"]
)
def test_a_call_that_blocks(watched, call, hold):
    """It holds the loop from the first sample on; once it ends, the longest one is remembered for a minute."""
    watched.calls[101] = call
    assert watched.look() == {1: LoopUse(hold, True, pytest.approx(0))}
    assert watched.look(10) == {1: LoopUse(hold, True, pytest.approx(2))}
    assert watched.look(requests=1) == {1: LoopUse(hold, True, pytest.approx(2))}
    watched.calls[101] = EVENTS
    assert watched.look(10) == {1: LoopUse(hold, False, pytest.approx(2))}
    assert watched.look(300) == {1: LoopUse(hold, False, 0)}
    watched.server.respawn(1, 5.0)
    watched.server.busy(5, 5)
    assert watched.look() == {}


def test_a_call_that_computes(watched):
    """A thread that runs for a second is held, unless it gives up its CPU or completes requests."""
    watched.calls[101] = RUNS
    assert watched.look(30, switches=1) == {}
    assert watched.look(30, requests=1) == {}
    assert watched.look(4) == {}
    assert watched.look(2) == {1: LoopUse(Blocker("cpu"), True, pytest.approx(1.2))}


def test_a_loop_without_a_cpu(watched):
    """A thread that could run, and gets hardly any CPU time, computes no longer than it has time for."""
    watched.calls[101] = RUNS
    watched.cpu = 0.1
    assert watched.look(40) == {}
    assert watched.look(15)


def test_calls_that_compute_and_block(watched):
    """What blocks between two computations gives up the CPU, and the loop does not go on all the same."""
    for turn in range(20):
        watched.calls[101] = SLEEPS if turn % 4 == 0 else RUNS
        uses = watched.look(switches=1)
    assert uses == {1: LoopUse(Blocker("cpu"), True, pytest.approx(3.8))}


def test_a_worker_without_requests_is_not_held(watched):
    watched.calls[101] = SLEEPS
    watched.look(5)
    watched.server.busy(0, 5)
    assert watched.look(2) == {1: LoopUse(Blocker("sleep"), False, pytest.approx(0.8))}


def test_a_connection_with_a_timeout(watched, monkeypatch):
    monkeypatch.setattr(descriptors.procfs, "read_line", lambda _: line_of(call))
    with polling(array_is_read=True) as (call, server):
        watched.serve(1)
        watched.server.respawn(1, 1.0, os.getpid())
        watched.server.busy(5)
        watched.calls[os.getpid()] = call
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert watched.look(3)[1].hold == Blocker("backend", address)


def test_many_workers_are_looked_at_in_turn(watched, monkeypatch):
    watched.serve(64)

    def look(pid: int, _: int) -> bytes:
        watched.hands.move(0.001)
        watched.looked.append(pid)
        return line_of(SLEEPS)

    monkeypatch.setattr(worker_threads, "read_system_call", look)
    watched.look(40)
    times = [watched.looked.count(pid) for pid in set(watched.looked)]
    assert len(times) == 64
    assert max(times) - min(times) <= 2
    assert max(times) < 40


def test_lookups_beside_loops():
    """Of the last looks, so that a name server that answers again is seen."""
    lookups = loops.Lookups()
    assert lookups.mean == (0, 0)
    lookups.note(["dns", "dns", "dns", "lock"])
    lookups.note([])
    assert lookups.mean == (1.5, 2)
    for _ in range(loops._LOOKS):
        lookups.note(["lock"] * 10)
    assert lookups.mean == (0, 10)

"""How the CPU that a server could use is divided, from readings whose true figures the test sets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.simulated_server import Server
from uwsgi_headroom.history.derived import MOST_WAITING
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import CpuTotals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import CpuTimes
from uwsgi_headroom.reading import Reading


class Watched:
    """A server, its totals and its history, sampled once a second. Two workers, two CPUs."""

    def __init__(self, server: Server | None = None) -> None:
        self.server = server or Server(processes=2, cpus=2.0, idle=0.5, others=1.0)
        self.integrals, self.history, self.now = Integrals(), History(), 0.0
        self.add(self.server.read(0.0))

    def add(self, reading: Reading) -> None:
        self.integrals.add(reading, longest_step=1.0)
        self.history.add(reading.at, self.integrals.totals)

    def run(self, seconds: int, cpu: float = 0.25) -> None:
        """Let each worker use this much CPU in each of the seconds."""
        for _ in range(seconds):
            for worker_id in (1, 2):
                self.server.serve(worker_id, 1, cpu=cpu)
            self.now += 1.0
            self.add(self.server.read(self.now))

    @property
    def cpu(self) -> CpuTotals:
        assert self.integrals.totals.cpu
        return self.integrals.totals.cpu

    def window(self, seconds: float) -> Window:
        window = self.history.window(seconds)
        assert window
        return window


def test_three_parts_are_the_capacity():
    """The workers' own CPU time, idle time and the rest add up to the capacity over the measured time."""
    watched = Watched()
    watched.run(10)
    cpu = watched.window(60).cpu
    assert cpu.measured_seconds == pytest.approx(10)
    assert (cpu.own_seconds, cpu.idle_seconds) == (pytest.approx(5), pytest.approx(5))
    assert cpu.others_seconds == pytest.approx(10)


def test_unknown_until_the_kernel_reports_cpu_times():
    """Without kernel facts there are no totals and no CPU figures of a window, rather than zeros."""
    for server in (Server(processes=2), Server(processes=2, host=False, idle=1.0)):
        watched = Watched(server)
        watched.run(5)
        assert watched.integrals.totals.cpu is None
        assert watched.window(60).cpu is None


def test_window_that_reaches_into_an_unknown_time_is_unknown():
    """Host facts that are missing for a while leave a hole that no window spans."""
    watched = Watched()
    watched.run(5)
    watched.server.host = False
    watched.run(2)
    assert watched.window(60).cpu is None
    watched.server.host = True
    watched.run(5)
    assert watched.window(60).cpu is None
    assert watched.window(3).cpu.idle_seconds == pytest.approx(1.5)


def test_worker_that_ended_in_a_gap_leaves_others_unknown_and_idle_known():
    """The worker's last CPU time is unknown and does not count as that of others; idle time is still known."""
    watched = Watched()
    watched.run(5)
    others = watched.cpu.others_seconds
    watched.server.serve(1, 1, cpu=3.0)
    watched.server.respawn(1, 8.0)
    watched.now = 9.0
    watched.run(1)
    assert watched.cpu.others_seconds == others
    cpu = watched.window(60).cpu
    assert cpu.others_seconds is None
    assert cpu.idle_seconds == pytest.approx(5.0)
    watched.run(3)
    cpu = watched.window(2).cpu
    assert cpu.others_seconds == pytest.approx(2.0)


def test_no_time_is_lost_while_processes_are_known():
    """Neither a gap with the same processes nor a new process that was seen loses any CPU time."""
    watched, respawned = Watched(), Watched()
    watched.run(5)
    watched.integrals.miss(6.0)
    watched.server.serve(1, 1, cpu=2.0)
    watched.now = 14.0
    watched.run(1)
    respawned.run(5)
    respawned.server.respawn(1, 5.0)
    respawned.run(5)
    for each, others in ((watched, 15.0), (respawned, 10.0)):
        cpu = each.window(60).cpu
        assert (cpu.own_seconds, cpu.others_seconds) == (pytest.approx(5.0), pytest.approx(others))


def test_other_number_of_workers_restarts_the_known_time():
    """After a reload with another number of workers, the totals continue, and are known from then on."""
    watched = Watched()
    watched.run(3)
    before = replace(watched.cpu)
    watched.server.reload(3.5, processes=3)
    watched.run(3)
    assert watched.cpu.since == 4.0
    assert watched.cpu.own_seconds == pytest.approx(before.own_seconds + 1.0)


def with_children(reading: Reading, seconds: float) -> Reading:
    """The children of the workers have used this much CPU each."""
    processes = {pid: replace(process, children_cpu_seconds=seconds) for pid, process in reading.host.processes.items()}
    return replace(reading, host=replace(reading.host, processes=processes))


def test_children_that_were_waited_for_are_own():
    """A program that a request starts counts after its end, and does not load the worker's interpreter."""
    watched = Watched(Server(processes=1, idle=0.5, others=1.5))
    for second, children in ((1.0, 0.0), (2.0, 1.0), (3.0, 1.0)):
        watched.add(with_children(watched.server.read(second), children))
    assert (watched.cpu.own_seconds, watched.cpu.others_seconds) == (pytest.approx(1.0), pytest.approx(3.5))
    assert watched.integrals.totals.workers[0].cpu_seconds == 0


def test_long_running_child_counts_as_others_while_it_runs():
    """At its end no step has more of the workers than was used in it, and the excess carried over is bounded."""
    watched = Watched(Server(processes=1, idle=0.0, others=2.0))
    watched.add(with_children(watched.server.read(1.0), 0.0))
    for second in range(2, 60):
        watched.add(with_children(watched.server.read(float(second)), 1000.0))
    assert watched.cpu.own_seconds == pytest.approx(2.0 + MOST_WAITING)
    assert watched.cpu.own_seconds + watched.cpu.others_seconds == pytest.approx(2.0 * 59)


def test_two_servers_on_one_host_are_other_programs_to_each_other():
    """Two servers share the idle time, and each sees the other's CPU time as used by others."""
    servers = [Watched(Server(processes=1, idle=0.0)) for _ in range(2)]
    own = (0.3, 0.9)
    for second in range(1, 11):
        used = sum(own) * second
        for watched, each in zip(servers, own, strict=True):
            watched.server.serve(1, 1, cpu=each)
            reading = watched.server.read(float(second))
            times = CpuTimes(float(second), 2.0 * second - used, used)
            watched.add(replace(reading, host=replace(reading.host, cpu_times=times)))
    parts = [(w.cpu.own_seconds, w.cpu.idle_seconds, w.cpu.others_seconds) for w in servers]
    assert parts == [pytest.approx((3, 8, 9)), pytest.approx((9, 8, 3))]


moves = st.lists(
    st.tuples(
        st.sampled_from(["sample", "late", "miss", "respawn", "reload", "grow", "hidden"]),
        st.floats(0, 3),
        st.floats(0, 1),
        st.floats(0, 1),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(moves)
def test_no_total_decreases_and_the_parts_are_the_capacity(story):
    """For any workers and readings, no part decreases, and while all three are known they add up to idle + used."""
    server = Server(processes=2, idle=0.0)
    integrals, before, times, counted = Integrals(), CpuTotals(), CpuTimes(), 0.0
    for second, (move, own, idle, used) in enumerate(story, 1):
        server.host = move != "hidden"
        server.serve(1, 1, cpu=own)
        if move == "respawn":
            server.respawn(1, float(second))
        elif move in ("reload", "grow"):
            server.reload(float(second), processes=3 if move == "grow" else None)
        at = 10.0 * second if move == "late" else 10.0 * second - 9.5
        times = CpuTimes(at, times.idle_seconds + idle, times.used_seconds + used)
        if move == "miss":
            integrals.miss(at)
            continue
        reading = server.read(at)
        known = times if server.host else None
        integrals.add(replace(reading, host=replace(reading.host, cpu_times=known)), longest_step=12.0)
        cpu = integrals.totals.cpu
        if cpu is None:
            continue
        for part in ("measured_seconds", "own_seconds", "idle_seconds", "others_seconds"):
            assert getattr(cpu, part) >= getattr(before, part) >= 0
        grown, allowed = _all_parts(cpu) - _all_parts(before), times.idle_seconds + times.used_seconds - counted
        assert grown <= allowed + 1e-9
        if known and (cpu.since, cpu.others_since) == (before.since, before.others_since):
            assert grown == pytest.approx(allowed)
        before, counted = replace(cpu), times.idle_seconds + times.used_seconds


def _all_parts(cpu: CpuTotals) -> float:
    return cpu.own_seconds + cpu.idle_seconds + cpu.others_seconds

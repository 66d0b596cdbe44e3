"""What no counter says is derived from samples: the use of CPUs, and how much running time a worker can have added."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.history import watched
from tests.history.watched import Watched, totals_of, watch
from tests.support.captured_documents import NAMES, document, kind
from tests.support.simulated_server import EPOCH, Server, reading
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.history.derived import MOST_WAITING
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import CpuTotals
from uwsgi_headroom.kernel.cpus import CpuTimes
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading


class WatchedCpus(watched.Watched):
    """Two workers and two CPUs, sampled once a second."""

    def __init__(self, server: Server | None = None) -> None:
        super().__init__(server or Server(processes=2, cpus=2.0, idle=0.5, others=1.0))
        self.now = 0.0
        self.sample(0.0)

    def run(self, seconds: int, cpu: float = 0.25) -> WatchedCpus:
        for _ in range(seconds):
            for worker_id in (1, 2):
                self.server.serve(worker_id, 1, cpu=cpu)
            self.now += 1.0
            self.sample(self.now)
        return self

    @property
    def cpu(self) -> CpuTotals:
        assert self.totals.cpu
        return self.totals.cpu


def test_three_parts_are_the_capacity():
    seen = WatchedCpus().run(10)
    cpu = seen.window().cpu
    assert cpu.measured_seconds == pytest.approx(10)
    assert (cpu.own_seconds, cpu.idle_seconds) == (pytest.approx(5), pytest.approx(5))
    assert cpu.others_seconds == pytest.approx(10)
    # They are unknown until the kernel reports CPU times.
    for server in (Server(processes=2), Server(processes=2, host=False, idle=1.0)):
        seen = WatchedCpus(server).run(5)
        assert seen.totals.cpu is None
        assert seen.window().cpu is None


def test_window_that_reaches_into_an_unknown_time_is_unknown():
    seen = WatchedCpus().run(5)
    seen.server.host = False
    assert seen.run(2).window().cpu is None
    seen.server.host = True
    assert seen.run(5).window().cpu is None
    assert seen.window(3).cpu.idle_seconds == pytest.approx(1.5)


def test_worker_that_ended_in_a_gap_leaves_others_unknown_and_idle_known():
    """The worker's last CPU time is unknown and does not count as that of others; idle time is still known."""
    seen = WatchedCpus().run(5)
    others = seen.cpu.others_seconds
    seen.server.serve(1, 1, cpu=3.0)
    seen.server.respawn(1, 8.0)
    seen.now = 9.0
    seen.run(1)
    assert seen.cpu.others_seconds == others
    cpu = seen.window().cpu
    assert cpu.others_seconds is None
    assert cpu.idle_seconds == pytest.approx(5.0)
    cpu = seen.run(3).window(2).cpu
    assert cpu.others_seconds == pytest.approx(2.0)


def test_no_time_is_lost_while_processes_are_known():
    seen, respawned = WatchedCpus().run(5), WatchedCpus().run(5)
    seen.integrals.miss(6.0)
    seen.server.serve(1, 1, cpu=2.0)
    seen.now = 14.0
    seen.run(1)
    respawned.server.respawn(1, 5.0)
    respawned.run(5)
    for each, others in ((seen, 15.0), (respawned, 10.0)):
        cpu = each.window().cpu
        assert (cpu.own_seconds, cpu.others_seconds) == (pytest.approx(5.0), pytest.approx(others))


def test_other_number_of_workers_restarts_the_known_time():
    """After a reload with another number of workers, the totals continue, and are known from then on."""
    seen = WatchedCpus().run(3)
    before = replace(seen.cpu)
    seen.server.reload(3.5, processes=3)
    seen.run(3)
    assert seen.cpu.since == 4.0
    assert seen.cpu.own_seconds == pytest.approx(before.own_seconds + 1.0)


def with_children(reading: Reading, seconds: float) -> Reading:
    processes = {pid: replace(process, children_cpu_seconds=seconds) for pid, process in reading.host.processes.items()}
    return replace(reading, host=replace(reading.host, processes=processes))


def test_children_that_were_waited_for_are_own():
    """A program that a request starts counts after its end, and does not load the worker's interpreter."""
    seen = WatchedCpus(Server(processes=1, idle=0.5, others=1.5))
    for second, children in ((1.0, 0.0), (2.0, 1.0), (3.0, 1.0)):
        seen.add(with_children(seen.server.read(second), children))
    assert (seen.cpu.own_seconds, seen.cpu.others_seconds) == (pytest.approx(1.0), pytest.approx(3.5))
    assert seen.totals.workers[0].cpu_seconds == 0


def test_long_running_child_counts_as_others_while_it_runs():
    """At its end no step has more of the workers than was used in it, and the excess carried over is bounded."""
    seen = WatchedCpus(Server(processes=1, idle=0.0, others=2.0))
    seen.add(with_children(seen.server.read(1.0), 0.0))
    for second in range(2, 60):
        seen.add(with_children(seen.server.read(float(second)), 1000.0))
    assert seen.cpu.own_seconds == pytest.approx(2.0 + MOST_WAITING)
    assert seen.cpu.own_seconds + seen.cpu.others_seconds == pytest.approx(2.0 * 59)


def test_two_servers_on_one_host_are_other_programs_to_each_other():
    servers = [WatchedCpus(Server(processes=1, idle=0.0)) for _ in range(2)]
    own = (0.3, 0.9)
    for second in range(1, 11):
        used = sum(own) * second
        for seen, each in zip(servers, own, strict=True):
            seen.server.serve(1, 1, cpu=each)
            reading = seen.server.read(float(second))
            times = CpuTimes(float(second), 2.0 * second - used, used)
            seen.add(replace(reading, host=replace(reading.host, cpu_times=times)))
    parts = [(w.cpu.own_seconds, w.cpu.idle_seconds, w.cpu.others_seconds) for w in servers]
    assert parts == [pytest.approx((3, 8, 9)), pytest.approx((9, 8, 3))]


MOVES = st.sampled_from(["sample", "late", "miss", "respawn", "reload", "grow", "hidden"])


@settings(max_examples=40)
@given(st.lists(st.tuples(MOVES, st.floats(0, 3), st.floats(0, 1), st.floats(0, 1)), max_size=30))
def test_no_total_decreases_and_the_parts_are_the_capacity(story):
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


class Sampled(Watched):
    def __init__(self) -> None:
        super().__init__(Server(processes=2, threads=2))
        self.at = 0.0

    def run(self, seconds: float) -> Sampled:
        for _ in range(round(seconds / 0.2)):
            self.at = round(self.at + 0.2, 1)
            self.sample(self.at)
        return self

    def serving(self, worker_id: int, *starts: float) -> None:
        self.server[worker_id].request_starts = tuple(EPOCH + int(start) for start in starts)
        self.server[worker_id].busy = len(starts)

    @property
    def running_time(self) -> float:
        return sum(worker.running_time or 0.0 for worker in self.totals.workers)


@pytest.mark.parametrize("forward", [10.0, 100.0, 86_400.0])
def test_clock_set_forward_makes_no_concurrency_above_the_threads(forward):
    watched = Sampled().run(0.2)
    for second in range(60):
        watched.serving(1, second, second)
        watched.serving(2, second, second)
        watched.run(1.0)
        for worker_id in (1, 2):  # each of the two threads ends a request of one second
            watched.server.serve(worker_id, 2, each=1.0 + (forward if second == 30 else 0.0))
    watched.serving(1)
    watched.serving(2)
    watched.run(0.2)
    window = watched.window()
    assert window is not None
    concurrency = compute_flow(window).littles_law
    assert concurrency is not None
    assert 3.9 < concurrency < 4.05


@pytest.mark.parametrize("late", ["", "idle in one document", "in another request"])
def test_long_request_is_counted_in_full(late):
    """Also if its time is added a document later. Only impossible time, of a clock that jumps a day, is dropped."""
    watched = Sampled().run(1.0)
    watched.serving(1, watched.at)
    watched.run(600.0)
    watched.serving(1, *([watched.at] if late == "in another request" else []))
    if late:
        watched.run(0.2)
    watched.server.serve(1, 1, each=600.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(600.0)
    watched.serving(1, watched.at)
    watched.run(60.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=60.0 + 86_400)
    watched.run(0.2)
    assert 660.0 <= watched.running_time < 668.0


def test_long_request_from_before_the_first_sample():
    """A request that began before the first sample may be of any age."""
    watched = Sampled()
    watched.serving(1, -5000)
    watched.run(10.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=5000.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(5000.0)
    # The time of a long request in a gap counts.
    watched = Sampled().run(1.0)
    watched.serving(2, watched.at)
    watched.run(1.0)
    watched.at += 120.0
    watched.serving(2)
    watched.server.serve(2, 1, each=121.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(121.0)


def test_next_request_of_a_thread_is_not_as_old_as_the_one_before():
    watched = Sampled().run(1.0)
    for second in range(100):
        watched.serving(1, second)
        watched.run(1.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=100.0)
    watched.run(0.2)
    assert watched.running_time < 5.0


def test_absurd_time_after_a_reload_is_not_counted():
    watched = Sampled().run(1.0)
    watched.server.reload(watched.at)
    watched.server.serve(1, 5, each=1e9)
    watched.run(0.2)
    assert watched.totals.reloads == 1
    assert watched.running_time < 1.0
    # Without threads nothing is bounded.
    server, watched = watch(processes=1, cores=False)
    watched.sample(1.0)
    server.serve(1, 1, each=1000.0)
    watched.sample(1.2)
    assert watched.totals.workers[0].running_time == pytest.approx(1000.0)


def _captured(name: str, at: float, running_time: int, serving: bool) -> Reading:
    """A captured document with its workers' running time increased (µs), and its requests as captured or ended."""
    tree = json.loads(document(name).decode("latin-1"), strict=False)
    for worker in tree["workers"]:
        worker["running_time"] += running_time * sum(core["in_request"] for core in worker.get("cores", ()))
        for core in () if serving else worker.get("cores", ()):
            core["in_request"], core["req_info"] = 0, {}
    return reading(at, stats.decode(json.dumps(tree).encode()), HostFacts())


CAPTURED = [name for name in NAMES if kind(name) == "server"]


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("lasting", [0.3, 90.0])
def test_captured_requests_are_counted_in_full(name, lasting):
    serving = (_captured(name, at, 0, serving=True) for at in (1.2, 1.0 + lasting))
    ended = _captured(name, 1.2 + lasting, int(lasting * 1e6), serving=False)
    totals = totals_of(_captured(name, 1.0, 0, serving=False), *serving, ended)
    busy = _captured(name, 1.0, 0, serving=True).snapshot
    expected = [lasting * (worker.busy_threads or 0) for worker in busy.workers]
    grown = [worker.running_time or 0.0 for worker in totals.workers]
    # The flags of a killed worker stay set but are not requests, so their time does not count.
    known = [(time, truth) for time, truth in zip(grown, expected, strict=True) if truth]
    assert [time for time, _ in known] == pytest.approx([truth for _, truth in known])


def test_slow_read_is_time_too():
    """uWSGI may have written a document when its read began, so the step includes the read."""
    server = Server(processes=1, threads=1)
    slow = replace(server.read(10.0), read_seconds=3.0)
    server.serve(1, 1, each=3.1)
    assert totals_of(slow, server.read(10.2)).workers[0].running_time == pytest.approx(3.1)

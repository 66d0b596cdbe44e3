"""How often each fact is read from the kernel: at every sample, once a second, or every five seconds."""

import json
import os
import subprocess

import pytest

from tests.support.simulated_server import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.cpus import READ_SECONDS, CpuTimes, MachineCpu
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.source import Answer


class Watched:
    """A server whose workers are processes of this test. busy: by worker, whether it serves; None without threads."""

    def __init__(self, *busy: int | None) -> None:
        self.hands = MovableClock()
        self._host = Host(clock=self.hands.clock.monotonic)
        self.workers = [subprocess.Popen(["sleep", "60"]) for _ in busy]
        cores = [{} if each is None else {"cores": [{"in_request": each}]} for each in busy]
        workers = [{"pid": worker.pid} | core for worker, core in zip(self.workers, cores, strict=True)]
        self._snapshot = stats.decode(json.dumps({"pid": os.getpid(), "workers": workers}).encode())

    def after(self, seconds: float) -> HostFacts:
        self.hands.move(seconds)
        return self._host.read_facts(self._snapshot, Answer(b"", peer_pid=os.getpid()))

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()


@pytest.fixture
def watch():
    made: list[Watched] = []
    yield lambda *busy: made.append(Watched(*busy)) or made[-1]
    for each in made:
        each.end()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_slow_facts_are_read_seldom(watch):
    server = watch(None)
    pid = server.workers[0].pid
    first = server.after(0)
    os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    assert first.master_affinity == tuple(sorted(os.sched_getaffinity(0)))
    soon = server.after(0.2)
    assert soon.cpus is first.cpus
    assert soon.processes[pid].affinity == first.processes[pid].affinity
    later = [server.after(0.2) for _ in range(25)][-1]
    assert later.processes[pid].affinity == (min(os.sched_getaffinity(0)),)
    assert later.cpus.affinity == 1
    server.end()
    assert [server.after(0.2) for _ in range(6)][-1].processes == {}


def test_an_idle_worker_is_read_once_a_second(watch):
    server = watch(0, 1)
    resting, busy = (worker.pid for worker in server.workers)
    server.after(0)
    assert server.after(0.1).processes.keys() == {resting, busy}
    server.end()
    assert server.after(0.2).processes.keys() == {resting}
    assert [server.after(0.2) for _ in range(4)][-1].processes == {}


@pytest.mark.parametrize(("interval", "rest", "slow"), [(0.2, 1, 5), (1, 3, 15), (30, 5, 150)])
def test_a_server_that_is_read_rarely_is_read_more_cheaply(watch, interval, rest, slow):
    server = watch(0)
    first = server.after(0)
    server.after(interval)
    server.end()
    elapsed = interval
    while elapsed + interval < rest:
        elapsed += interval
        assert server.after(interval).processes
    while elapsed + interval < slow:
        elapsed += interval
        facts = server.after(interval)
        assert facts.cpus is first.cpus
    assert not facts.processes
    assert [server.after(interval) for _ in range(2)][-1].cpus is not first.cpus


def test_servers_share_one_reading_of_the_machine():
    hands = MovableClock()
    machine = MachineCpu(hands.clock.monotonic)
    snapshot = stats.decode(json.dumps({"pid": os.getpid(), "workers": []}).encode())
    hosts = [Host(clock=hands.clock.monotonic, machine_cpu=machine) for _ in range(2)]
    answer = Answer(b"", peer_pid=os.getpid())
    first = [host.read_facts(snapshot, answer).cpu_times for host in hosts]
    assert first == [CpuTimes(), CpuTimes()]
    hands.move(READ_SECONDS / 2)
    assert [host.read_facts(snapshot, answer).cpu_times for host in hosts] == first
    assert hosts[0].read_facts(stats.decode(b'{"pid": 1, "workers": []}'), Answer(b"")).cpu_times is None

"""How often each fact is read from the kernel: at every sample, once a second, or every five seconds."""

import json
import os
import subprocess

import pytest

from tests.support.clock import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.cpus import READ_SECONDS, CpuTimes, MachineCpu
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.source import Answer


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_slow_facts_are_read_seldom():
    """Affinity and usable CPUs are cached for five seconds; the end of a worker is noticed sooner."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with subprocess.Popen(["sleep", "60"]) as worker:
        document = {"pid": os.getpid(), "workers": [{"pid": worker.pid}]}
        snapshot, answer = stats.decode(json.dumps(document).encode()), Answer(b"", peer_pid=os.getpid())
        first = host.read_facts(snapshot, answer)
        os.sched_setaffinity(worker.pid, {min(os.sched_getaffinity(0))})

        assert first.master_affinity == tuple(sorted(os.sched_getaffinity(0)))

        hands.move(0.2)
        soon = host.read_facts(snapshot, answer)
        assert soon.cpus is first.cpus
        assert soon.processes[worker.pid].affinity == first.processes[worker.pid].affinity

        for _ in range(25):
            hands.move(0.2)
            later = host.read_facts(snapshot, answer)
        assert later.processes[worker.pid].affinity == (min(os.sched_getaffinity(0)),)
        assert later.cpus.affinity == 1

        worker.kill()
        worker.wait()
        for _ in range(5):
            hands.move(0.2)
            host.read_facts(snapshot, answer)
        assert host.read_facts(snapshot, answer).processes == {}


def test_an_idle_worker_is_read_once_a_second():
    """The end of an idle worker is noticed within a second; that of a worker in a request, immediately."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with subprocess.Popen(["sleep", "60"]) as resting, subprocess.Popen(["sleep", "60"]) as busy:
        core = {"in_request": 0}
        workers = [{"pid": resting.pid, "cores": [core]}, {"pid": busy.pid, "cores": [{"in_request": 1}]}]
        snapshot = stats.decode(json.dumps({"pid": os.getpid(), "workers": workers}).encode())
        answer = Answer(b"", peer_pid=os.getpid())
        host.read_facts(snapshot, answer)
        hands.move(0.1)
        assert host.read_facts(snapshot, answer).processes.keys() == {resting.pid, busy.pid}
        for worker in (resting, busy):
            worker.kill()
            worker.wait()
        hands.move(0.2)
        assert host.read_facts(snapshot, answer).processes.keys() == {resting.pid}
        for _ in range(4):
            hands.move(0.2)
            last = host.read_facts(snapshot, answer)
        assert last.processes == {}


@pytest.mark.parametrize(("interval", "rest", "slow"), [(0.2, 1, 5), (1, 3, 15), (4, 5, 15)])
def test_a_server_that_is_read_rarely_is_read_more_cheaply(interval, rest, slow):
    """Idle workers after a second or three readings, slow facts after five seconds or fifteen readings."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with subprocess.Popen(["sleep", "60"]) as worker:
        document = {"pid": os.getpid(), "workers": [{"pid": worker.pid, "cores": [{"in_request": 0}]}]}
        snapshot, answer = stats.decode(json.dumps(document).encode()), Answer(b"", peer_pid=os.getpid())
        first = host.read_facts(snapshot, answer)
        hands.move(interval)
        host.read_facts(snapshot, answer)
        worker.kill()
        worker.wait()
        elapsed = interval
        while elapsed + interval < rest:
            hands.move(interval)
            elapsed += interval
            assert host.read_facts(snapshot, answer).processes
        while elapsed + interval < slow:
            hands.move(interval)
            elapsed += interval
            facts = host.read_facts(snapshot, answer)
            assert facts.cpus is first.cpus
        assert not facts.processes
        for _ in range(2):
            hands.move(interval)
            facts = host.read_facts(snapshot, answer)
        assert facts.cpus is not first.cpus


def test_servers_share_one_reading_of_the_machine():
    """Two servers with the same CPUs have the same idle time; a server without a proven pid has none."""
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

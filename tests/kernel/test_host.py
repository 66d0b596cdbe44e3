"""What is asked of the kernel at every sample, and what once a second."""

import json
import os
import subprocess

import pytest

from tests.support.clock import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.host import SLOW_SECONDS, Host
from uwsgi_headroom.source import Answer


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_what_changes_slowly_is_a_second_old_at_most() -> None:
    """Affinity and the CPUs usable are repeated for a second; that a worker has ended is known at once."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with subprocess.Popen(["sleep", "60"]) as worker:
        document = {"pid": os.getpid(), "workers": [{"pid": worker.pid}]}
        snapshot, answer = stats.decode(json.dumps(document).encode()), Answer(b"", peer_pid=os.getpid())
        first = host.read_facts(snapshot, answer)
        os.sched_setaffinity(worker.pid, {min(os.sched_getaffinity(0))})

        assert first.master_affinity == tuple(sorted(os.sched_getaffinity(0)))

        hands.move(SLOW_SECONDS / 2)
        soon = host.read_facts(snapshot, answer)
        assert soon.cpus is first.cpus
        assert soon.processes[worker.pid].affinity == first.processes[worker.pid].affinity

        hands.move(SLOW_SECONDS / 2)
        later = host.read_facts(snapshot, answer)
        assert later.processes[worker.pid].affinity == (min(os.sched_getaffinity(0)),)
        assert later.cpus
        assert later.cpus.affinity == 1

        worker.kill()
        worker.wait()
        assert host.read_facts(snapshot, answer).processes == {}

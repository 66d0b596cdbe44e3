"""Figures of processes in a PID namespace below ours, whose pids in the stats document mean others here."""

import json
import os
import socket
import subprocess
import time

import psutil
import pytest
from msgspec.structs import replace

from tests.kernel.contained import Family, contained, family, read_children, snapshot_of, started
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.proof import Proof, Prover, prove_master_pid
from uwsgi_headroom.source import Answer

pytestmark = as_root


def facts_of(processes: Family) -> HostFacts:
    return Host().read_facts(processes.document(), processes.answer)


@pytest.mark.integration
def test_real_uwsgi_in_a_container(tmp_path):
    """The workers of a uWSGI that is process 1 of its container have the figures of their processes here."""
    with contained(tmp_path, "--processes", "2") as (server, master):
        snapshot = snapshot_of(server)
        facts = Host().read_facts(snapshot, Answer(b"", peer_pid=master))
        assert snapshot.pid == 1
        assert facts.off is None
        assert facts.master_pid == master
        assert sorted(facts.local_pids.values()) == sorted(read_children(master))
        assert facts.processes.keys() == {worker.pid for worker in snapshot.workers}
        for pid, process in facts.processes.items():
            here = psutil.Process(facts.local_pids[pid])
            assert process.pid == pid
            assert process.start_time == here.create_time()
            assert process.resident_bytes == pytest.approx(here.memory_info().rss, rel=0.1)
        assert facts.setup.options.application.endswith("real_uwsgi_app.py")
        assert facts.memory.worker.unique.keys() <= facts.processes.keys()


@pytest.mark.parametrize("levels", [1, 2])
def test_depth(levels):
    """A namespace within a namespace is as good: the last of the process's pids is that in its own namespace."""
    with family(command=" ".join(["unshare --pid --fork --kill-child"] * levels)) as processes:
        assert len(read_pid_numbers(processes.master)) == levels + 1
        facts = facts_of(processes)
        assert facts.off is None
        assert facts.master_pid == processes.master
        assert tuple(facts.local_pids.values()) == processes.workers


def test_as_a_user_without_privileges():
    with family() as processes:
        snapshot = processes.document()
        facts = as_nobody(lambda: replace(Host().read_facts(snapshot, processes.answer), waits=None))
        assert facts.processes.keys() == {worker.pid for worker in snapshot.workers}
        assert all(process.cpu_user_seconds is not None for process in facts.processes.values())


def test_a_process_here_with_the_same_pid():
    """A process here that has the pid of a contained worker by chance is not read."""
    with family(workers=1) as processes, subprocess.Popen(["sleep", "60"]) as innocent:
        document = processes.document()
        lie = processes.document(workers=[{"pid": innocent.pid}, {"pid": document.workers[0].pid}])
        host = Host()
        host.read_facts(document, processes.answer)
        assert tuple(host.read_facts(lie, processes.answer).local_pids.items()) == (
            (document.workers[0].pid, processes.workers[0]),
        )
        innocent.kill()


def test_a_document_that_lies_about_its_own_pid():
    """A uWSGI that claims the pid of another process, or its pid here, is refused."""
    with family() as processes:
        for pid in (os.getpid(), processes.master, 2):
            proof = prove_master_pid(pid, peer_pid=processes.master, listener=None)
            assert proof.pid is None
            assert proof.reason


def test_a_child_in_a_deeper_namespace_is_no_worker():
    with family(workers=1, before="unshare --pid --fork sleep 60 & sleep 0.2;") as processes:

        def depths() -> list[int]:
            deeper = [child for parent in read_children(processes.master) for child in read_children(parent)]
            return [len(read_pid_numbers(pid)) for pid in deeper]

        wait_until(lambda: depths() == [3], what="the deeper process")
        document = processes.document(workers=[{"pid": 1}])
        assert facts_of(processes).off is None
        assert Host().read_facts(document, processes.answer).processes == {}


def test_relay_that_is_process_1_of_its_container():
    """It is not taken for the master with pid 1: the workers in the stats are not its children."""
    with family() as uwsgi, family() as relay:
        document = uwsgi.document()
        facts = Host().read_facts(document, relay.answer)
        numbers = [read_pid_numbers(pid)[-1] for pid in relay.workers]
        assert [worker.pid for worker in document.workers] == numbers, "equal pids in both containers"
        assert facts.off is None, "its children began at the same time: this alone does not distinguish them"
        earlier = uwsgi.document(workers=[{"pid": pid, "last_spawn": 1_000_000_000} for pid in numbers])
        facts = Host().read_facts(earlier, relay.answer)
        assert "not its children" in (facts.off or "")
        assert facts.processes == {}


def test_relay_behind_process_1_of_the_host():
    """A stats socket of systemd, which passes connections on to a container, is not that of process 1 here."""
    document = {"pid": 1, "workers": [{"pid": 7, "last_spawn": 1_700_000_000}]}
    facts = Host().read_facts(stats.decode(json.dumps(document).encode()), Answer(b"", peer_pid=1))
    assert facts.off
    assert facts.processes == {}


def test_restart_at_the_same_socket():
    """A container that is restarted has the same pids inside: the next reading is of the next one."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with family() as before:
        first = host.read_facts(before.document(), before.answer)
    time.sleep(0.02)  # the kernel knows a start to a hundredth of a second
    with family() as after:
        second = host.read_facts(after.document(), after.answer)
        assert second.master_pid == after.master
        assert second.processes.keys() == first.processes.keys()
        assert tuple(second.local_pids.values()) == after.workers
        assert second.identity != first.identity
        hands.move(1.0)
        assert host.read_facts(after.document(), after.answer).identity is second.identity


def test_the_end_of_a_container():
    """A proof ends with its process, also if the next one has the same pid inside and the same address (over TCP)."""
    prover = Prover()
    with family() as processes:
        assert prover.prove(processes.document(), processes.answer).pid == processes.master
        assert prover.still_holds()
    wait_until(lambda: not prover.still_holds(), what="the end")


def test_a_worker_that_is_replaced_is_found_at_the_next_reading():
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    with family(workers=2) as processes:
        one = Family(processes.master, processes.workers[:1])
        other = Family(processes.master, processes.workers[1:])
        assert tuple(host.read_facts(one.document(), one.answer).local_pids.values()) == one.workers
        assert tuple(host.read_facts(other.document(), other.answer).local_pids.values()) == other.workers


@pytest.mark.parametrize("holds", [True, False])
def test_tcp_listener_in_another_pid_namespace(holds):
    """The process that holds the listening socket and has this pid in its own namespace is the master."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.set_inheritable(holds)
        child = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "60"]
        with started(*child, close_fds=False) as outer:
            wait_until(lambda: read_children(outer.pid), what="the child")
            (master,) = read_children(outer.pid)
            wait_until(lambda: len(read_pid_numbers(master)) == 2)
            snapshot = Family(master, ()).document()
            prover, answer = Prover(), Answer(b"", peer=listening.getsockname())
            wait_until(lambda: prover.prove(snapshot, answer).pid or not prover._left, what="the search")
            assert prover.prove(snapshot, answer).pid == (master if holds else None)
            if holds:
                assert prover.prove(snapshot, answer) == Proof(master, None, 2)

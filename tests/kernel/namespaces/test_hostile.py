"""Processes that try to mislead, stop or use up an exporter that reads them from outside."""

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.contained import family, namespaces_of_threads, read_namespace, started
from tests.support.other_namespaces import as_root
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Aside, NotYetError, PausedError, Questions
from uwsgi_headroom.kernel.backlogs import Backlogs
from uwsgi_headroom.kernel.cgroups import OUR_MOUNTS
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.kernel.proof import WorkersHere
from uwsgi_headroom.source import Answer

pytestmark = as_root

IN_A_USER_NAMESPACE = "unshare --user --map-root-user --pid --net --fork --kill-child"

SILENT_FILES = """
import ctypes, os, sys, time
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"silent", sys.argv[2].encode(), b"fuse", 0, options) != 0:
    sys.exit("mount: " + os.strerror(ctypes.get_errno()))
open(sys.argv[3], "w").close()
time.sleep(60)
"""


@contextlib.contextmanager
def with_silent_files(directory: Path) -> Iterator[int]:
    """A process whose configuration file is on a file system that never answers. Its pid. Skips where this machine
    cannot mount one."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("needs FUSE (/dev/fuse), for files that never answer")
    (directory / "files").mkdir()
    ready, script = directory / "ready", directory / "uwsgi"
    script.write_text(SILENT_FILES)
    arguments = [str(script), f"--ini={directory}/files/app.ini", str(directory / "files"), str(ready)]
    command = ["unshare", "--mount", sys.executable, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: ready.exists() or process.poll() is not None, what="the mount")
            if process.poll() is not None and process.stderr:
                reason = process.stderr.read()
                assert "mount: " in reason, reason
                pytest.skip(f"this machine does not let it mount FUSE: {reason}")
            yield process.pid
        finally:
            process.kill()


def test_files_that_never_answer_cost_others_nothing(tmp_path):
    child = Aside()
    silent, other = Questions(aside=child), Questions(aside=child)

    def is_paused() -> bool:
        with contextlib.suppress(NotYetError):
            with pytest.raises(PausedError):
                silent.ask(read_options, pid)
            return True
        return False

    def is_answered() -> bool:
        with contextlib.suppress(NotYetError):
            return other.ask(os.getppid) == os.getpid()
        return False

    try:
        with with_silent_files(tmp_path) as pid:
            wait_until(is_paused, what="the question to be given up")
            wait_until(is_answered, what="another server's answer")
    finally:
        child.end()


@pytest.mark.parametrize("claimed", [1, 2, 3])
def test_root_of_a_user_namespace(claimed):
    """A process that is root in a user namespace of its own cannot make the exporter read others than its children."""
    with family(2, IN_A_USER_NAMESPACE) as processes, family(2) as neighbour:
        others = [os.getpid(), os.getppid(), 1, 2, neighbour.master, *neighbour.workers, 2**31 - 1]
        lies = processes.document(workers=[{"pid": pid, "last_spawn": int(time.time())} for pid in others])
        facts = Host().read_facts(lies, processes.answer)
        theirs = {os.stat(f"/proc/{pid}").st_ino for pid in processes.workers}
        assert {os.stat(f"/proc/{pid}").st_ino for pid in facts.local_pids.values()} <= theirs
        liar = Host().read_facts(processes.document(pid=claimed), Answer(b"", peer_pid=neighbour.workers[0]))
        assert liar.off or liar.master_pid == neighbour.workers[0]


def test_a_socket_left_behind_in_another_network():
    """A process that moves to another network namespace after listen(2) has an unknown queue, not a wrong one."""
    code = """
import ctypes, socket, sys, time
listening = socket.socket(); listening.bind(("127.0.0.1", 0)); listening.listen(7)
print(listening.getsockname()[1], flush=True); sys.stdin.readline()
ctypes.CDLL(None).unshare(0x40000000); print("moved", flush=True); time.sleep(60)
"""
    command = [sys.executable, "-c", code]
    with started(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        name = f"127.0.0.1:{int(process.stdout.readline())}"
        backlogs = Backlogs()
        assert backlogs.read(process.pid, [name])[name].limit == 7
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        assert backlogs.read(process.pid, [name])[name].limit == 7, "found by its inode, in this namespace"
        fresh = Backlogs().read(process.pid, [name])[name]
        assert fresh.queue is None
        assert fresh.reason == f"uWSGI's master has no listening socket named {name}"


def test_too_many_children(monkeypatch):
    monkeypatch.setattr("uwsgi_headroom.kernel.processes.MOST_CHILDREN", 2)
    with family(4) as processes:
        here = WorkersHere(processes.master, 2)
        found = here.translate(processes.document(), again=True)
        assert [worker.pid for worker in found.workers if worker.pid] == list(processes.workers[:2])


def test_a_server_that_ends_at_any_moment_leaves_nothing():
    OUR_MOUNTS.read()  # it stays open, for all servers
    procfs.KEPT.close()  # a limited number of files stays open
    chance, host = random.Random(1), Host()
    descriptors, threads, ours = len(os.listdir("/proc/self/fd")), threading.active_count(), read_namespace("net")
    for _ in range(15):
        with family(2, "unshare --pid --net --fork --kill-child") as processes:
            document, answer = processes.document(sockets=[{"name": "/tmp/none"}]), processes.answer
            killer = threading.Timer(chance.random() * 0.01, os.kill, (processes.master, 9))
            killer.start()
            for _ in range(10):
                facts = host.read_facts(document, answer)
                assert set(facts.local_pids.values()) <= set(processes.workers)
                assert facts.off or facts.master_pid == processes.master
            killer.join()
    procfs.KEPT.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert threading.active_count() == threads
    assert namespaces_of_threads() == {ours}


def test_a_document_without_sense():
    """Impossible pids in the document of a contained server are nobody's."""
    with family(1) as processes:
        document = processes.document(workers=[{"pid": pid} for pid in (0, -1, 2**40, 2**63 - 1)])
        assert Host().read_facts(document, processes.answer).processes == {}

"""Worker processes and their threads: real child processes stand in for workers, this process for the master."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import accepting, wait_until
from uwsgi_headroom.kernel import processes, procfs
from uwsgi_headroom.kernel.processes import Processes


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    process = start("sleep", "60")
    yield process
    end(process)


def test_child_of_the_master() -> None:
    """A child of the master is read with its CPU time, memory, switches, descriptors, CPUs and start time."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); time.sleep(60)"
    before = time.time()
    process = start(sys.executable, "-c", burn)
    try:
        assert process.stdout
        process.stdout.readline()
        worker = Processes().read(os.getpid(), [process.pid])[process.pid]
        assert worker.cpu_user_seconds is not None
        assert worker.cpu_system_seconds is not None
        assert worker.start_time is not None
        assert worker.pid == process.pid
        assert worker.cpu_user_seconds + worker.cpu_system_seconds == pytest.approx(0.2, abs=0.05)
        assert worker.resident_bytes == pytest.approx(10 << 20, rel=0.9)
        assert worker.open_fds == 3
        assert worker.threads == 1
        assert worker.affinity == tuple(sorted(os.sched_getaffinity(process.pid)))
        assert worker.last_cpu in worker.affinity
        assert worker.start_time == pytest.approx(before, abs=1)
        assert worker.voluntary_context_switches is not None
        assert worker.involuntary_context_switches is not None
    finally:
        end(process)


@pytest.mark.parametrize(("number", "is_kept"), [(errno.EMFILE, True), (errno.ENOMEM, True), (errno.EACCES, False)])
def test_an_exporter_without_descriptors_keeps_its_workers(
    sleeper: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, number: int, is_kept: bool
) -> None:
    """If the exporter itself cannot read processes, it keeps the last figures of its workers."""
    reader = Processes()
    before = reader.read(os.getpid(), [sleeper.pid])

    def refuse(_pid: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(procfs.KEPT, "read_line", refuse)
    assert reader.read(os.getpid(), [sleeper.pid], quick=True) == (before if is_kept else {})


def test_the_least_memory_of_some_seconds() -> None:
    """Memory that a process takes and gives back is not what it keeps."""
    swing = "import sys\nfor line in sys.stdin: kept = b'x' * 60_000_000 if 'take' in line else None; print(flush=True)"
    command, processes = [sys.executable, "-c", swing], Processes()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin
        assert process.stdout
        seen = []
        for word in ("give", "take", "give", "take"):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            process.stdout.readline()
            seen.append(processes.read(os.getpid(), [process.pid])[process.pid])
        assert (seen[3].resident_bytes or 0) > (seen[0].resident_bytes or 0) + 50_000_000
        assert [each.low_bytes for each in seen] == pytest.approx([seen[0].resident_bytes] * 4, rel=0.2)
    finally:
        end(process)


def test_children_that_a_worker_waited_for() -> None:
    """The CPU time of a worker's children is known after their end, in a quick reading too, and is not the worker's
    own."""
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    code = (
        "import subprocess, sys, time\n"
        f"for _ in range(2):\n subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdin
        assert worker.stdout
        processes = Processes()
        worker.stdout.readline()
        first = processes.read(os.getpid(), [worker.pid])[worker.pid]
        worker.stdin.write("\n")
        worker.stdin.flush()
        worker.stdout.readline()
        second = processes.read(os.getpid(), [worker.pid], quick=True)[worker.pid]
    finally:
        end(worker)
    assert first.children_cpu_seconds is not None
    assert second.children_cpu_seconds is not None
    least = 0.2 - 2 / os.sysconf("SC_CLK_TCK")  # user and system time are each rounded down to whole ticks
    assert first.children_cpu_seconds >= least
    assert second.children_cpu_seconds - first.children_cpu_seconds >= least
    assert second.cpu_user_seconds is not None
    assert second.cpu_user_seconds < second.children_cpu_seconds


def test_pinned_child(sleeper: subprocess.Popen[str]) -> None:
    """A pinned process has only the CPUs to which it is pinned."""
    cpu = min(os.sched_getaffinity(sleeper.pid))
    os.sched_setaffinity(sleeper.pid, {cpu})
    assert Processes().read(os.getpid(), [sleeper.pid])[sleeper.pid].affinity == (cpu,)


def test_quick_reading() -> None:
    """A quick reading updates CPU times and copies the slow figures from the last reading; it reads a new process in
    full."""
    cpu = min(os.sched_getaffinity(0))
    process = start(sys.executable, "-c", "print(flush=True)\nwhile True: pass")
    try:
        assert process.stdout
        process.stdout.readline()
        processes = Processes()
        pids = [process.pid]
        full = processes.read(os.getpid(), pids, quick=True)[process.pid]
        assert full.affinity == tuple(sorted(os.sched_getaffinity(0)))
        os.sched_setaffinity(process.pid, {cpu})
        wait_until(
            lambda: (
                (processes.read(os.getpid(), pids, quick=True)[process.pid].cpu_user_seconds or 0)
                > (full.cpu_user_seconds or 0)
            ),
            what="CPU time to grow",
        )
        quick = processes.read(os.getpid(), pids, quick=True)[process.pid]
        assert (quick.affinity, quick.open_fds, quick.resident_bytes) == (
            full.affinity,
            full.open_fds,
            full.resident_bytes,
        )
        assert processes.read(os.getpid(), pids)[process.pid].affinity == (cpu,)
    finally:
        end(process)
    assert processes.read(os.getpid(), pids, quick=True) == {}


def test_parts_of_cpu_time() -> None:
    """A full reading, and a quick one after more work, have the process's own account of its user and system time."""
    burn = (
        "import os, signal\nfor seconds in (0.2, 0.4):\n"
        "    with open('/dev/zero', 'rb', 0) as file:\n"
        "        while os.times().system < seconds: file.read(1 << 22)\n"
        "    while os.times().user < seconds / 2: pass\n"
        "    print(*os.times()[:2], flush=True); signal.sigwait({signal.SIGTERM})"
    )
    processes = Processes()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the process inherits it
    process = start(sys.executable, "-c", burn)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        for quick in (False, True):
            assert process.stdout
            user, system = map(float, process.stdout.readline().split())
            worker = processes.read(os.getpid(), [process.pid], quick=quick)[process.pid]
            assert worker.cpu_user_seconds == pytest.approx(user, abs=0.04)
            assert worker.cpu_system_seconds == pytest.approx(system, abs=0.04)
            process.send_signal(signal.SIGTERM)
    finally:
        end(process)


def test_not_a_child(sleeper: subprocess.Popen[str]) -> None:
    """A process whose parent is not the master is not a worker; pid 0 is not a process."""
    processes = Processes()
    assert processes.read(os.getpid(), [os.getpid(), os.getppid(), 1, 0, -1, 2**40]) == {}
    assert processes.read(os.getppid(), [sleeper.pid]) == {}
    assert processes.read(os.getpid(), [sleeper.pid]).keys() == {sleeper.pid}


def test_zombie() -> None:
    """The reader leaves out a worker that has ended but was not waited for."""
    process = start("true")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Processes().read(os.getpid(), [process.pid]) == {}
    end(process)


def test_gone_between_readings(sleeper: subprocess.Popen[str]) -> None:
    """A worker that has ended since the last reading is left out of the next one; the others are read."""
    other = start("sleep", "60")
    processes = Processes()
    pids = [sleeper.pid, other.pid]
    assert list(processes.read(os.getpid(), pids)) == pids
    end(other)
    assert list(processes.read(os.getpid(), pids)) == [sleeper.pid]
    assert processes.read(os.getpid(), []) == {}
    assert not processes._known


@as_root
def test_another_user(sleeper: subprocess.Popen[str]) -> None:
    """Another user without privileges reads every figure; the open descriptors only since Linux 6.2."""
    master = os.getpid()
    privileged = Processes().read(master, [sleeper.pid])[sleeper.pid]
    worker = as_nobody(lambda: Processes().read(master, [sleeper.pid]))[sleeper.pid]
    assert privileged.open_fds is not None
    later = Processes().read(master, [sleeper.pid])[sleeper.pid]  # the program may just have begun before
    assert worker.open_fds == (later.open_fds if os.stat("/proc/self/fd").st_size else None)
    assert (worker.affinity, worker.start_time) == (privileged.affinity, privileged.start_time)
    assert worker.resident_bytes
    assert worker.cpu_user_seconds is not None
    assert worker.voluntary_context_switches is not None
    assert worker.last_cpu is not None


@pytest.mark.integration
def test_real_workers() -> None:
    """uWSGI's workers are children of its master; the master itself is not a worker. Each has its request threads."""
    with accepting("--processes", "3", "--threads", "4") as server:
        pids = [worker["pid"] for worker in msgspec.json.decode(server.document())["workers"]]
        workers = Processes().read(server.pid, [*pids, server.pid])
        assert list(workers) == pids
        assert all(worker.open_fds for worker in workers.values())
        wait_until(
            lambda: {worker.threads for worker in Processes().read(server.pid, pids).values()} == {4},
            what="all threads to be started",
        )


def test_every_thread_of_a_process_is_read() -> None:
    """Each thread has the CPU on which it last ran and its CPU time."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        threads = processes.read_threads(os.getpid())
    finally:
        ended.set()
        thread.join()
    assert {os.getpid(), thread.native_id} <= threads.keys()
    assert all(cpu >= 0 and seconds >= 0 for cpu, seconds in threads.values())


def test_a_thread_that_ends_during_the_reading_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ended after it was listed is left out; the others are read."""
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["999999999", *listed(folder)])
    assert os.getpid() in processes.read_threads(os.getpid())


def test_no_process_no_threads() -> None:
    """A process that has ended has no threads."""
    assert processes.read_threads(999999999) == {}


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    """The fields are those after the last parenthesis of the name."""
    path = f"{tmp_path}/stat"
    with open(path, "wb") as file:
        file.write(b"7 (a) S (b) R 1 2 3\n")
    assert procfs.read_stat_fields(path) == [b"R", b"1", b"2", b"3"]

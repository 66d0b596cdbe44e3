"""Worker processes, their threads and the small files of /proc; this process stands in for the master."""

import ctypes
import errno
import os
import resource
import subprocess
import sys
import threading
import time
from typing import NoReturn

import msgspec
import pytest

from tests.kernel.contained import started
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import accepting, wait_until
from uwsgi_headroom.kernel import processes, procfs
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.processes import Processes, WorkerProcess
from uwsgi_headroom.kernel.procfs import KEPT, KeptFiles, count_descriptors, read_limits, read_state


@pytest.fixture
def sleeper():
    with started("sleep", "60") as process:
        yield process


def test_child_of_the_master():
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); time.sleep(60)"
    before = time.time()
    with started(sys.executable, "-c", burn, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        worker = Processes().read(os.getpid(), [process.pid])[process.pid]

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


@pytest.mark.parametrize(("number", "is_kept"), [*((each, True) for each in procfs.PASSING), (errno.EACCES, False)])
def test_an_exporter_without_descriptors_keeps_its_workers(sleeper, monkeypatch, number, is_kept):
    reader = Processes()
    before = reader.read(os.getpid(), [sleeper.pid])

    def refuse(_pid: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(procfs.KEPT, "read_line", refuse)
    assert reader.read(os.getpid(), [sleeper.pid], quick=True) == (before if is_kept else {})


def test_what_could_not_be_read_first_is_read_later(sleeper, monkeypatch):
    """When a process was started, and the figures of its other files; those are no reason to count it as dead."""
    reader = Processes()
    with monkeypatch.context() as patch:
        patch.setattr(procfs, "read_file", lambda *_: os.open("x" * 999, os.O_RDONLY))  # ENAMETOOLONG
        first = reader.read(os.getpid(), [sleeper.pid])[sleeper.pid]
    assert (first.start_time, first.resident_bytes) == (None, None)
    now = reader.read(os.getpid(), [sleeper.pid])[sleeper.pid]
    assert now.start_time == pytest.approx(time.time(), abs=60)
    assert now.resident_bytes


def test_a_traced_process_is_not_stopped(sleeper):
    """Its tracer is named: here this process, which is attached by PTRACE_SEIZE of ptrace(2)."""
    assert ctypes.CDLL(None).ptrace(0x4206, sleeper.pid, None, None) == 0
    found = Processes().read(os.getpid(), [sleeper.pid])[sleeper.pid]
    assert (found.is_stopped, found.tracer) == (False, (os.getpid(), procfs.read_name(os.getpid())))


def test_the_least_memory_of_some_seconds():
    swing = "import sys\nfor line in sys.stdin: kept = b'x' * 60_000_000 if 'take' in line else None; print(flush=True)"
    command, processes = [sys.executable, "-c", swing], Processes()
    with started(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        seen = []
        for word in ("give", "take", "give", "take"):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            process.stdout.readline()
            seen.append(processes.read(os.getpid(), [process.pid])[process.pid])
        assert (seen[3].resident_bytes or 0) > (seen[0].resident_bytes or 0) + 50_000_000
        assert [each.low_bytes for each in seen] == pytest.approx([seen[0].resident_bytes] * 4, rel=0.2)


def test_children_that_a_worker_waited_for():
    """Their CPU time is known after their end, in a quick reading too, and is not the worker's own."""
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    again = f"subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    code = f"import subprocess, sys\nfor _ in range(2):\n {again}\n"
    with started(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        processes = Processes()
        worker.stdout.readline()
        first = processes.read(os.getpid(), [worker.pid])[worker.pid]
        worker.stdin.write("\n")
        worker.stdin.flush()
        worker.stdout.readline()
        second = processes.read(os.getpid(), [worker.pid], quick=True)[worker.pid]
    least = 0.2 - 2 / os.sysconf("SC_CLK_TCK")  # user and system time are each rounded down to whole ticks
    assert first.children_cpu_seconds >= least
    assert second.children_cpu_seconds - first.children_cpu_seconds >= least
    assert second.cpu_user_seconds < second.children_cpu_seconds


def test_quick_reading():
    """It updates CPU times, and copies the slow figures from the last reading; a new process is read in full."""
    cpu = min(os.sched_getaffinity(0))
    with started(sys.executable, "-c", "print(flush=True)\nwhile True: pass", stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        processes = Processes()
        pids = [process.pid]
        full = processes.read(os.getpid(), pids, quick=True)[process.pid]
        assert full.affinity == tuple(sorted(os.sched_getaffinity(0)))
        os.sched_setaffinity(process.pid, {cpu})

        def read() -> WorkerProcess:
            return processes.read(os.getpid(), pids, quick=True)[process.pid]

        wait_until(lambda: read().cpu_user_seconds > full.cpu_user_seconds, what="CPU time to grow")
        quick = read()
        for name in ("affinity", "open_fds", "resident_bytes"):
            assert getattr(quick, name) == getattr(full, name)
        assert processes.read(os.getpid(), pids)[process.pid].affinity == (cpu,)
    assert processes.read(os.getpid(), pids, quick=True) == {}


def test_parts_of_cpu_time():
    burn = (
        "import os\nfor seconds in (0.1, 0.2):\n"
        "    with open('/dev/zero', 'rb', 0) as file:\n"
        "        while os.times().system < seconds: file.read(1 << 22)\n"
        "    while os.times().user < seconds / 2: pass\n"
        "    print(*os.times()[:2], flush=True); input()"
    )
    processes = Processes()
    with started(sys.executable, "-c", burn, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for quick in (False, True):
            user, system = map(float, process.stdout.readline().split())
            worker = processes.read(os.getpid(), [process.pid], quick=quick)[process.pid]
            assert worker.cpu_user_seconds == pytest.approx(user, abs=0.04)
            assert worker.cpu_system_seconds == pytest.approx(system, abs=0.04)
            process.stdin.write("\n")
            process.stdin.flush()


def test_not_a_child(sleeper):
    """It is no worker; pid 0 is no process. A worker that has ended is a zombie, then it has no state."""
    processes = Processes()
    with started("true") as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert processes.read(os.getpid(), [ended.pid]) == {}
        assert read_state(ended.pid) == b"Z"
    assert read_state(ended.pid) == b""
    assert processes.read(os.getpid(), [os.getpid(), os.getppid(), 1, 0, -1, 2**40]) == {}
    assert processes.read(os.getppid(), [sleeper.pid]) == {}
    assert processes.read(os.getpid(), [sleeper.pid]).keys() == {sleeper.pid}


def test_a_worker_that_ended_between_readings_is_left_out(sleeper):
    processes = Processes()
    with started("sleep", "60") as other:
        pids = [sleeper.pid, other.pid]
        assert list(processes.read(os.getpid(), pids)) == pids
    assert list(processes.read(os.getpid(), pids)) == [sleeper.pid]
    assert processes.read(os.getpid(), []) == {}
    assert not processes._known


@as_root
def test_another_user_reads_every_figure(sleeper):
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
def test_real_workers():
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


@pytest.mark.parametrize(("status", "anonymous"), [(b"RssAnon: 3 kB\nVmSwap: 5 kB\n", 8192), (b"VmSwap: 5 kB\n", None)])
def test_swapped_memory_is_the_workers_too(sleeper, monkeypatch, status, anonymous):
    monkeypatch.setattr(procfs, "read_file", lambda path: status)
    assert processes._read_slow(sleeper.pid)["anonymous_bytes"] == anonymous


def test_a_thread_that_ends_during_the_reading_is_left_out(monkeypatch):
    """Each other one has the CPU on which it last ran and its CPU time. A process that has ended has none."""
    listed, ended = os.listdir, threading.Event()
    monkeypatch.setattr(os, "listdir", lambda folder: ["999999999", *listed(folder)])
    thread = threading.Thread(target=ended.wait)
    thread.start()
    threads = processes.read_threads(os.getpid())
    ended.set()
    thread.join()
    assert {os.getpid(), thread.native_id} <= threads.keys()
    assert all(cpu >= 0 and seconds >= 0 for cpu, seconds in threads.values())
    assert processes.read_threads(999999999) == {}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_name_may_hold_anything(tmp_path):
    (tmp_path / "stat").write_bytes(b"7 (a) S (b) R 1 2 3\n")
    assert procfs.read_stat_fields(str(tmp_path), "stat") == [b"R", b"1", b"2", b"3"]


def test_a_file_that_is_too_long(tmp_path):
    (tmp_path / "locks").write_bytes(b"x" * 100_000)
    assert len(procfs.read_file(tmp_path, "locks", most=100_000)) == 100_000
    with pytest.raises(OSError, match="File too large"):
        procfs.read_file(tmp_path, "locks", most=99_999)


@pytest.mark.parametrize(("most", "allowed", "stay_open"), [(3, 1 << 16, 3), (99, 64, 4)])
def test_kept_files_show_what_is_in_them_now(tmp_path, monkeypatch, most, allowed, stay_open):
    """At most so many stay open as allowed, and a sixteenth of the descriptors: the others are for connections."""
    kept, before = KeptFiles(most), open_files()
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (allowed, allowed))
    paths = [tmp_path / str(number) for number in range(5)]
    for text in ("first", "then"):
        for path in paths:
            path.write_text(f"{text} {path.name}")
        assert [kept.read_line(str(path)) for path in paths] == [f"{text} {path.name}".encode() for path in paths]
    assert open_files() == before + stay_open
    kept.close()
    assert open_files() == before


def test_a_kept_file_of_a_process_that_has_ended_is_closed():
    kept, before = KeptFiles(3), open_files()
    with started("sleep", "60") as process:
        path = f"/proc/{process.pid}/stat"
        assert kept.read_line(path).startswith(f"{process.pid} (".encode())
    with pytest.raises(FileNotFoundError):
        kept.read_line(path)
    assert open_files() == before


def test_kept_files_yield_when_descriptors_run_out(tmp_path, monkeypatch):
    kept, before = KeptFiles(9), open_files()
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("1")
    second.write_text("2")
    kept.read_line(str(first))
    honest = os.open

    def open_few(path: str, flags: int) -> int:
        if open_files() > before:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return honest(path, flags)

    monkeypatch.setattr(os, "open", open_few)
    assert kept.read_line(str(second)) == b"2"
    assert open_files() == before + 1
    kept.close()


def test_descriptors_are_counted():
    reader, writer = os.pipe()
    before = count_descriptors(os.getpid())
    assert before
    os.close(reader)
    assert count_descriptors(os.getpid()) == before - 1
    os.close(writer)
    assert read_limits(os.getpid())["open files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for read in (count_descriptors, read_limits):
        with pytest.raises(FileNotFoundError):
            read(2**22 + 1)


def test_descriptors_are_counted_in_bounded_time(monkeypatch):
    listed = os.listdir("/proc/self/fd")
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: stat("/proc/version") if path.endswith("/fd") else stat(path))
    assert os.stat(f"/proc/{os.getpid()}/fd").st_size == 0
    assert abs((count_descriptors(os.getpid()) or 0) - len(listed)) <= 1
    monkeypatch.setattr(procfs, "MOST_DESCRIPTORS", 2)
    assert count_descriptors(os.getpid()) is None


def test_a_server_that_is_forgotten_keeps_no_files_open():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as child:
        host = Host()
        host._processes.read(os.getpid(), [child.pid])
        folder = f"/proc/{child.pid}/"
        assert any(path.startswith(folder) for path in KEPT._open)
        host.close()
        assert not any(path.startswith(folder) for path in KEPT._open)
        child.kill()

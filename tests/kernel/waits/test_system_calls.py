"""What the kernel says of one thread, its system call and its sleep, and of the file systems that it waits for."""

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import NotYetError
from uwsgi_headroom.kernel.waits import schedules, system_calls
from uwsgi_headroom.kernel.waits.file_systems import FileServers, find_kind, list_mounts
from uwsgi_headroom.kernel.waits.schedules import LEAST_SECONDS, Naps, RunDelays
from uwsgi_headroom.kernel.waits.system_calls import CALLS, find_calls, parse_system_call, read_system_call


@pytest.mark.parametrize("column", [1, 2])
def test_numbers_are_unique(column):
    numbers = [row[column] for row in system_calls._KINDS.values() if row[column] != -1]
    assert len(numbers) == len(set(numbers))


def test_x86_64_and_aarch64_are_known_and_others_are_not():
    intel, arm = find_calls("x86_64"), find_calls("aarch64")
    assert (intel[202], intel[232], arm[98], arm[22]) == ("futex", "epoll") * 2
    assert not find_calls("riscv64")
    # aarch64's table, asm-generic/unistd.h, has only the newer form of four calls, and no number for them.
    number = {name: row[2] for name, row in system_calls._KINDS.items()}
    assert {name for name in number if number[name] == -1} == {"poll", "select", "epoll_wait", "vfork"}
    known = find_calls("aarch64")
    assert [known[number[name]] for name in ("ppoll", "pselect6", "epoll_pwait")] == ["ppoll", "select", "epoll"]
    assert len(known) == len(number) - 4


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"running\n", "running"),
        (b"-1 0x7ffd0 0x7f11\n", "outside"),
        (b"-1 0x0 0x0\n", "outside"),
        (b"202 0x1 0x89 0x0 0x2 0x0 0xffffffff 0x7ffd0 0x7f11\n", (202, (1, 0x89, 0, 2, 0, 0xFFFFFFFF, 0x7FFD0))),
        (b"0 " + b"0xffffffffffffffff " * 8, (0, (2**64 - 1,) * 7)),
    ],
)
def test_contents(monkeypatch, content, expected):
    """The forms of proc_pid_syscall(5)."""
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: content)
    assert parse_system_call(read_system_call(1, 1)) == expected


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"202\n", b"202 0x1 0x2\n", b"x" * 512, b"a 1 2 3 4 5 6 7 8", b"1 z 2 3 4 5 6 7 8"]
)
def test_odd_contents_are_a_value_error(monkeypatch, content):
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: content)
    with pytest.raises(ValueError, match=r"."):
        parse_system_call(read_system_call(1, 1))


def test_a_real_thread():
    readable, writable = os.pipe()
    thread = threading.Thread(target=os.read, args=(readable, 1), daemon=True)  # a failed test ends
    thread.start()

    def call() -> object:
        found = parse_system_call(read_system_call(os.getpid(), thread.native_id or 0))
        return isinstance(found, tuple) and found[1][0] == readable and CALLS[found[0]]

    wait_until(lambda: call() == "descriptor", what="the thread to block")
    os.write(writable, b"x")
    thread.join()
    ended = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(ended, 0)
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        read_system_call(ended, ended)
    os.close(readable)
    os.close(writable)


@pytest.fixture
def end():
    end = threading.Event()
    yield end
    end.set()


def start(end: threading.Event, seconds: float) -> int:
    def sleep() -> None:
        while not end.is_set():
            time.sleep(seconds)

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    return thread.native_id or 0


def watch(naps: Naps, thread: int, *, requests: bool = False) -> None:
    """Watch a thread for half as long again as is needed. requests: whether one is completed before each sample."""
    began, number = time.monotonic(), 0
    while time.monotonic() < began + 1.5 * LEAST_SECONDS:
        naps.begin()
        number += requests
        naps.note(os.getpid(), thread, number, time.monotonic())
        time.sleep(0.1)


@pytest.mark.parametrize("seconds", [0.01, 30.0])
def test_a_thread_that_sleeps_again_and_again_and_one_that_sleeps_once(end, seconds):
    """A busy machine makes a nap longer, and no thread that sleeps wakes up for it."""
    naps, thread = Naps(), start(end, seconds)
    time.sleep(0.1)
    watch(naps, thread)
    assert naps.length is not None
    assert (0.005 < naps.length < 0.2) if seconds < 1 else naps.length > 1


def test_between_requests_nothing_is_known(end):
    naps, thread = Naps(), start(end, 0.01)
    watch(naps, thread, requests=True)
    assert naps.length is None
    for now in (0.0, 10.0, 20.0):
        naps.begin()
        naps.note(os.getpid(), thread, 0, now)
        naps.note(os.getpid(), 1 << 30, 0, now)
    assert naps.length is None


def parts(monkeypatch: pytest.MonkeyPatch, *lines: bytes) -> Iterator[float]:
    delays = RunDelays()
    for line in lines:
        monkeypatch.setattr(procfs.KEPT, "read_line", lambda _, line=line: line)
        yield delays.part_waiting(1, 2)


def test_parts(monkeypatch):
    """The wait since the last time, as a part of both; 0 if a thread id was reused or the kernel does not count."""
    lines = (b"100 300 7\n", b"200 300 8\n", b"200 300 8\n", b"200 400 9\n", b"0 1 1\n", b"1 2 2\n", b"", b"x y\n")
    assert list(parts(monkeypatch, *lines)) == [0.75, 0, 0, 1, 0, 0.5, 0, 0]


def test_memory(monkeypatch):
    """Processes are forgotten with `forget`; threads that come and go fill no memory; ended ones have no part."""
    real = RunDelays()
    assert 0 <= real.part_waiting(os.getpid(), threading.get_native_id()) <= 1
    assert real.part_waiting(2**22, 2**22) == 0
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: b"1 1 1\n")
    monkeypatch.setattr(schedules, "_MOST_KNOWN", 100)
    delays = RunDelays()
    for thread in range(1000):
        delays.part_waiting(1 + thread % 2, thread)
    assert len(delays._last) <= 101
    delays.forget(1)
    assert {pid for pid, _ in delays._last} == {2}


MOUNTS = [("NFS", "/srv"), ("FUSE", "/srv/media"), ("NFS", "/home")]


class Asks:
    def __init__(self, mounts: list[tuple[str, str]] | None) -> None:
        self.mounts = mounts

    def ask(self, question: Callable[..., object], *_: object) -> object:
        assert question is list_mounts
        if self.mounts is None:
            raise NotYetError
        return self.mounts


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("FUSE", "", ("FUSE", "/srv/media")),
        ("NFS", "", ("NFS", "")),  # of two
        ("NFS", "/home/a", ("NFS", "/home")),
        ("", "/srv/media/logo", ("FUSE", "/srv/media")),  # the nearest one
        ("", "/srv/mediator", ("NFS", "/srv")),
        ("", "/var/log/a", ("", "")),
        ("", "", ("", "")),  # as of a page fault  # a disk of this host
    ],
)
def test_the_mount_is_named(kind, path, expected):
    """By the kernel's function, if only one mount is of that kind; by the path of the file, where it is known."""
    assert FileServers(Asks(MOUNTS)).find(1, kind, path) == expected
    assert FileServers(Asks(None)).find(1, kind, path) == (kind, "")


def test_this_process():
    """Mounts can be listed, without those of local disks; a thread that runs waits for none."""
    assert all(each[0] in ("FUSE", "NFS", "CIFS", "9P", "Ceph") for each in list_mounts(os.getpid()))
    assert find_kind(os.getpid(), threading.get_native_id()) == ""
    with pytest.raises(OSError, match="No such"):
        list_mounts(1 << 22)

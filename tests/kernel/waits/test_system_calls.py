"""The table of system calls, and the file that names a thread's call."""

from __future__ import annotations

import os
import threading

import pytest

from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import system_calls
from uwsgi_headroom.kernel.waits.system_calls import find_calls, parse_system_call, read_system_call


@pytest.mark.parametrize("column", [1, 2])
def test_numbers_are_unique(column: int) -> None:
    """No two calls of an architecture have one number."""
    numbers = [row[column] for row in system_calls._KINDS.values() if row[column] != -1]
    assert len(numbers) == len(set(numbers))


def test_architectures() -> None:
    """x86-64 was tried, aarch64 never; others are not known."""
    known, untried = find_calls("x86_64"), find_calls("aarch64")
    assert known
    assert untried
    assert (known.tried, untried.tried) == (True, False)
    assert (known.kinds[202], known.kinds[232], untried.kinds[98], untried.kinds[22]) == ("futex", "epoll") * 2
    assert find_calls("riscv64") is None


def test_aarch64_has_no_old_calls() -> None:
    """Its table, asm-generic/unistd.h, has only the newer form of four calls: no number of it stands for them."""
    number = {name: row[2] for name, row in system_calls._KINDS.items()}
    assert {name for name in number if number[name] == -1} == {"poll", "select", "epoll_wait", "vfork"}
    untried = find_calls("aarch64")
    assert untried
    assert [untried.kinds[number[name]] for name in ("ppoll", "pselect6", "epoll_pwait")] == ["poll", "select", "epoll"]
    assert len(untried.kinds) == len(number) - 4


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
def test_contents(monkeypatch: pytest.MonkeyPatch, content: bytes, expected: object) -> None:
    """The forms of proc_pid_syscall(5)."""
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: content)
    assert parse_system_call(read_system_call(1, 1)) == expected


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"202\n", b"202 0x1 0x2\n", b"x" * 512, b"a 1 2 3 4 5 6 7 8", b"1 z 2 3 4 5 6 7 8"]
)
def test_odd_contents(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Anything else is a ValueError."""
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: content)
    with pytest.raises(ValueError, match=r"."):
        parse_system_call(read_system_call(1, 1))


def test_a_real_thread() -> None:
    """A thread that reads from a pipe is blocked in read(2) of that descriptor."""
    calls = find_calls()
    assert calls
    readable, writable = os.pipe()
    thread = threading.Thread(target=os.read, args=(readable, 1))
    thread.start()

    def call() -> object:
        found = parse_system_call(read_system_call(os.getpid(), thread.native_id or 0))
        return isinstance(found, tuple) and found[1][0] == readable and calls.kinds[found[0]]

    wait_until(lambda: call() == "descriptor", what="the thread to block")
    os.write(writable, b"x")
    thread.join()
    ended = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(ended, 0)
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        read_system_call(ended, ended)
    os.close(readable)
    os.close(writable)

"""What the exporter reads of the world, recorded once and played again, with one fault at one place.

`World` stands between the package and Python's system calls. In its first run it keeps what they returned, by path and
step of the story; later runs get the same, so that they differ by the fault alone. Calls of other modules go to the
system, and so do paths outside of `/proc` and `/sys`. A site is the line of the package that asks, but not
`kernel/procfs.py`, which reads for others.
"""

import _socket
import contextlib
import ctypes
import errno
import os
import random
import re
import socket
import sqlite3
import sys
import threading
import time
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import uwsgi_headroom
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import memory

PACKAGE = f"{Path(uwsgi_headroom.__file__).parent}/"
ERRORS = ("EIO", "EACCES", "ENOENT", "ESRCH", "EMFILE", "ENOMEM", "EINTR")
SHORT, TORN = "short", "torn"
SQL = ("disk I/O error", "database or disk is full", "database is locked", "database disk image is malformed")

BYTES = {"read", "pread", "recv", "recvmsg", "process_vm_readv"}
"""These may also be short or torn. Only a file of one line is never short: the kernel gives it in one piece."""

_VIRTUAL = re.compile(r"/(proc(/(?!self/fd/)|\Z)|sys/)(?!\d+/(root/|cwd/))")
_READS = ("open", "read", "pread", "close")
_BY_PATH = ("readlink", "listdir", "scandir", "stat", "lstat", "statvfs", "access", "sched_getaffinity", "fstat")
_REAL = {name: getattr(os, name) for name in (*_READS, *_BY_PATH)}
_REAL_SOCKET, _REAL_OPEN = socket.socket, open


Place = namedtuple("Place", "site call number step server")
"""The `number`-th call of a kind at a site, and the server that was read."""
Fault = namedtuple("Fault", "place kind")


def find_site() -> str:
    """The line of the package that asked; "" if it was none."""
    frame, found = sys._getframe(2), ""
    while frame:
        name = frame.f_code.co_filename
        if "/psutil/" in name or "/importlib/" in name:
            return ""
        if name.startswith(PACKAGE):
            found = f"{name[len(PACKAGE) :]}:{frame.f_lineno}"
            if not found.startswith("kernel/procfs.py"):
                return found
        frame = frame.f_back
    return found


def _read_document(address: str) -> tuple[bytes, bytes]:
    with _REAL_SOCKET(socket.AF_UNIX) as client:
        client.connect(address)
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return b"".join(iter(lambda: client.recv(1 << 18), b"")), credentials


class World:
    """step, server: where the story is; now: what clocks of the package show; processes: all that `/proc` has; places:
    the calls of this run."""

    def __init__(self) -> None:
        self.step, self.server, self.now = 0, "", 0.0
        self.processes: set[str] = set()
        self.places: list[Place] = []
        self.known: dict[object, dict[int, Any]] = {}
        self.records = True
        self._pid = os.getpid()
        self._opened: dict[int, tuple[str, int]] = {}  # by descriptor: the path, and the place in the file
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._lock = threading.RLock()

    def begin(self, fault: Fault | None) -> None:
        """Begin a run; the first one is recorded."""
        self.records = not self.places
        self.places, self._fault = [], fault
        self._numbers.clear()

    def meet(self, call: str, site: str) -> str:
        """Note a call of the package. Its kind of fault; "" for none. Raises OSError or sqlite3.Error if it is one."""
        if not site:
            return ""
        with self._lock:
            self._numbers[site, call] += 1
            self.places.append(Place(site, call, self._numbers[site, call], self.step, self.server))
            if not self._fault or self.places[-1][:3] != self._fault.place[:3]:
                return ""
        kind = self._fault.kind
        if kind in SQL:
            raise (sqlite3.DatabaseError if "malformed" in kind else sqlite3.OperationalError)(kind)
        if kind in ERRORS:
            raise OSError(getattr(errno, kind), os.strerror(getattr(errno, kind)))
        return kind

    def recall(self, key: object, ask: Callable[[], Any]) -> Any:
        """What a call returned at this step, or before; where nothing is known, what it returns now."""
        steps = self.known.setdefault(key, {})
        if self.step not in steps and steps and not self.records:
            steps[self.step] = steps[max([step for step in steps if step <= self.step], default=min(steps))]
        elif self.step not in steps:
            try:
                steps[self.step] = ask()
            except OSError as error:
                steps[self.step] = OSError(error.errno, error.strerror)  # without its frames
        found = steps[self.step]
        if isinstance(found, OSError):
            raise OSError(found.errno, found.strerror)
        return found

    def damage(self, kind: str, data: Any) -> Any:
        half = data[: len(data) // 2]
        return {SHORT: half, TORN: half + b"\xff\x00 torn\n"}.get(kind, data)

    def content(self, path: str) -> bytes:
        def ask() -> bytes:
            with _REAL_OPEN(path, "rb", 0) as file:
                return b"".join(iter(lambda: file.read(1 << 20), b""))

        return self.recall(("content", path), ask)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        site = find_site()
        self.meet("open", site)
        is_virtual = site and not flags & os.O_PATH and dir_fd is None and _VIRTUAL.match(os.fspath(path))
        if not is_virtual:
            descriptor = _REAL["open"](path, flags, mode, dir_fd=dir_fd)
            self._opened.pop(descriptor, None)
            return descriptor
        self.content(os.fspath(path))
        descriptor = _REAL["open"](os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._opened[descriptor] = os.fspath(path), 0
        return descriptor

    def read(self, descriptor: int, most: int) -> bytes:
        kind = self.meet("read", find_site())
        if descriptor not in self._opened:
            return self.damage(kind, _REAL["read"](descriptor, most))
        path, at = self._opened[descriptor]
        is_line = kind == SHORT and most == procfs._LINE_BYTES
        data = self.damage("" if is_line else kind, self.content(path)[at : at + most])
        self._opened[descriptor] = path, at + len(data)
        return data

    def pread(self, descriptor: int, most: int, at: int) -> bytes:
        kind = self.meet("pread", find_site())
        if descriptor not in self._opened:
            return self.damage(kind, _REAL["pread"](descriptor, most, at))
        return self.damage(kind.replace(SHORT, ""), self.content(self._opened[descriptor][0])[at : at + most])

    def close(self, descriptor: int) -> None:
        self._opened.pop(descriptor, None)
        _REAL["close"](descriptor)

    def by_path(self, call: str) -> Callable[..., Any]:
        """A call that takes a path, or the number of a process or descriptor."""
        real = _REAL[call]

        def ask(*arguments: Any, **options: Any) -> Any:
            site = find_site()
            self.meet(call, site)
            first = arguments[0] if arguments else "."
            is_path = bool(site) and not isinstance(first, int) and options.get("dir_fd") is None
            if not (is_path and _VIRTUAL.match(os.fspath(first))) and not (site and call == "sched_getaffinity"):
                return real(*arguments, **options)
            if call == "scandir":
                return contextlib.nullcontext(iter(self.recall((call, first), lambda: list(real(first)))))
            found = self.recall((call, arguments, *options.items()), lambda: real(*arguments, **options))
            return [name for name in found if name in self.processes] if first == "/proc" else found

        return ask

    def read_clock(self, real: Callable[[], float]) -> float:
        return self.now if sys._getframe(1).f_code.co_filename.startswith(PACKAGE) else real()

    def read_memory(self, real: Any) -> Callable[..., int]:
        """process_vm_readv(2): the pieces are read into one buffer."""

        def ask(pid: int, here: Any, _one: int, there: Any, number: int, _flags: int) -> int:
            def copy() -> tuple[bytes, int, int]:
                copied = real.process_vm_readv(pid, here, 1, there, number, 0)
                return ctypes.string_at(here._obj.base, max(0, copied)), copied, ctypes.get_errno()

            try:
                kind = self.meet("process_vm_readv", find_site())
            except OSError as error:
                ctypes.set_errno(error.errno or 0)
                return -1
            pieces = [(there[place].base, there[place].length) for place in range(number)]
            data, copied, code = self.recall(("memory", pid, *pieces), copy)
            damaged = self.damage(kind, data)[: len(data)]
            ctypes.memmove(here._obj.base, damaged, len(damaged))
            ctypes.set_errno(code)
            return min(copied, len(damaged))

        return ask

    def connect(self, real: Callable[..., Any]) -> Callable[..., Any]:
        meet = self.meet

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> Any:
                meet("sqlite execute", find_site())
                return super().execute(*arguments)

            def __exit__(self, *error: Any) -> Any:
                try:
                    meet("sqlite commit", find_site())
                except BaseException as failure:
                    super().__exit__(type(failure), failure, None)  # it is rolled back
                    raise
                return super().__exit__(*error)

        return lambda *arguments, **options: real(*arguments, **options, factory=Connection)

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """Stand between the package and the system."""
        chance = random.Random
        new: list[tuple[Any, str, Any]] = [(os, name, getattr(self, name)) for name in _READS]
        new += [(os, name, self.by_path(name)) for name in _BY_PATH]
        new += [(time, name, partial(self.read_clock, getattr(time, name))) for name in ("monotonic", "thread_time")]
        libc = type("Libc", (), {"process_vm_readv": staticmethod(self.read_memory(memory._LIBC))})
        new += [(memory, "_LIBC", libc), (os, "getpid", lambda: self._pid)]  # of the process that recorded
        new += [(random, "Random", lambda seed=1: chance(seed)), (sqlite3, "connect", self.connect(sqlite3.connect))]
        new += [(socket, "socket", type("Socket", (_Socket,), {"world": self}))]
        with pytest.MonkeyPatch.context() as patch:
            for owner, name, value in new:
                patch.setattr(owner, name, value)
            yield


class _Socket(socket.socket):
    """Netlink, and UNIX sockets that answer with a document. Others go to the system."""

    world: World
    _request: Any = b""
    _taken = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.world.meet("socket", find_site())
        super().__init__(*arguments, **options)

    def connect(self, address: Any) -> None:
        site = find_site()
        self.world.meet("connect", site)
        if not site or self.family != socket.AF_UNIX:
            super().connect(address)
            return
        self.world.recall(("document", address), lambda: _read_document(address))
        self._request = address
        ours, theirs = _socket.socketpair()
        os.dup2(ours.fileno(), self.fileno())  # at its end at once: what is received is known
        _ = ours.close(), theirs.close()

    def getsockopt(self, *arguments: Any) -> Any:
        if self.family != socket.AF_UNIX or not self._request:
            return super().getsockopt(*arguments)
        self.world.meet("getsockopt", find_site())
        return self.world.recall(("document", self._request), bytes)[1]

    def send(self, data: Any, *arguments: Any) -> int:
        if self.family != socket.AF_NETLINK:
            return super().send(data, *arguments)
        self.world.meet("send", find_site())
        self._request, self._taken = bytes(data), 0
        known = self.world.known.get(("netlink", self._request, 0), {})
        if not known or (self.world.records and self.world.step not in known):
            super().send(data)
        return len(data)

    def _take(self, call: str, most: int) -> Any:
        kind = self.world.meet(call, find_site())
        if self.family == socket.AF_NETLINK:
            key, self._taken = ("netlink", self._request, self._taken), self._taken + 1
            return self.world.damage(kind, self.world.recall(key, lambda: super(_Socket, self).recv(most)))
        body = self.world.recall(("document", self._request), bytes)[0]
        data = self.world.damage(kind, body[self._taken : self._taken + most])
        self._taken += len(data)
        return data

    def recv(self, most: int, *arguments: Any) -> bytes:
        return self._take("recv", most) if self._request else super().recv(most, *arguments)

    def recvmsg(self, most: int, *arguments: Any) -> Any:
        return (self._take("recvmsg", most), [], 0, None) if self._request else super().recvmsg(most, *arguments)

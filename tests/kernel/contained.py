"""Runs processes in namespaces of their own, as container engines do, finds their pids on both sides, and listens."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.support.real_uwsgi import Uwsgi, accepting, peer_pid, uwsgi_binary, wait_until, wrapped
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats.server import Snapshot

CONTAINER = "unshare --pid --net --mount --uts --ipc --mount-proc --fork --kill-child"
"""The namespaces of a container, except for its user and cgroup namespaces."""


@contextlib.contextmanager
def started(*command: str, **pipes: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def read_children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def cgroup(folder: Path, setting: str, value: int) -> Iterator[Path]:
    folder.mkdir()
    try:
        (folder / setting).write_text(str(value))
        yield folder
    finally:
        folder.rmdir()


class Family(Struct, frozen=True):
    """A stand-in for a master with workers. master: its pid here; workers: theirs."""

    master: int
    workers: tuple[int, ...]

    def document(self, **changes: Any) -> Snapshot:
        """The stats document that a uWSGI with these processes would give, with pids of its own namespace."""
        started = int(time.time())
        workers = [{"pid": read_pid_numbers(pid)[-1], "last_spawn": started} for pid in self.workers]
        document = {"pid": read_pid_numbers(self.master)[-1], "workers": workers} | changes
        return stats.decode(json.dumps(document).encode())

    @property
    def answer(self) -> Answer:
        return Answer(b"", peer_pid=self.master)


@contextlib.contextmanager
def family(workers: int = 2, command: str = "unshare --pid --fork --kill-child", before: str = "") -> Iterator[Family]:
    """Runs a shell and its children in other namespaces. before: commands that the shell runs first, which may stay."""
    script = before + (" sleep 60 &" * workers + " wait" if workers else " exec sleep 60")
    with subprocess.Popen([*command.split(), "sh", "-c", script]) as outer:
        try:
            master = outer.pid
            for _ in range(command.count("--fork")):
                wait_until(lambda parent=master: read_children(parent), what="the next level")
                (master,) = read_children(master)
            wait_until(lambda: len(read_children(master)) >= workers, what="the children")
            yield Family(master, tuple(read_children(master)[-workers:] if workers else ()))
        finally:
            outer.kill()


@contextlib.contextmanager
def contained(directory: Path, *options: str, command: str = CONTAINER) -> Iterator[tuple[Uwsgi, int]]:
    """Runs uWSGI in a container, its stats socket in a directory that both sides see. Returns it and its pid here."""
    binary = wrapped(directory, uwsgi_binary(), command)
    with accepting(*options, binary=binary) as server:
        yield server, peer_pid(server.stats)


def snapshot_of(server: Uwsgi) -> Snapshot:
    return stats.decode(server.document())


def read_namespace(kind: str, task: str = "self") -> str:
    return os.readlink(f"/proc/{task}/ns/{kind}")


def namespaces_of_threads(kind: str = "net") -> set[str]:
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(read_namespace(kind, f"self/task/{thread}"))
    return found


def listening(address: str | bytes | tuple[str, int], limit: int = 9, *, shared: bool = False) -> socket.socket:
    """Listens at a path, an abstract name, or a host and port. limit: of its queue; shared: with SO_REUSEPORT."""
    family = socket.AF_UNIX
    if isinstance(address, tuple):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    server = socket.socket(family)
    if shared:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(address)
    server.listen(limit)
    return server

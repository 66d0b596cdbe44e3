"""Connections that workers share, seen on processes that this test forks as uWSGI does."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.kernel.contained import started
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel import shared_connections
from uwsgi_headroom.kernel.shared_connections import LOOK_SECONDS, SharedConnections
from uwsgi_headroom.kernel.waits import descriptors
from uwsgi_headroom.surroundings import SharedConnection

pytestmark = pytest.mark.usefixtures("patient")

LISTEN = """
import socket, sys
family = socket.AF_INET if sys.argv[1] == "tcp" else socket.AF_UNIX
listener = socket.socket(family)
listener.bind(("127.0.0.1", 0) if sys.argv[1] == "tcp" else sys.argv[1])
listener.listen()
print(listener.getsockname()[1] if sys.argv[1] == "tcp" else "", flush=True)
accepted = listener.accept()
sys.stdin.read()
"""


@contextmanager
def listening(where: str) -> Iterator[str]:
    """Runs another program that listens at a UNIX path or on TCP, and yields its port."""
    command = [sys.executable, "-c", LISTEN, where]
    with started(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process.stdout.readline().strip()


@contextmanager
def forked(number: int, begin: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Forks processes that call `begin` and then sleep until the block ends."""
    pids = []
    ready, write = os.pipe()
    for _ in range(number):
        pid = os.fork()
        if not pid:
            begin()
            os.write(write, b".")
            signal.pause()
            os._exit(0)
        pids.append(pid)
    for _ in pids:
        os.read(ready, 1)
    os.close(ready)
    os.close(write)
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("where", ["tcp", "db"])
def test_a_connection_that_was_opened_before_the_fork_is_shared(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with listening(where) as port, socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection:
        connection.connect(("127.0.0.1", int(port)) if port else where)
        with forked(3) as pids:
            found = SharedConnections().read(os.getpid(), pids)
    assert found == (SharedConnection(f"127.0.0.1:{port}" if port else where, 3),)


def test_what_workers_share_rightly():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        listening("tcp") as port,
        socket.create_connection(("127.0.0.1", int(port))) as closed,
    ):
        datagrams.connect(listener.getsockname())
        pair = socket.socketpair()
        with forked(2, closed.close) as pids:
            assert SharedConnections().read(os.getpid(), pids) == ()
        with forked(1) as pids:
            assert SharedConnections().read(os.getpid(), pids) == ()
        for each in pair:
            each.close()


def test_it_looks_rarely_and_in_bounded_time(monkeypatch):
    """Every ten seconds at most; a process with too many descriptors is not looked at, nor one that has ended."""
    clock, looks = MovableClock(), []
    list_sockets = shared_connections.list_sockets
    monkeypatch.setattr(shared_connections, "list_sockets", lambda pid: looks.append(pid) or list_sockets(pid))
    with listening("tcp") as port, socket.create_connection(("127.0.0.1", int(port))), forked(2) as pids:
        shared = SharedConnections(clock.clock.monotonic)
        assert shared.read(os.getpid(), pids)
        clock.move(LOOK_SECONDS - 0.1)
        assert shared.read(os.getpid(), pids)
        assert len(looks) == 1
        clock.move(0.2)
        monkeypatch.setattr(descriptors, "MOST_DESCRIPTORS", 2)
        assert shared.read(os.getpid(), pids) == ()
        assert len(looks) == 2
    assert SharedConnections().read(2**22 + 1, pids) == ()

"""Ports of loopback: which are free, and who has them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app import loopback
from app.loopback import PREFIX, listener
from tests.support import real_uwsgi


def test_a_free_port_is_chosen(monkeypatch):
    """The preferred one if it is free, else one that the kernel gives to nobody, if there is one."""
    port = loopback.free_port()
    assert loopback.free_port(port) == port
    assert loopback.server_ports().stop == int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    monkeypatch.setattr(loopback, "server_ports", lambda: range(15_000, 25_000))
    assert loopback.free_port() in range(15_000, 25_000)
    monkeypatch.setattr(loopback, "server_ports", lambda: range(0))
    assert loopback.why_taken(loopback.free_port()) is None
    chosen = iter([15_000, 15_000, 15_000, 15_001])
    monkeypatch.setattr(loopback, "free_port", lambda: next(chosen))
    assert sorted(loopback.free_ports(2)) == [15_000, 15_001]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_another_port_is_chosen_if_it_is_taken(host):
    """A port also counts as taken if a process listens on every address."""
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
        assert loopback.free_port(port) != port
        assert "in use" in loopback.why_taken(port)


LISTEN = """\
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("listens", flush=True)
    sys.stdin.read()
"""


def test_who_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = listener(server.getsockname()[1])
        assert owner.pid == os.getpid()
        assert str(owner).endswith(f" (process {os.getpid()})")
    assert listener(real_uwsgi.free_port()) is None
    assert loopback.get(loopback.free_port(), "/") is None


@pytest.mark.parametrize(("directory", "demo"), [(f"/tmp/{PREFIX}1234", True), ("/tmp/else", False)])
def test_program_of_a_demo_is_told_from_others(directory, demo):
    """A demo's program is recognized by its TMPDIR, and the demo itself is named as the process to end."""
    port = real_uwsgi.free_port()
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(port)],
        env={**os.environ, "TMPDIR": directory},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"listens\n"
        owner = listener(port)
        assert owner.pid == process.pid
        assert (str(owner) == f"another demo (process {os.getpid()})") is demo
        process.communicate()

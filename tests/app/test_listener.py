"""The process that listens on a port is named, if the user may inspect it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from app.loopback import PREFIX, listener
from tests.support import real_uwsgi

LISTEN = """\
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("listens", flush=True)
    sys.stdin.read()
"""


def test_own_listener_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = listener(server.getsockname()[1])
        assert owner
        assert owner.pid == os.getpid()
        assert str(owner).endswith(f" (process {os.getpid()})")


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
        assert process.stdout
        assert process.stdout.readline() == b"listens\n"
        owner = listener(port)
        assert owner
        assert owner.pid == process.pid
        assert (str(owner) == f"another demo (process {os.getpid()})") is demo
        process.communicate()


def test_nobody_listens_on_a_free_port():
    assert listener(real_uwsgi.free_port()) is None

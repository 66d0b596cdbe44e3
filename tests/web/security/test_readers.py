"""Who may read an exporter that watches the servers of all users."""

import http.client
import pwd
import socket

import pytest

from tests.support.exporter import COMMAND, exporter, run
from tests.support.other_namespaces import NOBODY, as_nobody, as_root
from tests.support.real_uwsgi import free_port

pytestmark = pytest.mark.integration

ALONE = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", *COMMAND]
"""The exporter finds no server of another test."""

PATHS = ("/metrics", "/", "/servers", "/api/v2/servers", "/runbooks/", "/-/healthy")


def statuses(port: int, host: str = "127.0.0.1") -> list[int]:
    """Of each path, over one connection."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    found = []
    for path in PATHS:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
    connection.close()
    return found


@as_root
@pytest.mark.parametrize(
    ("arguments", "of_nobody"),
    [
        ((), [403] * 5 + [200]),
        (("--no-discover",), [200] * 6),
        (("--web.readers", pwd.getpwuid(NOBODY).pw_name), [200] * 6),
    ],
    ids=["another user", "off", "a reader"],
)
def test_another_user_gets_nothing(arguments, of_nobody):
    """Root and readers get all, from any address of loopback."""
    with exporter("--stats", "file:///nowhere", "--discover", *arguments, command=ALONE) as running:
        assert statuses(running.port) == [200] * 6
        assert as_nobody(lambda: statuses(running.port)) == of_nobody


@as_root
def test_who_has_left_gets_nothing():
    """The kernel has forgotten the user of a socket that is closed, and says 0."""
    with exporter("--stats", "file:///nowhere", "--discover", command=ALONE) as running:

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                client.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: client.recv(1 << 16), b""))

        assert b"uwsgi_" not in as_nobody(ask)


def test_other_machines_take_a_login():
    """It refuses to start where they could read it."""
    ended = run("--stats", "file:///nowhere", "--discover", "--web.listen-address", f"0.0.0.0:{free_port()}")
    assert ended.returncode
    assert "--discover: other machines can reach" in ended.stderr

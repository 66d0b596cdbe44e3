"""Sockets from systemd are taken if they are listening stream sockets; others are refused with advice."""

import contextlib
import os
import socket

import pytest

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.service.systemd import take_sockets

PID = 7


def taken(descriptor, **more):
    """What is taken of one passed descriptor."""
    environment = {"LISTEN_PID": str(PID), "LISTEN_FDS": "1", **more}
    return take_sockets(environment, PID, first=descriptor)


@contextlib.contextmanager
def passed(made):
    """A descriptor of this socket that another process would own."""
    with made:
        descriptor = os.dup(made.fileno())
    try:
        yield descriptor
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def unix_listener(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "unix"])
def test_a_listening_socket_is_taken(tmp_path, kind):
    """A TCP or UNIX socket accepts connections afterwards, and programs that this one starts do not get it."""
    makers = {
        "tcp": lambda: socket.create_server(("127.0.0.1", 0)),
        "tcp6": lambda: socket.create_server(("::1", 0), family=socket.AF_INET6),
        "unix": lambda: unix_listener(tmp_path / "web.sock"),
    }
    with passed(makers[kind]()) as descriptor:
        os.set_inheritable(descriptor, True)
        (listener,) = taken(descriptor, LISTEN_FDNAMES="web")
        with listener, socket.socket(listener.family) as client:
            assert listener.fileno() == descriptor
            assert not listener.get_inheritable()
            client.connect(listener.getsockname())
            listener.accept()[0].close()


def test_several_sockets_in_their_order():
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        first = max(map(int, os.listdir("/proc/self/fd"))) + 1
        os.dup2(one.fileno(), first)
        os.dup2(two.fileno(), first + 1)
        environment = {"LISTEN_PID": str(PID), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web"}
        listeners = take_sockets(environment, PID, first=first)
        assert [listener.getsockname() for listener in listeners] == [one.getsockname(), two.getsockname()]
        for listener in listeners:
            listener.close()


OTHERS = {
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "unix datagrams": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "not listening": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "connected": lambda: socket.socketpair()[0],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_socket_is_refused(kind):
    """The message names the descriptor, its name and what the unit needs; the descriptor stays open."""
    what = "not a listening TCP or UNIX stream socket"
    with passed(OTHERS[kind]()) as descriptor:
        with pytest.raises(ConfigError, match=rf"descriptor {descriptor} \(web\) is {what}; .*Accept=no"):
            taken(descriptor, LISTEN_FDNAMES="web")
        os.fstat(descriptor)


def test_what_is_no_socket_is_refused(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_CREAT)
    with pytest.raises(ConfigError, match=rf"descriptor {descriptor} is not a socket"):
        taken(descriptor)
    os.close(descriptor)
    with pytest.raises(ConfigError, match=r"Bad file descriptor"):
        taken(descriptor)


@pytest.mark.parametrize("count", ["", "-1", "many", "1000000", "9" * 5000])
def test_a_wrong_number_is_refused(count):
    with pytest.raises(ConfigError, match="LISTEN_FDS"):
        taken(3, LISTEN_FDS=count)


@pytest.mark.parametrize("environment", [{}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "8", "LISTEN_FDS": "1"}])
def test_sockets_of_another_process_are_left_alone(environment):
    """Variables that the parent of this process was given are not for this process."""
    assert take_sockets(environment, PID) == []

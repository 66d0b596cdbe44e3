"""The kernel's listeners, compared with sockets opened here."""

import contextlib
import errno
import functools
import os
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.kernel.contained import listening
from tests.support.other_namespaces import forbid_netlink, in_child, knows_socket_call, over_ipv6
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.backlogs import list_connections


def inode(server: socket.socket) -> int:
    return os.fstat(server.fileno()).st_ino


FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}


def find(server: socket.socket) -> sock_diag.Listener:
    (listener,) = sock_diag.list_listeners(FAMILIES[server.family], {inode(server)})
    return listener


def clients(server: socket.socket, count: int) -> list[socket.socket]:
    connected = []
    for _ in range(count):
        client = socket.socket(server.family, socket.SOCK_STREAM)
        client.setblocking(False)
        client.connect_ex(server.getsockname())
        connected.append(client)
    return connected


SOMAXCONN = int(Path("/proc/sys/net/core/somaxconn").read_text())


@pytest.mark.parametrize(
    ("backlog", "number", "queue", "limit"),
    [(37, 5, 5, 37), (3, 9, 4, 3), (SOMAXCONN + 1000, 0, 0, SOMAXCONN)],
    ids=["not full", "full: one more than its limit", "the limit that the kernel granted"],
)
def test_unix_queue(tmp_path, backlog, number, queue, limit):
    path = str(tmp_path / "a.sock")
    with listening(path, backlog) as server:
        waiting = clients(server, number)
        assert find(server) == sock_diag.Listener(inode(server), "unix", path, queue, limit)
        if waiting:
            server.accept()
            assert find(server).queue == queue - 1


@pytest.mark.parametrize(
    ("bound", "name"),
    [(b"\0plain", "@plain"), (b"\0with nul\0", "@with nul"), (b"\0in\0side", "@in\0side"), ("./a.sock", "./a.sock")],
)
def test_name(bound, name, tmp_path, monkeypatch):
    """An abstract name begins with @ and has no NUL at its end. A relative path stays so: no folder is known."""
    monkeypatch.chdir(tmp_path)
    with listening(bound) as server:
        assert find(server).name == name


@pytest.mark.parametrize(
    ("family", "host", "spelled"),
    [
        ("inet", "127.0.0.1", "127.0.0.1"),
        ("inet", "0.0.0.0", "0.0.0.0"),
        pytest.param("inet6", "::1", "[::1]", marks=over_ipv6),
        pytest.param("inet6", "::", "[::]", marks=over_ipv6),
    ],
)
def test_tcp_queue(family, host, spelled):
    with listening((host, 0), 37) as server:
        waiting = clients(server, 5)
        wait_until(lambda: find(server).queue == len(waiting), what="the handshakes")
        port = server.getsockname()[1]
        assert find(server) == sock_diag.Listener(inode(server), family, f"{spelled}:{port}", 5, 37)
        assert sock_diag.inet_name(host, port) == f"{spelled}:{port}"


def test_only_stream_listeners_are_listed(tmp_path):
    with (
        socket.socket(socket.AF_UNIX) as idle,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets,
    ):
        idle.bind(str(tmp_path / "idle"))
        packets.bind(str(tmp_path / "packets"))
        packets.listen()
        inodes = {listener.inode for listener in sock_diag.list_listeners("unix")}
        assert inodes.isdisjoint({inode(idle), inode(packets)})


def test_answer_in_many_parts():
    with contextlib.ExitStack() as opened:
        names = [f"\0headroom-{os.getpid()}-{number}-{'x' * 60}" for number in range(400)]
        servers = [opened.enter_context(listening(name, number)) for number, name in enumerate(names)]
        expected = {inode(one): number for number, one in enumerate(servers)}
        limits = {listener.inode: listener.limit for listener in sock_diag.list_listeners("unix")}
        assert expected.items() <= limits.items()
        chosen = [inode(servers[7]), inode(servers[399])]
        assert [listener.inode for listener in sock_diag.list_listeners("unix", chosen)] in (chosen, chosen[::-1])


def test_the_question_to_a_kernel_that_does_not_answer_fails_soon(monkeypatch):
    ours, silent = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(socket, "socket", lambda *_: ours)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            sock_diag.ask(bytes(56))
        except OSError as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60)
    assert [type(error) for error in errors] == [TimeoutError]
    silent.close()


def test_interrupted_dump_is_repeated_once(monkeypatch):
    requests = []
    honest = sock_diag.ask

    def interrupted(request: bytes, seconds: float) -> tuple[list[bytes], bool]:
        requests.append(request)
        return honest(request)[0], True

    monkeypatch.setattr(sock_diag, "ask", interrupted)
    sock_diag.list_listeners("unix")
    assert len(requests) == 2


def test_interruption_is_seen():
    header = struct.pack("=IHHII", 20, sock_diag.SOCK_DIAG_BY_FAMILY, sock_diag.NLM_F_DUMP_INTR | 2, 1, 0)
    ((kind, flags, payload),) = sock_diag._messages(header + b"body")
    assert (kind, payload) == (sock_diag.SOCK_DIAG_BY_FAMILY, b"body")
    assert flags & sock_diag.NLM_F_DUMP_INTR


def test_truncated_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(sock_diag, "RECEIVE_BYTES", 24)
    with listening(f"\0headroom-{os.getpid()}"), pytest.raises(OSError, match="cut off"):
        sock_diag.list_listeners("unix")


@pytest.mark.parametrize("length", [3, 400])
def test_message_of_impossible_length_is_an_error(length):
    with pytest.raises(OSError, match="cut off"):
        list(sock_diag._messages(struct.pack("=IHHII", length, 20, 2, 1, 0) + b"body"))


def test_kernel_without_a_module(monkeypatch):
    """A kernel that cannot answer for a family (LLC has no such module) is an error that names the modules to load."""
    monkeypatch.setitem(
        sock_diag._FAMILIES, "unix", (bytes([26, 0]) + bytes(54), sock_diag._unix_inode, sock_diag._unix)
    )
    with pytest.raises(OSError, match="load the modules unix_diag"):
        sock_diag.list_listeners("unix")


@knows_socket_call
@pytest.mark.parametrize(
    ("code", "sentence"),
    [(errno.EAFNOSUPPORT, "add AF_NETLINK to RestrictAddressFamilies="), (errno.EPERM, "security policy")],
)
def test_forbidden_netlink(code, sentence):
    """If a security policy forbids netlink, the error says what to allow."""

    def ask() -> str:
        forbid_netlink(code)
        try:
            return str(sock_diag.list_listeners("unix"))
        except OSError as error:
            return str(error)

    assert sentence in in_child(ask)


@pytest.mark.parametrize(
    ("host", "name"),
    [("", "0.0.0.0:80"), ("127.1", "127.0.0.1:80"), ("0:0:0:0:0:0:0:1", "[::1]:80"), ("localhost", None)],
)
def test_inet_name(host, name):
    """Addresses are written as the kernel's; a host name is not resolved."""
    assert sock_diag.inet_name(host, 80) == name


def test_known_listeners_are_asked_for_alone(tmp_path):
    with listening(str(tmp_path / "s"), 7) as unix, listening(("127.0.0.1", 0), 9) as tcp:
        known = [find(tcp), find(unix)]
        queues = sock_diag.Queues()
        assert queues.ask(known) == [(0, 9), (0, 7)]
        with socket.socket(socket.AF_UNIX) as client, socket.create_connection(tcp.getsockname()):
            client.connect(str(tmp_path / "s"))
            assert queues.ask(known) == [(1, 9), (1, 7)]
        queues.close()


def test_of_a_listener_that_is_closed_or_another_there_is_no_answer():
    queues = sock_diag.Queues()
    with listening(("127.0.0.1", 0), shared=True) as tcp:
        known, address = find(tcp), tcp.getsockname()
    assert queues.ask([known]) is None
    with listening(address, shared=True) as other:
        assert queues.ask([known]) is None
        assert queues.ask([find(other), known]) is None
        assert queues.ask([find(other)]) == [(0, 9)]
    queues.close()


def test_connections_that_the_server_closed_first():
    """Those that the client closed first, as a health check of TCP does, are none; nor are those of other ports."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        name = f"127.0.0.1:{server.getsockname()[1]}"
        look = functools.partial(list_connections, os.getpid(), [name])
        for listener, server_first in ((server, True), (server, True), (server, False), (other, True)):
            with socket.create_connection(listener.getsockname()) as client:
                accepted, _ = listener.accept()
                ends = [accepted, client] if server_first else [client, accepted]
                for end in ends:
                    end.close()
        wait_until(lambda: len(look().closed) == 2, what="both to be closed")
        assert all(0 <= age < 30 for age in look().closed)
        with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
            assert look().left == ()
            time.sleep(0.2)  # one that closes at once may wait all the same
            client.close()
            wait_until(lambda: len(look().left) == 1, what="the client to have left")
            assert look().answered == 0


def test_clients_that_left_with_their_answer():
    """Such a client did not leave too early, however long it waited; while it is there, it is not counted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"127.0.0.1:{server.getsockname()[1]}"
        look = functools.partial(list_connections, os.getpid(), [name])
        with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
            time.sleep(0.2)
            accepted.sendall(b"answer")
            assert client.recv(9) == b"answer"
            assert look()[1:] == ((), 0)
            client.close()
            wait_until(lambda: look().answered == 1, what="the client to have left")
            assert look().left == ()


def test_an_address_of_another_family_is_no_listener():
    """Found by `python -m tests.fuzz`: it was an internal error."""
    payload = bytearray(sock_diag.inet_diag_msg.size)
    payload[0] = 57
    assert sock_diag._inet(bytes(payload)) is None

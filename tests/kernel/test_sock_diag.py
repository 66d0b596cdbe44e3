"""The kernel's listeners, compared with sockets opened here."""

import errno
import os
import socket
import struct
import threading
from pathlib import Path

import pytest

from tests.support.other_namespaces import as_nobody, as_root, forbid_netlink, in_child, knows_socket_call, over_ipv6
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import sock_diag


def inode(listening: socket.socket) -> int:
    return os.fstat(listening.fileno()).st_ino


def find(family: sock_diag.Family, listening: socket.socket) -> sock_diag.Listener:
    (listener,) = [listener for listener in sock_diag.list_listeners(family) if listener.inode == inode(listening)]
    return listener


def clients(listening: socket.socket, count: int) -> list[socket.socket]:
    """Connect without waiting, so that a full queue does not block the test."""
    connected = []
    for _ in range(count):
        client = socket.socket(listening.family, socket.SOCK_STREAM)
        client.setblocking(False)
        client.connect_ex(listening.getsockname())
        connected.append(client)
    return connected


def test_unix_queue(tmp_path: Path) -> None:
    """A UNIX listener has the path of its bind(2), its unaccepted connections and its limit."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a.sock"))
        listening.listen(37)
        waiting = clients(listening, 5)
        listener = find("unix", listening)
        assert listener == sock_diag.Listener(inode(listening), "unix", str(tmp_path / "a.sock"), 5, 37)
        listening.accept()
        assert find("unix", listening).queue == len(waiting) - 1


def test_full_queue_holds_one_more_than_its_limit(tmp_path: Path) -> None:
    """The queue of a full listener is one longer than its limit."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a.sock"))
        listening.listen(3)
        waiting = clients(listening, 9)
        listener = find("unix", listening)
        assert (listener.queue, listener.limit, len(waiting)) == (4, 3, 9)


@pytest.mark.parametrize(
    ("bound", "name"), [(b"\0plain", "@plain"), (b"\0with nul\0", "@with nul"), (b"\0in\0side", "@in\0side")]
)
def test_abstract_name(bound: bytes, name: str) -> None:
    """An abstract name begins with @ and ends before the NUL that uWSGI appends."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(bound)
        listening.listen()
        assert find("unix", listening).name == name


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path stays relative: the kernel does not record the folder."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("./a.sock")
        listening.listen()
        assert find("unix", listening).name == "./a.sock"


@pytest.mark.parametrize(
    ("family", "host", "spelled"),
    [
        ("inet", "127.0.0.1", "127.0.0.1"),
        ("inet", "0.0.0.0", "0.0.0.0"),
        pytest.param("inet6", "::1", "[::1]", marks=over_ipv6),
        pytest.param("inet6", "::", "[::]", marks=over_ipv6),
    ],
)
def test_tcp_queue(family: sock_diag.Family, host: str, spelled: str) -> None:
    """A TCP listener has its address and port, its unaccepted connections and its limit."""
    with socket.socket(socket.AF_INET6 if family == "inet6" else socket.AF_INET) as listening:
        listening.bind((host, 0))
        listening.listen(37)
        waiting = clients(listening, 5)
        wait_until(lambda: find(family, listening).queue == len(waiting), what="the handshakes")
        port = listening.getsockname()[1]
        assert find(family, listening) == sock_diag.Listener(inode(listening), family, f"{spelled}:{port}", 5, 37)
        assert sock_diag.inet_name(host, port) == f"{spelled}:{port}"


def test_limit_is_somaxconn_at_most(tmp_path: Path) -> None:
    """The limit is the one that the kernel granted, not the requested one."""
    somaxconn = int(Path("/proc/sys/net/core/somaxconn").read_text())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a.sock"))
        listening.listen(somaxconn + 1000)
        assert find("unix", listening).limit == somaxconn


def test_only_stream_listeners_are_listed(tmp_path: Path) -> None:
    """Sockets that do not listen, and listeners for packets, are left out."""
    with (
        socket.socket(socket.AF_UNIX) as idle,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets,
    ):
        idle.bind(str(tmp_path / "idle"))
        packets.bind(str(tmp_path / "packets"))
        packets.listen()
        inodes = {listener.inode for listener in sock_diag.list_listeners("unix")}
        assert inodes.isdisjoint({inode(idle), inode(packets)})


def test_answer_in_many_parts() -> None:
    """A dump of hundreds of listeners arrives in parts and is complete; with `inodes`, only those are listed."""
    listening = [socket.socket(socket.AF_UNIX) for _ in range(400)]
    try:
        for number, one in enumerate(listening):
            one.bind(f"\0headroom-{os.getpid()}-{number}-{'x' * 60}")
            one.listen(number)
        expected = {inode(one): number for number, one in enumerate(listening)}
        limits = {listener.inode: listener.limit for listener in sock_diag.list_listeners("unix")}
        assert expected.items() <= limits.items()
        chosen = [inode(listening[7]), inode(listening[399])]
        assert [listener.inode for listener in sock_diag.list_listeners("unix", chosen)] in (chosen, chosen[::-1])
    finally:
        for one in listening:
            one.close()


def test_a_kernel_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question fails after a fifth of a second; it does not block the exporter."""
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


def test_interrupted_dump_is_repeated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump that the kernel marks as inconsistent is repeated once, and then accepted."""
    requests = []
    honest = sock_diag.ask

    def interrupted(request: bytes, seconds: float) -> tuple[list[bytes], bool]:
        requests.append(request)
        return honest(request)[0], True

    monkeypatch.setattr(sock_diag, "ask", interrupted)
    sock_diag.list_listeners("unix")
    assert len(requests) == 2


def test_interruption_is_seen() -> None:
    """The flag NLM_F_DUMP_INTR of a message is returned with it."""
    header = struct.pack("=IHHII", 20, sock_diag.SOCK_DIAG_BY_FAMILY, sock_diag.NLM_F_DUMP_INTR | 2, 1, 0)
    ((kind, flags, payload),) = sock_diag._messages(header + b"body")
    assert (kind, payload) == (sock_diag.SOCK_DIAG_BY_FAMILY, b"body")
    assert flags & sock_diag.NLM_F_DUMP_INTR


def test_truncated_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer larger than the buffer is an error, not a shorter list."""
    monkeypatch.setattr(sock_diag, "RECEIVE_BYTES", 24)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0headroom-{os.getpid()}")
        listening.listen()
        with pytest.raises(OSError, match="cut off"):
            sock_diag.list_listeners("unix")


@pytest.mark.parametrize("length", [3, 400])
def test_message_of_impossible_length_is_an_error(length: int) -> None:
    """A message with a length below its header's, or beyond its datagram, is an error."""
    with pytest.raises(OSError, match="cut off"):
        list(sock_diag._messages(struct.pack("=IHHII", length, 20, 2, 1, 0) + b"body"))


def test_kernel_without_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that cannot answer for a family (here one that does not exist) is an error that names the modules to
    load."""
    monkeypatch.setitem(
        sock_diag._FAMILIES, "unix", (bytes([44, 0]) + bytes(54), sock_diag._unix_inode, sock_diag._unix)
    )
    with pytest.raises(OSError, match="load the modules unix_diag"):
        sock_diag.list_listeners("unix")


@knows_socket_call
@pytest.mark.parametrize(
    ("code", "sentence"),
    [(errno.EAFNOSUPPORT, "add AF_NETLINK to RestrictAddressFamilies="), (errno.EPERM, "security policy")],
)
def test_forbidden_netlink(code: int, sentence: str) -> None:
    """If a security policy forbids netlink, the error says what to allow."""

    def ask() -> str:
        forbid_netlink(code)
        try:
            return str(sock_diag.list_listeners("unix"))
        except OSError as error:
            return str(error)

    assert sentence in in_child(ask)


@as_root
def test_no_privilege_is_needed(tmp_path: Path) -> None:
    """A user without privileges sees every listener, also root's."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a.sock"))
        listening.listen(9)
        waiting = clients(listening, 2)
        expected = sock_diag.Listener(inode(listening), "unix", str(tmp_path / "a.sock"), len(waiting), 9)
        assert expected in as_nobody(lambda: sock_diag.list_listeners("unix"))


@pytest.mark.parametrize(
    ("host", "name"),
    [("", "0.0.0.0:80"), ("127.1", "127.0.0.1:80"), ("0:0:0:0:0:0:0:1", "[::1]:80"), ("localhost", None)],
)
def test_inet_name(host: str, name: str | None) -> None:
    """Addresses are written as the kernel's; a host name is not resolved."""
    assert sock_diag.inet_name(host, 80) == name


def listener_of(listening: socket.socket) -> sock_diag.Listener:
    family: sock_diag.Family = "unix" if listening.family == socket.AF_UNIX else "inet"
    (found,) = sock_diag.list_listeners(family, {inode(listening)})
    return found


def test_known_listeners_are_asked_for_alone(tmp_path: Path) -> None:
    """The queue and limit of each are those of a dump, in the order of the question; asking again sees changes."""
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as tcp:
        unix.bind(str(tmp_path / "s"))
        unix.listen(7)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(9)
        known = [listener_of(tcp), listener_of(unix)]
        queues = sock_diag.Queues()
        assert queues.ask(known) == [(0, 9), (0, 7)]
        with socket.socket(socket.AF_UNIX) as client, socket.create_connection(tcp.getsockname()):
            client.connect(str(tmp_path / "s"))
            assert queues.ask(known) == [(1, 9), (1, 7)]
        queues.close()


def test_a_listener_that_is_closed_or_another() -> None:
    """There is no answer about a closed listener, nor about another one in its place; the next question is answered."""
    queues = sock_diag.Queues()
    with socket.socket() as tcp, socket.socket() as other:
        for each in (tcp, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(9)
        known = listener_of(tcp)
        address = tcp.getsockname()
        tcp.close()
        assert queues.ask([known]) is None
        other.bind(address)
        other.listen(9)
        assert queues.ask([known]) is None
        assert queues.ask([listener_of(other), known]) is None
        assert queues.ask([listener_of(other)]) == [(0, 9)]
    queues.close()

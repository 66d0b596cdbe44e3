"""Connections in real listen queues, which nobody accepts: who is listed, in what order, and how long each waits."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.other_namespaces import IPV6
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel import accept_queues, sock_diag
from uwsgi_headroom.kernel.accept_queues import AcceptQueues, find_rivals
from uwsgi_headroom.kernel.sock_diag import Listener
from uwsgi_headroom.record import Waiting


@pytest.fixture
def opened() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


def listen(
    opened: list[socket.socket], address: str | tuple[str, int], *, family: int | None = None, shared: bool = False
) -> socket.socket:
    listener = socket.socket(family or (socket.AF_UNIX if isinstance(address, str) else socket.AF_INET))
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)
    listener.listen(50)
    opened.append(listener)
    return listener


def connect(opened: list[socket.socket], address: object, text: bytes = b"GET ") -> socket.socket:
    client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    client.connect(address)  # type: ignore[arg-type]
    client.sendall(text)
    opened.append(client)
    return client


def of(*sockets: socket.socket) -> list[Listener]:
    """What the kernel lists of these listeners."""
    inodes = {each.stat().st_ino for each in map(_path, sockets)}
    families = ("unix",) if sockets[0].family == socket.AF_UNIX else ("inet", "inet6")
    return [each for family in families for each in sock_diag.list_listeners(family, inodes)]  # type: ignore[arg-type]


def _path(each: socket.socket) -> Path:
    return Path(f"/proc/self/fd/{each.fileno()}")


def listed(found: Waiting | None) -> Waiting:
    assert found
    return found


def test_tcp_connections_have_their_age(opened: list[socket.socket]) -> None:
    """Each has waited since its data came, the oldest first; one that was accepted is not listed, and one whose client
    has ended its sending is. The number of a connection stays the same."""
    listener = listen(opened, ("127.0.0.1", 0))
    address, began = listener.getsockname(), time.monotonic()
    connect(opened, address)
    wait_until(lambda: time.monotonic() - began > 0.3)
    connect(opened, address).shutdown(socket.SHUT_WR)
    wait_until(lambda: len(listed(AcceptQueues().list_tcp(of(listener))).connections) == 2)
    found, least = listed(AcceptQueues().list_tcp(of(listener))), time.monotonic() - began
    (first, oldest), (second, age) = found.connections
    assert oldest is not None
    assert age is not None
    assert found.is_complete
    assert 0.3 <= oldest <= least + 0.3
    assert age <= oldest - 0.25
    accepted, _ = listener.accept()
    opened.append(accepted)
    assert [key for key, _ in listed(AcceptQueues().list_tcp(of(listener))).connections] == [second]
    assert first != second


def test_tcp_connections_of_others_are_not_listed(opened: list[socket.socket]) -> None:
    """A listener at one address has those to this address alone; where another socket may have connections that look
    the same, that is noticed."""
    one = listen(opened, ("127.0.0.1", 0))
    port = one.getsockname()[1]
    two = listen(opened, ("127.0.0.2", port))
    connect(opened, ("127.0.0.2", port))
    assert listed(AcceptQueues().list_tcp(of(one))).connections == ()
    assert len(listed(AcceptQueues().list_tcp(of(two))).connections) == 1
    assert not find_rivals(of(one), of(one, two))
    everywhere, shared = listen(opened, ("", 0), shared=True), ("", 0)
    shared = ("", everywhere.getsockname()[1])
    assert not find_rivals(of(everywhere), of(one, two, everywhere))
    again = listen(opened, shared, shared=True)
    assert find_rivals(of(everywhere), of(everywhere, again))
    assert not find_rivals(of(everywhere, again), of(everywhere, again))
    special = listen(opened, ("127.0.0.1", shared[1]), shared=True)
    assert find_rivals(of(everywhere, again), of(everywhere, again, special))
    assert not find_rivals(of(special), of(everywhere, again, special))


@pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")
def test_tcp_clients_of_both_families(opened: list[socket.socket]) -> None:
    """A listener of IPv6 may accept clients of IPv4."""
    listener = listen(opened, ("::", 0), family=socket.AF_INET6)
    connect(opened, ("127.0.0.1", listener.getsockname()[1]))
    assert len(listed(AcceptQueues().list_tcp(of(listener))).connections) == 1


def test_unix_clients_in_their_order(opened: list[socket.socket], tmp_path: Path) -> None:
    """The kernel says who waits, and not since when. Who gave up does not wait."""
    listener = listen(opened, str(tmp_path / "s"))
    clients = [connect(opened, str(tmp_path / "s")) for _ in range(5)]
    inodes = [_path(client).stat().st_ino for client in clients]
    assert listed(AcceptQueues().list_unix(of(listener))) == Waiting(tuple((inode, None) for inode in inodes))
    clients[2].close()
    opened.append(listener.accept()[0])
    found = [key for key, _ in listed(AcceptQueues().list_unix(of(listener))).connections]
    assert found == [inodes[1], *inodes[3:]]


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_long_queue(kind: str, opened: list[socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a queue that is too long to be listed, the oldest TCP connections are, and nothing is said of a UNIX one."""
    monkeypatch.setattr(accept_queues, "MOST_LISTED", 3)
    listener = listen(opened, str(tmp_path / "s") if kind == "unix" else ("127.0.0.1", 0))
    for _ in range(5):
        connect(opened, listener.getsockname())
    if kind == "unix":
        assert AcceptQueues().list_unix(of(listener)) is None
        return
    found = listed(AcceptQueues().list_tcp(of(listener)))
    assert (len(found.connections), found.is_complete) == (3, False)


def test_lists_take_a_bounded_share_of_the_time(opened: list[socket.socket]) -> None:
    """After lists that took 2 ms of CPU together, there is another after 200 ms."""
    now, spent = [0.0], iter([0.0, 0.0015, 0.0015, 0.002])
    queues = AcceptQueues(lambda: now[0], lambda: next(spent))
    listener = of(listen(opened, ("127.0.0.1", 0)))
    assert queues.may_list_tcp()
    assert queues.list_tcp(listener) == queues.list_tcp(listener) == Waiting(())
    now[0] = 0.199
    assert not queues.may_list_tcp()
    now[0] = 0.201
    assert queues.may_list_tcp()


def test_sockets_that_are_gone(opened: list[socket.socket], tmp_path: Path) -> None:
    """A listener that was closed since has no list, and no error."""
    unix, tcp = listen(opened, str(tmp_path / "s")), listen(opened, ("127.0.0.1", 0))
    gone = of(unix), of(tcp)
    unix.close()
    tcp.close()
    assert AcceptQueues().list_unix(gone[0]) is None
    assert AcceptQueues().list_tcp(gone[1]) == Waiting(())

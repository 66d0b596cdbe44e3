"""The other ends of real sockets."""

import ctypes
import errno
import math
import os
import re
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.kernel.contained import listening
from tests.support.other_namespaces import IPV6, over_ipv6
from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.aside import DIRECT
from uwsgi_headroom.kernel.procfs import read_name
from uwsgi_headroom.kernel.waits import peers, programs
from uwsgi_headroom.kernel.waits.peers import Peer, Peers
from uwsgi_headroom.kernel.waits.programs import Programs
from uwsgi_headroom.record import Destination, Program

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield stack


def inode(of: socket.socket) -> int:
    return os.fstat(of.fileno()).st_ino


def peers_of(*sockets: socket.socket) -> list[Peer | None]:
    known = Peers()
    known.learn([inode(each) for each in sockets])
    return [known.get(inode(each)) for each in sockets]


def connected(
    opened: ExitStack, family: int, bound: object, to: object = None
) -> tuple[socket.socket, socket.socket, socket.socket]:
    server = opened.enter_context(listening(bound))
    near_family = socket.AF_INET if to else family
    near = opened.enter_context(socket.socket(near_family))
    near.connect((to, server.getsockname()[1]) if to else server.getsockname())
    return server, near, opened.enter_context(server.accept()[0])


def test_tcp(opened):
    server, near, accepted = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    address = f"127.0.0.1:{server.getsockname()[1]}"
    assert peers_of(server, near, accepted) == [Peer("listening"), Peer("backend", address), Peer("client")]


@over_ipv6
def test_tcp_over_ipv6(opened):
    """Also for a listener on all addresses, and for an IPv4 client of it, whose address is mapped."""
    server, near, accepted = connected(opened, socket.AF_INET6, ("::1", 0))
    assert peers_of(near, accepted) == [Peer("backend", f"[::1]:{server.getsockname()[1]}"), Peer("client")]
    server, near, accepted = connected(opened, socket.AF_INET6, ("::", 0), "127.0.0.1")
    address = f"127.0.0.1:{server.getsockname()[1]}"
    assert peers_of(server, near, accepted) == [Peer("listening"), Peer("backend", address), Peer("client")]
    mapped = opened.enter_context(socket.socket(socket.AF_INET6))
    mapped.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
    assert peers_of(mapped) == [Peer("backend", address)]


def datagrams(opened: ExitStack, bound: object) -> list[socket.socket]:
    """A socket for datagrams that is bound, one that is connected to it, and one that has sent to it."""
    family = socket.AF_INET if isinstance(bound, tuple) else socket.AF_UNIX
    agent, near, free = (opened.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(3))
    agent.bind(bound)
    near.connect(agent.getsockname())
    free.sendto(b"", agent.getsockname())
    return [agent, near, free]


def test_udp(opened):
    """A connected UDP socket has a backend or a name server; an unconnected one has no other end."""
    agent, *others = datagrams(opened, ("127.0.0.1", 0))
    dns = opened.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    dns.connect(("127.0.0.77", 53))
    sent = Peer("datagram", f"127.0.0.1:{agent.getsockname()[1]}")
    unconnected = Peer("unconnected")
    assert peers_of(agent, *others, dns) == [unconnected, sent, unconnected, Peer("dns", "127.0.0.77:53")]


def test_unix_datagrams(opened, tmp_path):
    """A socket that sends datagrams to a path, as to an agent for metrics, is no connection."""
    sent, unconnected = Peer("datagram", str(tmp_path / "agent")), Peer("unconnected")
    assert peers_of(*datagrams(opened, str(tmp_path / "agent"))) == [unconnected, sent, unconnected]


def full_queue(opened: ExitStack, family: int, host: str) -> tuple[socket.socket, str]:
    """A socket that connects to a listener whose queue is full, and the listener's address."""
    server = opened.enter_context(listening((host, 0), 0))
    for _ in range(5):
        near = opened.enter_context(socket.socket(family))
        near.setblocking(False)
        with suppress(BlockingIOError):
            near.connect(server.getsockname())
    name = f"[{host}]" if ":" in host else host
    return near, f"{name}:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), pytest.param(socket.AF_INET6, "::1", marks=over_ipv6)]
)
def test_a_connection_without_an_answer(opened, family, host):
    """It is known by netlink and by the tables of /proc, and looked up anew each time: it may be made by then."""
    near, address = full_queue(opened, family, host)
    silent = Peer("backend", address, connecting=True)
    assert peers_of(near) == [silent]
    assert peers._read_all(os.getpid(), {inode(near)}) == {inode(near): silent}
    known = Peers(lambda: 0.0)
    known.learn([inode(near)])
    known._known[inode(near)] = Peer("backend", "of an hour ago", connecting=True)
    known._not_before = 0.0
    known.learn([inode(near)])
    assert known.get(inode(near)) == silent


def test_connections_with_a_request_that_is_not_answered(opened):
    """Data was sent and none was received since; after the answer it is no more. Closed ones are left out."""
    _, near, far = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    _, idle, _ = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    silent, silent_address = full_queue(opened, socket.AF_INET, "127.0.0.1")
    asked = [inode(each) for each in (near, idle, silent)]
    known = Peers()
    known.learn(asked)
    time.sleep(0.05)  # the kernel's clock has steps of some milliseconds
    near.sendall(b"?")
    time.sleep(0.05)
    unanswered, _ = known.list_unanswered(asked)
    address = f"127.0.0.1:{near.getpeername()[1]}"
    assert [peer.address for peer in unanswered] == [address, silent_address]
    far.recv(1)
    far.sendall(b"!")
    near.recv(1)
    unanswered, _ = known.list_unanswered(asked)
    assert [peer.address for peer in unanswered] == [silent_address]
    near.close()
    assert len(known.list_unanswered([*asked, 4711])[0]) == 1


_DROP_ALL, _SO_ATTACH_FILTER = (6, 0, 0, 0), 26  # BPF_RET | BPF_K; asm-generic/socket.h


@pytest.mark.skipif(os.geteuid() != 0, reason="some systems let root alone attach a filter that drops packets")
def test_a_lost_connection(opened):
    """Its other end acknowledges nothing, as behind a firewall that has forgotten it; a slow one does."""
    (*_, slow, _), (*_, near, far) = (connected(opened, socket.AF_INET, ("127.0.0.1", 0)) for _ in range(2))
    clock, asked = MovableClock(), [inode(slow), inode(near)]
    known = Peers(clock.clock.monotonic)
    known.learn(asked)
    program = ctypes.create_string_buffer(struct.pack("HBBI", *_DROP_ALL))
    far.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(program)))
    for each in (slow, near):
        each.sendall(b"?")

    def lost() -> list[bool]:
        clock.move(1)
        known.note_lost(asked, None)
        return [known.get(each).lost for each in asked]

    assert lost() == [False, False]
    wait_until(lambda: lost()[1], what="three retransmissions", pause=0.1)
    assert lost() == [False, True]
    known.note_lost([4711], None)


@pytest.mark.parametrize("abstract", [False, True])
def test_unix(opened, tmp_path, abstract):
    name = f"@headroom-test-{os.getpid()}" if abstract else str(tmp_path / "db")
    ends = connected(opened, socket.AF_UNIX, name.replace("@", "\0"))
    assert peers_of(*ends) == [Peer("listening", name), Peer("backend", name), Peer("client", name)]


@pytest.mark.parametrize(("setting", "kind"), [("_RESOLVERS", "dns"), ("_LOGS", "log")])
def test_a_local_name_server_or_log_is_no_backend(opened, tmp_path, monkeypatch, setting, kind):
    monkeypatch.setattr(peers, setting, (f"{tmp_path}/",))
    _, near, _ = connected(opened, socket.AF_UNIX, str(tmp_path / "service"))
    assert peers_of(near) == [Peer(kind, str(tmp_path / "service"))]


def test_unix_socket_that_the_kernel_named(opened, tmp_path):
    """With SO_PASSCRED the kernel names the connecting socket: that does not make it an accepted one."""
    server = opened.enter_context(listening(str(tmp_path / "bus")))
    near = opened.enter_context(socket.socket(socket.AF_UNIX))
    near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    near.connect(str(tmp_path / "bus"))
    opened.enter_context(server.accept()[0])
    assert near.getsockname()
    assert peers_of(near) == [Peer("backend", str(tmp_path / "bus"))]


def test_a_unix_socket_that_is_still_connecting_is_no_pair(opened, tmp_path):
    server = opened.enter_context(listening(str(tmp_path / "db"), 0))
    first, second = (opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
    first.connect(str(tmp_path / "db"))
    connecting = threading.Thread(target=second.connect, args=(str(tmp_path / "db"),))
    connecting.start()
    hands = MovableClock()
    known = Peers(hands.clock.monotonic)
    known.learn([inode(second)])
    assert known.get(inode(second)) == Peer("unconnected")
    for _ in range(2):
        opened.enter_context(server.accept()[0])
    connecting.join()
    hands.move(100)
    known.learn([inode(second)])
    assert known.get(inode(second)) == Peer("backend", str(tmp_path / "db"))


def test_pairs_and_other_inodes(opened):
    """A socketpair is a pair; a free socket and an inode of none stay unknown."""
    left, right = (opened.enter_context(each) for each in socket.socketpair())
    free = opened.enter_context(socket.socket())
    assert peers_of(left, right, free) == [Peer("pair"), Peer("pair"), None]
    known = Peers()
    known.learn([2**32 - 2, 2**40, -1])
    assert [known.get(number) for number in (2**32 - 2, 2**40, -1)] == [None] * 3


def test_lists_are_rare(opened, monkeypatch):
    lists: list[object] = []
    real = peers._list_inet
    monkeypatch.setattr(peers, "_list_inet", lambda inodes: lists.append(inodes) or real(inodes))
    processor = iter((0.0, 0.002, 1.0, 1.001))
    monkeypatch.setattr(peers.time, "thread_time", lambda: next(processor))
    _, near, accepted = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    hands = MovableClock()
    monkeypatch.setattr(peers, "_FIRST_LISTS", 1)
    known = Peers(hands.clock.monotonic)
    assert not known.lists
    known.learn([inode(near)])
    known.learn([inode(near)])
    hands.move(0.99)
    known.learn([inode(accepted)])
    assert (len(lists), known.get(inode(accepted)), known.lists) == (1, None, 1)
    hands.move(0.02)
    known.learn([inode(accepted)])
    assert (len(lists), known.get(inode(accepted))) == (2, Peer("client"))


def test_a_list_is_searched_for_other_sockets_too(opened):
    _, near, accepted = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    known = Peers()
    known.learn([], lambda: [inode(accepted)])
    assert known.get(inode(accepted)) is None
    known.learn([inode(near)], lambda: [inode(accepted)])
    assert known.get(inode(accepted)) == Peer("client")


def test_few_sockets_are_asked_for_at_once(monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(peers, "_ask_unix", asked.append)
    monkeypatch.setattr(peers, "_list_inet", lambda _: {})
    known = Peers(lambda: 0.0)
    for _ in range(3):
        known.learn(range(1, 1001))
    assert len(asked) == len(set(asked)) == 3 * 64


def test_a_list_without_its_listeners_decides_nothing(opened, monkeypatch):
    monkeypatch.setattr(peers, "MOST_SECONDS", -1.0)
    _, near, accepted = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    assert peers_of(near, accepted) == [None, None]


def test_all_lists_end_together(monkeypatch):
    ends: list[float] = []

    def ask(_: bytes, *, seconds: float = math.inf, **__: object) -> tuple[list[bytes], bool]:
        ends.append(seconds)
        return [], False

    monkeypatch.setattr(sock_diag, "ask", ask)
    peers._list_inet({1})
    assert len(ends) == 6
    assert ends == sorted(ends, reverse=True)
    assert max(ends) <= peers.MOST_SECONDS


@pytest.fixture
def refused(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(sock_diag, "ask", refuse)


@pytest.mark.usefixtures("refused")
def test_if_netlink_is_refused_the_reason_says_what_to_allow():
    assert re.search("denies the exporter netlink", Peers().learn([1]) or "")


@pytest.mark.usefixtures("refused")
def test_internet_sockets_of_the_tables(opened):
    """Without netlink, the tables in /proc say the same about TCP and UDP."""
    test_tcp(opened)
    test_udp(opened)
    if IPV6:
        test_tcp_over_ipv6(opened)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("abstract", [False, True])
def test_unix_sockets_of_the_tables(opened, tmp_path, abstract):
    """Without netlink, listening and accepted UNIX sockets are known; what the others are connected to is not."""
    name = f"@headroom-test-{os.getpid()}" if abstract else str(tmp_path / "my db")
    ends = connected(opened, socket.AF_UNIX, name.replace("@", "\0"))
    left, _ = (opened.enter_context(each) for each in socket.socketpair())
    known = Peers()
    assert "netlink" in known.learn([inode(each) for each in (*ends, left)])
    found = [known.get(inode(each)) for each in (*ends, left)]
    assert found == [Peer("listening", name), None, Peer("client", name), None]
    assert known.learn([inode(ends[0]), inode(ends[2])]) is None


@pytest.mark.usefixtures("refused")
def test_a_name_that_looks_like_a_row_makes_no_listener(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near, _ = (opened.enter_context(each) for each in socket.socketpair())
    forger = opened.enter_context(socket.socket(socket.AF_UNIX))
    row = f"0000000000000000: 00000002 00000000 00010000 0001 01 {inode(near)} "
    forger.bind(f"a\n{row}x".replace("/", ""))
    forger.listen()
    assert row in Path("/proc/self/net/unix").read_text(errors="replace")
    assert peers_of(near, forger)[0] is None


@pytest.mark.usefixtures("refused")
def test_tables_that_take_too_long_decide_nothing(opened, monkeypatch):
    _, near, accepted = connected(opened, socket.AF_INET, ("127.0.0.1", 0))
    left, _ = (opened.enter_context(each) for each in socket.socketpair())
    monkeypatch.setattr(peers, "MOST_SECONDS", -1.0)
    monkeypatch.setattr(peers, "_CHUNK", 64)
    assert peers_of(near, accepted, left) == [None, None, None]


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_first_lists_have_no_pause(request, monkeypatch, is_refused):
    """The first three may follow each other, and ten more while no young socket is known. Tables cost no more."""
    if is_refused:
        request.getfixturevalue("refused")
    lists: list[object] = []
    monkeypatch.setattr(peers, "_list_inet", lambda inodes: lists.append(inodes) or {})
    monkeypatch.setattr(peers, "_read_all", lambda _, inodes: lists.append(inodes) or {})
    processor = count(0.0, 0.002)
    monkeypatch.setattr(peers.time, "thread_time", lambda: next(processor))
    hands = MovableClock()
    known = Peers(hands.clock.monotonic)
    assert len({known.learn([2**31 + number]) for number in range(6)}) == 1
    assert len(lists) == 3
    soon = [known.may_list_soon() for number in range(20) if not known.learn([2**32 + number]) or is_refused]
    assert (sum(soon), len(lists)) == (10, 13)
    hands.move(1.1)
    known.learn([2**31 + 99])
    assert len(lists) == 14


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(peers, "_MOST_KNOWN", 100)
    monkeypatch.setattr(peers, "_ask_unix", lambda number: Peer("pair") if number % 2 else None)
    monkeypatch.setattr(peers, "_list_inet", lambda _: {})
    known = Peers(lambda: 0.0)
    for number in range(2000):
        known.learn([number])
    assert len(known._known) + len(known._not_unix) <= 101


def test_the_cpus_of_a_program_are_never_below_zero(monkeypatch, tmp_path):
    """Its use of CPUs is unknown, not 0, while it cannot be read."""
    used = [5.0, None, 8.0]
    monkeypatch.setattr(programs, "find_program", lambda _: ("shopd", 7))
    monkeypatch.setattr(programs, "_read_cpu", lambda _: used.pop(0))
    clock = iter((0.0, 10.0, 20.0))
    monkeypatch.setattr(programs.time, "monotonic", lambda: next(clock))
    known, address = Programs(DIRECT), str(tmp_path / "s")
    found = [known.learn([Destination("backend", (address,))])[address].cpus for _ in range(3)]
    assert found == [None, None, 3.0 / 20.0]


@pytest.mark.parametrize("name", ["shopd", "a\nb c", "\x1b[31m"])
def test_the_program_at_an_address(name, tmp_path, monkeypatch):
    """Who listens on this host, by the name that a process has given itself: any bytes. Other hosts are not asked."""
    own, path = read_name(os.getpid()), str(tmp_path / "s")
    monkeypatch.setattr(programs, "_SEARCH_SECONDS", 60.0)  # a busy machine takes long
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix, suppress(OSError):
        unix.bind(path)
        unix.listen()
        at = f"127.0.0.1:{tcp.getsockname()[1]}"
        addresses = (at, path, "127.0.0.1:1", "10.0.0.5:5432")
        try:
            Path("/proc/self/comm").write_text(name)
            found = Programs(DIRECT).learn([Destination("backend", (each,)) for each in addresses])
        finally:
            Path("/proc/self/comm").write_text(own)
        said = Program(name if name.isalnum() else "")
        assert found == {at: said, path: said, "127.0.0.1:1": Program("")}

"""Listen queues, of real uWSGI and of sockets opened here: their lengths, who waits in them, and overflows."""

import contextlib
import errno
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from tests.kernel.contained import listening
from tests.kernel.trees import TREES, write_files
from tests.support.other_namespaces import (
    IPV6,
    as_nobody,
    as_root,
    forbid_netlink,
    in_child,
    knows_socket_call,
    python_in,
)
from tests.support.real_uwsgi import Uwsgi, accepting, free_port, uwsgi_binary, wait_until, wrapped
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.kernel import backlogs, sock_diag
from uwsgi_headroom.kernel.backlogs import AcceptQueues, Backlogs, ListenOverflows, find_rivals, read_listen_overflows
from uwsgi_headroom.kernel.sock_diag import Listener
from uwsgi_headroom.record import Backlog, Waiting


def names(server: Uwsgi) -> list[str]:
    """The sockets' names in the stats document; uWSGI does not escape a backslash, which is not valid JSON."""
    document = server.document().replace(b"\\", b"\\\\")
    return [each["name"] for each in msgspec.json.decode(document)["sockets"]]


def reason(backlog: Backlog) -> str:
    assert (backlog.queue, backlog.limit) == (None, None)
    assert backlog.reason
    return backlog.reason


@contextlib.contextmanager
def busy(server: Uwsgi) -> Iterator[None]:
    """The only worker sleeps in a request, so that nothing is accepted."""
    url = f"http://127.0.0.1:{server.http}/?io_ms=1500"
    request = Thread(target=lambda: urllib.request.urlopen(url, timeout=60).read())
    request.start()
    wait_until(lambda: b'"in_request":1' in server.document(), what="the request to be in service")
    yield
    request.join()


def connect(address: str | tuple[str, int], count: int) -> list[socket.socket]:
    """Clients that wait. Over TCP they send a byte, because uWSGI defers accepting silent clients."""
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        client.connect(address)
        if not isinstance(address, str):
            client.send(b"G")
        clients.append(client)
    return clients


@pytest.mark.integration
def test_exact_queues_of_a_busy_server():
    """Every unaccepted connection is counted, for UNIX and TCP; the limit is the option `listen`."""
    with accepting("--listen", "24", "--stats-minified") as server:
        http = f"127.0.0.1:{server.http}"
        backlogs = Backlogs()
        assert backlogs.read(server.pid, names(server)) == dict.fromkeys((server.socket, http), Backlog(0, 24, None))
        with busy(server):
            waiting = connect(server.socket, 7) + connect(("127.0.0.1", server.http), 5)
            wait_until(lambda: backlogs.read(server.pid, [http])[http].queue == 5, what="the handshakes")
            knowing = Backlogs()
            found = knowing.read(server.pid, names(server))
            assert found == {server.socket: Backlog(7, 24, None), http: Backlog(5, 24, None)}
            listed = knowing.list_waiting(server.pid, found)
            assert {name: len(queue.connections) for name, queue in listed.items()} == {server.socket: 7, http: 5}
            assert [age for _, age in listed[server.socket].connections] == [None] * 7
            assert all(age is not None for _, age in listed[http].connections)
            for client in waiting:
                client.close()
        wait_until(lambda: backlogs.read(server.pid, [server.socket])[server.socket].queue == 0)


@as_root
@pytest.mark.integration
def test_exact_queue_for_another_user():
    with accepting("--listen", "24", "--stats-minified") as server, busy(server):
        waiting = connect(server.socket, 3)
        expected = {server.socket: Backlog(len(waiting), 24, None)}
        assert as_nobody(lambda: Backlogs().read(server.pid, [server.socket])) == expected


@pytest.mark.integration
def test_every_kind_of_name_is_found_before_and_after_a_reload():
    ports = [free_port() for _ in range(6)]
    options = ["relative.sock", "./dot.sock", "@abstract", "\\0zero", "127.0.0.1:0"]
    options += [f":{ports[0]}", f"0.0.0.0:{ports[1]}", f"127.1:{ports[2]}", f"localhost:{ports[3]}"]
    options += [f"[::1]:{ports[4]}", f"[::]:{ports[5]}"] if IPV6 else []
    arguments = [part for name in options for part in ("--socket", name)]
    with accepting("--listen", "17", *arguments) as server:
        backlogs = Backlogs()
        check_names(server, backlogs, options)
        before = worker_pids(server)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: before.isdisjoint(worker_pids(server) or before), what="the reload")
        check_names(server, backlogs, options)


def check_names(server: Uwsgi, backlogs: Backlogs, options: list[str]) -> None:
    socket_names = names(server)
    assert len(set(socket_names)) == len(options) + 2
    assert {*options} - {"127.0.0.1:0"} < {*socket_names}
    for knowing in (backlogs, Backlogs()):
        assert set(knowing.read(server.pid, socket_names).values()) == {Backlog(0, 17, None)}


def worker_pids(server: Uwsgi) -> set[int]:
    """The pids of accepting workers; None while the stats server does not answer."""
    try:
        document = server.document().replace(b"\\", b"\\\\")
    except OSError:
        return set()
    return {worker["pid"] for worker in msgspec.json.decode(document)["workers"] if worker["accepting"]} - {0}


@pytest.mark.integration
def test_a_socket_named_twice_and_mapped_to_one_worker():
    """It is twice in the document, and has one queue. With `map-socket` the master still holds every socket."""
    sockets = ["--socket", "twice.sock", "--socket", "twice.sock", "--map-socket", "0:1", "--map-socket", "1:2"]
    with accepting("--processes", "2", *sockets, "--listen", "17") as server:
        assert names(server).count("twice.sock") == 2
        found = Backlogs().read(server.pid, names(server))
        assert found == dict.fromkeys({*names(server)}, Backlog(0, 17, None))


SOCKET_ACTIVATION = """
import os, socket, sys
listening = socket.socket({family})
listening.bind({bound!r})
listening.listen(9)
os.dup2(listening.fileno(), 19)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("bound", "name"),
    [(b"\0inherited", "inherited"), (b"inherited.sock", "inherited.sock"), (("127.0.0.1", 0), "127.0.0.1:")],
)
def test_inherited_socket(bound, name, tmp_path):
    """An inherited descriptor has the name of getsockname(2); an abstract one may lack its @."""
    activation = tmp_path / "activation.py"
    family = int(socket.AF_UNIX if isinstance(bound, bytes) else socket.AF_INET)
    activation.write_text(SOCKET_ACTIVATION.format(family=family, bound=bound))
    binary = wrapped(tmp_path, uwsgi_binary(), f"{sys.executable} {activation}")
    with accepting("--socket", "fd://19", binary=binary) as server:
        (inherited,) = set(names(server)) - {server.socket, f"127.0.0.1:{server.http}"}
        assert inherited.lstrip("@").startswith(name)
        assert Backlogs().read(server.pid, [inherited]) == {inherited: Backlog(0, 9, None)}


@pytest.mark.parametrize("name", ["", "/nowhere.sock", "@nowhere", ":1", "[::1]:1", "[no]:1", "localhost:1", "no:no"])
def test_name_without_a_listener_is_unmeasurable(name):
    for pid, why in ((os.getpid(), "no listening socket"), (None, "not proven"), (2**22 + 1, "it has ended")):
        assert why in reason(Backlogs().read(pid, [name])[name])


def test_of_two_listeners_of_one_name_only_that_of_the_master_counts(tmp_path):
    path = str(tmp_path / "a.sock")
    with listening(path, 3) as older:
        waiting = connect(path, 2)
        assert len(waiting) == 2
        Path(path).unlink()

        def only_ours() -> dict[str, Backlog]:
            older.close()
            with listening(path, 5):
                return Backlogs().read(os.getpid(), [path])

        assert in_child(only_ours) == {path: Backlog(0, 5, None)}


@as_root
def test_of_two_listeners_of_one_name_and_hidden_owners_neither_is_used(tmp_path):
    path, pid = str(tmp_path / "a.sock"), os.getpid()
    with listening(path):
        Path(path).unlink()
        with listening(path):
            backlog = as_nobody(lambda: Backlogs().read(pid, [path]))[path]
    assert reason(backlog).startswith(f"2 sockets listen on {path}, and this user may not see which is uWSGI's")


def test_queues_of_one_name_that_is_held_twice_are_summed():
    with listening(("127.0.0.1", 0), 20, shared=True) as first, listening(first.getsockname(), 20, shared=True):
        name = f"127.0.0.1:{first.getsockname()[1]}"
        waiting = connect(first.getsockname(), 6)
        wait_until(lambda: Backlogs().read(os.getpid(), [name])[name] == Backlog(len(waiting), 40, None))


def test_socket_opened_later(tmp_path):
    """Descriptors are listed again only if a name is not among the known sockets."""
    backlogs = Backlogs()
    path = str(tmp_path / "a.sock")
    assert "no listening socket" in reason(backlogs.read(os.getpid(), [path])[path])
    with listening(path, 3):
        assert backlogs.read(os.getpid(), [path])[path] == Backlog(0, 3, None)
        held = backlogs._sockets
        assert backlogs.read(os.getpid(), [path])[path] == Backlog(0, 3, None)
        assert backlogs._sockets is held


@knows_socket_call
def test_forbidden_netlink():
    """If netlink is forbidden, every queue is unmeasurable, and the reason says what to allow."""

    def ask() -> dict[str, Backlog]:
        forbid_netlink(errno.EAFNOSUPPORT)
        return Backlogs().read(os.getpid(), ["/tmp/app.sock", ":80"])

    assert all("RestrictAddressFamilies" in reason(backlog) for backlog in in_child(ask).values())


@pytest.fixture
def asked(monkeypatch):
    """The families that the kernel was asked for; each list takes a millisecond of the test's clock."""
    families = []

    def dump(family: sock_diag.Family) -> dict[int, bytes]:
        families.append(family)
        HANDS.move(0.001)
        return {}

    monkeypatch.setattr(sock_diag, "dump_listeners", dump)
    return families


HANDS = MovableClock()


def test_a_list_is_shared_for_fifty_times_as_long_as_it_took(asked):
    """A list of a millisecond serves all servers of the next 49, each family apart, but no two samples of one."""
    assert backlogs.MOST_SHARED_SECONDS < 0.16
    dumps = backlogs.ListenerDumps(HANDS.clock.monotonic, HANDS.clock.monotonic)
    for family, pause in (*[("unix", 0.008)] * 5, ("inet", 0.010), *[("unix", 0.16)] * 3):
        dumps.list_listeners(family)
        HANDS.move(pause)
    assert asked == ["unix", "inet", *["unix"] * 3]


def test_forgotten_lists_are_asked_for_again():
    dumps = backlogs.ListenerDumps(lambda: 0.0)
    dumps.list_listeners("unix")
    with listening(""):
        dumps.forget()
        names = {listener.name for listener in dumps.list_listeners("unix")}
    assert any(name.startswith("@") for name in names)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ((TREES / "netstat" / "proc/self/net/netstat").read_text(), ListenOverflows(12, 12)),  # among a hundred others
        ("", None),
        ("TcpExt: SyncookiesSent\nTcpExt: 1\n", None),
        ("IpExt: ListenDrops\n", None),
    ],
)
def test_overflows(text, counts, tmp_path):
    """The counts are found by name. If the kernel has none, or the process has ended, they are None, not 0."""
    write_files(tmp_path, {"self/net/netstat": text})
    assert read_listen_overflows(proc=tmp_path) == counts
    assert read_listen_overflows(2**22 + 1) is None


@as_root
def test_no_privilege_is_needed():
    pid = os.getpid()
    overflows = as_nobody(lambda: read_listen_overflows(pid))
    assert overflows.drops >= overflows.overflows


@as_root
def test_connections_are_counted_where_one_socket_listens():
    """`opened`: how many connections clients have made, if all can only be the server's."""
    code = (
        "import fcntl, os, socket, struct\n"
        "SIOCSIFFLAGS, IFF_UP = 0x8914, 1\n"
        "fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack('16sh', b'lo', IFF_UP))\n"
        "from uwsgi_headroom.kernel.backlogs import Backlogs, read_opened\n"
        "me = os.getpid()\n"
        "print(Backlogs().count_alone(me), read_opened(me))\n"
        "one = socket.create_server(('127.0.0.1', 0))\n"
        "clients = [socket.create_connection(one.getsockname()) for _ in range(3)]\n"
        "print(Backlogs().count_alone(me), read_opened(me))\n"
        "other = socket.create_server(('127.0.0.1', 0))\n"
        "print(Backlogs().count_alone(me))\n"
        "print(Backlogs().count_alone(os.getppid()))\n"
    )
    assert python_in("--net", code).split("\n") == ["0 0", "1 3", "2", "0"]


@pytest.fixture
def opened(patient):
    with contextlib.ExitStack() as stack:
        yield stack


def queue_up(opened: contextlib.ExitStack, address: str | tuple[str, int]) -> socket.socket:
    return opened.enter_context(connect(address, 1)[0])


def listen(opened: contextlib.ExitStack, address: str | tuple[str, int], *, shared: bool = False) -> socket.socket:
    return opened.enter_context(listening(address, 50, shared=shared))


def of(*sockets: socket.socket) -> list[Listener]:
    inodes = {each.stat().st_ino for each in map(_path, sockets)}
    families = ("unix",) if sockets[0].family == socket.AF_UNIX else ("inet", "inet6")
    return [each for family in families for each in sock_diag.list_listeners(family, inodes)]


def list_tcp(*listeners: socket.socket) -> Waiting:
    return AcceptQueues().list_tcp(of(*listeners))


def _path(each: socket.socket) -> Path:
    return Path(f"/proc/self/fd/{each.fileno()}")


def test_tcp_connections_have_their_age(opened):
    """Since its data came, the oldest first, also if the client has ended its sending, until it is accepted."""
    listener = listen(opened, ("127.0.0.1", 0))
    address, began = listener.getsockname(), time.monotonic()
    queue_up(opened, address)
    wait_until(lambda: time.monotonic() - began > 0.3)
    queue_up(opened, address).shutdown(socket.SHUT_WR)
    wait_until(lambda: len(list_tcp(listener).connections) == 2)
    found, least = list_tcp(listener), time.monotonic() - began
    (first, oldest), (second, age) = found.connections
    assert found.is_complete
    assert 0.3 <= oldest <= least + 0.3
    assert age <= oldest - 0.25
    opened.enter_context(listener.accept()[0])
    assert [key for key, _ in list_tcp(listener).connections] == [second]
    assert first != second


def test_tcp_connections_of_others_are_not_listed(opened):
    one = listen(opened, ("127.0.0.1", 0))
    port = one.getsockname()[1]
    two = listen(opened, ("127.0.0.2", port))
    queue_up(opened, ("127.0.0.2", port))
    assert list_tcp(one).connections == ()
    assert len(list_tcp(two).connections) == 1
    assert not find_rivals(of(one), of(one, two))
    everywhere = listen(opened, ("", 0), shared=True)
    shared = ("", everywhere.getsockname()[1])
    assert not find_rivals(of(everywhere), of(one, two, everywhere))
    again = listen(opened, shared, shared=True)
    assert find_rivals(of(everywhere), of(everywhere, again))
    assert not find_rivals(of(everywhere, again), of(everywhere, again))
    special = listen(opened, ("127.0.0.1", shared[1]), shared=True)
    assert find_rivals(of(everywhere, again), of(everywhere, again, special))
    assert not find_rivals(of(special), of(everywhere, again, special))


@pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")
def test_a_listener_of_ipv6_may_accept_clients_of_ipv4(opened):
    listener = listen(opened, ("::", 0))
    queue_up(opened, ("127.0.0.1", listener.getsockname()[1]))
    assert len(list_tcp(listener).connections) == 1


def test_unix_clients_in_their_order(opened, tmp_path):
    """The kernel says who waits, and not since when. Who gave up does not wait."""
    listener = listen(opened, str(tmp_path / "s"))
    clients = [queue_up(opened, str(tmp_path / "s")) for _ in range(5)]
    inodes = [_path(client).stat().st_ino for client in clients]
    assert AcceptQueues().list_unix(of(listener)) == Waiting(tuple((inode, None) for inode in inodes))
    clients[2].close()
    opened.enter_context(listener.accept()[0])
    found = [key for key, _ in AcceptQueues().list_unix(of(listener)).connections]
    assert found == [inodes[1], *inodes[3:]]


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_long_queue(kind, opened, tmp_path, monkeypatch):
    """Of a queue that is too long to be listed, the oldest TCP connections are, and nothing is said of a UNIX one."""
    monkeypatch.setattr(backlogs, "MOST_LISTED", 3)
    listener = listen(opened, str(tmp_path / "s") if kind == "unix" else ("127.0.0.1", 0))
    for _ in range(5):
        queue_up(opened, listener.getsockname())
    if kind == "unix":
        assert AcceptQueues().list_unix(of(listener)) is None
        return
    found = list_tcp(listener)
    assert (len(found.connections), found.is_complete) == (3, False)


def test_lists_take_a_bounded_share_of_the_time(opened):
    now, spent = [0.0], iter([0.0, 0.0015, 0.0015, 0.002])
    queues = AcceptQueues(lambda: now[0], lambda: next(spent))
    listener = of(listen(opened, ("127.0.0.1", 0)))
    assert queues.may_list_tcp()
    assert queues.list_tcp(listener) == queues.list_tcp(listener) == Waiting(())
    now[0] = 0.199
    assert not queues.may_list_tcp()
    now[0] = 0.201
    assert queues.may_list_tcp()


def test_sockets_that_are_gone_have_no_list_and_no_error(opened, tmp_path):
    unix, tcp = listen(opened, str(tmp_path / "s")), listen(opened, ("127.0.0.1", 0))
    gone = of(unix), of(tcp)
    unix.close()
    tcp.close()
    assert AcceptQueues().list_unix(gone[0]) is None
    assert AcceptQueues().list_tcp(gone[1]) == Waiting(())

"""The HTTP server's connections: how many there are, and which one is closed for another."""

import contextlib
import resource
import socket
import time
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.support.real_uwsgi import wait_until
from tests.support.web_server import LimitedServer, limited_server
from uwsgi_headroom.web import bounds, connection_slots
from uwsgi_headroom.web.connection_slots import ConnectionSlots
from uwsgi_headroom.web.listeners import open_listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "systemd"])
def test_answers_do_not_wait_for_acknowledgements(host):
    """An answer may be several segments: with Nagle's algorithm, the second one waits for the client's delayed ACK."""
    listener = socket.create_server(("127.0.0.1", 0)) if host == "systemd" else open_listener(host, 0)
    with (
        limited_server(PlainTextResponse("ok"), listener=listener) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        wait_until(lambda: server.connections, what="the connection")
        (connection,) = server.connections
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.mark.parametrize("limit", [64, 100, 256, 1024, 4096])
@pytest.mark.parametrize("servers", [1, 8])
def test_the_sum_fits(limit, servers):
    """Connections, four times the backlog, and all other needs fit into the limit."""
    capacity = connection_slots.share_out(limit, servers, 1)
    needed = bounds.OWN_DESCRIPTORS + bounds.DESCRIPTORS_PER_SERVER * servers + 1
    assert capacity.connections + 4 * capacity.accepts + needed <= limit
    assert 0 < capacity.streams < capacity.connections


def test_plenty():
    """With the usual limit, every bound is its constant, and nothing is logged."""
    capacity = connection_slots.share_out(1024, 10, 2)
    assert (capacity.connections, capacity.accepts) == (bounds.MOST_CONNECTIONS, bounds.ACCEPTS_IN_A_TURN)
    assert capacity.streams == bounds.MOST_STREAMS


@pytest.mark.parametrize(("limit", "warned"), [(64, True), (537, True), (539, False)])
def test_few_are_worth_a_warning(caplog, limit, warned):
    """If there are fewer connections than usual, the log says so once."""
    connection_slots.share_out(limit, 1, 1)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["few descriptors"] * warned


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [(256, 512, 512), (1024, 1 << 20, 4096), (1024, resource.RLIM_INFINITY, 4096), (8192, 1 << 20, 8192), (64, 64, 64)],
)
def test_the_soft_limit_is_raised(monkeypatch, soft, hard, after):
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _what, pair: limits.append(pair))
    assert connection_slots.raise_soft_limit() == min(after, bounds.MOST_DESCRIPTORS)
    assert limits[-1] == (after, hard)


class Client:
    """A connection that counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def abort(self) -> None:
        self.closed += 1


def admitted(slots: ConnectionSlots, count: int) -> list[Client]:
    clients = [Client() for _ in range(count)]
    assert all(map(slots.admit, clients))
    return clients


def test_the_oldest_idle_one_goes():
    """Connections up to the limit stay open."""
    slots = ConnectionSlots(3)
    clients = admitted(slots, 3)
    assert [client.closed for client in clients] == [0, 0, 0]
    clients += admitted(slots, 1)
    assert [client.closed for client in clients] == [1, 0, 0, 0]
    slots = ConnectionSlots(3)
    clients = admitted(slots, 3)
    slots.mark_busy(clients[0])
    clients += admitted(slots, 1)
    slots.mark_idle(clients[0])
    clients += admitted(slots, 2)
    assert [client.closed for client in clients] == [0, 1, 1, 1, 0, 0]


def test_which_one_goes():
    """An idle one before a slow one, that before a new one; if none is idle, the new one waits."""
    slots = ConnectionSlots(2)
    clients = admitted(slots, 2)
    for client in clients:
        slots.mark_busy(client)
    late = Client()
    assert not slots.admit(late)
    slots.mark_idle(clients[1])
    assert slots.admit(late)
    assert [client.closed for client in clients] == [0, 1]
    now = 100.0
    slots = ConnectionSlots(2, clock=lambda: now)
    clients = admitted(slots, 2)
    slots.mark_busy(clients[0])
    slots.mark_waiting(clients[0])
    now += 1000
    assert slots.admit(Client())
    assert [client.closed for client in clients] == [0, 1]
    now = 100.0
    slots = ConnectionSlots(3, clock=lambda: now)
    clients = admitted(slots, 1)
    slots.mark_busy(clients[0])
    slots.mark_waiting(clients[0])
    now += 2 * bounds.SLOW_SECONDS
    clients += admitted(slots, 3)
    assert [client.closed for client in clients] == [1, 0, 0, 0]
    clients += admitted(slots, 1)
    assert [client.closed for client in clients] == [1, 1, 0, 0, 0]


def test_the_slowest_goes():
    """If none is idle, the client goes that has accepted nothing for the longest time."""
    now = 100.0
    slots = ConnectionSlots(4, clock=lambda: now)
    clients = admitted(slots, 4)
    for client in clients:
        slots.mark_busy(client)
    for client in clients[:3]:
        slots.mark_waiting(client)
        now += bounds.SLOW_SECONDS / 10
    slots.mark_accepted(clients[0])
    slots.mark_waiting(clients[0])
    assert not slots.admit(Client())
    now += bounds.SLOW_SECONDS
    for _ in range(2):
        newest = Client()
        assert slots.admit(newest)
        slots.mark_busy(newest)
    assert [client.closed for client in clients] == [0, 1, 1, 0]
    slots.mark_accepted(clients[0])
    assert not slots.admit(Client())


def test_a_few_line_up():
    """Until they get a place or leave; a closed one leaves room."""
    slots = ConnectionSlots(1, most_in_line=2)
    (busy,) = admitted(slots, 1)
    slots.mark_busy(busy)
    clients = [Client() for _ in range(4)]
    assert not any(map(slots.admit, clients))
    assert [slots.line_up(client) for client in clients[:3]] == [True, True, False]
    assert slots.line_up(clients[0]), "it tries again"
    slots.mark_idle(busy)
    assert slots.admit(clients[0])
    slots.remove(clients[1])
    assert [slots.line_up(client) for client in clients[2:]] == [True, True]
    slots = ConnectionSlots(2)
    clients = admitted(slots, 2)
    slots.mark_busy(clients[0])
    for client in [*clients, *clients]:
        slots.remove(client)
        slots.mark_busy(client)
        slots.mark_waiting(client)
        slots.mark_accepted(client)
        slots.mark_idle(client)
    others = admitted(slots, 2)
    assert not any(client.closed for client in clients + others)


SIZE = 8_000_000  # larger than all buffers on the way


@contextlib.contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LimitedServer, socket.socket]]:
    """A server with one large response, a client that has requested it, and a stall limit of half a second."""
    monkeypatch.setattr(bounds, "STALLED_SECONDS", 0.5)

    async def answer(_request: Request) -> Response:
        return Response(bytes(SIZE))

    app = Starlette(routes=[Route("/", answer)])
    with limited_server(app) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.settimeout(60)
        client.connect(server.address)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_until(lambda: server.connections, what="the connection")
        yield server, client


def test_who_takes_nothing_is_closed(monkeypatch):
    """The data that waits for such a client is freed."""
    with asked(monkeypatch) as (server, client):
        wait_until(lambda: not server.connections, what="the end of the connection")
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                received += len(part)
        assert received < SIZE


def test_who_is_slow_gets_everything(monkeypatch):
    with asked(monkeypatch) as (_, client):
        received, began = 0, time.monotonic()
        while part := client.recv(65536):
            received += len(part)
            if time.monotonic() - began < 2:
                time.sleep(0.05)
        assert received > SIZE


def test_an_end_does_not_wait_for_who_takes_nothing(monkeypatch):
    """At shutdown the server closes such a connection at once."""
    with asked(monkeypatch) as (server, _):
        monkeypatch.setattr(bounds, "STALLED_SECONDS", 600.0)
        (connection,) = server.connections
        wait_until(lambda: not connection._writable.is_set(), what="a stall")
        server.end()
        wait_until(lambda: not server.connections, what="the end of the connection")


def test_who_takes_too_little_is_closed(monkeypatch):
    """A little now and then moves no deadline: a client must accept data at the least rate."""
    with asked(monkeypatch) as (server, client):
        monkeypatch.setattr(bounds, "LEAST_RATE", 100_000)
        ends, received = time.monotonic() + 60, 0
        with contextlib.suppress(ConnectionResetError):
            while server.connections and (part := client.recv(2_000)):
                received += len(part)
                time.sleep(0.05)
        assert time.monotonic() < ends
        assert received < SIZE

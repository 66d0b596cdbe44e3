"""The connection that is closed when there is no room for another."""

from __future__ import annotations

from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.connection_slots import ConnectionSlots


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


def test_there_is_room() -> None:
    """Connections up to the limit stay open; one more closes exactly one."""
    slots = ConnectionSlots(3)
    clients = admitted(slots, 3)
    assert [client.closed for client in clients] == [0, 0, 0]
    clients += admitted(slots, 1)
    assert [client.closed for client in clients] == [1, 0, 0, 0]


def test_the_oldest_idle_one_goes() -> None:
    """A connection with a request in progress stays, and becomes the youngest with its response."""
    slots = ConnectionSlots(3)
    clients = admitted(slots, 3)
    slots.mark_busy(clients[0])
    clients += admitted(slots, 1)
    slots.mark_idle(clients[0])
    clients += admitted(slots, 2)
    assert [client.closed for client in clients] == [0, 1, 1, 1, 0, 0]


def test_none_is_idle() -> None:
    """The new connection is refused, and admitted once another is idle again."""
    slots = ConnectionSlots(2)
    clients = admitted(slots, 2)
    for client in clients:
        slots.mark_busy(client)
    late = Client()
    assert not slots.admit(late)
    slots.mark_idle(clients[1])
    assert slots.admit(late)
    assert [client.closed for client in clients] == [0, 1]


def test_the_slowest_goes() -> None:
    """If none is idle, the client goes that has accepted nothing for the longest time; one that accepts is not slow,
    and neither is one that has waited only for a moment."""
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


def test_an_idle_one_goes_before_a_slow_one() -> None:
    """An answer on its way is not cut while there is a connection without a request."""
    now = 100.0
    slots = ConnectionSlots(2, clock=lambda: now)
    clients = admitted(slots, 2)
    slots.mark_busy(clients[0])
    slots.mark_waiting(clients[0])
    now += 1000
    assert slots.admit(Client())
    assert [client.closed for client in clients] == [0, 1]


def test_a_slow_one_goes_before_a_new_one() -> None:
    """The request of a new connection may be on its way; without a slow one, the oldest goes, however new."""
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


def test_a_few_line_up() -> None:
    """Connections that find no place wait for one, so many and no more, until they get it or leave."""
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


def test_a_closed_one_leaves_room() -> None:
    """Closing frees the slot of a busy or idle connection; later events of a closed connection change nothing."""
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

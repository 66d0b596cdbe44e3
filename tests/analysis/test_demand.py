"""Offered work: the mean number of requests in the system, and where it is only a floor."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import describe, figures_of, setup
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.demand import Demand, write_at_once
from uwsgi_headroom.analysis.worker_states import count_workers_with_own_sockets
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Setup

TCP = "127.0.0.1:8000"


def demand(of: Window, server: Server | None = None, known: Setup | None = None) -> Demand:
    facts = {} if known is None else {"setup": known}
    return figures_of(of, describe(server or Server(processes=2, threads=4), **facts)).demand


def minute(
    busy: float, queued: float | None = 0.0, *, socket: str = "app", full: float = 0.0, **more: object
) -> Window:
    """A minute of 2x4 with this many busy threads and waiting requests. full: seconds at the queue's limit."""
    rows = (worker(number, 1200, each=0.2, busy=60 * busy / 2) for number in (1, 2))
    queues = {} if queued is None else {socket: 60 * queued}
    return replace(window(60, *rows, **queues), queue_full_seconds=dict.fromkeys(queues, full), **more)


ALL_KNOWN = {"is_floor": False, "queue_was_full": False, "retrying": 0}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (minute(4.0, 0.5), {"at_once": 4.5, **ALL_KNOWN}),
        (window(60, worker(1, 0, busy=0.0), app=0.0), {"at_once": 0.0, **ALL_KNOWN}),
        (window(60, worker(1, 300, each=None, busy=None)), {"at_once": None}),
        # Threads that are all busy while requests wait cut the rate off, though no client is turned away.
        (minute(8.0, 40.0), {"at_once": 48.0, "is_floor": True, "queue_was_full": False}),
        # At 96 % of the threads a queue is what random arrivals have, all of which are served.
        (minute(7.7, 12.0), {"is_floor": False}),
        (minute(7.8, 12.0), {"is_floor": True}),
        (minute(8.0, 0.0), {"is_floor": False}),  # as many clients as threads
        (minute(8.0, None), {"is_floor": True}),  # a queue that is not measured may hold more
        (minute(4.0, None), {"is_floor": False}),
        # A queue that was full for a moment is a floor; nothing counts the refused attempts at a UNIX socket.
        (minute(2.0, 3.0, full=1.0, reloads=1), {"is_floor": True}),
        (minute(8.0, 100.0, full=30.0), {"is_floor": True, "queue_was_full": True, "retrying": 0}),
        # At a TCP queue each drop begins a wait of a second or more: ten clients or more wait to try again.
        (minute(8.0, 40.0, socket=TCP, full=30.0, overflows=600), {"retrying": 10.0}),
        (minute(8.0, 40.0, socket=TCP, full=30.0), {"retrying": 0}),
        # Without an overflow nobody was turned away; those of other listeners are not those of this server.
        (minute(4.0, 1.0, socket=TCP, full=2.0, overflows=0), {"is_floor": False, "queue_was_full": False}),
        (minute(4.0, 1.0, socket=TCP, full=2.0, overflows=600, refused=0), ALL_KNOWN),
        (minute(4.0, 1.0, socket=TCP, overflows=600), {"retrying": 0}),
        (minute(8.0, 40.0, socket=TCP, full=1.0, overflows=60_000, refused=6), {"retrying": 0.1}),
    ],
)
def test_offered_work(of, expected):
    """Busy threads and waiting requests add up; it is a floor where more may have been offered."""
    found = demand(of)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(("requests", "text"), [(0.0, "0.0"), (48.0, "48")])
def test_offered_work_in_words(requests, text):
    """A few requests have a digit more."""
    assert write_at_once(requests) == text


def test_without_cores_the_law_counts_what_was_completed():
    """With stats-no-cores, busy threads are those of Little's law; how many there are is unknown."""
    of = window(60, *(worker(number, 300, each=0.4, busy=None) for number in (1, 2)), app=60.0)
    figures = figures_of(of, Server(processes=2, cores=False))
    assert (figures.demand.at_once, figures.demand.is_floor) == (pytest.approx(5.0), False)
    assert not figures.ceiling


def test_paused_workers_are_no_floor_by_themselves():
    """Requests that wait while no thread serves have no saturated threads."""
    server = Server(processes=2, threads=4)
    server[1].state = server[2].state = "pause"
    found = demand(window(60, *(worker(number, 0, busy=0.0, up=0.0) for number in (1, 2)), app=600.0), server)
    assert (found.at_once, found.is_floor) == (10.0, False)


MAPPED = replace(setup(), socket_holders={"a.sock": (1,), "b.sock": (2,)}, mapped=True)


def test_each_mapped_socket_has_its_own_demand():
    """The first worker's threads are all busy, and its own queue waits; the other one's are free."""
    of = window(60, worker(1, 1200, busy=240.0), worker(2, 60, busy=6.0), **{"a.sock": 252.0, "b.sock": 0.0})
    found = demand(of, known=MAPPED)
    assert found.is_floor
    assert [(each.socket, each.workers, each.threads, each.is_floor) for each in found.by_socket] == [
        ("a.sock", (1,), 4, True),
        ("b.sock", (2,), 4, False),
    ]
    assert [each.at_once for each in found.by_socket] == pytest.approx([8.2, 0.1])


@pytest.mark.parametrize(
    ("holders", "mapped", "number"),
    [
        ({"a.sock": (1,), "b.sock": (2,)}, True, 2),
        ({"a.sock": (1,), "b.sock": (2, 3), "c.sock": (3,)}, True, 1),  # not those that share one of theirs
        ({"a.sock": (1,)}, False, None),
        ({"a.sock": (1, 2)}, False, None),
        (None, True, None),  # descriptors are hidden
    ],
)
def test_sockets_of_single_workers(holders, mapped, number):
    """They are counted. Where any free thread serves all requests, no socket has a demand of its own."""
    known = replace(MAPPED, socket_holders=holders, mapped=mapped)
    assert count_workers_with_own_sockets(known) == number
    assert number or demand(minute(4.0, 0.5), known=known).by_socket == ()

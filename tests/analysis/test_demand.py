"""Offered work: the mean number of requests in the system, and where it is only a floor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.demand import Demand, write_at_once
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.worker_states import count_workers_with_own_sockets
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Options, Setup

TCP = "127.0.0.1:8000"


def figures(of: Window, server: Server | None = None, setup: Setup | None = None) -> Figures:
    reading = (server or Server(processes=2, threads=4)).read(60.0)
    if setup is not None:
        reading = replace(reading, host=replace(reading.host, setup=setup))
    record = describe_server(reading)
    assert record is not None
    return compute_figures(of, record)


def demand(of: Window, server: Server | None = None, setup: Setup | None = None) -> Demand:
    return figures(of, server, setup).demand


def minute(busy: float, queued: float | None = 0.0, *, socket: str = "app.sock", full: float = 0.0) -> Window:
    """A minute of 2x4 with this many busy threads and waiting requests. full: seconds at the queue's limit."""
    rows = (worker(number, 1200, each=0.2, busy=60 * busy / 2) for number in (1, 2))
    queues = {} if queued is None else {socket: 60 * queued}
    made = window(60, *rows, **queues)
    return replace(made, queue_full_seconds=dict.fromkeys(queues, full))


def test_all_that_is_served_is_known() -> None:
    """Busy threads and waiting requests add up, and nothing more was offered."""
    result = demand(minute(4.0, 0.5))
    assert (result.at_once, result.is_floor, result.queue_was_full, result.refused_attempts) == (4.5, False, False, 0)


def test_busy_threads_with_a_queue_are_a_floor() -> None:
    """Threads that are all busy while requests wait cut the rate off, though no client is turned away."""
    result = demand(minute(8.0, 40.0))
    assert (result.at_once, result.is_floor, result.queue_was_full) == (48.0, True, False)
    assert write_at_once(result.at_once or 0.0) == "48"


@pytest.mark.parametrize(("busy", "is_floor"), [(7.7, False), (7.8, True)])
def test_below_saturation_random_arrivals_have_a_queue(busy: float, is_floor: bool) -> None:
    """At 96 % of the threads a queue is what random arrivals have, all of which are served."""
    assert demand(minute(busy, 12.0)).is_floor is is_floor


def test_busy_threads_without_a_queue_are_no_floor() -> None:
    """As many clients as threads, one request each: all that is offered is in service."""
    assert demand(minute(8.0, 0.0)).is_floor is False


def test_a_queue_that_is_not_measured_may_hold_more() -> None:
    """Busy threads then are a floor; while threads are free, they are all there is."""
    assert demand(minute(8.0, None)).is_floor is True
    assert demand(minute(4.0, None)).is_floor is False


def test_a_full_unix_queue_is_a_floor_with_unknown_refusals() -> None:
    """Nothing counts the refused attempts at a UNIX socket."""
    result = demand(minute(8.0, 100.0, full=30.0))
    assert (result.is_floor, result.queue_was_full, result.refused_attempts, result.retrying) == (True, True, None, 0.0)


def test_a_full_tcp_queue_has_counted_attempts() -> None:
    """Each drop begins a wait of a second or more: at ten a second, ten clients or more wait to try again."""
    full = replace(minute(8.0, 40.0, socket=TCP, full=30.0), overflows=600)
    result = demand(full)
    assert (result.queue_was_full, result.refused_attempts, result.retrying) == (True, 10.0, 10.0)
    assert demand(replace(full, overflows=None)).refused_attempts is None


def test_a_tcp_queue_at_its_limit_without_an_overflow_turned_nobody_away() -> None:
    """Nor are overflows of other listeners those of a server whose queue was never full."""
    result = demand(replace(minute(4.0, 1.0, socket=TCP, full=2.0), overflows=0))
    assert (result.is_floor, result.queue_was_full) == (False, False)
    assert demand(replace(minute(4.0, 1.0, socket=TCP), overflows=600)).refused_attempts == 0


def test_a_queue_that_was_full_for_a_moment_is_a_floor() -> None:
    """Also while threads were free on average, as in a window with a reload."""
    assert demand(replace(minute(2.0, 3.0, full=1.0), reloads=1)).is_floor is True


def test_without_cores_the_law_counts_what_was_completed() -> None:
    """With stats-no-cores, busy threads are those of Little's law; how many there are is unknown."""
    of = window(60, worker(1, 300, each=0.4, busy=None), worker(2, 300, each=0.4, busy=None), **{"app.sock": 60.0})
    result = figures(of, Server(processes=2, cores=False))
    assert (result.demand.at_once, result.demand.is_floor) == (pytest.approx(5.0), False)
    assert result.demand.at_once is None or not result.ceiling


def test_nothing_known_is_unknown() -> None:
    """Without running times and samples, the offered work is unknown, not 0."""
    of = window(60, worker(1, 300, each=None, busy=None))
    assert demand(of).at_once is None


def test_an_idle_server_is_offered_nothing() -> None:
    """Zero is known, and no floor."""
    idle = window(60, worker(1, 0, busy=0.0), **{"app.sock": 0.0})
    assert (demand(idle).at_once, demand(idle).is_floor) == (0.0, False)
    assert write_at_once(demand(idle).at_once or 0.0) == "0.0"


def test_paused_workers_are_no_floor_by_themselves() -> None:
    """Requests that wait while no thread serves have no saturated threads."""
    server = Server(processes=2, threads=4)
    for worker_id in (1, 2):
        server[worker_id].state = "pause"
    of = window(60, worker(1, 0, busy=0.0, up=0.0), worker(2, 0, busy=0.0, up=0.0), **{"app.sock": 600.0})
    result = demand(of, server)
    assert (result.at_once, result.is_floor) == (10.0, False)


MAPPED = Setup(Options(), 4096, "threads", {"a.sock": (1,), "b.sock": (2,)}, True)


def test_each_mapped_socket_has_its_own_demand() -> None:
    """The first worker's threads are all busy, and its own queue waits; the other one's are free."""
    rows = (worker(1, 1200, busy=240.0), worker(2, 60, busy=6.0))
    made = window(60, *rows, **{"a.sock": 252.0, "b.sock": 0.0})
    first, second = demand(made, setup=MAPPED).by_socket
    assert (first.socket, first.workers, first.threads, first.at_once, first.is_floor) == (
        "a.sock",
        (1,),
        4,
        pytest.approx(8.2),
        True,
    )
    assert (second.at_once, second.is_floor) == (pytest.approx(0.1), False)
    assert demand(made, setup=MAPPED).is_floor is True


def test_sockets_of_all_workers_have_no_demand_of_their_own() -> None:
    """Any free thread serves their requests."""
    shared = replace(MAPPED, socket_holders={"a.sock": (1, 2)}, mapped=False)
    assert demand(minute(4.0, 0.5), setup=shared).by_socket == ()
    assert demand(minute(4.0, 0.5), setup=replace(MAPPED, socket_holders=None)).by_socket == ()


def test_workers_with_sockets_of_their_own_are_counted() -> None:
    """Not those that share one of theirs; without `map-socket`, or where descriptors are hidden, there is no number."""
    assert count_workers_with_own_sockets(MAPPED) == 2
    some = {"a.sock": (1,), "b.sock": (2, 3), "c.sock": (3,)}
    assert count_workers_with_own_sockets(replace(MAPPED, socket_holders=some)) == 1
    assert count_workers_with_own_sockets(replace(MAPPED, socket_holders={"a.sock": (1,)}, mapped=False)) is None
    assert count_workers_with_own_sockets(replace(MAPPED, socket_holders=None)) is None

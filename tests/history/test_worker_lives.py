"""What is summed over the lives of worker processes: growth of memory, and time in which none of them serves."""

from __future__ import annotations

import pytest

from tests.history.test_window import Watched
from tests.support.simulated_server import Server

MB = 1 << 20


def grown(*lives: tuple[int | None, ...]) -> int | None:
    """The megabytes that a worker's memory grew by, of lives with what uWSGI reports every second in megabytes."""
    server = Server(processes=1)
    watched = Watched(server)
    second = 0.0
    for number, life in enumerate(lives):
        if number:
            server.respawn(1, second)
        for memory in life:
            server[1].reported_memory = None if memory is None else memory * MB
            watched.sample(second)
            second += 1.0
    kilobytes = watched.integrals.totals.workers[0].grown_kilobytes
    return None if kilobytes is None else kilobytes // 1024


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        (((20, 30, 50),), 30),
        (((20, 30, 50), (20, 30, 50)), 60),
        (((20, 30, 50), (None, 25, 45)), 50),  # uWSGI reports it only after the first request
        (((20, 50, 30, 50),), 30),  # memory that was freed and used again is no growth
        (((50, 20),), 0),
        (((None, None),), None),
    ],
)
def test_growth_is_summed_over_lives(lives: tuple[tuple[int | None, ...], ...], expected: int | None) -> None:
    """Each process begins with its first figure; its highest one counts, and that of the next is added."""
    assert grown(*lives) == expected


def test_a_window_has_its_growth() -> None:
    """What grew before the window is left out."""
    server = Server(processes=1)
    watched = Watched(server)
    for second in range(10):
        server[1].reported_memory = (20 + 3 * second) * MB
        watched.sample(float(second))
    window = watched.history.window(4)
    assert window is not None
    assert window.workers[0].grown_kilobytes == 4 * 3 * 1024


def test_time_without_a_worker() -> None:
    """Time counts from sample to sample while no worker accepts, and not while one does."""
    server = Server(processes=2)
    watched = Watched(server)
    for second in range(10):
        server[1].state = "starting" if 2 <= second <= 6 else "idle"
        server[2].state = "starting" if 4 <= second <= 8 else "idle"
        watched.sample(float(second))
    assert watched.integrals.totals.no_worker_seconds == 2.0
    assert watched.integrals.totals.starting_seconds == 10.0, "five of each"


def test_time_in_handlers_of_signals() -> None:
    """A thread that runs a handler is taken, so all are while the other worker's thread serves; it is not busy."""
    server = Server(processes=2, threads=1)
    server[2].busy = 1
    watched = Watched(server)
    for second in range(10):
        server[1].state = "signal" if 2 <= second <= 6 else "idle"
        watched.sample(float(second))
    totals = watched.integrals.totals
    assert totals.handler_seconds == 5.0
    assert totals.full_seconds == 5.0
    assert [worker.busy_seconds for worker in totals.workers] == [0.0, 9.0]


def test_a_reload_is_a_gap() -> None:
    """Over a full reload nothing is known, so nothing is added."""
    server = Server(processes=1)
    watched = Watched(server)
    server[1].state = "starting"
    watched.sample(0.0)
    server.reload(0.5)
    server[1].state = "starting"
    watched.sample(1.0)
    assert watched.integrals.totals.no_worker_seconds == 0.0

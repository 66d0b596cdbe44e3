"""A watch keeps slices of what threads wait for, and its figures say that a backend is saturated."""

from __future__ import annotations

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.backends import ALL
from uwsgi_headroom.record import Waits

FEW, MANY = (15, 1.0), (40, 14.0)
"""Requests per second, and threads that wait for the backend."""


def watched(seconds: int, *, saturated: bool = True) -> ScriptedWatch:
    """A server whose load changes every eight seconds. A backend with room is as fast with many requests."""
    server, watch = Server(processes=1, threads=16), ScriptedWatch()

    def second(now: int) -> None:
        rate, threads = FEW if now // 8 % 2 else MANY
        if not saturated:
            threads = rate * FEW[1] / FEW[0]
        server.serve(1, rate, each=threads / rate)
        server.waits = Waits(threads={"backend": threads}, busy=round(threads))

    return watch.seconds(server, seconds, second)


def test_a_saturated_backend_is_known_after_a_minute_and_a_half() -> None:
    """Each slice is taken once, and four times of low and of high load are enough."""
    watch = watched(90)
    found = watch.watch.backends.slices.find_saturation(ALL)
    assert found
    assert (round(found.low), round(found.high)) == (FEW[0], MANY[0])
    reading = watch.watch.reading
    assert reading
    assert watch.watch.figures(reading, (60.0,))[0].saturation == found


def test_one_with_room_is_not() -> None:
    """With the same load and a constant time, nothing is said; nor after half a minute."""
    assert watched(90, saturated=False).watch.backends.slices.find_saturation(ALL) is None
    assert watched(30).watch.backends.slices.find_saturation(ALL) is None

"""Integrals of the busy threads by route, and an hour of what they waited for, by address."""

from collections.abc import Mapping
from random import Random

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched
from tests.support.simulated_server import Server
from tests.support.windows import window
from uwsgi_headroom.history import named_hours
from uwsgi_headroom.history.named_hours import OTHERS, DestinationHour, RouteHour
from uwsgi_headroom.history.totals import RouteTotals, copy_totals
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Destination, Waits
from uwsgi_headroom.routes import ServedRoutes

NAMES = ("other", "GET /a", "POST /b")


def read(at: float, *threads: int, names: tuple[str, ...] = NAMES, generations: tuple[int, ...] = (1, 1, 1)) -> Reading:
    """A reading of a server whose first worker has a busy thread for each of these numbers of routes."""
    server = Server(processes=2)
    server.slots[0].busy = len(threads)
    routes = ServedRoutes(names, generations, {1: dict(enumerate(threads))})
    return replace(server.read(at), routes=routes)


class Routed(Watched):
    """Integrals and histories of some readings."""

    def __init__(self, *readings: Reading) -> None:
        super().__init__()
        self.hour = RouteHour()
        for reading in readings:
            self.add(reading)
            self.hour.add(reading.at, self.totals.routes)

    @property
    def routes(self) -> RouteTotals:
        assert self.totals.routes
        return self.totals.routes

    def routes_of(self, seconds: float, until: float | None = None) -> RouteWindow:
        window = self.history.window(seconds, until)
        assert window
        routes = self.hour.of(window)
        assert routes
        return routes


def test_time_between_two_samples_is_linear():
    """One thread that becomes three within a second: two seconds."""
    totals = Routed(read(10, 1), read(11, 1, 1, 1, 2)).routes
    assert totals.by_route() == {"other": 0, "GET /a": 2, "POST /b": 0.5}
    assert totals.observed_seconds == 1


def test_a_gap_adds_nothing():
    """A pause longer than the longest step is not observed."""
    totals = Routed(*(read(at, 1, 2) for at in (10, 11, 60, 61))).routes
    assert (totals.observed_seconds, totals.by_route()["GET /a"]) == (2, 2)


def test_off_there_is_nothing():
    """Without routes in the readings, there are no totals and no window."""
    watched = Routed(*(replace(read(at, 1), routes=None) for at in (1.0, 2.0, 3.0)))
    assert watched.totals.routes is None
    window = watched.history.window(60)
    assert window
    assert watched.hour.of(window) is None
    assert watched.hour.names == ()


def test_a_process_that_is_gone_has_no_busy_threads():
    """uWSGI leaves the busy flags of a killed worker set until it is spawned again."""
    gone = read(11, 1, 1)
    processes = {pid: process for pid, process in gone.host.processes.items() if pid != 101}
    gone = replace(gone, host=replace(gone.host, processes=processes))
    assert Routed(read(10, 1, 1), gone).routes.by_route()["GET /a"] == 1


def test_all_routes_together_are_the_observed_concurrency():
    """Over any samples, the seconds of all routes are those of the busy threads of all workers."""
    random = Random(3)
    samples = [read(0.5 * number, *random.choices((0, 1, 2), k=random.randrange(8))) for number in range(200)]
    watched = Routed(*samples)
    busy = sum(worker.busy_seconds or 0.0 for worker in watched.totals.workers)
    assert sum(watched.routes.by_route().values()) == pytest.approx(busy)
    window = watched.history.window(60)
    busy = sum(worker.busy_seconds or 0.0 for worker in window.workers)
    assert sum(watched.routes_of(60).seconds.values()) == pytest.approx(busy)
    assert watched.routes_of(60).observed_seconds == window.observed_seconds


def test_a_number_that_passes_to_another_route_starts_at_zero():
    """What the earlier route had counts as `other` in windows, and no counter but a forgotten one ever falls."""
    after = ("other", "GET /new", "POST /b")
    watched = Routed(
        *(read(at, 1, 2) for at in (0, 1, 2, 3)),
        *(read(at, 0, 2, names=("other", "", "POST /b")) for at in (4, 5)),
        *(read(at, 1, 2, names=after, generations=(1, 2, 1)) for at in (6, 7, 8)),
    )
    # GET /a had 3 s under its name, and half a second after its last sample, which is part of the 2.5 s of `other`.
    assert watched.routes.by_route() == {"other": 2.5, "GET /new": 2.5, "POST /b": 8.0}
    assert watched.routes_of(60).seconds == {"other": 5.5, "GET /new": 2.5, "POST /b": 8.0}
    assert watched.routes_of(2).seconds == {"other": 0.0, "GET /new": 2.0, "POST /b": 2.0}
    assert watched.routes_of(3, until=3).seconds == {"other": 3.0, "GET /new": 0.0, "POST /b": 3.0}


def test_routes_that_appear_do_not_restart_the_history():
    """The hour goes on, and a window that begins before the route has it from its first sample on."""
    early = ServedRoutes(("other",), (1,), {1: {0: 0}})
    watched = Routed(
        *(replace(read(at, 0), routes=early) for at in (0.0, 1.0, 2.0, 3.0)), *(read(at, 1) for at in (4, 5))
    )
    assert watched.history.seconds == 5
    assert watched.routes_of(60).seconds == {"other": 3.5, "GET /a": 1.5, "POST /b": 0}
    assert watched.routes_of(1, until=1.0).seconds == {"other": 1.0, "GET /a": 0, "POST /b": 0}


def test_copies_do_not_change():
    """A scrape renders a copy while samples go on."""
    watched = Routed(read(10, 1), read(11, 1))
    copy = copy_totals(watched.totals)
    watched.add(read(12, 1))
    assert copy.routes.by_route()["GET /a"] == 1
    assert watched.routes.by_route()["GET /a"] == 2


POSTGRES, REDIS = Destination("backend", ("10.0.0.5:5432",)), Destination("backend", ("10.0.0.6:6379",))


def reading(at: float, levels: Mapping[Destination, float] | None) -> Reading:
    waits = Waits(off="not permitted") if levels is None else Waits(destinations=levels)
    read = Server(processes=1, threads=8).read(at)
    return replace(read, host=replace(read.host, waits=waits))


def hour(*levels: Mapping[Destination, float] | None, step: float = 1.0) -> DestinationHour:
    """A sample every `step` seconds, from 0 on."""
    found = DestinationHour()
    for number, level in enumerate(levels):
        found.add(reading(number * step, level), 2.0)
    return found


def seconds(of: DestinationHour, start: float, until: float) -> dict[Destination, float]:
    return of.of(replace(window(until - start), until=until))


def test_the_integral_is_linear_between_samples():
    """2 and then 4 threads in a second are 3 thread seconds."""
    found = hour({POSTGRES: 2.0}, {POSTGRES: 4.0, REDIS: 1.0}, {POSTGRES: 4.0})
    assert seconds(found, 0, 2) == {POSTGRES: 7.0, REDIS: 1.0}


def test_windows_are_exact_to_within_five_seconds():
    """What is older does not count, and neither does what is in between two waits."""
    levels: list[Mapping[Destination, float]] = [{POSTGRES: 1.0}] * 31 + [{}] * 100 + [{REDIS: 1.0}] * 31
    found = hour(*levels)
    assert seconds(found, 0, 161) == {POSTGRES: pytest.approx(30.5), REDIS: pytest.approx(30.5)}
    assert seconds(found, 100, 161) == {REDIS: pytest.approx(30.5)}
    assert seconds(found, 0, 30)[POSTGRES] == pytest.approx(30, abs=5)
    assert seconds(found, 150, 161)[REDIS] == pytest.approx(11, abs=5)
    assert seconds(found, 160.5, 161)[REDIS] > 0


def test_gaps_and_unknown_times_do_not_count():
    """Between samples that are too far apart, and while waits are off, nothing is known."""
    assert seconds(hour({POSTGRES: 1.0}, {POSTGRES: 1.0}, step=9.0), 0, 9) == {}
    assert seconds(hour({POSTGRES: 1.0}, None, {POSTGRES: 1.0}), 0, 2) == {}
    assert seconds(hour(), 0, 2) == {}
    assert seconds(hour({}, {}, {}), 0, 2) == {}


def test_a_server_at_rest_takes_no_memory():
    """Rows are kept of times with a wait only."""
    assert len(hour(*[{}] * 200, {POSTGRES: 1.0}, *[{}] * 200)._rows) == 1


def test_any_number_of_servers():
    """The first 63 have a place, the others are one; after an hour without a wait, a place is given away."""
    found = DestinationHour()
    for number in range(1000):
        found.add(reading(float(number), {Destination("backend", (f"10.0.{number % 256}.1:80",)): 1.0}), 2.0)
    assert len(found._totals) == named_hours.MOST_DESTINATIONS
    sums = seconds(found, 0, 1000)
    assert sum(sums.values()) == pytest.approx(999)
    assert sums[OTHERS] > 500
    for number in range(1000, 5000):
        found.add(reading(float(number), {POSTGRES: 1.0}), 2.0)
    for number in range(5000, 5010):
        found.add(reading(float(number), {REDIS: 2.0}), 2.0)
    sums = seconds(found, 4000, 5010)
    assert sums[REDIS] == pytest.approx(19, abs=0.1)
    assert sum(sums.values()) == pytest.approx(1019, abs=12)

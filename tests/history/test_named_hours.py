"""Integrals of the busy threads by route, and an hour of what they waited for, by address."""

import random
from collections.abc import Mapping
from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched
from tests.support.simulated_server import Server
from tests.support.windows import window
from uwsgi_headroom.code_look import OUTSIDE, CodeLook, CodeSight, Line
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history import named_hours
from uwsgi_headroom.history.code_time import MOST_IN_SLICE, MOST_SERIES, OTHER, CodeHistory, CodePlace
from uwsgi_headroom.history.events import JOIN_SECONDS, KINDS, MOST_EVENTS, Journal
from uwsgi_headroom.history.named_hours import OTHERS, DestinationHour, RouteHour
from uwsgi_headroom.history.totals import RouteTotals, copy_totals
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import STATES, Destination, State, Waits
from uwsgi_headroom.routes import ServedRoutes

NAMES = ("other", "GET /a", "POST /b")


def read(at: float, *threads: int, names: tuple[str, ...] = NAMES, generations: tuple[int, ...] = (1, 1, 1)) -> Reading:
    """A reading of a server whose first worker has a busy thread for each of these numbers of routes."""
    server = Server(processes=2)
    server.slots[0].busy = len(threads)
    routes = ServedRoutes(names, generations, {1: dict(enumerate(threads))})
    return replace(server.read(at), routes=routes)


class Routed(Watched):
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
    # A gap adds nothing.
    totals = Routed(*(read(at, 1, 2) for at in (10, 11, 60, 61))).routes
    assert (totals.observed_seconds, totals.by_route()["GET /a"]) == (2, 2)


def test_off_there_is_nothing():
    watched = Routed(*(replace(read(at, 1), routes=None) for at in (1.0, 2.0, 3.0)))
    assert watched.totals.routes is None
    window = watched.history.window(60)
    assert window
    assert watched.hour.of(window) is None
    assert watched.hour.names == ()


def test_a_process_that_is_gone_has_no_busy_threads():
    gone = read(11, 1, 1)
    processes = {pid: process for pid, process in gone.host.processes.items() if pid != 101}
    gone = replace(gone, host=replace(gone.host, processes=processes))
    assert Routed(read(10, 1, 1), gone).routes.by_route()["GET /a"] == 1


def test_all_routes_together_are_the_observed_concurrency():
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
    early = ServedRoutes(("other",), (1,), {1: {0: 0}})
    watched = Routed(
        *(replace(read(at, 0), routes=early) for at in (0.0, 1.0, 2.0, 3.0)), *(read(at, 1) for at in (4, 5))
    )
    assert watched.history.seconds == 5
    assert watched.routes_of(60).seconds == {"other": 3.5, "GET /a": 1.5, "POST /b": 0}
    assert watched.routes_of(1, until=1.0).seconds == {"other": 1.0, "GET /a": 0, "POST /b": 0}


def test_copies_do_not_change():
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
    found = DestinationHour()
    for number, level in enumerate(levels):
        found.add(reading(number * step, level), 2.0)
    return found


def seconds(of: DestinationHour, start: float, until: float) -> dict[Destination, float]:
    return of.of(replace(window(until - start), until=until))


def test_windows_are_exact_to_within_five_seconds():
    """What is older does not count, and neither does what is in between two waits."""
    levels: list[Mapping[Destination, float]] = [{POSTGRES: 1.0}] * 31 + [{}] * 100 + [{REDIS: 1.0}] * 31
    found = hour(*levels)
    assert seconds(found, 0, 161) == {POSTGRES: pytest.approx(30.5), REDIS: pytest.approx(30.5)}
    assert seconds(found, 100, 161) == {REDIS: pytest.approx(30.5)}
    assert seconds(found, 0, 30)[POSTGRES] == pytest.approx(30, abs=5)
    assert seconds(found, 150, 161)[REDIS] == pytest.approx(11, abs=5)
    assert seconds(found, 160.5, 161)[REDIS] > 0
    # The integral is linear between samples: 2 and then 4 threads in a second are 3 thread seconds.
    found = hour({POSTGRES: 2.0}, {POSTGRES: 4.0, REDIS: 1.0}, {POSTGRES: 4.0})
    assert seconds(found, 0, 2) == {POSTGRES: 7.0, REDIS: 1.0}


def test_gaps_and_unknown_times_do_not_count():
    assert seconds(hour({POSTGRES: 1.0}, {POSTGRES: 1.0}, step=9.0), 0, 9) == {}
    assert seconds(hour({POSTGRES: 1.0}, None, {POSTGRES: 1.0}), 0, 2) == {}
    assert seconds(hour(), 0, 2) == {}
    assert seconds(hour({}, {}, {}), 0, 2) == {}
    # A server at rest takes no memory.
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


LONGEST_STEP = 3.0


def sight(name: str, state: State = "backend", address: str = "", part: float = 1.0, number: int = 3) -> CodeSight:
    return CodeSight(1, 100, Line(name, "/srv/shop.py", number), state, address, part)


def look(*sights: CodeSight, changed: int = 0) -> CodeLook:
    return CodeLook(None, sights, changed, 0.004)


def test_a_window_has_its_looks_alone():
    """Shares are those of the window, to within a slice; what it cannot name counts as well, and old looks do not."""
    history = CodeHistory(300.0)
    for second in range(600):
        at = float(second)
        if second < 540:
            history.add(at, look(sight("old")), LONGEST_STEP)
        else:
            unread = sight("x")._replace(line=None)
            outside = sight("x", "cpu")._replace(line=OUTSIDE)
            history.add(at, look(sight("new", address="10.0.0.5:5432"), outside, unread, changed=1), LONGEST_STEP)
    minute = history.of(540.0, 600.0)
    assert (minute.off, minute.looks, minute.threads, minute.unread, minute.changed) == (None, 60, 180, 60, 60)
    assert [(use.line.function, use.looks) for use in minute.lines] == [("new", 60), ("", 60)]
    assert minute.lines[0].addresses == {"10.0.0.5:5432": 60}
    assert minute.cpu_seconds == pytest.approx(60 * 0.004)
    assert 300 <= history.of(0.0, 600.0).seconds <= 330, "no more is kept than was asked for"


def test_why_nothing_is_known():
    """The reason is there if nothing was looked at, and while more looks failed than saw a busy thread."""
    history = CodeHistory()
    assert history.of(0.0, 60.0).off == "no thread was looked at yet"
    history.add(1.0, look(), LONGEST_STEP)
    assert history.of(0.0, 60.0).off is None
    history.add(2.0, CodeLook(off="no right"), LONGEST_STEP)
    assert history.of(0.0, 60.0).off == "no right"
    history.add(3.0, look(sight("a")), LONGEST_STEP)
    assert history.of(0.0, 60.0).off is None
    assert history.totals.observed_seconds == 0, "a look after one that failed stands for no time"


def test_counters_add_up_to_the_concurrency():
    """Together they have all thread seconds; a look stands for the time since the one before, but for no gap."""
    history = CodeHistory()
    for at in (0.0, 1.0, 2.5, 60.0, 61.0):
        history.add(at, look(sight("a", part=0.25), sight("a", "cpu", part=0.75), sight("b")), LONGEST_STEP)
    assert history.totals.observed_seconds == pytest.approx(1 + 1.5 + 1)
    assert sum(history.totals.seconds.values()) == pytest.approx(2 * 3.5)


def test_series_are_few_and_stay():
    """Of any number of functions, those seen most have 33 series; small changes of shares, or of lines, change none."""
    chance = random.Random(7)
    history = CodeHistory(300.0)
    for second in range(600):
        seen = [sight(f"made_up_{second}_{place}", chance.choice(STATES)) for place in range(20)]
        seen += [
            each._replace(line=Line(OTHER, f"/srv/{second}_{place}.py", 3)) for place, each in enumerate(seen[:10])
        ]
        history.add(float(second), look(*seen), LONGEST_STEP)
    assert len(history.totals.seconds) <= MOST_SERIES + len(STATES)
    assert max(len(each.known) for each in list(history._slices)[:-1]) <= MOST_IN_SLICE

    names = [f"f{place}" for place in range(200)]
    weights = [1 / (1 + place) for place in range(200)]
    places: list[set[CodePlace]] = []
    for second in range(600, 2400):
        seen = [sight(name, number=second) for name in chance.choices(names, weights, k=10)]
        history.add(float(second), look(*seen), LONGEST_STEP)
        if second >= 1200 and second % 60 == 0:
            places.append({place for place in history.totals.seconds if place.file})
    assert {f"f{place}" for place in range(8)} <= {place.function for place in places[-1]}
    new = [len(after - before) for before, after in pairwise(places)]
    assert sum(new) <= 0.2 * len(new), "a series in five minutes"


def titles(journal):
    return [event.title for event in journal.latest(MOST_EVENTS)]


def test_the_newest_comes_first():
    journal = Journal()
    journal.add(10.0, "reload", "a")
    journal.add(30.0, "reload", "b")
    journal.add(20.0, "verdict_changed", "late")
    assert titles(journal) == ["b", "late", "a"]
    assert [event.id for event in journal.latest(2)] == [2, 3]
    assert [event.title for event in journal.since(20.0)] == ["b", "late"]
    assert journal.latest_of("reload").title == "b"
    assert journal.latest_of("server_down") is None
    # A clock that was ahead of the reload before.
    journal.add(25.0, "reload", "c")
    assert journal.latest_of("reload").title == "c"


def test_repeated_events_are_joined():
    journal = Journal()
    for second in range(100):
        journal.add(float(second), "worker_ended", f"end {second}", workers=(1,), cause="unknown", count=2)
        journal.add(float(second), "worker_ended", "other", workers=(2,), cause="unknown")
    one, other = (event for event in journal.latest(9))
    assert (other.title, other.time, other.since, other.count) == ("end 99", 99.0, 0.0, 200)
    assert (one.workers, one.count) == ((2,), 100)
    assert journal.counts["worker_ended"] == 300
    journal.add(100.0 + JOIN_SECONDS, "worker_ended", "later", workers=(1,), cause="unknown")
    assert len(journal.latest(9)) == 3
    # Another cause or kind is a new event.
    journal = Journal()
    journal.add(1.0, "worker_ended", "a", workers=(1,), cause="unknown")
    journal.add(2.0, "worker_ended", "b", workers=(1,), cause="harakiri")
    for kind in ("verdict_changed", "configuration_changed", "reload", "reload"):
        journal.add(3.0, kind, kind)
    assert len(journal.latest(99)) == 6


def test_the_journal_is_bounded():
    journal = Journal()
    assert journal.counts == dict.fromkeys(KINDS, 0)  # so that Prometheus sees the first event
    for number in range(MOST_EVENTS + 5):
        journal.add(float(number), "reload", str(number))
    assert len(titles(journal)) == MOST_EVENTS
    assert titles(journal)[-1] == "5"
    journal.add(MOST_EVENTS + HISTORY_SECONDS + 1.0, "reload", "last")
    assert titles(journal) == ["last", *(str(number) for number in range(MOST_EVENTS + 4, MOST_EVENTS, -1))]
    assert journal.counts["reload"] == MOST_EVENTS + 6


def test_an_event_is_not_joined_with_one_of_a_clock_that_was_ahead():
    """It would begin in the future. Later ones are joined with each other all the same."""
    journal = Journal()
    for time in (5e8, 1000.0, 1010.0):
        journal.add(time, "worker_ended", "Worker 1 ended.", workers=[1])
    assert [(event.since, event.time, event.count) for event in journal.latest(9)] == [(5e8, 5e8, 1), (1000, 1010, 2)]

"""Writes a history file with days of one synthetic server: busy by day, calm at night and at weekends, with an outage,
a change of its workers, of a backend's name and of its socket, and events."""

import math
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from tests.support.windows import window, worker
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.events import Event, Kind
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import RouteWindow, WorkerWindow
from uwsgi_headroom.record import State
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Levels, Minute, Record
from uwsgi_headroom.store.writer import Database

DAY = 86_400
THREADS = 4
"""Of each worker."""
EARLIER_WORKERS, WORKERS = 10, 8
OLD_BACKEND, BACKEND = "mysql", "postgres"
OLD_SOCKET, SOCKET = "127.0.0.1:3031", "/run/shop.sock"
ROUTES = ("GET /", "GET /items/{id}", "POST /orders", "GET /search", "GET /report")
OUTAGE_SECONDS = 2 * 3600.0
"""How long the exporter was not running, two days before the end."""

_BUSIEST = 180.0  # requests per second
_PARTS: dict[State, float] = {"cpu": 0.3, "cpu_wait": 0.05, "interpreter_lock": 0.15, "backend": 0.42, "disk": 0.08}
_TEMPO = 0.35  # of the logarithms of response times, as a standard deviation
_TOGETHER = 2000  # records in one transaction
_CROWD = 150  # events in the burst


def write(path: Path, server: str, until: float, days: float = 14.0, minutes: int = 1) -> None:
    """Write the file. until: the end, in epoch seconds. minutes: the length of a record; with more than 1 the file is
    written faster, and its tier of minutes has gaps."""
    database = Database(open_to_write(path), 10**9)
    dice = random.Random(server)
    length = minutes * 60
    ends = range(int((until - days * DAY) // length) * length + length, int(until) + 1, length)
    written = [end for end in ends if not is_outage(end, until)]
    events = list(_events(until, days))
    for first in range(0, len(written), _TOGETHER):
        some = [
            Minute(server, end // 60, _record(end, length, until - days * DAY / 2, dice))
            for end in written[first : first + _TOGETHER]
        ]
        database.write(some, some[-1].minute * 60.0)
    database.write([Minute(server, written[-1] // 60, None, events)], until)
    database.close()


def is_outage(time: float, until: float) -> bool:
    """Whether there is no record that ends at this time."""
    return 0 < time - (until - 2 * DAY) <= OUTAGE_SECONDS


def _load(time: float) -> float:
    """The load at a time, 0 to 1."""
    hour, day = time % DAY / 3600, int(time // DAY + 3) % 7  # 1 January 1970 was a Thursday
    daylight = math.exp(-(((hour - 14) / 4.2) ** 2))
    return (0.08 + 0.92 * daylight) * (0.4 if day >= 5 else 1.0)


def _record(end: int, length: float, changed: float, dice: random.Random) -> Record:
    """The record of one server, which had other workers and names until `changed`."""
    earlier = end <= changed
    workers = EARLIER_WORKERS if earlier else WORKERS
    load = max(0.01, _load(end) * dice.gauss(1, 0.06))
    requests, each = int(_BUSIEST * load * length), 0.06 + 0.07 * load**3
    busy = requests * each
    name = OLD_SOCKET if earlier else SOCKET
    rows = [_worker(place, workers, requests, each, length) for place in range(workers)]
    whole = window(
        length,
        *rows,
        cpu=(0.3 * busy / length, max(0.0, 8 - 0.3 * busy / length), 0.2),
        waits={state: part * busy / length for state, part in _PARTS.items()},
        backends={OLD_BACKEND if earlier else BACKEND: 0.9 * _PARTS["backend"] * busy / length},
        **{name: length * 12 * max(0.0, load - 0.6)},
    )
    whole = replace(
        whole,
        until=float(end),
        full_seconds=0.3 * length * max(0.0, load - 0.8),
        overflows=0,
        occupancy=_occupancy(busy / (workers * THREADS) / length),
        configured=workers * THREADS,
        available=workers * THREADS,
    )
    routes = {route: busy / 2 ** (place + 1) for place, route in enumerate(ROUTES)}
    levels = Levels(cpus=8.0, memory_available=4 * 10**9, memory_per_worker=150 * 10**6)
    return Record(float(end), whole, _response_times(requests, each), RouteWindow(length, routes), levels)


def _worker(place: int, workers: int, requests: int, each: float, length: float) -> WorkerWindow:
    """The first worker takes twice as many requests as each other one."""
    share = (2 if place == 0 else 1) / (workers + 1)
    busy = share * requests * each
    row = worker(place + 1, int(share * requests), each=None, cpu=0.3 * busy, busy=busy, up=length, lock=0.15 * busy)
    return replace(row, running_time=busy, resident_bytes=150 * 10**6, resident_growth=0)


def _occupancy(part: float) -> tuple[int, ...]:
    bounds = (*OCCUPANCY_BOUNDS, math.inf)
    place = next(place for place, bound in enumerate(bounds) if part <= bound)
    return tuple(300 if each == place else 0 for each in range(len(OCCUPANCY_BOUNDS) + 1))


def _response_times(requests: int, mean: float) -> ResponseTimeWindow:
    counts = [part * requests for part in _shape(round(mean, 3))]
    return ResponseTimeWindow(_BINS, 0.2, requests, counts, [0.0] * len(_BINS))


_BINS = Bins()


@cache
def _shape(mean: float) -> Sequence[float]:
    """The share of each bin, for response times whose logarithms are distributed normally."""
    middle = math.log(mean) - _TEMPO**2 / 2

    def below(seconds: float) -> float:
        return 0.0 if seconds <= 0 else 0.5 + 0.5 * math.erf((math.log(seconds) - middle) / _TEMPO / math.sqrt(2))

    edges = [_BINS.edges_of(number) for number in range(len(_BINS))]
    return [(1.0 if high == math.inf else below(high)) - below(low) for low, high in edges]


def _events(until: float, days: float) -> Iterator[Event]:
    """A reload a day, an outage, and a worker that ended again and again on one day."""
    noon = until // DAY * DAY + 10 * 3600
    for day in range(int(days)):
        if (time := noon - day * DAY) < until:
            yield _event(time, "reload", "uWSGI was reloaded: all workers are new.")
    back = until - 2 * DAY + OUTAGE_SECONDS
    yield _event(back, "exporter_started", "The exporter began to watch this server.")
    yield _event(until - 5 * DAY, "server_down", "The server is down.", "Connection refused.")
    yield _event(until - 5 * DAY + 180, "server_up", "The server is up again after 3 min.")
    for number in range(_CROWD):
        yield _event(until - 4 * DAY + 60.0 * number, "worker_ended", "Worker 2 ended.", "It was killed.", (2,))


def _event(time: float, kind: Kind, title: str, evidence: str = "", workers: tuple[int, ...] = ()) -> Event:
    return Event(id=1, time=time, since=time, kind=kind, title=title, evidence=evidence, workers=workers)

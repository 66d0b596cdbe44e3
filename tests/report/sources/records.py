"""A synthetic history as the records of a history file, minute by minute."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from scipy.special import ndtr

from tests.report.sources.exposed import MINUTE, SAMPLES_PER_SECOND
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_server
from tests.support.windows import window, worker
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.report.columns import Column, ServerData
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.database import Database
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Levels, Minute, Record

CUT_LATE = 0.13
"""Seconds from the end of a minute to the first read after it, at which its record ends."""


def write_history_file(history: History, path: Path, machine: int | None = None) -> None:
    """Writes the history of all servers, or of those on one machine (from 0) under the name of their service, as
    exporters would have done."""
    database = Database(open_to_write(path), 10**9)
    minutes: dict[int, list[Minute]] = {}
    for service in history.services:
        for place in range(service.servers):
            if machine is None or machine == place:
                name = service.name if machine is not None else f"{service.name}-{place + 1}"
                for minute in make_minutes(history, service, place, name):
                    minutes.setdefault(minute.minute // 15, []).append(minute)
    for quarter in sorted(minutes):
        database.write(minutes[quarter], (quarter + 1) * 900.0 + 60)
    database.close()


def make_minutes(history: History, service: Service, place: int, name: str) -> Iterator[Minute]:
    """What an exporter puts into its history file, for each minute in which it sampled the server."""
    columns = make_server(history, service, place, MINUTE)
    bins = Bins([service.threshold] if service.threshold else [])
    counts = _count_by_bin(columns, service, bins)
    whole = [_whole(MINUTE * worker.requests) for worker in columns.by_worker]
    occupancy = [_whole(SAMPLES_PER_SECOND * MINUTE * share) for share in columns.occupancy]
    slo = Slo(service.threshold, service.objective) if service.threshold else None
    levels = Levels(service.cpus, int(6e9), int(service.memory), None, False, slo)
    marks = {int(event.time // MINUTE) + 1: event for event in columns.events}
    for row in np.flatnonzero(columns.covered > 0).tolist():
        until = float(columns.time[row]) + CUT_LATE
        counted = [int(numbers[row]) for numbers in whole]
        requests = sum(counted)
        minute, events = round(float(columns.time[row]) / MINUTE), []
        if mark := marks.get(minute):
            events = [Event(id=1, time=mark.time, since=mark.time, kind=mark.kind, title=mark.title)]
        of_minute = counts[:, row] * (requests / counts[:, row].sum())
        times = ResponseTimeWindow(bins, 1 / SAMPLES_PER_SECOND, requests, of_minute.tolist(), [0.0] * len(bins))
        routes = {route: MINUTE * float(threads[row]) for route, threads in columns.routes.items()}
        record = Record(
            until=until,
            window=_window(columns, row, until, counted, tuple(int(numbers[row]) for numbers in occupancy)),
            response_times=times if requests else None,
            routes=RouteWindow(MINUTE, routes) if routes else None,
            levels=levels,
        )
        yield Minute(name, minute, record, events)


def _whole(growth: Column) -> np.ndarray:
    """Whole numbers with the same sum, up to each minute."""
    return np.diff(np.floor(np.concatenate([[0.0], np.cumsum(np.nan_to_num(growth))]) + 1e-6))


def _count_by_bin(columns: ServerData, service: Service, bins: Bins) -> np.ndarray:
    """Requests by bin and minute."""
    mean = columns.busy / columns.requests
    edges = np.array(bins.edges)[:, None]
    below = ndtr((np.log(edges) - np.log(mean) + service.spread**2 / 2) / service.spread)
    cumulative = np.concatenate([np.zeros((1, len(mean))), below, np.ones((1, len(mean)))])
    counts: np.ndarray = np.diff(cumulative, axis=0) * MINUTE * columns.requests
    return counts


def _window(columns: ServerData, row: int, until: float, requests: list[int], occupancy: tuple[int, ...]) -> Window:
    def seconds(column: Column) -> float:
        return MINUTE * float(column[row])

    reloads = int(columns.reloads[row])
    rows = (
        replace(
            worker(
                each.worker_id,
                number,
                each=None,
                cpu=seconds(each.cpu),
                busy=seconds(each.busy),
                up=MINUTE,
                respawns=reloads,  # uWSGI counts the first spawn, too
                lock=seconds(each.lock),
            ),
            running_time=seconds(each.running),
            resident_bytes=int(columns.memory_per_worker[row]),
            resident_growth=0,
        )
        for each, number in zip(columns.by_worker, requests, strict=True)
    )
    whole = window(
        MINUTE,
        *rows,
        cpu=(float(columns.cpu_own[row]), float(columns.cpu_idle[row]), float(columns.cpu_others[row])),
        waits={state: float(threads[row]) for state, threads in columns.waits.items()},
        backends={backend: float(threads[row]) for backend, threads in columns.backends.items()},
        **{"/run/a.sock": seconds(columns.queue)},
    )
    return replace(
        whole,
        until=until,
        full_seconds=seconds(columns.full),
        reloads=reloads,
        overflows=0,
        queue_full_seconds={"/run/a.sock": seconds(columns.queue_full)},
        occupancy=occupancy,
        configured=int(columns.configured[row]),
        available=int(columns.available[row]),
    )

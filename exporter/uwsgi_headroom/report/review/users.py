"""Section 3: what users felt: response times, waiting in the listen queue, lost requests, the objective.

Section 5: where the time of requests goes at peak: by state, backend and route, and CPU time per request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.report.model import PERCENTILES, STEP, Column, ServerData
from uwsgi_headroom.report.review.model import Absent, HeatMap, ObjectiveUse, Part, TimeUse, Users
from uwsgi_headroom.report.review.peaks import Peaks, Service
from uwsgi_headroom.report.review.windows import Places, places_of, total
from uwsgi_headroom.report.statistics.distribution import by_weekday_and_hour, pool_percentiles
from uwsgi_headroom.words.states import WAITS

LEAST_FOR_A_MAP = 2 * 96
"""Quarter hours with data from which on a map of the week shows more than single hours."""

FEWEST = 100
"""Fewest requests for a burn rate, as in `analysis.objective`."""

Chosen = Sequence[tuple[ServerData, Places]]
"""Servers with the places of some of their quarter hours."""


def review_users(service: Service, peaks: Peaks, zone: ZoneInfo) -> Users:
    """The section of a service."""
    everything: Chosen = [(server, np.arange(len(server.time))) for server in service.servers]
    at_peak: Chosen = [(server, places_of(server.time, list(peaks.daily.times))) for server in service.servers]
    full = _per_time(everything, lambda server: server.queue_full)
    return Users(
        requests=_count(everything, lambda server: server.requests) or 0.0,
        mean=_response_time(everything),
        mean_at_peak=_response_time(at_peak),
        percentiles=_percentiles(everything),
        percentiles_at_peak=_percentiles(at_peak),
        queue_wait=_queue_wait(everything),
        queue_wait_at_peak=_queue_wait(at_peak),
        queue_full=full,
        overflows=_events(everything, lambda server: server.overflows),
        lost=_count(everything, lambda server: server.lost),
        harakiris=_events(everything, lambda server: server.harakiris),
        exceptions=_events(everything, lambda server: server.exceptions),
        objective=_objective(everything, at_peak),
        load=_load_map(service, zone),
        response_time=_response_time_map(service, zone),
    )


def _sum(chosen: Chosen, values: Callable[[ServerData], Column]) -> float | None:
    parts = [total(values(server)[places]) for server, places in chosen]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _count(chosen: Chosen, rate: Callable[[ServerData], Column]) -> float | None:
    """The number that a rate per second adds up to."""
    summed = _sum(chosen, rate)
    return None if summed is None else summed * STEP


def _events(chosen: Chosen, number: Callable[[ServerData], Column]) -> float | None:
    return _sum(chosen, number)


def _per_time(chosen: Chosen, share: Callable[[ServerData], Column]) -> float | None:
    """The largest mean of a server."""
    parts = [(total(share(server)[places]), np.isfinite(share(server)[places]).sum()) for server, places in chosen]
    return max((summed / int(count) for summed, count in parts if summed is not None and count), default=None)


def _ratio_where_known(
    chosen: Chosen, part: Callable[[ServerData], Column], whole: Callable[[ServerData], Column]
) -> float | None:
    """Sum over sum, of the quarter hours in which both are known."""
    parts = wholes = 0.0
    for server, places in chosen:
        above, below = part(server)[places], whole(server)[places]
        known = np.isfinite(above) & np.isfinite(below)
        parts += float(above[known].sum())
        wholes += float(below[known].sum())
    return ratio(parts, wholes)


def _response_time(chosen: Chosen) -> float | None:
    return _ratio_where_known(chosen, lambda server: server.running, _timed)


def _timed(server: ServerData) -> Column:
    """Requests per second with a response time: all but static files."""
    timed: Column = server.requests - np.nan_to_num(server.static)
    return timed


def _queue_wait(chosen: Chosen) -> float | None:
    """Little's law on the listen queues, as in `analysis.littles_law`."""
    return _ratio_where_known(chosen, lambda server: server.queue, lambda server: server.requests)


def _percentiles(chosen: Chosen) -> Mapping[str, float]:
    """Of the requests of all servers whose response times are counted by the same bounds as those of the first."""
    known = [(server, places) for server, places in chosen if server.bounds and server.by_time]
    if not known:
        return {}
    bounds = known[0][0].bounds
    alike = [(server, places) for server, places in known if server.bounds == bounds]
    by_time = [np.concatenate([server.by_time[row][places] for server, places in alike]) for row in range(len(bounds))]
    have = all(len(server.percentiles) == len(PERCENTILES) for server, _ in alike)
    percentiles = [
        np.concatenate([server.percentiles[row][places] for server, places in alike])
        for row in range(len(PERCENTILES) if have else 0)
    ]
    pooled = pool_percentiles(bounds, by_time, percentiles, PERCENTILES[: len(percentiles)], PERCENTILES)
    return {f"p{100 * share:g}": value for share, value in zip(PERCENTILES, pooled, strict=True) if isfinite(value)}


def _objective(everything: Chosen, at_peak: Chosen) -> ObjectiveUse | Absent:
    """Of the servers with the objective of the first that has one."""
    objective = next((server.objective for server, _ in everything if server.objective), None)
    if objective is None:
        return Absent(reason="No service level objective is set (`--slo`), so none is judged.")
    alike = [(server, places) for server, places in everything if server.objective == objective]
    peak = [(server, places) for server, places in at_peak if server.objective == objective]
    requests = (_count(alike, lambda server: server.judged)) or 0.0
    bad = _ratio_where_known(alike, lambda server: server.slow, lambda server: server.judged)
    if bad is None or requests < FEWEST:
        return Absent(reason=f"Too few requests were judged by the objective: {requests:.0f}, and {FEWEST} are needed.")
    burning = _ratio_where_known(peak, lambda server: server.slow, lambda server: server.judged)
    permitted = 1 - objective.objective
    return ObjectiveUse(
        threshold=objective.threshold,
        objective=objective.objective,
        requests=requests,
        bad=bad,
        budget=bad / permitted,
        at_peak=None if burning is None else burning / permitted,
    )


def _load_map(service: Service, zone: ZoneInfo) -> HeatMap | Absent:
    busy = service.stack(lambda server: server.busy)
    available = service.stack(lambda server: server.available)
    known = np.isfinite(busy) & np.isfinite(available)
    used, threads = np.where(known, busy, 0.0).sum(axis=0), np.where(known, available, 0.0).sum(axis=0)
    share = np.divide(used, threads, out=np.full(len(used), np.nan), where=threads > 0)
    return _map("Threads in service, of those available", "%", service.time, 100 * share, zone)


def _response_time_map(service: Service, zone: ZoneInfo) -> HeatMap | Absent:
    running, timed = service.stack(lambda server: server.running), service.stack(_timed)
    known = np.isfinite(running) & np.isfinite(timed)
    seconds, requests = np.where(known, running, 0.0).sum(axis=0), np.where(known, timed, 0.0).sum(axis=0)
    mean = np.divide(seconds, requests, out=np.full(len(seconds), np.nan), where=requests > 0)
    return _map("Mean response time", "ms", service.time, 1000 * mean, zone, requests)


def _map(
    title: str, unit: str, time: Column, values: Column, zone: ZoneInfo, weights: Column | None = None
) -> HeatMap | Absent:
    if np.isfinite(values).sum() < LEAST_FOR_A_MAP:
        return Absent(reason="A map of weekdays and hours needs two days of data.")
    found = by_weekday_and_hour(time, values, zone, weights).values
    return HeatMap(
        title=title,
        unit=unit,
        rows=tuple(tuple(float(value) if isfinite(value) else None for value in row) for row in found),
    )


MOST_PARTS = 12
"""More backends or routes than this are added up as `others`."""


def review_time(peaks: Peaks) -> TimeUse:
    """The section of a service, over the busiest quarter hours of all days. A part of so many threads takes that number
    over the throughput of a mean request, by Little's law."""
    chosen = [(server, places_of(server.time, list(peaks.daily.times))) for server in peaks.service.servers]
    busy, throughput = _mean_of(chosen, "busy"), _mean_of(chosen, "requests")
    running, static = _mean_of(chosen, "running"), _mean_of(chosen, "static")
    states = _add_up([(server.waits, places) for server, places in chosen])
    return TimeUse(
        response_time=ratio(running, throughput - static),
        cpu_per_request=_cpu_per_request(chosen),
        states=_parts({_label(state): threads for state, threads in states.items()}, throughput)
        if states
        else Absent(
            reason="What requests wait for is unknown: the exporter may not read the threads of the workers "
            "(docs/waits.md says what to grant)."
        ),
        backends=_or_absent(
            _add_up([(server.backends, places) for server, places in chosen]),
            throughput,
            busy,
            "No backend has a name (`backends:` in the exporter's configuration), or no request waited for one.",
        ),
        routes=_or_absent(
            _add_up([(server.routes, places) for server, places in chosen]),
            throughput,
            busy,
            "Routes are off (`routes: true` in the exporter's configuration turns them on).",
        ),
    )


def _mean_of(chosen: list[tuple[ServerData, Places]], name: str) -> float:
    """The sum over servers of the mean of a column."""
    return sum(_mean(getattr(server, name)[places]) for server, places in chosen)


def _mean(values: Column) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _add_up(columns: list[tuple[Mapping[str, Column], Places]]) -> dict[str, float]:
    """Mean threads by name, over all servers; names without any are left out."""
    found: dict[str, float] = {}
    for named, places in columns:
        for name, column in named.items():
            if threads := _mean(column[places]):
                found[name] = found.get(name, 0.0) + threads
    return found


def _cpu_per_request(chosen: list[tuple[ServerData, Places]]) -> float | None:
    """CPU seconds of a request: CPUs in use over throughput (utilization law)."""
    used = requests = 0.0
    for server, places in chosen:
        own, rate = server.cpu_own[places], server.requests[places]
        known = np.isfinite(own) & np.isfinite(rate)
        used, requests = used + float(own[known].sum()), requests + float(rate[known].sum())
    return ratio(used, requests) if used else None


def _or_absent(threads: dict[str, float], throughput: float, whole: float, reason: str) -> tuple[Part, ...] | Absent:
    return _parts(threads, throughput, whole) if threads else Absent(reason=reason)


def _parts(threads: Mapping[str, float], throughput: float, whole: float | None = None) -> tuple[Part, ...]:
    whole = whole or sum(threads.values())
    ranked = sorted(threads.items(), key=lambda item: (-item[1], item[0]))
    shown = ranked[:MOST_PARTS]
    if rest := sum(number for _, number in ranked[MOST_PARTS:]):
        shown.append((f"{len(ranked) - MOST_PARTS} others", rest))
    return tuple(
        Part(name=name, threads=number, per_request=ratio(number, throughput), share=number / whole)
        for name, number in shown
    )


def _label(state: str) -> str:
    """A state in words; a state that this version does not know, as it is."""
    return WAITS[state].name if state in WAITS else state

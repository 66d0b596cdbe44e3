"""Section 3: what users felt: response times, waiting in the listen queue, lost requests, the objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.report.columns import PERCENTILES, STEP, Column, ServerData, divide, mean, total
from uwsgi_headroom.report.review.peaks import Peaks, Service
from uwsgi_headroom.report.review.sections import Absent, HeatMap, ObjectiveUse, Users
from uwsgi_headroom.report.review.windows import Chosen, ratio_where_known, refused_by
from uwsgi_headroom.report.statistics.distribution import pool_percentiles
from uwsgi_headroom.report.statistics.local_time import by_weekday_and_hour

LEAST_FOR_A_MAP = 2 * 96
"""Quarter hours with data from which on a map of the week shows more than single hours."""

FEWEST = 100
"""Fewest requests for a burn rate, as in `analysis.objective`."""


def review_users(peaks: Peaks) -> Users:
    service, at_peak = peaks.service, peaks.at_peak
    everything: Chosen = [(server, np.arange(len(server.time))) for server in service.servers]
    return Users(
        requests=_count(everything, lambda server: server.requests) or 0.0,
        mean=_response_time(everything),
        mean_at_peak=_response_time(at_peak),
        percentiles=_percentiles(everything),
        percentiles_at_peak=_percentiles(at_peak),
        queue_wait=_queue_wait(everything),
        queue_wait_at_peak=_queue_wait(at_peak),
        queue_full=_highest_mean(everything, lambda server: server.queue_full),
        overflows=_sum(everything, refused_by),
        overflows_elsewhere=_sum(everything, lambda server: server.overflows - refused_by(server)),
        lost=_count(everything, lambda server: server.lost),
        harakiris=_sum(everything, lambda server: server.harakiris),
        exceptions=_sum(everything, lambda server: server.exceptions),
        objective=_objective(everything, at_peak),
        load=_load_map(service, peaks.daily.zone),
        response_time=_response_time_map(service, peaks.daily.zone),
    )


def _sum(chosen: Chosen, values: Callable[[ServerData], Column]) -> float | None:
    parts = [total(values(server)[places]) for server, places in chosen]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _count(chosen: Chosen, rate: Callable[[ServerData], Column]) -> float | None:
    """The number that a rate per second adds up to."""
    summed = _sum(chosen, rate)
    return None if summed is None else summed * STEP


def _highest_mean(chosen: Chosen, share: Callable[[ServerData], Column]) -> float | None:
    means = [mean(share(server)[places]) for server, places in chosen]
    return max((each for each in means if each is not None), default=None)


def _response_time(chosen: Chosen) -> float | None:
    return ratio_where_known(chosen, lambda server: server.running, lambda server: server.timed)


def _queue_wait(chosen: Chosen) -> float | None:
    """Little's law on the listen queues, as in `analysis.littles_law`."""
    return ratio_where_known(chosen, lambda server: server.queue, lambda server: server.requests)


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
    requests = _count(alike, lambda server: server.judged) or 0.0
    bad = ratio_where_known(alike, lambda server: server.slow, lambda server: server.judged)
    if bad is None or requests < FEWEST:
        return Absent(reason=f"Too few requests were judged by the objective: {requests:.0f}, and {FEWEST} are needed.")
    burning = ratio_where_known(peak, lambda server: server.slow, lambda server: server.judged)
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
    used, threads = _sums(service, lambda server: server.busy, lambda server: server.available)
    return _map("Threads in service, of those available", "%", service.time, 100 * divide(used, threads), zone)


def _response_time_map(service: Service, zone: ZoneInfo) -> HeatMap | Absent:
    seconds, requests = _sums(service, lambda server: server.running, lambda server: server.timed)
    return _map("Mean response time", "ms", service.time, 1000 * divide(seconds, requests), zone, requests)


def _sums(
    service: Service, part: Callable[[ServerData], Column], whole: Callable[[ServerData], Column]
) -> tuple[Column, Column]:
    """Two columns summed over the servers of which both are known."""
    parts, wholes = service.stack(part), service.stack(whole)
    known = np.isfinite(parts) & np.isfinite(wholes)
    return np.where(known, parts, 0.0).sum(axis=0), np.where(known, wholes, 0.0).sum(axis=0)


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

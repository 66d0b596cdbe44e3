"""Integrates the busy threads of each route: linear between two samples, as for the number of busy threads."""

from __future__ import annotations

from collections import Counter

from uwsgi_headroom.history.route_totals import RouteTotals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes.served import ServedRoutes
from uwsgi_headroom.stats import Snapshot


def count_by_route(reading: Reading, routes: ServedRoutes) -> Counter[int]:
    """The busy threads of each route at one sample, by the route's number. A process that is gone has none."""
    counts: Counter[int] = Counter()
    if isinstance(reading.snapshot, Snapshot):
        for worker in reading.snapshot.workers:
            numbers = routes.numbers.get(worker.worker_id)
            if numbers and not reading.process_is_missing(worker):
                counts.update(numbers.values())
    return counts


def add_route_time(
    totals: RouteTotals | None, before: Reading | None, reading: Reading, step: float
) -> RouteTotals | None:
    """Add the `step` seconds between two samples; 0 if the time between them is a gap. Returns the totals, which are
    None until routes are first known."""
    now = reading.routes
    if now is None:
        return totals
    totals = totals or RouteTotals()
    _note_names(totals, now)
    then = before.routes if before else None
    if before and then and step:
        totals.observed_seconds += step
        for levels, served in ((count_by_route(before, then), then), (count_by_route(reading, now), now)):
            for number, threads in levels.items():
                is_same = served.generations[number] == now.generations[number] and now.names[number]
                totals.seconds[number if is_same else 0] += step / 2 * threads
    return totals


def _note_names(totals: RouteTotals, now: ServedRoutes) -> None:
    if now.names is totals.names:
        return
    new = len(now.names) - len(totals.seconds)
    totals.seconds += [0.0] * new
    totals.bases += [0.0] * new
    for number, generation in enumerate(now.generations):
        if number >= len(totals.generations) or totals.generations[number] != generation:
            totals.bases[number] = totals.seconds[number]
    totals.names, totals.generations = now.names, now.generations

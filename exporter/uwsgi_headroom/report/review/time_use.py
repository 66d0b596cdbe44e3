"""Section 5: where the time of requests goes at peak: by state, backend and route, and CPU time per request."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.report.model import Column, ServerData
from uwsgi_headroom.report.review.model import Absent, Part, TimeUse
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.windows import Places, places_of
from uwsgi_headroom.words.states import WAITS

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

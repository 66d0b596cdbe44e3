"""Section 5: where the time of requests goes at peak: by state, backend and route, and CPU time per request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.report.columns import Column, ServerData, mean
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.sections import Absent, Part, TimeUse
from uwsgi_headroom.report.review.windows import Chosen, ratio_where_known
from uwsgi_headroom.words.states import WAITS

MOST_PARTS = 12
"""More backends or routes than this are added up as `others`."""


def review_time(peaks: Peaks) -> TimeUse:
    """The section of a service, in the quarter hour that counts. As in `analysis.wait_states`, the mean response time
    is divided by what the threads do, so that the parts add up to it; where it is not known, a part of so many threads
    takes that number over the throughput, by Little's law."""
    chosen = peaks.at_peak
    busy, throughput = _mean_of(chosen, "busy"), _mean_of(chosen, "requests")
    states = _threads(chosen, lambda server: server.waits)
    seen = sum(states.values()) or busy
    response_time = ratio(_mean_of(chosen, "running"), throughput - _mean_of(chosen, "static"))
    # CPUs in use over throughput, by the utilization law.
    cpu = ratio_where_known(chosen, lambda server: server.cpu_own, lambda server: server.requests)
    return TimeUse(
        response_time=response_time,
        cpu_per_request=cpu or None,
        states=_parts(
            # A state that this version does not know keeps its name.
            {WAITS[state].name if state in WAITS else state: threads for state, threads in states.items()},
            seen,
            _seconds_per_thread(response_time, seen, throughput),
            "What requests wait for is unknown: the exporter may not read the threads of the workers "
            "(docs/waits.md says what to grant).",
        ),
        backends=_parts(
            _threads(chosen, lambda server: server.backends),
            seen,
            _seconds_per_thread(response_time, seen, throughput),
            "No backend has a name (`backends:` in the exporter's configuration), or no request waited for one.",
        ),
        routes=_parts(
            _threads(chosen, lambda server: server.routes),
            busy,
            _seconds_per_thread(response_time, busy, throughput),
            "Routes are off (`routes: true` in the exporter's configuration turns them on).",
        ),
    )


def _seconds_per_thread(response_time: float | None, threads: float, throughput: float) -> float | None:
    """How many seconds of a mean request one of the threads is that serve requests; None without requests."""
    return ratio(1, throughput) if response_time is None else ratio(response_time, threads)


def _mean_of(chosen: Chosen, name: str) -> float:
    """The sum over servers of the mean of a column."""
    return sum(mean(getattr(server, name)[places]) or 0.0 for server, places in chosen)


def _threads(chosen: Chosen, columns: Callable[[ServerData], Mapping[str, Column]]) -> dict[str, float]:
    """Mean threads by name, over all servers; names without any are left out."""
    found: dict[str, float] = {}
    for server, places in chosen:
        for name, column in columns(server).items():
            if threads := mean(column[places]):
                found[name] = found.get(name, 0.0) + threads
    return found


def _parts(
    threads: Mapping[str, float], whole: float, per_thread: float | None, reason: str
) -> tuple[Part, ...] | Absent:
    """The largest parts of `whole` threads; without any, the reason."""
    if not threads:
        return Absent(reason=reason)
    whole = whole or sum(threads.values())
    ranked = sorted(threads.items(), key=lambda item: (-item[1], item[0]))
    shown = ranked[:MOST_PARTS]
    if rest := sum(number for _, number in ranked[MOST_PARTS:]):
        shown.append((f"{len(ranked) - MOST_PARTS} others", rest))
    return tuple(
        Part(
            name=name,
            threads=number,
            per_request=None if per_thread is None else number * per_thread,
            share=number / whole,
        )
        for name, number in shown
    )

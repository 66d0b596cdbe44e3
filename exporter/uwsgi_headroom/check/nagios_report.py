"""Writes verdicts as the line of a monitoring plugin, with performance data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.check.failure import Performance, render_label, render_line
from uwsgi_headroom.check.reports import count_statuses
from uwsgi_headroom.check.request import Threshold, Thresholds, find_worst
from uwsgi_headroom.documents.response_times import find_percentile
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.sentences import percentile_name

_MOST_NAMED = 3
"""How many servers' verdicts the line contains; a pager shows no more."""


def render_report(judged: Sequence[Server], thresholds: Thresholds) -> str:
    """Write the line. With several servers, labels begin with the server's name: `shop.headroom`."""
    several = len(judged) > 1
    figures = [
        figure
        for server in judged
        for figure in _list_figures(server, thresholds, f"{render_label(server.name)}." if several else "")
    ]
    status = find_worst(server.status for server in judged)
    return render_line(status, _summarize(judged) if several else f"{judged[0].name}: {judged[0].verdict}", figures)


def _summarize(judged: Sequence[Server]) -> str:
    troubled = [server for server in judged if server.status != "ok"]
    named = [f"{server.name}: {server.verdict.removesuffix('.')}" for server in troubled[:_MOST_NAMED]]
    more = [f"and {len(troubled) - _MOST_NAMED} more"] if len(troubled) > _MOST_NAMED else []
    return "; ".join((count_statuses(judged), *named, *more))


def _list_figures(server: Server, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    """List the figures of a readable server: always the same ones, since a graph's file has a fixed number."""
    if server.state != "up":
        return
    if server.emperor:
        yield Performance(f"{prefix}vassals", len(server.emperor.vassals))
        yield Performance(f"{prefix}throttled_vassals", len(server.emperor.throttled))
    elif server.router:
        yield Performance(f"{prefix}active_sessions", server.router.active_sessions)
    else:
        yield from _list_flow(server, thresholds, prefix)


def _list_flow(server: Server, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    flow, room, threads = server.flow, server.headroom, server.threads
    yield Performance(
        f"{prefix}headroom", room.factor if room else None, "", *_ranges(thresholds.min_headroom, "{:g}:")
    )
    yield Performance(f"{prefix}throughput", flow.throughput if flow else None)
    yield Performance(
        f"{prefix}response_time",
        flow.response_time if flow else None,
        "s",
        *_ranges(thresholds.max_response_time, "{:g}"),
    )
    yield Performance(
        f"{prefix}queue_wait", flow.queue_wait if flow else None, "s", *_ranges(thresholds.max_queue_wait, "{:g}")
    )
    yield Performance(
        f"{prefix}concurrency", flow.observed if flow else None, most=threads.available if threads else None
    )
    yield Performance(f"{prefix}interpreter_lock_waiters", _count_lock_waiters(server))
    for share, limits in ((0.95, thresholds.max_p95), (0.99, thresholds.max_p99)):
        percentile = find_percentile(server.response_times, share)
        seconds = percentile.seconds if percentile else None
        yield Performance(f"{prefix}response_time_{percentile_name(share)}", seconds, "s", *_ranges(limits, "{:g}"))
    if server.objective:
        burn = server.objective.windows[-1] if server.objective.windows and not server.objective.unjudged else None
        yield Performance(f"{prefix}objective_missed_share", burn.share if burn else None, most=1)
        yield Performance(f"{prefix}objective_burn_rate", burn.rate if burn else None)


def _count_lock_waiters(server: Server) -> float | None:
    """Return the mean number of threads that wait for the interpreter lock of their worker."""
    if server.waits is None:
        return None
    return sum(state.threads for state in server.waits.states if state.state == "interpreter_lock")


def _ranges(limits: Threshold, form: str) -> tuple[str, str]:
    """Return the ok ranges for warning and for critical."""
    warning, critical = ("" if limit is None else form.format(limit) for limit in (limits.warning, limits.critical))
    return warning, critical

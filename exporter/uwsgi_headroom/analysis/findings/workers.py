"""Findings about workers that end: killed, lost, respawned, recycled, reloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, Severity
from uwsgi_headroom.analysis.littles_law import judge_waiting, waiting_clause
from uwsgi_headroom.analysis.worker_states import (
    AWAY,
    are_reloaded,
    find_ends,
    find_unexplained_ends,
    part_away,
    scales,
)
from uwsgi_headroom.words.formats import counted, duration, numbered, percent, repeated

MANY_LOST = (3, 0.01)
"""At or above this number of lost requests, and this fraction of all requests, the loss is critical."""

LOOP = (3, 1.0)
"""This many respawns of one worker per window, and per minute, are a loop if the worker serves little in between."""

LOOP_CHEAPER = (10, 4.0)
"""The same while cheaper mode may end and spawn workers, which it hardly does every 15 s. A worker that serves nothing
in between is in a loop from `LOOP` on: cheaper mode spawns it because requests need it."""

SERVED = 50
"""With at least this many requests between respawns on average, a worker is recycled (`max-requests`, `reload-on-rss`)
and not in a loop."""

RECYCLED = 0.7
"""A worker that served at least this fraction of `max-requests` has reached it: `max-requests-delta` varies it by
worker."""

SHORT_LIFE = 60.0
"""Seconds between respawns of one worker below which recycling costs more than it saves."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that end, except for costly recycling, which `causes` reports."""
    yield from _harakiri(figures)
    yield from _lost(figures)
    if not list(find_recycling(figures)):
        yield from _respawns(figures)
    if figures.window.reloads:
        yield Finding(
            code="reloaded",
            severity="info",
            title=f"uWSGI was reloaded {repeated(figures.window.reloads)}.",
            evidence=f"In the last {duration(figures.window.seconds)}; its counters restarted.",
        )


def _severity(figures: Figures, lost: int) -> Severity:
    least, part = MANY_LOST
    return "critical" if lost >= least and lost >= part * (figures.flow.requests + lost) else "warning"


def _part_of(figures: Figures, lost: int) -> str:
    part = lost / (figures.flow.requests + lost)
    return percent(part) if part >= 0.005 else "less than 1 %"


def _lost_count(figures: Figures) -> int:
    return sum(worker.lost for worker in figures.window.workers)


def _harakiri(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    if not window.harakiris:
        return
    lost = max(_lost_count(figures), window.harakiris)
    threads = (figures.configured or 0) > len(window.workers)
    other = max(0, window.respawns - window.harakiris)
    yield Finding(
        code="harakiri",
        severity=_severity(figures, lost),
        title=f"uWSGI killed a worker {repeated(window.harakiris)} for a request over `harakiri`"
        f"{_set_to(figures, 'harakiri', ' s')}.",
        evidence=f"In the last {duration(window.seconds)}, with at least {counted(lost, 'request')} in service"
        + (f"; {counted(other, 'respawn')} for other reasons." if other else "."),
        meaning="All requests in that worker are lost, and counted nowhere."
        + (
            " With `threads` a worker has one timer, which every other request resets: a slow request may last long, "
            "and the timer then ends all of them."
            if threads
            else ""
        ),
        change="Find the request in uWSGI's log, at `HARAKIRI`; then set timeouts on what it calls, or raise "
        "`harakiri` if it is meant to take so long.",
    )


def _lost(figures: Figures) -> Iterator[Finding]:
    lost = _lost_count(figures)
    if not lost or figures.window.harakiris:
        return
    ends = sum(times for _, times, _ in find_unexplained_ends(figures))
    ended = [worker.worker_id for worker in figures.window.workers if worker.lost]
    yield Finding(
        code="requests_lost",
        severity=_severity(figures, max(lost, ends)),
        title=f"{numbered('Worker', ended)} ended with at least {counted(lost, 'request')} in service.",
        evidence=f"In the last {duration(figures.window.seconds)}, not by `harakiri`, and the requests were never "
        f"finished: {_part_of(figures, lost)} of all."
        + (f" In all, workers ended {counted(ends, 'time')}; no option of uWSGI explains it." if ends > lost else ""),
        meaning="It crashed, was killed (by the kernel, when memory is short), or ended itself.",
        change="See uWSGI's log for `died, killed by signal`, and `dmesg` for `Out of memory`.",
    )


def _respawns(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    ended = find_ends(figures)
    looping = [worker_id for worker_id, respawns, requests in ended if _is_loop(figures, respawns, requests)]
    respawns = sum(times for _, times, _ in ended) - window.harakiris
    if looping and respawns > 0:
        # A worker that serves nothing in between (its import fails, for example) loses no requests.
        lost = sum(times for _, times, requests in find_unexplained_ends(figures) if requests >= times)
        lose_many = lost > 0 and _severity(figures, lost) == "critical"
        is_many = lose_many or 2 * len(looping) >= len(window.workers)
        yield Finding(
            code="respawn_loop",
            severity="critical" if is_many else "warning",
            title=f"{numbered('Worker', looping)} {_keep(looping)} restarting.",
            evidence=f"{counted(respawns, 'respawn')} in {duration(window.seconds)}, besides {window.harakiris} by "
            f"harakiri; {counted(sum(requests for _, _, requests in ended), 'request')} served by these workers.",
            meaning="Every respawn loads the application again, and capacity is smaller meanwhile.",
            change="See uWSGI's log for what ends it: an import error, `died, killed by signal`, or an exit of the "
            "application itself.",
        )
    elif respawns > 0 and not scales(figures):
        seconds = window.seconds * len(window.workers) / respawns
        short = seconds < SHORT_LIFE and any(times >= LOOP[0] for _, times, _ in ended)
        if unexplained := find_unexplained_ends(figures):
            if not _lost_count(figures):
                yield _ended(figures, [worker_id for worker_id, _, _ in unexplained], respawns)
            return
        yield Finding(
            code="workers_respawned",
            severity="info",
            title=f"{numbered('Worker', [worker_id for worker_id, _, _ in ended])} "
            f"{'was' if len(ended) == 1 else 'were'} restarted.",
            evidence=f"{counted(respawns, 'time')} in the last {duration(window.seconds)}"
            + (f", each after {duration(seconds)} on average." if short else "."),
            meaning="They were replaced as in a reload of the workers, and no request was lost."
            if are_reloaded(figures, ended)
            else f"A worker that reaches `max-requests`{_set_to(figures, 'max_requests')} or "
            f"`reload-on-rss`{_set_to(figures, 'reload_on_rss', ' MB')} is replaced, and so is one that ends.",
            change="Raise `max-requests`: a worker serves for less than a minute." if short else "",
        )


def _is_loop(figures: Figures, respawns: int, requests: int) -> bool:
    """Whether a worker with these respawns and requests in the window is in a loop."""
    is_cheaper = scales(figures) and requests >= respawns
    least, a_minute = LOOP_CHEAPER if is_cheaper else LOOP
    often = respawns >= max(least, a_minute * figures.window.seconds / 60)
    return often and requests < _served_enough(figures) * respawns


def find_recycling(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that reach `max-requests` so early that it costs capacity."""
    window, ended = figures.window, find_ends(figures)
    most, away = figures.server.setup.options.max_requests, part_away(figures)
    respawns = sum(times for _, times, _ in ended) - window.harakiris
    served = sum(requests for _, _, requests in ended)
    if not most or respawns < LOOP[0] or served < RECYCLED * most * respawns / 2:
        return
    lives = window.seconds * len(window.workers) / respawns
    if lives >= SHORT_LIFE or (most >= SERVED and (away is None or away < AWAY)):
        return
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title=f"Each worker is replaced after {duration(lives)} on average: `max-requests` is {most}.",
        evidence=f"{counted(respawns, 'respawn')} in {duration(window.seconds)}; "
        + ("" if away is None else f"workers are down for {percent(away)} of the time; ")
        + f"{waiting_clause(figures.flow)}.",
        meaning="uWSGI replaces a worker after that many requests, and spawns no more than a few a second.",
        change="Raise `max-requests`, so that a worker lives for an hour or more, or leave it out.",
    )


def _ended(figures: Figures, ended: Sequence[int], ends: int) -> Finding:
    return Finding(
        code="workers_ended",
        severity=_severity(figures, ends),
        title=f"{numbered('Worker', ended)} ended unexpectedly.",
        evidence=f"{counted(ends, 'time')} in the last {duration(figures.window.seconds)}; no option of uWSGI "
        "explains it.",
        meaning="Either a chain reload is under way, or it crashed, was killed (by the kernel, when memory is short), "
        "or ended itself. A request that it was serving is lost.",
        change="See uWSGI's log for `died, killed by signal`, and `dmesg` for `Out of memory`.",
    )


def _served_enough(figures: Figures) -> float:
    """With at least this many requests between respawns, a worker is recycled: nearly `max-requests`, if that is
    known."""
    most = figures.server.setup.options.max_requests
    return min(SERVED, RECYCLED * most) if most else SERVED


def _set_to(figures: Figures, option: str, unit: str = "") -> str:
    """An option's value in parentheses, if it is known from the command line or a file."""
    value = getattr(figures.server.setup.options, option)
    return "" if value is None else f" ({value}{unit})"


def _keep(workers: Sequence[int]) -> str:
    return "keeps" if len(workers) == 1 else "keep"

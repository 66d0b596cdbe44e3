"""Findings about threads: how close the server is to having all of them in use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.advice import advise_capacity
from uwsgi_headroom.analysis.bottlenecks import SPREAD, UNREACHABLE, bring_workers_back
from uwsgi_headroom.analysis.demand import SocketDemand
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, add_wait
from uwsgi_headroom.analysis.littles_law import shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.routes import describe_route
from uwsgi_headroom.analysis.worker_states import name_slots, starts_on_demand
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.words.formats import counted, duration, mean_count, mean_threads, numbered, percent

THREADS_BUSY = 0.75
"""A mean fraction of busy threads at or above this is a warning: load can grow by a third. Raise it for a batch server
whose clients can wait."""

THREADS_FULL = 0.90
"""At or above this mean fraction of busy threads the limit is reached, which is critical if requests wait: random
arrivals then often find every thread busy. The time with all threads busy does not measure load: with one thread, it
equals the utilization."""

TAIL = (0.9, 0.3)
"""The percentile from which on requests are the slowest ones, and the part of the busy threads from which on it is said
that they occupy it: 0.23 at most if the times are distributed exponentially."""

FEWEST_SLOW = 3
"""Fewer slow requests than these may be chance."""

SEE_ROUTES = "You can also make the slowest requests faster: the exporter's flag `--routes` shows their paths."

RESERVE_UNUSED = 0.2
"""If every thread is in use for at least this fraction of the time, cheaper mode should have spawned a worker."""


MUCH_SLOWER = 3.0
"""Requests are much slower in the last part of a window if they occupy the threads for so many times as long, by
Little's law, as those of the whole window, while most threads are in use."""


def find_change(whole: Figures, late: Figures) -> Finding | None:
    """The finding that requests became much slower within a window; None if they did not. late: of its last part. The
    mean over such a step describes neither side."""
    before, now = _occupied(whole), _occupied(late)
    if before is None or now is None or (late.flow.observed or 0.0) < THREADS_BUSY * (late.ceiling or math.inf):
        return None
    if now < MUCH_SLOWER * before:
        return None
    return Finding(
        code="became_slower",
        severity="info",
        title="Requests became much slower while uWSGI was watched.",
        evidence=f"In the last {duration(late.window.seconds)}, a request occupies a thread for {duration(now)}; on "
        f"average over {duration(whole.window.seconds)}, it was {duration(before)}.",
        meaning="So all figures and findings here are those of the time since then, and none of the time before.",
    )


def _occupied(figures: Figures) -> float | None:
    """Seconds for which a request occupies a thread, by Little's law, at least; None if that is not known. Those that
    are in service count before they are completed."""
    flow = figures.flow
    if flow.observed is None or not figures.window.observed_seconds:
        return None
    return flow.observed * figures.window.seconds / max(1, flow.requests)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about threads."""
    yield from _threads(figures)
    yield from _cheaper(figures)


def _threads(figures: Figures) -> Iterator[Finding]:
    window, observed, ceiling = figures.window, figures.flow.observed, figures.ceiling
    if observed is None or not ceiling or not window.observed_seconds:
        return
    used = observed / ceiling
    if used < THREADS_BUSY:
        yield from _few_slow_requests(figures)
        yield from _threads_of_a_socket(figures)
        return
    waits = used >= THREADS_FULL and shows_a_limit(figures.flow)
    full = window.full_seconds / window.observed_seconds
    existing = mean_threads(figures.threads)
    is_up = ceiling > 1 and existing not in ("0", str(ceiling))
    slot = name_slots(figures.server).removesuffix("s")
    slots = slot if ceiling == 1 else f"{slot}s"
    slowest, advice = _describe_slowest(figures, f"{slot}s"), advise_capacity(figures)
    away = bring_workers_back(figures)
    if slowest and figures.routes is None:
        advice = advice._replace(change=f"{advice.change} {SEE_ROUTES}")
    yield Finding(
        code="saturation",
        severity="critical" if waits else "warning",
        title=_title(slots, ceiling, waits=waits),
        **add_wait(
            (
                f"On average, {existing} of the {counted(ceiling, slot)} are up, and {mean_count(observed)} are busy "
                f"({percent(used)} of {ceiling})"
                if is_up
                else f"On average, {mean_count(observed)} of {counted(ceiling, slot)} "
                f"{'is' if ceiling == 1 else 'are'} busy ({percent(used)})"
            )
            + (f"; for {percent(full)} of the time, no {slot} is free" if full >= 0.005 else ""),
            figures.flow,
            slowest + _describe_polling(figures),
        )._asdict(),
        meaning=f"A request that finds {'this' if ceiling == 1 else 'all'} {slots} busy waits in the listen queue.",
        **advice._asdict(),
        clause=away.cause if away else _clause(slots, ceiling, used),
    )


def _title(slots: str, threads: int, *, waits: bool) -> str:
    """What is in use, of so many threads."""
    if threads == 1:
        return (
            f"The only {slots} is in use, and requests wait."
            if waits
            else f"The only {slots} is in use most of the time."
        )
    return f"All {slots} are in use, and requests wait for one." if waits else f"Most {slots} are in use."


def _clause(slots: str, threads: int, used: float) -> str:
    """The same in the sentence of another finding."""
    if threads == 1:
        return f"the only {slots} is busy"
    return f"{'all' if used >= THREADS_FULL else 'most'} {slots} are busy"


def _few_slow_requests(figures: Figures) -> Iterator[Finding]:
    """A few requests that take far longer than most, and much of the threads."""
    times, mean = figures.response_times, figures.flow.response_time
    if times is None or not mean or times.slow is None or times.slow.number < FEWEST_SLOW:
        return
    slow, half = times.slow, times.percentiles[0.5].high
    part, occupied = slow.number / times.requests, slow.seconds / (mean * times.requests)
    if part > 1 - TAIL[0] or occupied < TAIL[1]:
        return
    yield Finding(
        code="few_slow_requests",
        severity="info",
        title="A few requests take far longer than the others.",
        evidence=f"{_say_slowest(figures, part, slow.least, occupied, name_slots(figures.server))} "
        f"Half of all requests take at most {duration(half)}.",
        meaning="The mean response time describes neither the slow nor the fast requests.",
        change=""
        if figures.routes
        else "Run the exporter with `--routes` to see the paths of the slow requests. If they are of one kind, such as "
        "reports, a uWSGI of their own keeps them from taking the threads of the others.",
    )


def _describe_slowest(figures: Figures, slots: str) -> str:
    """A sentence about the slowest requests if they occupy many of the threads, with a space before it. Each of them
    takes their percentile at least, and all requests together take the mean of each."""
    mean, times = figures.flow.response_time, figures.response_times
    if not mean or times is None:
        return ""
    tails = [(1 - share, each.low) for share, each in times.percentiles.items() if share >= TAIL[0]]
    part, low = max(tails, key=lambda tail: tail[0] * tail[1], default=(0.0, 0.0))
    if part * low < TAIL[1] * mean:
        return ""
    return f" {_say_slowest(figures, part, low, part * low / mean, slots)}"


def _say_slowest(figures: Figures, part: float, low: float, occupied: float, slots: str) -> str:
    """A sentence about the slowest requests, and one about the route that holds most threads, if it is known."""
    return (
        f"The slowest {100 * part:.0f} % of the requests take at least {duration(low)} each, and occupy "
        f"{percent(min(1.0, occupied))} of the busy {slots} or more.{describe_route(figures.routes, figures.server)}"
    )


def _describe_polling(figures: Figures) -> str:
    """Why the CPU time of workers with coroutines says nothing, as a sentence with a space before it."""
    if not figures.polling:
        return ""
    used = sum(figures.polling.values())
    return (
        " While no async core of a worker is free, uWSGI looks for one without a pause: that is why "
        f"{numbered('worker', list(figures.polling))} "
        + (f"uses {used:.2f} of a CPU." if len(figures.polling) == 1 else f"use {used:.2f} CPUs.")
    )


def _threads_of_a_socket(figures: Figures) -> Iterator[Finding]:
    """The same about the workers of one socket (`map-socket`), while threads of the others are free."""

    def is_full(each: SocketDemand) -> bool:
        return each.used >= THREADS_FULL and shows_a_limit(each.flow or figures.flow)

    fullest = max(figures.demand.by_socket, key=lambda each: (is_full(each), each.used), default=None)
    if fullest is None or fullest.used < THREADS_BUSY:
        return
    waits, flow = is_full(fullest), fullest.flow or figures.flow
    slot = name_slots(figures.server).removesuffix("s")
    slots = f"{slot if fullest.threads == 1 else f'{slot}s'} of {numbered('worker', fullest.workers)}"
    explains = figures.longest_wait[1] in ("", fullest.socket)
    yield Finding(
        code="saturation",
        severity="critical" if waits else "warning",
        title=_title(slots, fullest.threads, waits=waits),
        **add_wait(
            f"The only {slot} for {fullest.socket} is busy for {percent(fullest.used)} of the time"
            if fullest.threads == 1
            else f"On average, {mean_count(fullest.busy)} of the {counted(fullest.threads, slot)} for {fullest.socket} "
            f"are busy ({percent(fullest.used)})",
            flow,
        )._asdict(),
        meaning=UNREACHABLE,
        clause=_clause(slots, fullest.threads, fullest.used) if explains else "",
        change=SPREAD,
    )


def _cheaper(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    reserve = [worker for worker in figures.server.workers if worker.state == "reserve"]
    full = window.full_seconds / window.observed_seconds if window.observed_seconds else 0.0
    waits = shows_a_limit(figures.flow) and not starts_on_demand(figures.server.setup.options)
    if reserve and full >= RESERVE_UNUSED and waits and not window.respawns and not window.starting_seconds:
        yield Finding(
            code="cheaper_does_not_scale",
            severity="warning",
            title="Requests wait, but cheaper mode does not start more workers.",
            evidence=f"Cheaper mode keeps {counted(len(reserve), 'worker')} in reserve, which "
            f"{'is' if len(reserve) == 1 else 'are'} not running. For {percent(full)} of the time, no "
            f"thread of the running workers was free, but no worker was spawned; {waiting_clause(figures.flow)}.",
            clause="cheaper mode does not start more workers",
            **_describe_cheaper(figures)._asdict(),
        )


class _Cheaper(NamedTuple):
    """When cheaper mode spawns a worker, and what to do. The names are those of a finding's fields."""

    meaning: str
    change: str


def _describe_cheaper(figures: Figures) -> _Cheaper:
    """With `busyness`, `cheaper-overload` is the seconds of a cycle (plugins/cheaper_busyness of uWSGI 2.0.31), with
    `backlog` a length of a listen queue, and with the default algorithm a number of checks (core/master_utils.c)."""
    options = figures.server.setup.options
    most, algorithm = options.cheaper_overload or DEFAULT_OVERLOAD, options.cheaper_algo
    if algorithm == "manual":
        return _Cheaper(
            "With `cheaper-algo = manual`, cheaper mode never spawns a worker by itself.",
            "Write `+` to uWSGI's `master-fifo`, which spawns one worker. To let uWSGI spawn workers by itself, remove "
            "`cheaper-algo`.",
        )
    if algorithm in BACKLOGS and figures.server.queues and not any(map(is_tcp, figures.server.queues)):
        return _Cheaper(
            f"With `cheaper-algo = {algorithm}`, cheaper mode spawns a worker only if the listen queue is longer than "
            f"{most} (`cheaper-overload`). uWSGI knows this length only for TCP sockets, and this server has none: "
            "cheaper mode never spawns a worker here.",
            "Remove `cheaper-algo`: the default algorithm spawns a worker when all are busy. Alternatively, let uWSGI "
            "listen on a TCP socket, or turn cheaper mode off.",
        )
    when = (
        f"Every {most} seconds (`cheaper-overload`), the algorithm `busyness` decides whether to spawn a worker, "
        "depending on how busy the workers were."
        if algorithm == "busyness"
        else f"With `cheaper-algo = {algorithm}`, cheaper mode spawns a worker if the listen queue is longer than "
        f"{most} (`cheaper-overload`)."
        if algorithm in BACKLOGS
        else f"By default, cheaper mode checks every second whether a worker is idle. If {most} checks in a row "
        "(`cheaper-overload`) find no idle worker, cheaper mode spawns a worker."
    )
    lower = " lower `cheaper-overload`," if most > 1 else ""
    return _Cheaper(
        f"{when} Cheaper mode spawns no worker for shorter bursts, or when memory is at its limit "
        "(`cheaper-rss-limit-soft`).",
        f"Raise `cheaper` and `cheaper-initial`,{lower} or turn cheaper mode off.",
    )


BACKLOGS = ("backlog", "backlog2")
"""Algorithms of cheaper mode that know nothing but the length of a listen queue."""

DEFAULT_OVERLOAD = 3
"""uWSGI's default of `cheaper-overload`."""

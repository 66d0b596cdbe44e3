"""Findings about threads: how close the server is to having all of them in use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import (
    CHEAPER_IS_LATE,
    SOCKETS_OF_THEIR_OWN,
    UNREACHABLE,
    advise_capacity,
    bring_workers_back,
)
from uwsgi_headroom.analysis.demand import SocketDemand
from uwsgi_headroom.analysis.destinations import join_labels, list_main
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind, say_settings
from uwsgi_headroom.analysis.littles_law import ratio, shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import name_slots, starts_on_demand
from uwsgi_headroom.record import STATES, is_tcp
from uwsgi_headroom.words.formats import duration, mean_threads, numbered, percent
from uwsgi_headroom.words.template import Facts, Private

THREADS_BUSY = 0.75
"""A mean fraction of busy threads at or above this is a warning: load can grow by a third. Raise it for a batch server
whose clients can wait."""

THREADS_FULL = 0.90
"""At or above this mean fraction of busy threads the limit is reached, which is critical if requests wait: random
arrivals then often find every thread busy. The time with all threads busy does not measure load: with one thread, it
equals the utilization."""

TAIL = (0.9, 0.3)
"""The percentile from which on requests are the slowest ones, and the part of the busy threads from which on it is said
that they occupy it: 0.23 at most for exponential times."""

FEWEST_SLOW = 3
"""Fewer slow requests than these may be chance."""

TIMED_OUT = (1.0, 0.01, 1.25)
"""Slow requests to a backend most likely end by a timeout if each takes so many seconds, they are this
part of all, and on average take no longer than so many times what the quickest of them takes."""

RESERVE_UNUSED = 0.2
"""If every thread is in use for this fraction of the time, cheaper mode should have spawned a worker."""

MUCH_SLOWER = 3.0
"""Requests are much slower in the last part of a window if they occupy the threads for so many times as long, by
Little's law, as those of the whole window, while most threads are in use."""

BACKLOGS = ("backlog", "backlog2")
"""Algorithms of cheaper mode that know nothing but the length of a listen queue."""

DEFAULT_OVERLOAD = 3
"""uWSGI's default of `cheaper-overload`."""

BECAME_SLOWER = Kind(
    code="became_slower",
    severity="info",
    title="Requests became much slower while uWSGI was watched.",
    evidence="In the last {late:duration}, a request occupies a thread for {now:duration}; on average over "
    "{whole:duration}, it was {before:duration}.",
    meaning="All figures and findings here cover only the time since then.",
    runbook="UwsgiSlower",
)

IN_USE = Kind(
    code="saturation",
    role="limit",
    severity="critical or warning",
    title="[critical? {ceiling:The only|All} {slots} {ceiling:is|are} in use, and requests wait.]"
    "[warning? {ceiling:The only|Most} {slots} {ceiling:is in use most of the time|are in use}.]",
    evidence="On average, {busy:mean} of {ceiling} {slots} {ceiling:is|are} busy ({used:percent})[up? , and {up} are "
    "up][full? ; for {full} of the time, none is free][wait? ; {wait}].[slowest?  The slowest {slowest} of the "
    "requests take at least {least} each, and occupy {occupied} of the busy {slots} or more.]{route}[polling?  While "
    "no async core of a worker is free, uWSGI looks for one without a pause: that is how {polling:worker} can use "
    "{polled:cpu} CPUs.]",
    meaning="A request that finds {ceiling:this|all} {slots} busy waits in the listen queue.",
    act="{advice}",
    then="[routes_off? Or make the slowest requests faster: the exporter's flag `--routes` shows their paths.]",
    clause="[away? {away}][critical, not away? {ceiling:the only|all} {slots} {ceiling:is|are} busy]"
    "[warning, not away? {ceiling:the only|most} {slots} {ceiling:is|are} busy]",
    runbook="UwsgiConcurrencyNearCapacity",
    waiting=4,
    states=STATES,
)
SOCKET_IN_USE = replace(
    IN_USE,
    evidence="On average, {busy:mean} of {ceiling} {slots} for {socket} {ceiling:is|are} busy ({used:percent})"
    "[wait? ; {wait}].",
    meaning=UNREACHABLE,
    act=SOCKETS_OF_THEIR_OWN.act,
    then="",
    clause="[critical, explains? {ceiling:the only|all} {slots} {ceiling:is|are} busy]"
    "[warning, explains? {ceiling:the only|most} {slots} {ceiling:is|are} busy]",
)

FEW_SLOW = Kind(
    code="few_slow_requests",
    severity="info",
    title="A few requests take far longer than the others.",
    evidence="The slowest {slowest} of the requests take at least {least} each, and occupy {occupied} of the busy "
    "{slots} or more.{route} Half of all requests take at most {half:duration}.",
    meaning="The mean response time describes neither the slow nor the fast requests.",
    act="[routes_off? Run the exporter with `--routes` to see the paths of the slow requests.]",
    then="If they are of one kind, such as reports, serve them from a separate uWSGI.",
)

ALIKE = replace(
    FEW_SLOW,
    severity="warning",
    title="Some requests wait for a backend for the same long time, most likely until a timeout.",
    evidence="The slowest {slowest} of the requests take {least} or little more each, and mostly wait for {backend}.",
    meaning="When a call times out, the user has waited in vain, and usually gets an error.",
    act="Find out why requests to {backend} are not answered.",
    then="Set a shorter timeout, and pause before a retry. `--uwsgi-log` counts responses with server errors.",
)

CHEAPER = Kind(
    code="cheaper_does_not_scale",
    severity="warning",
    title="Requests wait, but cheaper mode does not start more workers.",
    evidence="Cheaper mode keeps {reserve:worker} in reserve. For {full:percent} of the time, no thread of the running "
    "workers was free, but no worker was spawned[wait? ; {wait}].",
    meaning="[busyness? Every {overload} seconds (`cheaper-overload`), `busyness` decides by how busy the workers "
    "were.][backlog? With `cheaper-algo = {backlog}`, cheaper mode spawns a worker if the listen queue is longer than "
    "{overload} (`cheaper-overload`).][not busyness, not backlog? If {overload} checks in a row, one a second, find no "
    "idle worker (`cheaper-overload`), cheaper mode spawns one.] It spawns none when memory is at its limit "
    "(`cheaper-rss-limit-soft`).",
    act="Raise `cheaper` and `cheaper-initial`,[lower?  lower `cheaper-overload`,] or turn cheaper mode off.",
    clause=CHEAPER_IS_LATE.cause,
    runbook="UwsgiQueueWaitHigh",
    waiting=5,
)
CHEAPER_BLIND = replace(
    CHEAPER,
    meaning="With `cheaper-algo = {backlog}`, cheaper mode spawns a worker only if the listen queue is longer than "
    "{overload} (`cheaper-overload`). uWSGI knows this length only for TCP sockets, and this server has none.",
    act="Remove `cheaper-algo`: the default algorithm spawns a worker when all are busy.",
    then="Alternatively, let uWSGI listen on a TCP socket, or turn cheaper mode off.",
)
CHEAPER_LIMITED = replace(
    CHEAPER,
    title="Requests wait, and the workers' memory has reached `cheaper-rss-limit-soft`.",
    meaning="The workers take {taken:bytes}. At {limit:bytes} or more, cheaper mode spawns none.",
    act="Raise `cheaper-rss-limit-soft` above the memory of all workers.",
    then="If there is not enough memory for all, lower `processes`, and use more `threads` in each.",
    clause="the workers' memory has reached `cheaper-rss-limit-soft`",
)
CHEAPER_MANUAL = replace(
    CHEAPER,
    meaning="With `cheaper-algo = manual`, cheaper mode never spawns a worker by itself.",
    act="Write `+` to uWSGI's `master-fifo`, which spawns one worker.",
    then="To let uWSGI spawn workers by itself, remove `cheaper-algo`.",
)


def advise(figures: Figures) -> dict[str, Any]:
    """The step for more capacity, for a row whose act is `{advice}`, and the options that it sets, for everybody."""
    advice = advise_capacity(figures)
    public = say_settings(advice.settings) or "Run `uwsgi-headroom check` on uWSGI's host."
    return {"advice": Private(advice.change, public), "settings": advice.settings, "serves": advice.serves}


def find_change(whole: Figures, late: Figures) -> Finding | None:
    """The finding that requests became much slower within a window, or None. late: of its last part."""
    both = whole, late
    if any(None in (each.flow.observed, each.flow.requests) or not each.window.observed_seconds for each in both):
        return None
    # By Little's law, with those in service, which count before they are completed.
    before, now = ((each.flow.observed or 0.0) * each.window.seconds / max(1, each.flow.completed) for each in both)
    if now < MUCH_SLOWER * before or (late.flow.observed or 0.0) < THREADS_BUSY * (late.ceiling or math.inf):
        return None
    return BECAME_SLOWER.found(whole, late=late.window.seconds, now=now, whole=whole.window.seconds, before=before)


def find_busy_threads(figures: Figures) -> Iterator[Finding]:
    window, observed, ceiling = figures.window, figures.flow.observed, figures.ceiling
    if observed is None or not ceiling or not window.observed_seconds:
        return
    used, full = observed / ceiling, window.full_seconds / window.observed_seconds
    if used < THREADS_BUSY:
        yield from _few_slow_requests(figures)
        yield from _threads_of_a_socket(figures)
        return
    existing, away, slowest = mean_threads(figures.threads), bring_workers_back(figures), _find_slowest(figures)
    yield IN_USE.found(
        figures,
        slowest,
        ceiling=ceiling,
        slots=name_slots(figures.server, ceiling),
        polling=Private(list(figures.polling)),
        polled=sum(figures.polling.values()),
        busy=observed,
        used=used,
        up=ceiling > 1 and existing not in ("0", str(ceiling)) and existing,
        full=full >= 0.005 and percent(full),
        routes_off=bool(slowest["slowest"]) and figures.routes is None,
        away=away and away.cause,
        worse=used >= THREADS_FULL and shows_a_limit(figures.flow),
        **advise(figures),
    )


def _few_slow_requests(figures: Figures) -> Iterator[Finding]:
    times, slow, mean = figures.response_times, figures.slow, figures.flow.response_time
    if times is None or not mean or slow is None or slow.number < FEWEST_SLOW:
        return
    part, occupied = slow.number / times.requests, slow.seconds / (mean * times.requests)
    facts = _tell_slow(part, slow.least, occupied)
    least, share, spread = TIMED_OUT
    is_alike = slow.seconds <= spread * slow.least * slow.number and figures.waits and figures.waits.outside >= MOSTLY
    if is_alike and slow.least >= least and part >= share:
        backend = Private(join_labels(list_main(figures.destinations)), "a backend")
        yield ALIKE.found(figures, facts, backend=backend)
    elif part <= 1 - TAIL[0] and occupied >= TAIL[1]:
        yield FEW_SLOW.found(figures, facts, half=slow.half, routes_off=figures.routes is None)


def _tell_slow(part: float, seconds: float, occupied: float) -> Facts:
    """Of the slowest requests, which are this part of all: how long they take at least, and what they occupy."""
    slowest, busy = Private(f"{100 * part:.0f} %"), percent(min(1.0, occupied))
    return {"slowest": slowest, "least": duration(seconds), "occupied": busy}


def _find_slowest(figures: Figures) -> Facts:
    mean, times = figures.flow.response_time, figures.response_times
    percentiles = times.percentiles if times else ()
    tails = [(1 - each.share, each.low) for each in percentiles if each.share >= TAIL[0]]
    part, low = max(tails, key=lambda tail: tail[0] * tail[1], default=(0.0, 0.0))
    if not mean or part * low < TAIL[1] * mean:
        return {"slowest": None, "least": None, "occupied": None, "route": ""}
    return _tell_slow(part, low, part * low / mean)


def _threads_of_a_socket(figures: Figures) -> Iterator[Finding]:
    """The same about the workers of one socket (`map-socket`), while threads of the others are free."""

    def is_full(each: SocketDemand) -> bool:
        return each.used >= THREADS_FULL and shows_a_limit(each.flow or figures.flow)

    fullest = max(figures.demand.by_socket, key=lambda each: (is_full(each), each.used), default=None)
    if fullest is None or fullest.used < THREADS_BUSY:
        return
    yield SOCKET_IN_USE.found(
        figures,
        fullest,
        used=fullest.used,
        ceiling=fullest.threads,
        slots=f"{name_slots(figures.server, fullest.threads)} of {numbered('worker', fullest.workers)}",
        wait=waiting_clause(fullest.flow or figures.flow),
        explains=figures.longest_wait[1] in ("", fullest.socket),
        worse=is_full(fullest),
    )


def find_cheaper(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that cheaper mode keeps in reserve (core/master_utils.c)."""
    window, options, queues = figures.window, figures.server.setup.options, figures.server.queues
    reserve = [worker for worker in figures.server.workers if worker.state == "reserve"]
    full = ratio(window.full_seconds, window.observed_seconds) or 0.0
    waits = shows_a_limit(figures.flow) and not starts_on_demand(options)
    if not reserve or full < RESERVE_UNUSED or not waits or window.respawns or window.starting_seconds:
        return
    most, algorithm = options.cheaper_overload or DEFAULT_OVERLOAD, options.cheaper_algo
    backlog = algorithm in BACKLOGS and algorithm
    taken, limit = sum(worker.resident_bytes or 0 for worker in window.workers), options.cheaper_rss_limit_soft
    facts: Facts = {"reserve": len(reserve), "full": full, "overload": most, "backlog": backlog}
    if limit and taken >= limit:
        yield CHEAPER_LIMITED.found(figures, facts, taken=taken, limit=limit)
    elif algorithm == "manual":
        yield CHEAPER_MANUAL.found(figures, facts)
    elif backlog and queues and not any(map(is_tcp, queues)):
        yield CHEAPER_BLIND.found(figures, facts)
    else:
        yield CHEAPER.found(figures, facts, lower=most > 1, busyness=algorithm == "busyness")

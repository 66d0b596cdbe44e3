"""Findings about workers that uWSGI replaces because they reach `max-requests`, or a limit of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.setting_facts import MAX_REQUESTS_DELTA, parse_version
from uwsgi_headroom.analysis.worker_states import (
    AWAY,
    RECYCLED,
    count_respawns,
    find_ends,
    mean_life,
    part_away,
    reach_max_requests,
)
from uwsgi_headroom.record import DEFAULT_MIN_LIFETIME
from uwsgi_headroom.words.template import Facts

OFTEN = 3
"""The fewest respawns in a window that show how long workers live."""

SERVED = 50
"""With at least this many requests between respawns on average, a worker is recycled (`max-requests`, `reload-on-rss`)
and not in a loop."""

SHORT_LIFE = 60.0
"""Seconds between respawns of one worker below which recycling costs more than it saves."""

LEAK = 0.2
"""If the memory of a process grows by at least this part of `reload-on-rss` before it is replaced, it leaks. Below it,
the limit is hardly above what the application needs."""

LIFE = 3600.0
"""Seconds that a worker should live: each respawn then costs next to nothing."""

TOGETHER_SECONDS = 5
"""The longest time between the first and the last new process of workers that reach `max-requests` together: uWSGI
spawns about two a second."""

APART = 4
"""If workers live at least this many times as long, they end so close to each other not by chance."""

HELD_BACK = 1.5
"""Workers that all complete this many times `max-requests` before they end were held back by `min-worker-lifetime`."""

ENDING = 1.0
"""Seconds without service at each restart from which on it matters whether old workers end or new ones load."""

MANY_ENDS = 0.5
"""If at least this part of the workers was replaced in a window, their ends may be what requests wait for."""

ROOM = 1.5
"""The limit that leaves an application room to grow, in multiples of what it has when loaded."""


LIMIT_TOO_LOW = Kind(
    code="respawn_loop",
    severity="warning",
    title="Workers are replaced too often: they reach `{option}`.",
    evidence="Each worker is replaced after {lives:duration} on average: {respawns:respawn} in {seconds:duration}"
    "[away? ; workers are down for {away:percent} of the time][wait? ; {wait}].",
    meaning="uWSGI replaces each worker that reaches `{option}` ({limit}), and those that start together end together.",
    act="Raise `{option}` to {enough:plain}[apart? , and set `{option}-delta` to {apart:plain}], or remove the limit.",
    then="A worker then lives for an hour or more.",
    clause="workers are replaced too often",
    page_after=60,
    runbook="UwsgiRequestsLost",
    limits="waits",
    keeps_from_serving=True,
    event="worker_ended",
)
MEMORY_ABOVE_LIMIT = replace(
    LIMIT_TOO_LOW,
    title="Workers are replaced too often: a worker has more memory than `reload-on-rss` allows.",
    evidence="A worker has {size:bytes} of resident memory; {respawns:respawn} in {seconds:duration}[wait? ; {wait}].",
    meaning="uWSGI replaces a worker when a request ends and the worker has more memory than `reload-on-rss` ({limit} "
    "MB), but not before the worker is {least} s old (`min-worker-lifetime`).",
    act="Raise `reload-on-rss` to {enough:plain}, if there is enough memory for all workers at this size.",
    then="Alternatively, let the application load less.",
    clause="a worker has more memory than `reload-on-rss` allows",
)
LEAK_ENDS_WORKERS = replace(
    LIMIT_TOO_LOW,
    severity="critical or warning",
    title="Workers are replaced too often: the application's memory grows with every request.",
    evidence="Memory grows by at least {each:bytes} per request (measured in {processes} worker processes); a worker "
    "lives for {life:duration} on average[away? ; workers are down for {away:percent} of the time][wait? ; {wait}].",
    meaning="Each worker soon reaches `{option}` ({limit} MB). The new worker has to load the application before it "
    "serves requests.[evil?  `evil-reload-on-rss` kills a worker in the middle of its requests.]",
    act="[evil? Set `reload-on-rss` instead of `evil-reload-on-rss`, as high as the memory allows.]"
    "[not evil? Raise `reload-on-rss` as far as the memory allows.]",
    then="A worker should last several minutes.[evil?  Also set `min-worker-lifetime` to 0, so that `reload-on-rss` "
    "replaces young workers, too.] Find out what the application keeps in memory after each request.",
    clause="the application's memory grows with every request, so `{option}` ends the workers",
)

MEMORY_RECYCLED = Kind(
    code="memory_recycled",
    severity="info",
    title="The application's memory grows with every request, so `{option}` ends its workers.",
    evidence="Memory grows by at least {each:bytes} per request (measured in {processes} worker processes); a worker "
    "lives for {life:duration} on average; at least {lost:request} {lost:was|were} lost.",
    meaning="`{option}` keeps the leak from filling the memory. But each new worker has to load the application.",
    runbook="UwsgiWorkerMemoryGrowing",
)

RECYCLED_TOGETHER = Kind(
    code="recycled_together",
    severity="warning",
    title="All workers reach `max-requests` at the same time, and are replaced together.",
    evidence="{ended} of {workers:worker} were replaced[spread?  within {spread:duration}], after at least "
    "{served:request} each[nobody? ; for {nobody:duration}, no worker was up][wait? ; {wait}].",
    meaning="Workers that start together and share the requests evenly restart together, again and again. At each "
    "restart, requests wait until the first worker has loaded the application.",
    act="[not enough, not delta? Update uWSGI to 2.0.29, and set `max-requests-delta`.][enough? Raise `max-requests` "
    "to {enough:plain}.][enough, delta?  ][delta? Set `max-requests-delta` to {delta:plain}.]",
    then="The workers then end rarely, or one at a time.[not enough, not delta?  Until you update uWSGI, raise "
    "`max-requests`.][held?  uWSGI replaces no worker before it is {held} s old (`min-worker-lifetime`), and then all "
    "of them together.]",
    clause="all workers reach `max-requests` together",
    runbook="UwsgiQueueWaitHigh",
    limits="waits",
    keeps_from_serving=True,
)
RECYCLED_SLOWLY = replace(
    RECYCLED_TOGETHER,
    title="Workers that reach `max-requests` take a long time to end.",
    meaning="The time is lost while old workers end: one that reaches `max-requests` takes no more requests, and uWSGI "
    "replaces it only when its last requests and its exit handlers (`atexit`) are done.",
    then="Then find out what such a worker waits for: requests that take long, functions of `atexit`, or non-daemon "
    "threads.[not enough, not delta?  Until you update uWSGI, raise `max-requests`.][held?  uWSGI replaces no "
    "worker before it is {held} s old (`min-worker-lifetime`).]",
    clause="workers that reach `max-requests` take a long time to end",
)


def _round_up(number: float, to: int = 1000) -> int:
    """A number as a round one to set, at least `to`."""
    return max(1, math.ceil(number / to)) * to


def find_recycling(figures: Figures) -> Iterator[Finding]:
    rules = (_reach_max_requests, _leak_soon, _begin_above_limit, _reach_lifetime)
    if count_respawns(figures) >= OFTEN:
        yield from [found for rule in rules if (found := rule(figures))][:1]


def _reach_max_requests(figures: Figures) -> Finding | None:
    window, most, away = figures.window, figures.server.setup.options.max_requests, part_away(figures) or 0.0
    is_short = mean_life(figures) < SHORT_LIFE and reach_max_requests(figures)
    if not most or not is_short or (most >= SERVED and away < AWAY):
        return None
    served = sum(requests for _, _, requests in find_ends(figures))
    enough = _round_up(max(served, LIFE * served / window.seconds) / len(window.workers))
    return _tell_too_low(figures, "max-requests", f"{most} requests", enough)


def _tell_too_low(figures: Figures, option: str, limit: str, enough: int, apart: int | None = None) -> Finding:
    settings = ((option, enough), *([(f"{option}-delta", apart)] if apart else []))
    facts: Facts = {"option": option, "limit": limit, "enough": enough, "apart": apart}
    return LIMIT_TOO_LOW.found(figures, facts, settings=settings)


def find_recycled_together(figures: Figures) -> Iterator[Finding]:
    records, most, ended = figures.server.workers, figures.server.setup.options.max_requests, find_ends(figures)
    if not most or most < SERVED or len(records) < 2 or not ended or not shows_a_limit(figures.flow):
        return
    requests = {worker.worker_id: worker.requests_per_life or 0.0 for worker in records}
    if (least := min(requests.get(worker_id, 0.0) for worker_id, _, _ in ended)) < RECYCLED * most:
        return  # for another reason, such as a reload
    spread, slowly = _end_together(figures), len(ended) >= MANY_ENDS * len(records) and _end_slowly(figures)
    if spread is None and not slowly:
        return
    is_held_back = least >= HELD_BACK * most
    settings = _stagger(figures, most, rarely=is_held_back or slowly)
    yield (RECYCLED_SLOWLY if slowly else RECYCLED_TOGETHER).found(
        figures,
        ended=len(ended),
        spread=spread is not None and max(1, spread),
        served=round(least),
        nobody=figures.window.no_worker_seconds or None,
        enough=settings.get("max-requests"),
        delta=settings.get("max-requests-delta"),
        held=is_held_back and _least_life(figures),
        settings=tuple(settings.items()),
    )


def _end_together(figures: Figures) -> float | None:
    ended, records = find_ends(figures), figures.server.workers
    spawned = [worker.last_spawn for worker in records if worker.last_spawn]
    if len(ended) < len(records) or len(spawned) < len(records):
        return None
    spread = max(spawned) - min(spawned)
    lives = figures.window.seconds * len(records) / sum(times for _, times, _ in ended)
    return None if spread > TOGETHER_SECONDS or lives < APART * spread else spread


def _end_slowly(figures: Figures) -> bool:
    """Whether requests wait for old workers to end, which uWSGI reports as up, and not for new ones to load."""
    window, workers = figures.window, len(figures.window.workers)
    if window.starting_seconds is None:
        return False
    starting = window.starting_seconds / workers
    away = sum(max(0.0, window.observed_seconds - each.up_seconds) for each in window.workers) / workers
    ending = (window.idle_queue_seconds or 0.0) + away - starting
    times = sum(times for _, times, _ in find_ends(figures)) / workers
    return ending >= ENDING * times and ending > starting


def _stagger(figures: Figures, most: int, *, rarely: bool) -> dict[str, int]:
    """The options that let workers end rarely, or one at a time; none if uWSGI is too old for that."""
    version, workers = parse_version(figures.server.version), len(figures.server.workers)
    if version and version < MAX_REQUESTS_DELTA:
        return {}
    now, apart = figures.server.setup.options.max_requests_delta or 0, max(1, most // workers)
    if not rarely and now < apart:
        return {"max-requests-delta": apart}
    enough = _round_up(max(most + 1, LIFE * figures.flow.completed / figures.window.seconds / workers))
    delta = max(1, enough // workers)
    return {"max-requests": enough} | ({"max-requests-delta": delta} if delta > now else {})


class Leak(NamedTuple):
    """Memory that grows with every request. each: bytes a request; limit: megabytes of `option`; life: in seconds."""

    each: int
    option: str
    evil: bool
    limit: int
    processes: int
    life: float


def find_leak(figures: Figures) -> Leak | None:
    """The leak that ends workers by a limit of memory; None if there is none, or if uWSGI reports no memory."""
    options, window = figures.server.setup.options, figures.window
    limit, is_evil = options.reload_on_rss or options.evil_reload_on_rss, not options.reload_on_rss
    option = "evil-" * is_evil + "reload-on-rss"
    grown = sum(worker.grown_kilobytes or 0 for worker in window.workers) * 1024
    respawns = count_respawns(figures)
    if not limit or respawns <= 0 or not figures.flow.completed or grown < LEAK * limit * 2**20 * respawns:
        return None
    processes = respawns + len(window.workers)
    # What a process has after its first request is where it begins.
    each = round(grown / max(1, figures.flow.completed - processes))
    return Leak(each, option, is_evil, limit, processes, mean_life(figures))


def _leak_soon(figures: Figures) -> Finding | None:
    leak, away = find_leak(figures), part_away(figures) or 0.0
    if leak is None or leak.life >= SHORT_LIFE or away < AWAY:
        return None
    return LEAK_ENDS_WORKERS.found(figures, leak, worse=False)


def _begin_above_limit(figures: Figures) -> Finding | None:
    limit = figures.server.setup.options.reload_on_rss or 0
    size = max((worker.resident_bytes or 0 for worker in figures.window.workers), default=0)
    if not limit or mean_life(figures) >= SHORT_LIFE or size < limit * 2**20 or find_leak(figures):
        return None
    enough, least = _round_up(ROOM * size / 2**20, 10), _least_life(figures)
    facts: Facts = {"size": size, "limit": limit, "least": least, "enough": enough}
    return MEMORY_ABOVE_LIMIT.found(figures, facts, settings=(("reload-on-rss", enough),))


def _reach_lifetime(figures: Figures) -> Finding | None:
    options, away = figures.server.setup.options, part_away(figures) or 0.0
    life = options.max_worker_lifetime
    if not life or not (shows_a_limit(figures.flow) or away >= AWAY):
        return None
    if not RECYCLED * life <= mean_life(figures) <= 2 * life:
        return None
    longer = round(LIFE if life < LIFE else 2 * life)
    apart = round(longer / len(figures.window.workers))
    delta = None if (options.max_worker_lifetime_delta or 0) >= apart else apart
    return _tell_too_low(figures, "max-worker-lifetime", f"{life} s", longer, delta)


def find_memory_recycled(figures: Figures) -> Iterator[Finding]:
    leak = find_leak(figures)
    if leak is not None and not list(find_recycling(figures)):
        yield MEMORY_RECYCLED.found(figures, leak)


def _least_life(figures: Figures) -> int:
    known = figures.server.setup.options.min_worker_lifetime
    return DEFAULT_MIN_LIFETIME if known is None else known

"""Findings about workers that uWSGI replaces because they reach `max-requests`, or a limit of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.advice import Advice
from uwsgi_headroom.analysis.bottlenecks import Settings
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, add_wait
from uwsgi_headroom.analysis.littles_law import judge_waiting, shows_a_limit
from uwsgi_headroom.analysis.settings import MAX_REQUESTS_DELTA, parse_version
from uwsgi_headroom.analysis.worker_states import AWAY, RECYCLED, find_ends, part_away, reach_max_requests
from uwsgi_headroom.record import DEFAULT_MIN_LIFETIME
from uwsgi_headroom.words.formats import byte_size, counted, duration, percent

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
"""Seconds that a worker should live at least: each respawn then costs next to nothing."""


def _round_up(number: float, to: int = 1000) -> int:
    """A number as a round one to set, at least `to`."""
    return max(1, math.ceil(number / to)) * to


def find_recycling(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that reach `max-requests`, a limit of memory or their age so early that it costs
    capacity."""
    for reach in (_reach_max_requests, _reach_memory_limit, _begin_above_limit, _reach_lifetime):
        if found := next(reach(figures), None):
            yield found
            return


def _reach_max_requests(figures: Figures) -> Iterator[Finding]:
    window, ended = figures.window, find_ends(figures)
    most, away = figures.server.setup.options.max_requests, part_away(figures)
    respawns = sum(times for _, times, _ in ended) - window.harakiris
    served = sum(requests for _, _, requests in ended)
    if not most or respawns < OFTEN or not reach_max_requests(figures):
        return
    lives = window.seconds * len(window.workers) / respawns
    if lives >= SHORT_LIFE or (most >= SERVED and (away is None or away < AWAY)):
        return
    enough = _round_up(max(served, LIFE * served / window.seconds) / len(window.workers))
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title=f"Workers are replaced too often: `max-requests` is {most}.",
        **add_wait(
            f"Each worker is replaced after {duration(lives)} on average: {counted(respawns, 'respawn')} in "
            f"{duration(window.seconds)}"
            + ("" if away is None else f"; workers are down for {percent(away)} of the time"),
            figures.flow,
        )._asdict(),
        meaning=f"uWSGI replaces a worker after {counted(most, 'request')}, but not before the worker is "
        f"{min_lifetime(figures)} s old (`min-worker-lifetime`). uWSGI spawns only a few workers per second.",
        clause="workers are replaced too often",
        change=f"Raise `max-requests` to {enough}, so that a worker lives for an hour or more, or remove "
        "`max-requests`.",
        settings=(("max-requests", enough),),
    )


TOGETHER_SECONDS = 5
"""The longest time between the first and the last new process of workers that reach `max-requests` together: uWSGI
spawns about two a second."""

APART = 4
"""Only if workers live at least this many times as long, it is no chance that they end so close to each other."""


def find_recycled_together(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that reach `max-requests` at the same time, or take long to end, so that requests
    wait."""
    options, records = figures.server.setup.options, figures.server.workers
    most, ended, nobody = options.max_requests, find_ends(figures), figures.window.no_worker_seconds or 0.0
    if not most or most < SERVED or len(records) < 2 or not ended or not shows_a_limit(figures.flow):
        return
    if min(_list_lives(figures)) < RECYCLED * most:
        return  # they ended for another reason, such as a reload of the workers
    spread, slowly = _end_together(figures), len(ended) >= MANY_ENDS * len(records) and _end_slowly(figures)
    if spread is None and not slowly:
        return
    yield Finding(
        code="recycled_together",
        severity="warning",
        title="Workers that reach `max-requests` take a long time to end."
        if slowly
        else "All workers reach `max-requests` at the same time, and are replaced together.",
        **add_wait(
            (
                f"{len(ended)} of {len(records)} workers were replaced"
                if spread is None
                else f"All {len(records)} workers were replaced within {duration(max(1, spread))}"
            )
            + f", after {_count_served(figures, most)}"
            + (f"; for {duration(nobody)} of {duration(figures.window.seconds)}, no worker was up" if nobody else ""),
            figures.flow,
        )._asdict(),
        meaning=ENDS_SLOWLY
        if slowly
        else "Workers that start together and share the requests evenly also restart together, again and again. "
        "At each restart, requests wait until the first worker has loaded the application.",
        clause="workers that reach `max-requests` take a long time to end"
        if slowly
        else "all workers reach `max-requests` together",
        **_stagger(figures, most, slowly=slowly)._asdict(),
    )


def _list_lives(figures: Figures) -> list[float]:
    """How many requests each worker that was replaced in the window completed before, on average over its lives."""
    lives = {worker.worker_id: worker.requests_per_life or 0.0 for worker in figures.server.workers}
    return [lives.get(worker_id, 0.0) for worker_id, _, _ in find_ends(figures)]


def _end_together(figures: Figures) -> float | None:
    """In how many seconds all workers were replaced; None if one was not, or if they just live so briefly."""
    ended, records = find_ends(figures), figures.server.workers
    spawned = [worker.last_spawn for worker in records if worker.last_spawn]
    if len(ended) < len(records) or len(spawned) < len(records):
        return None
    spread = max(spawned) - min(spawned)
    lives = figures.window.seconds * len(records) / sum(times for _, times, _ in ended)
    return None if spread > TOGETHER_SECONDS or lives < APART * spread else spread


HELD_BACK = 1.5
"""Workers that all complete this many times `max-requests` before they end were held back by `min-worker-lifetime`."""

ENDING = 1.0
"""Seconds without service at each restart from which on it matters whether old workers end or new ones load."""

MANY_ENDS = 0.5
"""If at least this part of the workers was replaced in a window, their ends may be what requests wait for."""

ENDS_SLOWLY = (
    "The time is lost while old workers end, not while new ones load the application: a worker that reaches "
    "`max-requests` takes no more requests, and uWSGI replaces it only when its last requests and the functions that "
    "it runs at its end (`atexit`) are done. Meanwhile, the other workers get its requests, and reach `max-requests` "
    "sooner."
)


def _end_slowly(figures: Figures) -> bool:
    """Whether requests wait for old workers to end, and not for new ones to load the application. uWSGI reports that a
    worker that ends is up, and that its threads are free; after that, it is away and does not start yet."""
    window, workers = figures.window, len(figures.window.workers)
    if window.starting_seconds is None:
        return False
    starting = window.starting_seconds / workers
    away = sum(max(0.0, window.observed_seconds - each.up_seconds) for each in window.workers) / workers
    ending = (window.idle_queue_seconds or 0.0) + away - starting
    times = sum(times for _, times, _ in find_ends(figures)) / workers
    return ending >= ENDING * times and ending > starting


def _is_held_back(figures: Figures, most: int) -> bool:
    return min(_list_lives(figures)) >= HELD_BACK * most


def _count_served(figures: Figures, most: int) -> str:
    """How many requests each worker completed before it ended."""
    lives = [round(each) for each in _list_lives(figures)]
    if figures.server.setup.options.max_requests_delta and min(lives) < max(lives):
        return f"{min(lives)} to {max(lives)} requests each"
    return f"{min(lives) if _is_held_back(figures, most) else most} requests each"


def _stagger(figures: Figures, most: int, *, slowly: bool) -> Advice:
    version, workers = parse_version(figures.server.version), len(figures.server.workers)
    if version and version < MAX_REQUESTS_DELTA:
        return Advice(
            "Update uWSGI to 2.0.29, and set `max-requests-delta`, which restarts each worker after a different number "
            "of requests. Until you update uWSGI, raise `max-requests`, so that the workers restart less often."
        )
    now, apart = figures.server.setup.options.max_requests_delta or 0, max(1, most // workers)
    is_held_back = _is_held_back(figures, most)
    if not (is_held_back or slowly or now >= apart):
        what = f"Raise `max-requests-delta` from {now}" if now else "Set `max-requests-delta`"
        return Advice(
            f"{what} to {apart}: the workers then end {apart} requests apart.", (("max-requests-delta", apart),)
        )
    enough = _round_up(max(most + 1, LIFE * figures.flow.requests / figures.window.seconds / workers))
    delta = max(1, enough // workers)
    settings: Settings = (("max-requests", enough), *((("max-requests-delta", delta),) if delta > now else ()))
    change = f"Raise `max-requests` to {enough}" + (f", and set `max-requests-delta` to {delta}" * (delta > now))
    if is_held_back:
        why = (
            f". At present, all workers reach `max-requests` ({most}) before they are {min_lifetime(figures)} s old. "
            "uWSGI replaces no worker before this age (`min-worker-lifetime`), so it then replaces all of them "
            "together."
        )
    else:
        why = ": workers then rarely end, and one at a time."
    if slowly:
        why += (
            " Then find out what a worker waits for that has reached `max-requests`: requests that take long, "
            "functions of `atexit`, or threads that are not daemon threads."
        )
    return Advice(f"{change}{why}", settings)


EVIL = "evil-reload-on-rss"
"""The option whose limit ends a worker in the middle of its requests, by SIGKILL."""


class Leak(NamedTuple):
    """Memory that grows with every request. each: bytes a request, at least, because samples miss the last requests of
    a process; option, limit: what ends a worker, at so many megabytes; life: seconds that it lives on average."""

    each: float
    option: str
    limit: int
    respawns: int
    processes: int
    life: float


def find_leak(figures: Figures) -> Leak | None:
    """The leak that ends workers by a limit of memory; None if there is none, or if uWSGI reports no memory."""
    options, window = figures.server.setup.options, figures.window
    option = "reload-on-rss" if options.reload_on_rss else EVIL
    limit = options.reload_on_rss or options.evil_reload_on_rss
    grown = sum(worker.grown_kilobytes or 0 for worker in window.workers) * 1024
    respawns = sum(times for _, times, _ in find_ends(figures)) - window.harakiris
    if not limit or respawns <= 0 or not figures.flow.requests or grown < LEAK * limit * 2**20 * respawns:
        return None
    processes = respawns + len(window.workers)
    # What a process has after its first request is where it begins.
    each = grown / max(1, figures.flow.requests - processes)
    return Leak(each, option, limit, respawns, processes, window.seconds * len(window.workers) / respawns)


def describe_leak(figures: Figures, leak: Leak) -> str:
    return (
        f"Memory grows by at least {byte_size(round(leak.each))} per request (measured in {leak.processes:,} worker "
        f"processes); uWSGI replaces each process above "
        f"{leak.limit} MB, on average {duration(leak.life)} after its start"
    )


def advise_on_leak(figures: Figures, leak: Leak) -> str:
    """What to do about a leak that ends workers, as sentences."""
    instead = (
        f"Set `reload-on-rss` instead of `{EVIL}`, which kills a worker in the middle of its requests."
        f"{say_too_young(figures, leak.respawns)} "
        if leak.option == EVIL
        else ""
    )
    raise_it = (
        f"Set `reload-on-rss` as high as the memory allows (higher than the present limit of {leak.limit} MB)"
        if instead
        else f"Raise `{leak.option}` (now {leak.limit} MB) as far as the memory allows"
    )
    return (
        f"{instead}{raise_it}, so that a worker lives for some minutes. Then find out what the application keeps in "
        "memory after each request."
    )


def _reach_memory_limit(figures: Figures) -> Iterator[Finding]:
    leak, away = find_leak(figures), part_away(figures)
    if leak is None or leak.respawns < OFTEN or leak.life >= SHORT_LIFE or away is None or away < AWAY:
        return
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title="Workers are replaced too often: the application's memory grows with every request.",
        **add_wait(
            f"{describe_leak(figures, leak)}; workers are down for {percent(away)} of the time", figures.flow
        )._asdict(),
        meaning=f"Each worker soon reaches `{leak.option}`. The new worker has to load the application before it "
        "serves requests.",
        clause="the application's memory grows with every request, so `reload-on-rss` replaces the workers too often"
        if leak.option != EVIL
        else "the application's memory grows with every request, so `evil-reload-on-rss` kills the workers",
        change=advise_on_leak(figures, leak),
    )


def _begin_above_limit(figures: Figures) -> Iterator[Finding]:
    """The finding about a limit of memory that an application reaches as soon as it is loaded."""
    options, window = figures.server.setup.options, figures.window
    limit, respawns = options.reload_on_rss or 0, sum(times for _, times, _ in find_ends(figures)) - window.harakiris
    size = max((worker.resident_bytes or 0 for worker in window.workers), default=0)
    lives = window.seconds * len(window.workers) / respawns if respawns > 0 else math.inf
    if not limit or respawns < OFTEN or size < limit * 2**20 or lives >= SHORT_LIFE or find_leak(figures):
        return
    enough = _round_up(ROOM * size / 2**20, 10)
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title="Workers are replaced too often: a worker has more memory than `reload-on-rss` allows.",
        **add_wait(
            f"One of the running workers has {byte_size(size)} of resident memory, and `reload-on-rss` is {limit} MB; "
            f"{counted(respawns, 'respawn')} in {duration(window.seconds)}",
            figures.flow,
        )._asdict(),
        meaning="uWSGI replaces a worker when a request ends and the worker has more memory than `reload-on-rss`, but "
        f"not before the worker is {min_lifetime(figures)} s old (`min-worker-lifetime`).",
        clause="a worker has more memory than `reload-on-rss` allows",
        change=f"Raise `reload-on-rss` from {limit} to {enough}, if there is enough memory for all workers at this "
        "size, or let the application load less.",
        settings=(("reload-on-rss", enough),),
    )


ROOM = 1.5
"""The limit that leaves an application room to grow, as a multiple of what it has when it is loaded."""


def _reach_lifetime(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that reach `max-worker-lifetime` so often that users feel it."""
    window, away = figures.window, part_away(figures)
    life, workers = figures.server.setup.options.max_worker_lifetime, len(figures.window.workers)
    respawns = sum(times for _, times, _ in find_ends(figures)) - window.harakiris
    if not life or respawns < OFTEN or not (shows_a_limit(figures.flow) or (away or 0.0) >= AWAY):
        return
    lives = window.seconds * workers / respawns
    if not RECYCLED * life <= lives <= 2 * life:
        return
    longer = round(LIFE if life < LIFE else 2 * life)
    apart = round(longer / workers)
    is_set = (figures.server.setup.options.max_worker_lifetime_delta or 0) >= apart
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title=f"Workers are replaced too often: `max-worker-lifetime` is {life} s.",
        **add_wait(
            f"Each worker is replaced after {duration(lives)} on average: {counted(respawns, 'respawn')} in "
            f"{duration(window.seconds)}"
            + ("" if away is None else f"; workers are down for {percent(away)} of the time"),
            figures.flow,
        )._asdict(),
        meaning="uWSGI replaces each worker that reaches `max-worker-lifetime`, and the new worker first has to load "
        "the application. Workers that start together also end together.",
        clause="workers are replaced too often",
        change=f"Set `max-worker-lifetime` to {longer}"
        + ("" if is_set else f" and `max-worker-lifetime-delta` (since uWSGI 2.0.20) to {apart}")
        + ", so that the workers end at different times, or remove `max-worker-lifetime`.",
        settings=(("max-worker-lifetime", longer), *(() if is_set else (("max-worker-lifetime-delta", apart),))),
    )


def find_memory_recycled(figures: Figures) -> Iterator[Finding]:
    """The finding about memory that grows from request to request, while a limit of memory replaces the workers: each
    of them looks well, and only the sum over their lives shows the leak."""
    leak = find_leak(figures)
    if leak is None or list(find_recycling(figures)):
        return
    lost = sum(worker.lost for worker in figures.window.workers)
    yield Finding(
        code="memory_recycled",
        severity="info",
        title="The application's memory grows with every request, so `reload-on-rss` replaces its workers."
        if leak.option != EVIL
        else "The application's memory grows with every request, so `evil-reload-on-rss` kills its workers.",
        evidence=f"{describe_leak(figures, leak)}; "
        + (f"at least {counted(lost, 'request')} lost." if lost else "no request was lost."),
        meaning=f"`{leak.option}` keeps the leak from filling the memory. But after each restart, the worker has to "
        "load the application again.",
    )


def min_lifetime(figures: Figures) -> int:
    known = figures.server.setup.options.min_worker_lifetime
    return DEFAULT_MIN_LIFETIME if known is None else known


def say_too_young(figures: Figures, ends: int) -> str:
    """What else to set, if workers end before `min-worker-lifetime` lets uWSGI replace them; empty if they do not."""
    least, life = min_lifetime(figures), figures.window.seconds * len(figures.window.workers) / ends
    if life > 2 * least:
        return ""
    return (
        f" Also set `min-worker-lifetime` to 0: uWSGI applies `reload-on-rss` only to workers that are at least "
        f"{least} s old, and yours exit after {duration(life)} on average."
    )

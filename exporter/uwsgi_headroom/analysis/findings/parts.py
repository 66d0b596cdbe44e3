"""Findings about the parts of uWSGI beside its workers: caches that are full, spoolers that fall behind, and the
vassals of an emperor that fail to start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.record import CacheRecord, EmperorRecord, ThrottledVassal
from uwsgi_headroom.words.formats import counted, duration, listed

REFUSED = 3
"""At or above this number of refused items in a window, a full cache is a warning. One or two may be a burst that
expires."""

MANY_TASKS = 10
"""Fewer tasks in a spooler's directory are work in progress."""

LATE = 60.0
"""Seconds that the last task in a directory waits from which on the spooler is late, at the rate of the window."""

MOST_NAMED = 3


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about caches and spoolers."""
    yield from _full_caches(figures)
    yield from _late_spoolers(figures)


def _full_caches(figures: Figures) -> Iterator[Finding]:
    refused, options = figures.window.cache_full, figures.server.setup.options
    # With `purge_lru` uWSGI counts an item that it makes room for as well (measured on 2.0.31).
    caches = _find_full([cache for cache in figures.server.caches if cache.name not in options.purging_caches])
    if not refused or not caches:
        return
    names = [cache.name for cache in caches]
    is_sure, noun = options.complete, "cache" if len(names) == 1 else "caches"
    yield Finding(
        code="cache_full",
        severity="warning" if refused >= REFUSED and is_sure else "info",
        title=f"The cache `{names[0]}` is full."
        if len(names) == 1
        else f"The caches {listed([f'`{name}`' for name in names], MOST_NAMED)} are full.",
        evidence=f"In the last {duration(figures.window.seconds)}, {'at most ' if options.purging_caches else ''}"
        f"{counted(refused, 'new item')} found no room in the {noun}; "
        f"{'; '.join(map(_describe, caches[:MOST_NAMED]))}.",
        meaning="uWSGI does not store an item for which there is no room, and the application has to compute this item "
        "again each time."
        + (
            ""
            if is_sure
            else " With `purge_lru`, uWSGI drops an old item instead, but it is not known whether `purge_lru` is set."
        ),
        change="Raise `items` of the cache (and `blocks`, if an item takes several blocks), or let items expire. "
        "Alternatively, set `purge_lru=1`: uWSGI then drops the least recently used item.",
    )


def _find_full(caches: Sequence[CacheRecord]) -> list[CacheRecord]:
    """The caches that refused items: those without room now, or else all that ever did. uWSGI counts from its start,
    and the growth is known of all caches together."""
    ever = [cache for cache in caches if cache.full]
    # uWSGI keeps one of `items` for itself.
    return [cache for cache in ever if cache.items is not None and cache.items >= (cache.max_items or 0) - 1] or ever


def _describe(cache: CacheRecord) -> str:
    if cache.items is None or not cache.max_items:
        return f"how many items `{cache.name}` holds is not known"
    most = cache.max_items - 1  # uWSGI keeps one of `items` for itself
    if cache.items >= most:
        return f"`{cache.name}` holds {counted(cache.items, 'item')}, and has no room for more"
    return f"`{cache.name}` holds {cache.items:,} of at most {counted(most, 'item')}: probably its blocks are used up"


def _late_spoolers(figures: Figures) -> Iterator[Finding]:
    window, spoolers = figures.window, figures.server.spoolers
    waiting, done, growth = window.spooled, window.spooler_tasks, window.spooled_growth or 0
    if waiting is None or done is None or waiting < MANY_TASKS or not (spoolers and window.seconds):
        return
    seconds = waiting * window.seconds / done if done else None
    if seconds is not None and seconds < LATE:
        return
    falls_behind = growth > 0 or not done
    behind = [spooler for spooler in spoolers if spooler.tasks] or spoolers
    processes = sum(spooler.processes for spooler in behind)
    yield Finding(
        code="spooler_behind",
        severity="warning" if falls_behind else "info",
        title="The spooler falls behind: tasks arrive faster than it processes them."
        if falls_behind and done
        else "The spooler processes none of its tasks."
        if not done
        else "The spooler has a long list of tasks to process.",
        evidence=f"{counted(waiting, 'task')} {'is' if waiting == 1 else 'are'} in "
        f"{listed([spooler.directory for spooler in behind], MOST_NAMED)}"
        f"{f' ({duration(window.seconds)} ago: {waiting - growth:,})' if growth > 0 else ''}; {processes:,} "
        f"{'process' if processes == 1 else 'processes'} completed {counted(done, 'task')} in "
        f"{duration(window.seconds)}"
        + (f"; at this rate, a new task waits {duration(seconds)}." if seconds is not None else "."),
        meaning="Each task is a file in the spool directory until it is processed. Requests are not affected.",
        change="Raise `spooler-processes`, or make the tasks shorter. If a task returns `SPOOL_RETRY` or raises an "
        "exception, the spooler tries it again: uWSGI's log names each task that is tried again."
        if falls_behind
        else "",
    )


_MOST_VASSALS = 3
"""The most throttled vassals that a sentence lists; the page lists all of them."""


def find_of_emperor(record: EmperorRecord) -> Iterator[Finding]:
    """The findings about an emperor."""
    throttled = record.throttled
    if not throttled:
        return
    more = len(throttled) - _MOST_VASSALS
    yield Finding(
        code="vassals_throttled",
        severity="warning",
        title=f"{counted(len(throttled), 'vassal')} of the emperor fail{'s' if len(throttled) == 1 else ''} to start.",
        evidence="The emperor waits before it tries again to start these vassals: "
        f"{'; '.join(map(_describe_vassal, throttled[:_MOST_VASSALS]))}" + (f"; and {more} more." if more > 0 else "."),
        meaning="The application of a throttled vassal is down: the emperor waits longer and longer between its "
        f"attempts to start the vassal. {counted(record.vassals, 'other vassal')} "
        f"{'is' if record.vassals == 1 else 'are'} running.",
        change="Check the emperor's log for the reason why a vassal exits when it starts, and correct the cause. The "
        "emperor then starts the vassal at its next attempt.",
    )


def _describe_vassal(vassal: ThrottledVassal) -> str:
    waits = "" if vassal.seconds is None else f", for {duration(vassal.seconds)}"
    attempts = "" if not vassal.attempts else f" (after {counted(vassal.attempts, 'attempt')})"
    return f"{vassal.name}{waits}{attempts}"

"""Findings about the parts of uWSGI beside its workers: caches that are full, spoolers that fall behind, and the
vassals of an emperor that fail to start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.record import CacheRecord, EmperorRecord
from uwsgi_headroom.words.formats import listed
from uwsgi_headroom.words.template import Private

REFUSED = 3
"""At or above this number of refused items in a window, a full cache is a warning. One or two may be a burst that
expires."""

MANY_TASKS = 10
"""Fewer tasks in a spooler's directory are work in progress."""

LATE = 60.0
"""Seconds that the last task in a directory waits from which on the spooler is late, at the rate of the window."""

MOST_NAMED = 3

CACHE_FULL = Kind(
    code="cache_full",
    role="limit",
    severity="warning or info",
    title="The {full:cache|caches} {names} {full:is|are} full.",
    evidence="In the last {seconds:duration}, [at_most? at most ]{refused:new item} found no room"
    "[items? ; {first} holds {items} of at most {most:item}].",
    meaning="uWSGI does not store an item for which there is no room, and the application has to compute this item "
    "again each time. With `purge_lru`, it drops an old item instead. A cache that holds fewer items than `items` has "
    "most likely used up its blocks.",
    act="Raise `items` of the cache (and `blocks`, if an item takes several blocks).",
    then="Alternatively, let items expire, or set `purge_lru=1`: uWSGI then drops the least recently used item.",
)

SPOOLER_BEHIND = Kind(
    code="spooler_behind",
    role="limit",
    severity="warning or info",
    title="[info? The spooler has a long list of tasks to process.][warning, done? The spooler falls behind: tasks "
    "arrive faster than it processes them.][warning, not done? The spooler processes none of its tasks.]",
    evidence="{waiting:task} wait in {directories}[more? , {more} more than {seconds:duration} ago]; {processes} "
    "{processes:process|processes} completed {done:task} in {seconds:duration}"
    "[late? ; at this rate, a new task waits {late:duration}].",
    meaning="Each task is a file in the spool directory until it is processed. Requests are not affected.",
    act="[warning, done? Raise `spooler-processes`, or make the tasks shorter.]"
    "[warning, not done? Find out from uWSGI's log why no task ends: it names each task that is tried again.]",
    then="[warning, done? If a task returns `SPOOL_RETRY` or raises an exception, the spooler tries it again: uWSGI's "
    "log names each task that is tried again.][warning, not done? The spooler tries a task again if it returns "
    "`SPOOL_RETRY` or raises an exception.]",
)

VASSALS_THROTTLED = Kind(
    code="vassals_throttled",
    role="harm",
    severity="warning",
    title="{throttled:vassal} of the emperor {throttled:fails|fail} to start.",
    evidence="The emperor waits before it tries again to start {names}[longest? , for {longest:duration} at most].",
    meaning="The application of a throttled vassal is down: the emperor waits longer and longer between its attempts "
    "to start the vassal. {running:other vassal} {running:is|are} running.",
    act="Check the emperor's log for the reason why a vassal exits when it starts.",
    then="Correct the cause: the emperor then starts the vassal at its next attempt.",
    runbook="UwsgiVassalThrottled",
)


def find_full_caches(figures: Figures) -> Iterator[Finding]:
    refused, options = figures.window.cache_full, figures.server.setup.options
    # With `purge_lru` uWSGI counts an item that it makes room for as well (measured on 2.0.31).
    caches = _find_full([cache for cache in figures.server.caches if cache.name not in options.purging_caches])
    if not refused or not caches:
        return
    yield CACHE_FULL.found(
        figures,
        worse=refused >= REFUSED and options.complete,
        full=len(caches),
        names=listed([f"`{cache.name}`" for cache in caches], MOST_NAMED),
        seconds=figures.window.seconds,
        at_most=bool(options.purging_caches),
        refused=refused,
        first=f"`{caches[0].name}`",
        items=caches[0].max_items and caches[0].items,
        most=(caches[0].max_items or 1) - 1,  # uWSGI keeps one of `items` for itself
    )


def _find_full(caches: Sequence[CacheRecord]) -> list[CacheRecord]:
    """The caches that refused items: those without room now, or else all that ever did. uWSGI counts from its start,
    and the growth is known of all caches together."""
    ever = [cache for cache in caches if cache.full]
    # uWSGI keeps one of `items` for itself.
    return [cache for cache in ever if cache.items is not None and cache.items >= (cache.max_items or 0) - 1] or ever


def find_late_spoolers(figures: Figures) -> Iterator[Finding]:
    window, spoolers = figures.window, figures.server.spoolers
    waiting, done, growth = window.spooled, window.spooler_tasks, window.spooled_growth or 0
    if waiting is None or done is None or waiting < MANY_TASKS or not (spoolers and window.seconds):
        return
    seconds = waiting * window.seconds / done if done else None
    if seconds is not None and seconds < LATE:
        return
    behind = [spooler for spooler in spoolers if spooler.tasks] or spoolers
    yield SPOOLER_BEHIND.found(
        figures,
        worse=not done or growth > 0,
        waiting=waiting,
        directories=Private(listed([spooler.directory for spooler in behind], MOST_NAMED), "the spool directory"),
        more=max(0, growth) or None,
        seconds=window.seconds,
        processes=sum(spooler.processes for spooler in behind),
        done=done or None,
        late=seconds,
    )


def find_of_emperor(record: EmperorRecord) -> Iterator[Finding]:
    """The finding about an emperor."""
    throttled = record.throttled
    if throttled:
        yield VASSALS_THROTTLED.found(
            throttled=len(throttled),
            names=Private(listed([vassal.name for vassal in throttled], MOST_NAMED), "them"),
            longest=max(vassal.seconds or 0.0 for vassal in throttled) or None,
            running=record.vassals,
        )

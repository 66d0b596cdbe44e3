"""Finds the likely cause of a worker's end, and the evidence for it.

uWSGI's stats only have `harakiri_count`. Other causes leave traces: a recycled worker has reached a configured limit,
and the kernel counts the processes that it kills because memory ran out.
"""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.journal.events import Cause
from uwsgi_headroom.kernel.oom import OomKills
from uwsgi_headroom.kernel.options import Options
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.words.formats import byte_size, counted, duration

REACHED = 0.9
"""A limit counts as reached at or above this fraction of it, at the last sample before the end."""

REACHED_REQUESTS = 0.7
"""The same for `max-requests`, which `max-requests-delta` and the worker's id modify."""


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """A worker's process that ended between two samples. then, now: its slot at both. age: in seconds. resident_bytes:
    at the first sample; None if unknown."""

    then: Worker
    now: Worker
    age: float
    resident_bytes: int | None


def find_cause(
    ended: EndedProcess, options: Options | None, kills_before: OomKills | None, kills: OomKills | None
) -> tuple[Cause, str]:
    """The likely cause, and the evidence as a sentence. options: None if unknown; kills_before, kills: the counts of
    OOM kills at the first sample and now."""
    then, now, age, resident = ended.then, ended.now, ended.age, ended.resident_bytes
    served = _served(then, now)
    if (now.harakiris or 0) > (then.harakiris or 0):
        limit = options.harakiri if options else None
        return "harakiri", "A request took longer than `harakiri`" + (f" ({limit} s)." if limit else ".")
    if killed := _killed(kills_before, kills):
        return "out_of_memory", f"The kernel killed a process {killed} at that moment because memory ran out."
    if options:
        if options.max_requests and served is not None and served >= REACHED_REQUESTS * options.max_requests:
            return (
                "max_requests",
                f"It had served {counted(served, 'request')}: `max-requests` is {options.max_requests}.",
            )
        lifetime = options.max_worker_lifetime
        if lifetime and age >= REACHED * lifetime:
            return "max_worker_lifetime", f"It was {duration(age)} old: `max-worker-lifetime` is {lifetime} s."
        most = options.reload_on_rss or options.evil_reload_on_rss
        if most and resident and resident >= REACHED * most * 2**20:
            return "reload_on_rss", f"It held {byte_size(resident)} of memory: `reload-on-rss` is {most} MB."
    return "unknown", _history(served, age, resident)


def _served(then: Worker, now: Worker) -> int | None:
    """The number of requests that the process served, those after the last sample included but not its successor's."""
    if then.requests_since_spawn is None:
        return None
    since = max(0, (now.requests or 0) - (then.requests or 0))
    of_successor = now.requests_since_spawn or 0 if now.pid != then.pid else 0
    return then.requests_since_spawn + max(0, since - of_successor)


def _killed(before: OomKills | None, now: OomKills | None) -> str:
    """Where OOM kills happened between the two counts; empty if there were none."""
    if before is None or now is None:
        return ""
    for place, then, later in (("in its cgroup", before.cgroup, now.cgroup), ("on this host", before.host, now.host)):
        if then is not None and later is not None and later > then:
            return place
    return ""


def _history(served: int | None, age: float, resident: int | None) -> str:
    lived = f"It lived for {duration(age)}" if age > 0 else "It had just started"
    requests = "" if served is None else f" and served {counted(served, 'request')}"
    memory = f", and held {byte_size(resident)} of memory" if resident else ""
    return f"{lived}{requests}{memory}."

"""Determines how a worker serves several requests at once: on threads, or on one thread (gevent, asyncio, ugreen).

The stats document has a core for each request that a worker can serve at once, but does not say if a core is a thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record.options import Options
from uwsgi_headroom.record.setup import ConcurrencyKind

_THREADS = re.compile(rb"^Threads:\s*(\d+)$", re.MULTILINE)


def find_concurrency_kind(
    options: Options, cores: Mapping[int, int | None], *, proc: Path = Path("/proc")
) -> ConcurrencyKind | None:
    """How the workers serve requests. cores: the cores of each accepting worker, by pid; None with stats-no-cores.

    A process with fewer threads than cores proves `async`. More threads do not prove `threads`, since applications
    start threads as well; a server then counts as threaded unless its options say otherwise.
    """
    if any(number and number > 0 for number in (options.async_cores, options.gevent, options.asyncio)):
        return "async" if max(options.async_cores or 0, options.gevent or 0, options.asyncio or 0) > 1 else "single"
    known = {pid: number for pid, number in cores.items() if number}
    if not known:
        return None
    if max(known.values()) == 1:
        return "single"
    counts = {pid: count for pid in known if (count := _count_threads(pid, proc)) is not None}
    if not counts:
        return None
    # All, not any: a worker that is ending may already have joined some of its threads.
    return "async" if all(count < known[pid] for pid, count in counts.items()) else "threads"


def _count_threads(pid: int, proc: Path) -> int | None:
    """The number of OS threads of a process; None if it has ended."""
    try:
        found = _THREADS.search(procfs.read_file(proc, str(pid), "status"))
    except OSError:
        return None
    return int(found[1]) if found else None

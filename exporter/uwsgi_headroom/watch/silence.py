"""Watches a server by the kernel while its stats do not answer although its master still runs.

The kernel's figures have a watch of their own, with totals, a history and a judge, so that no window mixes sources.
Nobody sees them unless threads of the workers become idle and busy: else no request is served, and the server is down.
That watch ends when the stats answer again, or when the master has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.procfs import read_state
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.surroundings import Silence

if TYPE_CHECKING:
    from uwsgi_headroom.watch.watch import Watch

Work = Callable[[], Awaitable[None]]

SILENT: frozenset[Reason] = frozenset({"timeout", "truncated", "empty"})
"""The reasons of failed reads where something listens, but gives no document."""

SERVED_SECONDS = 60.0
"""For so long a change of a thread shows that requests are served."""

LEAST_CHANGES = 2
"""One thread that becomes busy, and stays so, does not show it."""

_CLOCK_SECONDS = 1
"""When requests began is known to the second: so much later, it is another request."""


class SilentServer:
    """The watch of a server by the kernel, and what samples it. pid: its master, here; since: when its stats last
    answered (epoch seconds); error: why they do not; sampling: None if its owner samples it."""

    def __init__(self, watch: Watch, sampling: Work | None, pid: int, since: float, error: ReadError) -> None:
        self.watch, self.pid, self.since, self.error = watch, pid, since, error
        self._changes: deque[float] = deque()
        self._before: Reading | None = None
        name = f"sample {watch.name} by the kernel"
        self._sampling = asyncio.create_task(self._sample(sampling), name=name) if sampling else None

    async def _sample(self, sampling: Work) -> None:
        try:
            await sampling()
        finally:
            await self.watch.reader.close()

    def end(self) -> None:
        """Stop watching; a read under way ends soon after."""
        if self._sampling:
            self._sampling.cancel()

    def note(self, reading: Reading | ReadError) -> None:
        if isinstance(reading, ReadError):
            return
        before, self._before = self._before, reading
        if before and isinstance(before.snapshot, Snapshot) and isinstance(reading.snapshot, Snapshot):
            pairs = zip(before.snapshot.workers, reading.snapshot.workers, strict=False)
            processes = before.host.processes, reading.host.processes
            self._changes.extend(reading.at for then, now in pairs if _serves(then, now, *processes))
        while self._changes and self._changes[0] < reading.at - SERVED_SECONDS:
            self._changes.popleft()

    @property
    def is_serving(self) -> bool:
        return self.watch.state == "up" and len(self._changes) >= LEAST_CHANGES

    @property
    def record(self) -> Silence:
        is_stopped = read_state(self.pid) == b"T"
        return Silence(self.since, self.pid, is_stopped, self.error.reason, str(self.error), len(self._changes))


Processes = Mapping[int, WorkerProcess]


def _serves(then: Worker, now: Worker, before: Processes, after: Processes) -> bool:
    """Whether a worker has served since: as many threads are no longer busy, a later request is in service, or its main
    thread has woken and is idle again. An idle thread of uWSGI wakes only for a connection (`core/loop.c`)."""
    if now.pid is None or then.pid != now.pid or then.busy_threads is None or now.busy_threads is None:
        return False
    if then.busy_threads != now.busy_threads:
        return True
    if now.busy_threads:
        first, second = (max(filter(None, worker.serving.values()), default=None) for worker in (then, now))
        return first is not None and second is not None and second > first + _CLOCK_SECONDS
    counts = [each[now.pid].voluntary_context_switches for each in (before, after) if now.pid in each]
    return len(counts) == 2 and None not in counts and counts[0] != counts[1]

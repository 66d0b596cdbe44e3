"""Reads the logs of all servers in a thread, a little at a time, so that no poll of a server waits for a file.

A file system may not answer. The thread that waits for it is then left alone, with its log, until it returns; another
thread reads the others. A log that `check` has found is read by a process that can be ended: a thread would keep
`check` from ending.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from uwsgi_headroom.kernel.aside import LOGS
from uwsgi_headroom.kernel.procfs import ask_in_thread
from uwsgi_headroom.uwsgi_log.log import LogBatch, UwsgiLog, read_found
from uwsgi_headroom.uwsgi_log.scan import BLOCK_BYTES
from uwsgi_headroom.watch.watch import Watch

TURN_SECONDS = 0.5
"""From one look at the logs to the next."""

BYTES_PER_SECOND = 5_000_000
"""Read of one log at most, on average. A log that grows faster is read in part."""

MOST_CPU = 0.02
"""The share of a CPU that reading all logs may take, on average."""

BURST_SECONDS = 4.0
"""What was not used in that many seconds may be used at once."""

PATIENCE_SECONDS = 5.0


class LogReader:
    def __init__(self, list_watches: Callable[[], Sequence[Watch]], monotonic: Callable[[], float]) -> None:
        self._list_watches, self._monotonic = list_watches, monotonic
        self._stuck, self._known = set[UwsgiLog](), set[UwsgiLog]()
        self._results = list[tuple[UwsgiLog, LogBatch]]()  # not taken yet
        self._cpu_left = MOST_CPU * BURST_SECONDS
        self._turned_at: float | None = None
        self._first = 0

    async def run(self) -> NoReturn:
        try:
            while True:
                await self.turn()
                await asyncio.sleep(TURN_SECONDS)
        except asyncio.CancelledError:
            self._stop_all_but(set())
            raise

    def _stop_all_but(self, logs: set[UwsgiLog]) -> None:
        for gone in self._known - logs:
            gone.stop()
        self._known = logs

    async def turn(self) -> None:
        """Read what was added to each log, within the limits, and pass it to the watches."""
        watches = {watch.log: watch for watch in self._list_watches() if watch.log}
        self._stop_all_but(set(watches))
        logs = [log for log in watches if log not in self._stuck and not log.is_given_up]
        if not logs:
            return
        now = self._monotonic()
        elapsed = min(BURST_SECONDS, now - self._turned_at) if self._turned_at is not None else TURN_SECONDS
        self._turned_at = now
        self._cpu_left = min(MOST_CPU * BURST_SECONDS, self._cpu_left + MOST_CPU * elapsed)
        self._first = (self._first + 1) % len(logs)  # the CPU time may end before the last one
        logs, most = [*logs[self._first :], *logs[: self._first]], int(BYTES_PER_SECOND * elapsed)
        for log in (log for log in logs if log.master_pid):
            watches[log].take_log(await self._read_found(log, now, max(BLOCK_BYTES, most * (self._cpu_left > 0))))
        if not (named := [log for log in logs if not log.master_pid]):
            return
        work = _Turn(named, now, most, self._cpu_left)
        _, answer = ask_in_thread(lambda: work.run(self._results), "reading logs")
        done, _ = await asyncio.wait({asyncio.wrap_future(answer)}, timeout=PATIENCE_SECONDS)
        work.is_given_up = not done
        if not done and (stuck := work.current):
            self._stuck.add(stuck)
            answer.add_done_callback(lambda _: self._stuck.discard(stuck))
        self._cpu_left -= work.cpu
        while self._results:  # also what an earlier turn has read in the meantime
            log, batch = self._results.pop(0)
            if log in watches:
                watches[log].take_log(batch)
        for task in done:
            task.result()  # an error of this package's: the task is restarted

    async def _read_found(self, log: UwsgiLog, now: float, most: int) -> LogBatch:
        """Read a log that was found, for the last time if that hangs."""
        ticket = LOGS.submit(None, read_found, (log.path, log.master_pid, now, most))
        try:
            while not LOGS.wait(ticket, 0.0):  # noqa: ASYNC110 - the answer comes from another process
                await asyncio.sleep(0.02)
            self._cpu_left -= ticket.cost
            batch = ticket.result()
        except OSError:
            batch, log.is_given_up = LogBatch(trouble="its file system does not answer"), True
        finally:
            LOGS.drop(ticket)
        return batch  # type: ignore[no-any-return]


class _Turn:
    """One turn, which runs in a thread. `current` may be read meanwhile. is_given_up: it reads no further log."""

    def __init__(self, logs: Sequence[UwsgiLog], now: float, most: int, cpu: float) -> None:
        self._logs, self._now, self._most, self._allowed = logs, now, most, cpu
        self.current: UwsgiLog | None = None
        self.cpu, self.is_given_up = 0.0, False

    def run(self, results: list[tuple[UwsgiLog, LogBatch]]) -> None:
        began = time.thread_time()
        for log in self._logs:
            self.current = log  # first: who gives the turn up then looks at it
            if not self.is_given_up:
                results.append((log, log.read(self._now, self._most, began + self._allowed)))
                self.cpu = time.thread_time() - began
        self.current = None

"""Decodes blobs to records: see `layout`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from uwsgi_headroom.config.model import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.route_hour import RouteWindow
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.kernel.waits.states import STATES
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.layout import LAYOUT, LEVELS, PARTS, RATIO, TICKS
from uwsgi_headroom.store.record import Levels, Record
from uwsgi_headroom.store.varint import decode_numbers


def decode_record(data: bytes, texts: Mapping[int, str]) -> Record:
    """The record of these bytes. texts: by number. Raises HistoryFileError if they are not one."""
    try:
        unpacker = _Unpacker(decode_numbers(data), texts)
        if unpacker.whole() != LAYOUT:
            raise ValueError("another layout")
        until, levels = unpacker.time(), unpacker.levels()
        return Record(
            until=until,
            window=unpacker.window(until),
            response_times=unpacker.response_times(levels.slo),
            routes=unpacker.routes(),
            levels=levels,
        )
    except (ValueError, KeyError, IndexError, StopIteration, OverflowError):
        raise HistoryFileError("a record of the history is damaged") from None


class _Unpacker:
    def __init__(self, numbers: Iterable[int], texts: Mapping[int, str]) -> None:
        self.whole = iter(numbers).__next__
        self._texts = texts

    def optional(self) -> int | None:
        value = self.whole()
        return None if value == 0 else value - 1 if value > 0 else value

    def time(self) -> float:
        return self.whole() / TICKS

    def optional_time(self) -> float | None:
        value = self.optional()
        return None if value is None else value / TICKS

    def count(self) -> int:
        value = self.whole()
        if value < 0:
            raise ValueError("a negative count")
        return value

    def times_by_text(self) -> dict[str, float]:
        return {self._texts[self.whole()]: self.time() for _ in range(self.count())}

    def levels(self) -> Levels:
        cpus, available, per_worker = self.optional_time(), self.optional(), self.optional()
        others_follow, thunder_lock = self.optional(), self.optional()
        threshold = self.optional_time()
        return Levels(
            cpus=cpus,
            memory_available=available,
            memory_per_worker=per_worker,
            others_follow=_as_flag(others_follow),
            thunder_lock=_as_flag(thunder_lock),
            slo=None if threshold is None else Slo(threshold, self.whole() / RATIO),
        )

    def window(self, until: float) -> Window:
        asked, seconds, observed, full, gap = [self.time() for _ in range(5)]
        reloads, exceptions, harakiris, respawns = [self.whole() for _ in range(4)]
        occupancy = tuple([self.whole() for _ in range(LEVELS)])
        overflows, configured, available = [self.optional() for _ in range(3)]
        return Window(
            asked=asked,
            seconds=seconds,
            until=until,
            observed_seconds=observed,
            full_seconds=full,
            gap_seconds=gap,
            reloads=reloads,
            exceptions=exceptions,
            harakiris=harakiris,
            respawns=respawns,
            overflows=overflows,
            occupancy=occupancy,
            configured=configured,
            available=available,
            queue_seconds=self.times_by_text(),
            queue_full_seconds=self.times_by_text(),
            cpu=self._cpu(),
            waits=self._waits(),
            workers=tuple([self._worker() for _ in range(self.count())]),
        )

    def _cpu(self) -> CpuWindow | None:
        measured = self.optional_time()
        return None if measured is None else CpuWindow(measured, self.time(), self.time(), self.optional_time())

    def _waits(self) -> WaitWindow | None:
        observed = self.optional_time()
        if observed is None:
            return None
        disagreement, seconds, backends = self.time(), self.times_by_text(), self.times_by_text()
        known = {state: seconds[state] for state in STATES if state in seconds}
        return WaitWindow(observed, disagreement, known, backends)

    def _worker(self) -> WorkerWindow:
        worker_id, requests, static_requests, respawns, lost = [self.whole() for _ in range(5)]
        up = self.time()
        running, busy, cpu, lock = [self.optional_time() for _ in range(4)]
        return WorkerWindow(
            worker_id=worker_id,
            requests=requests,
            static_requests=static_requests,
            running_time=running,
            busy_seconds=busy,
            up_seconds=up,
            cpu_seconds=cpu,
            respawns=respawns,
            lost=lost,
            resident_bytes=self.optional(),
            resident_growth=self.optional(),
            interpreter_lock_seconds=lock,
        )

    def response_times(self, slo: Slo | None) -> ResponseTimeWindow | None:
        requests = self.optional()
        if requests is None:
            return None
        interval, size, first, length = self.time(), self.whole(), self.count(), self.count()
        bins = _bins(slo.threshold if slo else None)
        if len(bins) != size or first + length > size:
            raise ValueError("other bins")
        counts, doubt = [0.0] * size, [0.0] * size
        counts[first : first + length] = [self.whole() / PARTS for _ in range(length)]
        variance = 0
        for place in range(first, first + length):
            variance += self.whole()
            doubt[place] = variance / PARTS
        return ResponseTimeWindow(bins, interval, requests, counts, doubt)

    def routes(self) -> RouteWindow | None:
        observed = self.optional_time()
        return None if observed is None else RouteWindow(observed, self.times_by_text())


@lru_cache(maxsize=64)
def _bins(threshold: float | None) -> Bins:
    if threshold is not None and threshold <= 0:
        raise ValueError("an impossible threshold")
    return Bins(() if threshold is None else (threshold,))


def _as_flag(number: int | None) -> bool | None:
    return None if number is None else bool(number)

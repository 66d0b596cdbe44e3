"""Records as blobs of whole numbers.

All figures of a record are growths over its time, differences of totals, so their numbers are small: a minute of a
server with 8 workers takes some 400 bytes. Times are stored in units of 0.1 ms, expected numbers of requests in
hundredths. Texts (names of sockets, backends and routes) are stored elsewhere, and by their number here. Unknown is 0;
what can be unknown is stored plus 1, or minus 1 if it is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from uwsgi_headroom.config.model import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.route_hour import RouteWindow
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.kernel.waits.states import STATES
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.record import Levels, Record
from uwsgi_headroom.store.varint import decode_numbers, encode_numbers

_TICKS = 10_000  # per second
_PARTS = 100  # of a request
_RATIO = 1_000_000  # parts of an objective
_LAYOUT = 1
_LEVELS = len(OCCUPANCY_BOUNDS) + 1

Flag = bool | None
_Name = TypeVar("_Name", bound=str)


def encode_record(record: Record, number_of: Callable[[str], int]) -> bytes:
    """The record as bytes. number_of: returns the number of a text."""
    packer = _Packer(number_of)
    packer.whole(_LAYOUT)
    packer.time(record.until)
    packer.levels(record.levels)
    packer.window(record.window)
    packer.response_times(record.response_times)
    packer.routes(record.routes)
    return encode_numbers(packer.numbers)


def decode_record(data: bytes, texts: Mapping[int, str]) -> Record:
    """The record of these bytes. texts: by number. Raises HistoryFileError if they are not one."""
    try:
        unpacker = _Unpacker(decode_numbers(data), texts)
        if unpacker.whole() != _LAYOUT:
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


class _Packer:
    def __init__(self, number_of: Callable[[str], int]) -> None:
        self.numbers: list[int] = []
        self._number_of = number_of
        self.whole = self.numbers.append

    def optional(self, value: int | None) -> None:
        self.whole(0 if value is None else value + 1 if value >= 0 else value)

    def time(self, seconds: float) -> None:
        self.whole(round(seconds * _TICKS))

    def optional_time(self, seconds: float | None) -> None:
        self.optional(None if seconds is None else round(seconds * _TICKS))

    def times_by_text(self, times: Mapping[_Name, float]) -> None:
        self.whole(len(times))
        for text, seconds in times.items():
            self.whole(self._number_of(text))
            self.time(seconds)

    def levels(self, levels: Levels) -> None:
        self.optional_time(levels.cpus)
        self.optional(levels.memory_available)
        self.optional(levels.memory_per_worker)
        self.optional(_as_number(levels.others_follow))
        self.optional(_as_number(levels.thunder_lock))
        self.optional_time(levels.slo.threshold if levels.slo else None)
        if levels.slo:
            self.whole(round(levels.slo.objective * _RATIO))

    def window(self, window: Window) -> None:
        for seconds in (window.asked, window.seconds, window.observed_seconds, window.full_seconds, window.gap_seconds):
            self.time(seconds)
        self.numbers += (window.reloads, window.exceptions, window.harakiris, window.respawns, *window.occupancy)
        for number in (window.overflows, window.configured, window.available):
            self.optional(number)
        self.times_by_text(window.queue_seconds)
        self.times_by_text(window.queue_full_seconds)
        self._cpu(window.cpu)
        self._waits(window.waits)
        self.whole(len(window.workers))
        for worker in window.workers:
            self._worker(worker)

    def _cpu(self, cpu: CpuWindow | None) -> None:
        self.optional_time(cpu.measured_seconds if cpu else None)
        if cpu:
            self.time(cpu.own_seconds)
            self.time(cpu.idle_seconds)
            self.optional_time(cpu.others_seconds)

    def _waits(self, waits: WaitWindow | None) -> None:
        self.optional_time(waits.observed_seconds if waits else None)
        if waits:
            self.time(waits.disagreement_seconds)
            self.times_by_text(waits.seconds)
            self.times_by_text(waits.backends)

    def _worker(self, worker: WorkerWindow) -> None:
        self.numbers += (worker.worker_id, worker.requests, worker.static_requests, worker.respawns, worker.lost)
        self.time(worker.up_seconds)
        for seconds in (
            worker.running_time,
            worker.busy_seconds,
            worker.cpu_seconds,
            worker.interpreter_lock_seconds,
        ):
            self.optional_time(seconds)
        self.optional(worker.resident_bytes)
        self.optional(worker.resident_growth)

    def response_times(self, window: ResponseTimeWindow | None) -> None:
        self.optional(window.requests if window else None)
        if not window:
            return
        self.time(window.interval)
        counts = [round(count * _PARTS) for count in window.counts]
        doubt = [round(variance * _PARTS) for variance in window.doubt]
        places = [place for place, number in enumerate(counts) if number or doubt[place]] or [0]
        first, end = places[0], places[-1] + 1
        self.numbers += (len(counts), first, end - first, *counts[first:end])
        before = 0
        for variance in doubt[first:end]:
            self.whole(variance - before)
            before = variance

    def routes(self, window: RouteWindow | None) -> None:
        self.optional_time(window.observed_seconds if window else None)
        if window:
            self.times_by_text({route: seconds for route, seconds in window.seconds.items() if seconds})


class _Unpacker:
    def __init__(self, numbers: Iterable[int], texts: Mapping[int, str]) -> None:
        self.whole = iter(numbers).__next__
        self._texts = texts

    def optional(self) -> int | None:
        value = self.whole()
        return None if value == 0 else value - 1 if value > 0 else value

    def time(self) -> float:
        return self.whole() / _TICKS

    def optional_time(self) -> float | None:
        value = self.optional()
        return None if value is None else value / _TICKS

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
            slo=None if threshold is None else Slo(threshold, self.whole() / _RATIO),
        )

    def window(self, until: float) -> Window:
        asked, seconds, observed, full, gap = [self.time() for _ in range(5)]
        reloads, exceptions, harakiris, respawns = [self.whole() for _ in range(4)]
        occupancy = tuple([self.whole() for _ in range(_LEVELS)])
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
        counts[first : first + length] = [self.whole() / _PARTS for _ in range(length)]
        variance = 0
        for place in range(first, first + length):
            variance += self.whole()
            doubt[place] = variance / _PARTS
        return ResponseTimeWindow(bins, interval, requests, counts, doubt)

    def routes(self) -> RouteWindow | None:
        observed = self.optional_time()
        return None if observed is None else RouteWindow(observed, self.times_by_text())


@lru_cache(maxsize=64)
def _bins(threshold: float | None) -> Bins:
    if threshold is not None and threshold <= 0:
        raise ValueError("an impossible threshold")
    return Bins(() if threshold is None else (threshold,))


def _as_number(flag: Flag) -> int | None:
    return None if flag is None else int(flag)


def _as_flag(number: int | None) -> Flag:
    return None if number is None else bool(number)

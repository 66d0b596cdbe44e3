"""Encodes records as blobs: see `layout`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from uwsgi_headroom.history.route_hour import RouteWindow
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.layout import LAYOUT, PARTS, RATIO, TICKS
from uwsgi_headroom.store.record import Levels, Record
from uwsgi_headroom.store.varint import encode_numbers

_Name = TypeVar("_Name", bound=str)


def encode_record(record: Record, number_of: Callable[[str], int]) -> bytes:
    """The record as bytes. number_of: returns the number of a text."""
    packer = _Packer(number_of)
    packer.whole(LAYOUT)
    packer.time(record.until)
    packer.levels(record.levels)
    packer.window(record.window)
    packer.response_times(record.response_times)
    packer.routes(record.routes)
    return encode_numbers(packer.numbers)


class _Packer:
    def __init__(self, number_of: Callable[[str], int]) -> None:
        self.numbers: list[int] = []
        self._number_of = number_of
        self.whole = self.numbers.append

    def optional(self, value: int | None) -> None:
        self.whole(0 if value is None else value + 1 if value >= 0 else value)

    def time(self, seconds: float) -> None:
        self.whole(round(seconds * TICKS))

    def optional_time(self, seconds: float | None) -> None:
        self.optional(None if seconds is None else round(seconds * TICKS))

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
            self.whole(round(levels.slo.objective * RATIO))

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
        counts = [round(count * PARTS) for count in window.counts]
        doubt = [round(variance * PARTS) for variance in window.doubt]
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


def _as_number(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)

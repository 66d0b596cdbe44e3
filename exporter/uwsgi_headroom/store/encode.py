"""Encodes records as blobs: see `layout`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, TypeVar

from uwsgi_headroom.history.route_hour import RouteWindow
from uwsgi_headroom.history.totals import QUANTITIES, Of, Quantity
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.layout import (
    CHECKSUM_BYTES,
    LAYOUT,
    MOST_NAMES,
    PARTS,
    RATIO,
    encode_optional,
    encode_optional_time,
    encode_time,
    encoder_of,
)
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
    data = encode_numbers(packer.numbers)
    return data + checksum(data)


def checksum(data: bytes) -> bytes:
    """The last bytes of a record, by which a damaged one is recognized."""
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


class _Packer:
    def __init__(self, number_of: Callable[[str], int]) -> None:
        self.numbers: list[int] = []
        self._number_of = number_of
        self.whole = self.numbers.append

    def optional(self, value: int | None) -> None:
        self.whole(encode_optional(value))

    def time(self, seconds: float) -> None:
        self.whole(encode_time(seconds))

    def optional_time(self, seconds: float | None) -> None:
        self.whole(encode_optional_time(seconds))

    def times_by_text(self, times: Mapping[_Name, float]) -> None:
        if len(times) > MOST_NAMES:
            times = {text: times[text] for text in nlargest(MOST_NAMES, times, key=times.__getitem__)}
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
        server = [encode_time(window.asked), encode_time(window.seconds)]
        for of, name, encode in _SERVER:
            server += getattr(window, name) if of == "occupancy" else (encode(getattr(window, name)),)
        self.numbers += (len(server), *server)
        self._figures(_SOCKET, window)
        self._part(_CPU, window.cpu)
        self._part(_WAITS, window.waits)
        self.numbers += (len(window.workers), 1 + len(_WORKER))
        for worker in window.workers:
            self.whole(worker.worker_id)
            self.numbers += [encode(getattr(worker, name)) for _, name, encode in _WORKER]

    def _part(self, part: _Part, window: object | None) -> None:
        """What a window may lack: unknown as its first time."""
        if window is None:
            self.optional_time(None)
            return
        (_, name, _), *others = part
        self.optional_time(getattr(window, name))
        self._figures(others, window)

    def _figures(self, part: _Part, window: object) -> None:
        for of, name, encode in part:
            if of in ("socket", "state", "backend"):
                self.times_by_text(getattr(window, name))
            else:
                self.whole(encode(getattr(window, name)))

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


_Part = Sequence[tuple[Of, str, Callable[[Any], int]]]


def _encoders(part: Iterable[Quantity]) -> _Part:
    """For each figure of a part: what it is of, its name, and how it becomes a number."""
    return [(quantity.of, quantity.name, encoder_of(quantity)) for quantity in part]


_SERVER, _SOCKET, _CPU, _WAITS, _WORKER = map(_encoders, QUANTITIES)


def _as_number(flag: bool | None) -> int | None:
    return None if flag is None else int(flag)

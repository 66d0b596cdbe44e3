"""Decodes blobs to records: see `layout`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.totals import QUANTITIES, Of, Quantity
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import STATES
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.encode import (
    CHECKSUM_BYTES,
    LAYOUT,
    LEAST_OF_SERVER,
    LEAST_OF_WORKER,
    LEVELS,
    PARTS,
    RATIO,
    TICKS,
    WITHOUT_CHECKSUM,
    WITHOUT_WIDTHS,
    checksum,
    decode_numbers,
    decode_optional,
    decode_optional_time,
    decode_time,
    decoder_of,
)
from uwsgi_headroom.store.record import MINUTES, Levels, Record

FORGOTTEN = "(forgotten)"
"""The name of a socket, backend or route whose text is no longer kept."""


def decode_record(data: object, texts: Mapping[int, str]) -> Record:
    """The record of these bytes. texts: by number. Raises HistoryFileError if they are not one."""
    try:
        unpacker = _Unpacker(_check(data), texts)
        until, levels = unpacker.time(), unpacker.levels()
        record = Record(
            until=until,
            window=unpacker.window(until),
            response_times=unpacker.response_times(levels.slo),
            routes=unpacker.routes(),
            levels=levels,
        )
        unpacker.end()
        return record
    except (ValueError, KeyError, IndexError, StopIteration, OverflowError):
        raise HistoryFileError("a record of the history is damaged") from None


def decode_in_slot(data: object, texts: Mapping[int, str], tier: int, slot: object) -> Record:
    """The record of these bytes if it belongs to a slot of a tier (seconds). Raises HistoryFileError."""
    record = decode_record(data, texts)
    # It ends with the first read after its slot, within a minute, or, where an exporter ended, in it.
    if (
        not isinstance(slot, int)
        or not -1 <= slot * tier - record.until + MINUTES.seconds <= tier + 2 * MINUTES.seconds
    ):
        raise HistoryFileError("a record of the history is in the wrong place")
    return record


def _check(data: object) -> list[int]:
    """The numbers of a record, of which the first is its layout. Raises ValueError."""
    if not isinstance(data, bytes):
        raise ValueError("no bytes")
    layout = decode_numbers(data[:1])
    if layout == [WITHOUT_CHECKSUM]:
        return decode_numbers(data)
    body = data[:-CHECKSUM_BYTES]
    if layout not in ([WITHOUT_WIDTHS], [LAYOUT]) or checksum(body) != data[-CHECKSUM_BYTES:]:
        raise ValueError("another layout, or damaged")
    return decode_numbers(body)


class _Unpacker:
    def __init__(self, numbers: Iterable[int], texts: Mapping[int, str]) -> None:
        self._numbers = iter(numbers)
        self.whole = self._numbers.__next__
        self._texts = texts
        self._layout = self.whole()

    def end(self) -> None:
        """Raise ValueError unless all numbers are read."""
        with suppress(StopIteration):
            self.whole()
            raise ValueError("more than a record")

    def optional(self) -> int | None:
        return decode_optional(self.whole())

    def time(self) -> float:
        return self.whole() / TICKS

    def optional_time(self) -> float | None:
        return decode_optional_time(self.whole())

    def count(self) -> int:
        value = self.whole()
        if value < 0:
            raise ValueError("a negative count")
        return value

    def width(self, least: int) -> int:
        """How many numbers a server or a worker has, at least so many."""
        width = self.whole() if self._layout == LAYOUT else least
        if width < least:
            raise ValueError("too few numbers")
        return width

    def take(self, count: int) -> list[int]:
        """The next numbers."""
        numbers = list(islice(self._numbers, count))
        if len(numbers) < count:
            raise ValueError("too few numbers")
        return numbers

    def times_by_text(self) -> dict[str, float]:
        times: dict[str, float] = {}
        for _ in range(self.count()):
            text = self._texts.get(self.whole(), FORGOTTEN)
            times[text] = times.get(text, 0.0) + self.time()
        return times

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
        # What is not in the record is 0, which is unknown.
        server = chain(self.take(self.width(LEAST_OF_SERVER)), repeat(0))
        asked, seconds = decode_time(next(server)), decode_time(next(server))
        figures: dict[str, Any] = {
            name: tuple(islice(server, LEVELS)) if of == "occupancy" else decode(next(server))
            for of, name, decode in _SERVER
        }
        figures |= {name: self.times_by_text() for _, name, _ in _SOCKET}
        cpu, waits = self._part(_CPU), self._part(_WAITS)
        return Window(
            asked=asked,
            seconds=seconds,
            until=until,
            cpu=CpuWindow(*cpu) if cpu else None,
            waits=_waits(*waits) if waits else None,
            workers=self._workers(),
            **figures,
        )

    def _part(self, part: _Part) -> list[Any] | None:
        """The figures of what a window may lack."""
        first = self.optional_time()
        if first is None:
            return None
        return [
            first,
            *[
                self.times_by_text() if of in ("state", "backend") else decode(self.whole())
                for of, _, decode in part[1:]
            ],
        ]

    def _workers(self) -> tuple[WorkerWindow, ...]:
        count, width = self.count(), self.width(LEAST_OF_WORKER)
        numbers = self.take(count * width)
        columns = [
            map(decode, numbers[1 + place :: width]) for place, (_, _, decode) in enumerate(_WORKER[: width - 1])
        ]
        missing = [repeat(None)] * (len(_WORKER) - len(columns))
        return tuple(map(WorkerWindow, numbers[::width], *columns, *missing))

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


_Part = Sequence[tuple[Of, str, Callable[[int], Any]]]


def _decoders(part: Iterable[Quantity]) -> _Part:
    """For each figure of a part: what it is of, its name, and how a number becomes it."""
    return [(quantity.of, quantity.name, decoder_of(quantity)) for quantity in part]


_SERVER, _SOCKET, _CPU, _WAITS, _WORKER = map(_decoders, QUANTITIES)


def _waits(observed: float, disagreement: float, seconds: dict[str, float], backends: dict[str, float]) -> WaitWindow:
    known = {state: seconds[state] for state in STATES if state in seconds}
    return WaitWindow(observed, disagreement, known, backends)


@lru_cache(maxsize=64)
def _bins(threshold: float | None) -> Bins:
    if threshold is not None and threshold <= 0:
        raise ValueError("an impossible threshold")
    return Bins(() if threshold is None else (threshold,))


def _as_flag(number: int | None) -> bool | None:
    return None if number is None else bool(number)

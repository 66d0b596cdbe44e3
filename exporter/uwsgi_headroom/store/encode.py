"""Records as blobs of whole numbers.

All figures of a record are growths over its time, differences of totals, so their numbers are small: a minute of a
server with 8 workers takes some 500 bytes. Times are stored in units of 0.1 ms, expected numbers of requests in
hundredths. Texts (names of sockets, backends and routes) are stored elsewhere, and by their number here. Unknown is 0;
what can be unknown is stored plus 1, or minus 1 if it is negative. The last four bytes are a checksum (CRC-32).

Which figures there are, and in which order, is in the table of quantities (`history.totals`). How many numbers a server
or a worker has is written before them: what is missing at their end is unknown, and what is too much is left out. So a
program reads the records of those that had fewer quantities, or more.

Whole numbers as bytes: zigzag, then seven bits to a byte, least first, as in Protocol Buffers.

Encodes records as blobs: see `layout`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, TypeVar

from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, QUANTITIES, Of, Quantity
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.record import Levels, Record

LAYOUT = 3
"""The first number of a record. A change of anything below, or of the order of figures, needs another one."""

WITHOUT_CHECKSUM, WITHOUT_WIDTHS = 1, 2
"""Earlier layouts. Both lack the numbers of numbers; that of version 1.0.0 also lacks the checksum."""

LEAST_OF_SERVER, LEAST_OF_WORKER = 24, 12
"""How many numbers a server and a worker have in earlier layouts; later ones have no fewer."""

CHECKSUM_BYTES = 4

MOST_NAMES = 128
"""The most sockets, backends or routes of one record; those with the most seconds. uWSGI has a few sockets, and routes
are bounded by 50."""

TICKS = 10_000
"""Units of time in a second."""

PARTS = 100
"""Units of an expected request."""

RATIO = 1_000_000
"""Units of a whole, for objectives."""

LEVELS = len(OCCUPANCY_BOUNDS) + 1


def encode_optional(value: int | None) -> int:
    """The number for a whole number or None."""
    return 0 if value is None else value + 1 if value >= 0 else value


def decode_optional(number: int) -> int | None:
    """The whole number, or None."""
    return None if number == 0 else number - 1 if number > 0 else number


def encode_time(seconds: float) -> int:
    """The number for seconds."""
    return round(seconds * TICKS)


def decode_time(number: int) -> float:
    """The seconds."""
    return number / TICKS


def encode_optional_time(seconds: float | None) -> int:
    """The number for seconds or None."""
    if seconds is None:
        return 0
    ticks = round(seconds * TICKS)
    return ticks + 1 if ticks >= 0 else ticks


def decode_optional_time(number: int) -> float | None:
    """The seconds, or None."""
    return None if number == 0 else (number - 1) / TICKS if number > 0 else number / TICKS


def encoder_of(quantity: Quantity) -> Callable[[Any], int]:
    """How a figure becomes a number."""
    if quantity.kind == "time":
        return encode_optional_time if quantity.may_be_unknown else encode_time
    return encode_optional if quantity.may_be_unknown else int


def decoder_of(quantity: Quantity) -> Callable[[int], Any]:
    """How a number becomes the figure again."""
    if quantity.kind == "time":
        return decode_optional_time if quantity.may_be_unknown else decode_time
    return decode_optional if quantity.may_be_unknown else int


def encode_numbers(numbers: Iterable[int]) -> bytes:
    """The numbers, of any size and sign, as bytes."""
    data = bytearray()
    put = data.append
    for number in numbers:
        rest = number << 1 if number >= 0 else (-number << 1) - 1
        while rest > 127:
            put(rest & 127 | 128)
            rest >>= 7
        put(rest)
    return bytes(data)


def decode_numbers(data: bytes) -> list[int]:
    """The numbers of these bytes. Raises ValueError if the last number is not complete."""
    numbers: list[int] = []
    put = numbers.append
    number = shift = 0
    for byte in data:
        if byte > 127:
            number |= (byte & 127) << shift
            shift += 7
        else:
            number |= byte << shift
            put(number >> 1 if not number & 1 else -((number + 1) >> 1))
            number = shift = 0
    if shift:
        raise ValueError("the last number is not complete")
    return numbers


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

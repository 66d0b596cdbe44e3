"""Encodes records as blobs of whole numbers, and decodes them.

All figures of a record are growths over its time, differences of totals, so their numbers are small: a minute of a
server with 8 workers takes some 500 bytes. Unknown is 0; what can be unknown is stored plus 1, or minus 1 if it is
negative. Texts (names of sockets, backends and routes) are stored elsewhere, and by their number here. The numbers
become bytes as in Protocol Buffers: zigzag, then seven bits to a byte, least first. The last four bytes are a checksum
(CRC-32).

Which figures there are, and in which order, follows from the table of quantities (`history.totals`), for both
directions. How many numbers a server or a worker has is written before them: what is missing at their end is unknown,
and what is too much is left out. So a program reads the records of those that had fewer quantities, or more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import nlargest
from itertools import chain, islice, repeat
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, QUANTITIES, Of, Quantity
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import STATES, AdviceSeverity, SocketHolders
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS, EARLIER_BOUNDS, Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.record import MINUTES, Levels, Record

LAYOUT = 3
"""The first number of a record. A change of anything below, or of the order of figures, needs another one."""

_WITH_SOCKETS = 4
"""The layout of a record of a server whose sockets belong to some of its workers only: they stand at its end. Other
records need it not, and stay readable for earlier versions."""

_WITH_SETTINGS = 5
"""The layout of a record of a server whose settings were reviewed: what was found stands behind the sockets, which are
there in any case."""

_WITH_LIMIT = 6
"""The layout of a record of a server that something else than its resources limited: the code of that stands at its
end, behind whether there are settings, and these."""

_WITHOUT_CHECKSUM, _WITHOUT_WIDTHS = 1, 2
"""Earlier layouts. Both lack the numbers of numbers; that of version 1.0.0 also lacks the checksum."""

_LEAST_OF_SERVER, _LEAST_OF_WORKER = 24, 12
"""How many numbers a server and a worker have in earlier layouts; later ones have no fewer."""

CHECKSUM_BYTES = 4

FORGOTTEN = "(forgotten)"
"""The name of a socket, backend or route whose text is no longer kept."""

_MOST_NAMES = 128
"""The most sockets, backends or routes of one record; those with the most seconds. uWSGI has a few sockets, and routes
are bounded by 50."""


def encode_record(record: Record, number_of: Callable[[str], int]) -> bytes:
    """Encode a record. number_of: returns the number of a text."""
    writer = _Writer(number_of)
    holders, settings, limit = record.levels.socket_holders, record.levels.settings, record.levels.limited_by
    layout = _WITH_SETTINGS if settings is not None else _WITH_SOCKETS if holders else LAYOUT
    layout = _WITH_LIMIT if limit else layout
    writer.put(layout)
    writer.put(_TIME.encode(record.until))
    _write_levels(writer, record.levels)
    _write_window(writer, record.window)
    _write_response_times(writer, record.response_times)
    _write_routes(writer, record.routes)
    if layout >= _WITH_SOCKETS:
        _write_sockets(writer, holders or {})
    if limit:
        writer.put(0 if settings is None else 1)
    if settings is not None:
        _write_settings(writer, settings)
    if limit:
        writer.put(number_of(limit))
    data = encode_numbers(writer.numbers)
    return data + _checksum(data)


def decode_record(data: object, texts: Mapping[int, str]) -> Record:
    """Decode a record. texts: by number. Raises HistoryFileError if `data` is no record."""
    try:
        reader = _Reader(_check(data), texts)
        until, levels = _TIME.decode(reader.take()), _read_levels(reader)
        record = Record(
            until=until,
            window=_read_window(reader, until),
            response_times=_read_response_times(reader, levels.slo),
            routes=_read_routes(reader),
            levels=levels,
        )
        if reader.layout >= _WITH_SOCKETS:
            levels = replace(levels, socket_holders=_read_sockets(reader) or None)
        if reader.layout == _WITH_SETTINGS or (reader.layout == _WITH_LIMIT and reader.take_count()):
            levels = replace(levels, settings=_read_settings(reader))
        if reader.layout == _WITH_LIMIT:
            levels = replace(levels, limited_by=reader.texts.get(reader.take(), FORGOTTEN))
        reader.end()
        return replace(record, levels=levels)
    except (ValueError, KeyError, IndexError, StopIteration, OverflowError):
        raise HistoryFileError("a record of the history is damaged") from None


def decode_in_slot(data: object, texts: Mapping[int, str], tier: int, slot: object) -> Record:
    """Decode a record that belongs to a slot of a tier (seconds). Raises HistoryFileError, also if it does not."""
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
    if layout == [_WITHOUT_CHECKSUM]:
        return decode_numbers(data)
    body = data[:-CHECKSUM_BYTES]
    if not _WITHOUT_WIDTHS <= layout[0] <= _WITH_LIMIT or _checksum(body) != data[-CHECKSUM_BYTES:]:
        raise ValueError("another layout, or damaged")
    return decode_numbers(body)


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


# Numbers as bytes.


def encode_numbers(numbers: Iterable[int]) -> bytes:
    """Encode whole numbers of any size and sign."""
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
    """Decode whole numbers. Raises ValueError if the last one is not complete, or if one is larger than any figure."""
    numbers: list[int] = []
    put = numbers.append
    number = shift = 0
    for byte in data:
        if byte > 127:
            number |= (byte & 127) << shift
            shift += 7
            if shift > _MOST_BITS:
                raise ValueError("a number that is too large")
        else:
            number |= byte << shift
            put(number >> 1 if not number & 1 else -((number + 1) >> 1))
            number = shift = 0
    if shift:
        raise ValueError("the last number is not complete")
    return numbers


_MOST_BITS = 70
"""Bits of a number before its last byte. Every figure has fewer. Beyond, a damaged number is no float any more, and one
of a megabyte takes minutes to decode."""


# Figures as numbers.

_TICKS = 10_000
"""Units of time in a second."""

_PARTS = 100
"""Units of an expected request."""

_RATIO = 1_000_000
"""Units of a whole, for objectives."""


class _Form(NamedTuple):
    """How a figure becomes a whole number, and how the number becomes the figure again."""

    encode: Callable[[Any], int]
    decode: Callable[[int], Any]


def _encode_optional(value: int | None) -> int:
    return 0 if value is None else value + 1 if value >= 0 else value


def _decode_optional(number: int) -> int | None:
    return None if number == 0 else number - 1 if number > 0 else number


def _encode_optional_time(seconds: float | None) -> int:
    if seconds is None:
        return 0
    ticks = round(seconds * _TICKS)
    return ticks + 1 if ticks >= 0 else ticks


def _decode_optional_time(number: int) -> float | None:
    return None if number == 0 else (number - 1) / _TICKS if number > 0 else number / _TICKS


_COUNT = _Form(int, int)
_OPTIONAL = _Form(_encode_optional, _decode_optional)
_TIME = _Form(lambda seconds: round(seconds * _TICKS), lambda number: number / _TICKS)
_OPTIONAL_TIME = _Form(_encode_optional_time, _decode_optional_time)
_FLAG = _Form(_encode_optional, lambda number: bool(number - 1) if number else None)


class _Figure(NamedTuple):
    """A figure of a part of a record. of: as in `Quantity`; those of `_NAMED` are times by name."""

    name: str
    form: _Form
    of: Of | None = None


_NAMED: frozenset[Of | None] = frozenset({"socket", "state", "backend"})


def _tabulate(part: Iterable[Quantity]) -> list[_Figure]:
    """The figures of a part of the table of quantities."""
    return [_Figure(quantity.name, _form_of(quantity), quantity.of) for quantity in part]


def _form_of(quantity: Quantity) -> _Form:
    if quantity.kind == "time":
        return _OPTIONAL_TIME if quantity.may_be_unknown else _TIME
    return _OPTIONAL if quantity.may_be_unknown else _COUNT


_LEVELS = (
    _Figure("cpus", _OPTIONAL_TIME),
    _Figure("memory_available", _OPTIONAL),
    _Figure("memory_per_worker", _OPTIONAL),
    _Figure("others_follow", _FLAG),
    _Figure("thunder_lock", _FLAG),
)
_SERVER, _SOCKET, _CPU, _WAITS, _WORKER = map(_tabulate, QUANTITIES)
_SERVER[:0] = _Figure("asked", _TIME), _Figure("seconds", _TIME)
_WORKER[:0] = (_Figure("worker_id", _COUNT),)

_Name = TypeVar("_Name", bound=str)


class _Writer:
    """Collects the numbers of a record."""

    def __init__(self, number_of: Callable[[str], int]) -> None:
        self.numbers: list[int] = []
        self.put = self.numbers.append
        self.number_of = number_of

    def put_figures(self, part: Iterable[_Figure], whole: object) -> None:
        for name, form, of in part:
            if of in _NAMED:
                self.put_named(getattr(whole, name))
            else:
                self.put(form.encode(getattr(whole, name)))

    def put_named(self, times: Mapping[_Name, float]) -> None:
        if len(times) > _MOST_NAMES:
            times = {text: times[text] for text in nlargest(_MOST_NAMES, times, key=times.__getitem__)}
        self.put(len(times))
        for text, seconds in times.items():
            self.put(self.number_of(text))
            self.put(_TIME.encode(seconds))


class _Reader:
    """Takes the numbers of a record one by one."""

    def __init__(self, numbers: Iterable[int], texts: Mapping[int, str]) -> None:
        self._numbers = iter(numbers)
        self.take = self._numbers.__next__
        self.texts = texts
        self.layout = self.take()

    def end(self) -> None:
        """Raise ValueError unless all numbers are read."""
        with suppress(StopIteration):
            self.take()
            raise ValueError("more than a record")

    def take_count(self) -> int:
        value = self.take()
        if value < 0:
            raise ValueError("a negative count")
        return value

    def take_width(self, least: int) -> int:
        """How many numbers a server or a worker has, at least so many."""
        width = self.take() if self.layout >= LAYOUT else least
        if width < least:
            raise ValueError("too few numbers")
        return width

    def take_many(self, count: int) -> list[int]:
        numbers = list(islice(self._numbers, count))
        if len(numbers) < count:
            raise ValueError("too few numbers")
        return numbers

    def take_figures(self, part: Iterable[_Figure]) -> list[Any]:
        return [self.take_named() if of in _NAMED else form.decode(self.take()) for _, form, of in part]

    def take_named(self) -> dict[str, float]:
        times: dict[str, float] = {}
        for _ in range(self.take_count()):
            text = self.texts.get(self.take(), FORGOTTEN)
            times[text] = times.get(text, 0.0) + _TIME.decode(self.take())
        return times


# The sections of a record, in their order: each is written, and read as it was written.


def _write_levels(writer: _Writer, levels: Levels) -> None:
    writer.put_figures(_LEVELS, levels)
    writer.put(_OPTIONAL_TIME.encode(levels.slo.threshold if levels.slo else None))
    if levels.slo:
        writer.put(round(levels.slo.objective * _RATIO))


def _read_levels(reader: _Reader) -> Levels:
    levels = Levels(*reader.take_figures(_LEVELS))
    threshold = _OPTIONAL_TIME.decode(reader.take())
    return levels if threshold is None else replace(levels, slo=Slo(threshold, reader.take() / _RATIO))


def _write_window(writer: _Writer, window: Window) -> None:
    server: list[int] = []
    for name, form, of in _SERVER:
        server += getattr(window, name) if of == "occupancy" else (form.encode(getattr(window, name)),)
    writer.numbers += (len(server), *server)
    writer.put_figures(_SOCKET, window)
    _write_part(writer, _CPU, window.cpu)
    _write_part(writer, _WAITS, window.waits)
    writer.numbers += (len(window.workers), len(_WORKER))
    for worker in window.workers:
        writer.numbers += [form.encode(getattr(worker, name)) for name, form, _ in _WORKER]


def _read_window(reader: _Reader, until: float) -> Window:
    # What is not in the record is 0, which is unknown.
    server = chain(reader.take_many(reader.take_width(_LEAST_OF_SERVER)), repeat(0))
    figures: dict[str, Any] = {
        name: tuple(islice(server, len(OCCUPANCY_BOUNDS) + 1)) if of == "occupancy" else form.decode(next(server))
        for name, form, of in _SERVER
    }
    figures |= {name: reader.take_named() for name, _, _ in _SOCKET}
    cpu, waits = _read_part(reader, _CPU), _read_part(reader, _WAITS)
    return Window(
        until=until,
        cpu=CpuWindow(*cpu) if cpu else None,
        waits=_waits(*waits) if waits else None,
        workers=_read_workers(reader),
        **figures,
    )


def _write_part(writer: _Writer, part: Sequence[_Figure], window: object | None) -> None:
    """Write what a window may lack. Its first figure, a time, tells whether it does."""
    if window is None:
        writer.put(_OPTIONAL_TIME.encode(None))
        return
    writer.put(_OPTIONAL_TIME.encode(getattr(window, part[0].name)))
    writer.put_figures(part[1:], window)


def _read_part(reader: _Reader, part: Sequence[_Figure]) -> list[Any] | None:
    first = _OPTIONAL_TIME.decode(reader.take())
    return None if first is None else [first, *reader.take_figures(part[1:])]


def _waits(observed: float, disagreement: float, seconds: dict[str, float], backends: dict[str, float]) -> WaitWindow:
    known = {state: seconds[state] for state in STATES if state in seconds}
    return WaitWindow(observed, disagreement, known, backends)


def _read_workers(reader: _Reader) -> tuple[WorkerWindow, ...]:
    count, width = reader.take_count(), reader.take_width(_LEAST_OF_WORKER)
    numbers = reader.take_many(count * width)
    columns = [map(figure.form.decode, numbers[place::width]) for place, figure in enumerate(_WORKER[:width])]
    missing = [repeat(None)] * (len(_WORKER) - len(columns))
    return tuple(map(WorkerWindow, *columns, *missing))


def _write_response_times(writer: _Writer, window: ResponseTimeWindow | None) -> None:
    writer.put(_OPTIONAL.encode(window.requests if window else None))
    if not window:
        return
    writer.put(_TIME.encode(window.interval))
    counts = [round(count * _PARTS) for count in window.counts]
    doubt = [round(variance * _PARTS) for variance in window.doubt]
    places = [place for place, number in enumerate(counts) if number or doubt[place]] or [0]
    first, end = places[0], places[-1] + 1
    writer.numbers += (len(counts), first, end - first, *counts[first:end])
    before = 0
    for variance in doubt[first:end]:
        writer.put(variance - before)
        before = variance


def _read_response_times(reader: _Reader, slo: Slo | None) -> ResponseTimeWindow | None:
    requests = _OPTIONAL.decode(reader.take())
    if requests is None:
        return None
    interval = _TIME.decode(reader.take())
    size, first, length = reader.take(), reader.take_count(), reader.take_count()
    bins = _bins(slo.threshold if slo else None, size)
    if first + length > size:
        raise ValueError("more bins than there are")
    counts, doubt = [0.0] * size, [0.0] * size
    counts[first : first + length] = [reader.take_count() / _PARTS for _ in range(length)]
    variance = 0
    for place in range(first, first + length):
        variance += reader.take()
        if variance < 0:
            raise ValueError("a negative variance")
        doubt[place] = variance / _PARTS
    return ResponseTimeWindow(bins, interval, requests, counts, doubt)


@lru_cache(maxsize=64)
def _bins(threshold: float | None, size: int) -> Bins:
    """The bins of a record, of which it says how many there are: those of version 1.0 are fewer."""
    if threshold is not None and threshold <= 0:
        raise ValueError("an impossible threshold")
    for buckets in (BUCKET_BOUNDS, EARLIER_BOUNDS):
        bins = Bins(() if threshold is None else (threshold,), buckets)
        if len(bins) == size:
            return bins
    raise ValueError("other bins")


def _write_routes(writer: _Writer, window: RouteWindow | None) -> None:
    writer.put(_OPTIONAL_TIME.encode(window.observed_seconds if window else None))
    if window:
        writer.put_named({route: seconds for route, seconds in window.seconds.items() if seconds})


def _read_routes(reader: _Reader) -> RouteWindow | None:
    observed = _OPTIONAL_TIME.decode(reader.take())
    return None if observed is None else RouteWindow(observed, reader.take_named())


def _write_sockets(writer: _Writer, holders: SocketHolders) -> None:
    sockets = list(holders.items())[:_MOST_NAMES]
    writer.put(len(sockets))
    for socket, workers in sockets:
        writer.numbers += (writer.number_of(socket), len(workers), *workers)


def _read_sockets(reader: _Reader) -> SocketHolders:
    holders: dict[str, tuple[int, ...]] = {}
    for _ in range(reader.take_count()):
        socket = reader.texts.get(reader.take(), FORGOTTEN)
        holders[socket] = tuple(reader.take_many(reader.take_count()))
    return holders


_SEVERITIES: Sequence[AdviceSeverity] = ("info", "warning")
"""By their numbers in a record."""


def _write_settings(writer: _Writer, settings: Mapping[str, AdviceSeverity]) -> None:
    writer.put(len(settings))
    for rule, severity in settings.items():
        writer.numbers += (writer.number_of(rule), _SEVERITIES.index(severity))


def _read_settings(reader: _Reader) -> dict[str, AdviceSeverity]:
    found = [(reader.take(), reader.take_count()) for _ in range(reader.take_count())]
    return {reader.texts[rule]: _SEVERITIES[severity] for rule, severity in found if rule in reader.texts}

"""Encodes records as MessagePack in zlib, and decodes them.

The table of quantities (`history.window`) has the figures and their order. What is missing at the end of a part is
unknown, and what is too much is left out: versions read each other's records. Times are in 0.1 ms and requests in
hundredths, because small whole numbers take few bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Any

import msgspec
from msgspec import defstruct
from msgspec.structs import replace

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.counts import Of, Quantity
from uwsgi_headroom.history.response_times.bins import share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import (
    CPU,
    SERVER,
    SOCKET,
    WAITS,
    WORKER,
    CpuWindow,
    RouteWindow,
    WaitWindow,
    Window,
    WorkerWindow,
)
from uwsgi_headroom.record import STATES
from uwsgi_headroom.store.record import MINUTES, Levels, Record

MOST_NAMES = 128
"""Of a record's sockets, backends or routes: those with the most seconds. There are 50 routes at most."""

_MOST_BYTES = 4_000_000
"""Before compression: hostile records have 200 kB."""

_TICKS = 10_000
"""Units of time in a second."""

_PARTS = 100
"""Units of an expected request."""

_FORMS: Mapping[Of, Any] = {
    "occupancy": tuple[int, ...],
    "socket": dict[str, int],
    "state": dict[str, int],
    "backend": dict[str, int],
}


def _define(part: Iterable[Quantity], *before: tuple[str, type]) -> Any:
    """The form of a part. Only what may be unknown may be missing."""
    fields: list[Any] = list(before)
    for quantity in part:
        form = _FORMS.get(quantity.of, int)
        is_optional = form is int and quantity.may_be_unknown
        fields.append((quantity.name, int | None, None) if is_optional else (quantity.name, form))
    return defstruct("Stored", fields, array_like=True)


_RECORD = [
    ("until", int),
    ("asked", int),
    ("seconds", int),
    ("levels", Levels),
    ("server", _define(SERVER)),
    ("sockets", _define(SOCKET)),
    ("cpu", _define(CPU) | None),
    ("waits", _define(WAITS) | None),
    ("workers", list[_define(WORKER, ("worker_id", int))]),  # type: ignore[misc]
    ("response_times", tuple[int, int, list[int], list[int]] | None),
    ("routes", tuple[int, dict[str, int]] | None),
]
_decode = msgspec.msgpack.Decoder(defstruct("Stored", _RECORD, array_like=True)).decode


def encode_record(record: Record) -> bytes:
    """Encode a record. Raises ValueError or OverflowError for impossible figures."""
    window, times, routes, slo = record.window, record.response_times, record.routes, record.levels.slo
    parts = (
        _to_ticks(record.until),
        _to_ticks(window.asked),
        _to_ticks(window.seconds),
        replace(record.levels, slo=slo and Slo(slo.threshold, slo.objective)),
        _pack(SERVER, window),
        _pack(SOCKET, window),
        window.cpu and _pack(CPU, window.cpu),
        window.waits and _pack(WAITS, window.waits),
        [(worker.worker_id, *_pack(WORKER, worker)) for worker in window.workers],
        times and (times.requests, _to_ticks(times.interval), _to_parts(times.counts), _to_parts(times.doubt)),
        routes and (_to_ticks(routes.observed_seconds), _to_ticks(routes.seconds)),
    )
    return zlib.compress(msgspec.msgpack.encode(parts))


def decode_record(data: Any) -> Record:
    """Decode a record. Raises HistoryFileError."""
    try:
        stream = zlib.decompressobj()
        content = stream.decompress(data, _MOST_BYTES)
        if not stream.eof or stream.unused_data:
            raise ValueError("less or more than a record")
        return _unpack_record(_decode(content))
    except (zlib.error, msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError):
        raise HistoryFileError("a record of the history is damaged") from None


def decode_in_slot(data: object, tier: int, slot: object) -> Record:
    """Decode a record. Raises HistoryFileError, also if it is not of this slot of a tier (seconds)."""
    record = decode_record(data)
    # It ends within a minute after its slot, or, where an exporter ended, in it.
    minute = MINUTES.seconds
    if not isinstance(slot, int) or not -1 <= slot * tier - record.until + minute <= tier + 2 * minute:
        raise HistoryFileError("a record of the history is in the wrong place")
    return record


def _unpack_record(stored: Any) -> Record:
    levels, waits = stored.levels, stored.waits and _unpack(WAITS, stored.waits)
    if waits:
        waits["seconds"] = {state: waits["seconds"][state] for state in STATES if state in waits["seconds"]}
    window = Window(
        until=stored.until / _TICKS,
        asked=stored.asked / _TICKS,
        seconds=stored.seconds / _TICKS,
        cpu=stored.cpu and CpuWindow(**_unpack(CPU, stored.cpu)),
        waits=WaitWindow(**waits) if waits else None,
        workers=tuple([WorkerWindow(worker.worker_id, **_unpack(WORKER, worker)) for worker in stored.workers]),
        **_unpack(SERVER, stored.server),
        **_unpack(SOCKET, stored.sockets),
    )
    return Record(
        until=window.until,
        window=window,
        response_times=stored.response_times and _unpack_times(levels.slo, *stored.response_times),
        routes=stored.routes and RouteWindow(*map(_to_seconds, stored.routes)),
        levels=levels,
    )


def _unpack_times(slo: Slo | None, requests: int, interval: int, *columns: list[int]) -> ResponseTimeWindow:
    bins = share_bins((slo.threshold,) if slo else ())
    counts, doubt = ([number / _PARTS for number in column] for column in columns)
    if not len(counts) == len(doubt) == len(bins) or min(*counts, *doubt) < 0:
        raise ValueError("impossible numbers of requests")
    return ResponseTimeWindow(bins, interval / _TICKS, requests, counts, doubt)


# Figures as numbers.


def _pack(part: Iterable[Quantity], whole: object) -> list[Any]:
    figures = [(quantity.kind, getattr(whole, quantity.name)) for quantity in part]
    return [_to_ticks(value) if kind == "time" else value for kind, value in figures]


def _unpack(part: Iterable[Quantity], stored: object) -> dict[str, Any]:
    figures = [(quantity.name, quantity.kind, getattr(stored, quantity.name)) for quantity in part]
    return {name: _to_seconds(value) if kind == "time" else value for name, kind, value in figures}


def _to_ticks(seconds: Any) -> Any:
    """A time, or times by name, in whole units; unknown ones stay so."""
    if isinstance(seconds, Mapping):
        names = nlargest(MOST_NAMES, seconds, key=seconds.__getitem__) if len(seconds) > MOST_NAMES else seconds
        return {name: round(seconds[name] * _TICKS) for name in names}
    return None if seconds is None else round(seconds * _TICKS)


def _to_seconds(ticks: Any) -> Any:
    if isinstance(ticks, dict):
        return {name: number / _TICKS for name, number in ticks.items()}
    return None if ticks is None else ticks / _TICKS


def _to_parts(numbers: Iterable[float]) -> list[int]:
    return [round(number * _PARTS) for number in numbers]

"""Decodes the records of version 1.0.0, which `writer` encodes anew.

They are whole numbers as in Protocol Buffers: zigzag, then seven bits to a byte, least first. The first is the layout;
the others have the order and the units of `codec`. What can be unknown is stored plus 1, or minus 1 if it is negative,
and 0 is unknown. Texts are stored elsewhere, by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, Quantity
from uwsgi_headroom.history.response_times.bins import EARLIER_BOUNDS, Bins, share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import CPU, SERVER, SOCKET, WAITS, WORKER
from uwsgi_headroom.store.record import Levels, rebin

_SERVER, _WORKER = SERVER[:11], WORKER[:11]
"""The figures that version 1.0.0 had; the others are unknown."""

_ROUTES = WAITS[0], WAITS[-1]
"""As of waits: a time, and times by name."""

_MOST_BINS = 1000

_MOST_BITS = 70
"""Of a number. A damaged one of a megabyte would take minutes."""


def is_earlier(data: bytes) -> bool:
    return data.startswith(b"\x02")


def decode_earlier(data: bytes, texts: Mapping[int, str]) -> tuple[Any, ...]:
    """The parts of a record, as `codec` encodes them. Raises ValueError or LookupError."""
    numbers = _Numbers(_decode_numbers(data)[:0:-1], texts)
    until, levels = numbers.take(), _take_levels(numbers)
    parts = (
        *(until, numbers.take(), numbers.take(), levels),
        numbers.take_figures(_SERVER),
        numbers.take_figures(SOCKET),
        numbers.take_optional(CPU),
        numbers.take_optional(WAITS),
        [[numbers.take(), *numbers.take_figures(_WORKER)] for _ in range(numbers.take())],
        _take_response_times(numbers, levels.slo),
        numbers.take_optional(_ROUTES),
    )
    if numbers.left:
        raise ValueError("more than a record")
    return parts


def _decode_numbers(data: bytes) -> list[int]:
    numbers = []
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number that is too large")
        if byte < 128:
            numbers.append(number >> 1 if not number & 1 else -((number + 1) >> 1))
            number = shift = 0
    return numbers


class _Numbers:
    """The numbers of a record, taken one by one. left: the others, the last one first."""

    def __init__(self, left: list[int], texts: Mapping[int, str]) -> None:
        self.left = left
        self.take: Callable[[], int] = left.pop
        self._texts = texts

    def take_known(self) -> int | None:
        number = self.take()
        return None if number == 0 else number - 1 if number > 0 else number

    def take_figures(self, part: Iterable[Quantity]) -> list[Any]:
        return [self._take_figure(quantity) for quantity in part]

    def take_optional(self, part: Sequence[Quantity]) -> list[Any] | None:
        """Take what a record may lack; its first figure tells whether it does."""
        known = self.take_known()
        return None if known is None else [known, *self.take_figures(part[1:])]

    def _take_figure(self, quantity: Quantity) -> Any:
        if quantity.of in ("socket", "state", "backend"):
            return {self._texts.get(self.take(), "(forgotten)"): self.take() for _ in range(self.take())}
        if quantity.of == "occupancy":
            return [self.take() for _ in range(len(OCCUPANCY_BOUNDS) + 1)]
        return self.take_known() if quantity.may_be_unknown else self.take()


def _take_levels(numbers: _Numbers) -> Levels:
    cpus, available, per_worker, *flags = [numbers.take_known() for _ in range(5)]
    others_follow, thunder_lock = [None if flag is None else bool(flag) for flag in flags]
    threshold = numbers.take_known()
    slo = None if threshold is None else Slo(threshold / 10_000, numbers.take() / 1_000_000)
    return Levels(None if cpus is None else cpus / 10_000, available, per_worker, others_follow, thunder_lock, slo)


def _take_response_times(numbers: _Numbers, slo: Slo | None) -> tuple[Any, ...] | None:
    requests = numbers.take_known()
    if requests is None:
        return None
    interval, size, first, length = [numbers.take() for _ in range(4)]
    if not 0 <= first <= first + length <= size <= _MOST_BINS:
        raise ValueError("impossible bins")
    bounds = (slo.threshold,) if slo else ()
    below, above = [0] * first, [0] * (size - first - length)
    counts = below + [numbers.take() for _ in range(length)] + above
    doubt = below + list(accumulate([numbers.take() for _ in range(length)])) + above
    earlier = ResponseTimeWindow(_share_bins(bounds), interval, requests, counts, doubt)
    now = rebin(earlier, share_bins(bounds))
    return requests, interval, list(map(round, now.counts)), list(map(round, now.doubt))


@lru_cache(maxsize=64)
def _share_bins(bounds: tuple[float, ...]) -> Bins:
    return Bins(bounds, EARLIER_BOUNDS)

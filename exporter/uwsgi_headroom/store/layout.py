"""Records as blobs of whole numbers.

All figures of a record are growths over its time, differences of totals, so their numbers are small: a minute of a
server with 8 workers takes some 500 bytes. Times are stored in units of 0.1 ms, expected numbers of requests in
hundredths. Texts (names of sockets, backends and routes) are stored elsewhere, and by their number here. Unknown is 0;
what can be unknown is stored plus 1, or minus 1 if it is negative. The last four bytes are a checksum (CRC-32).

Which figures there are, and in which order, is in the table of quantities (`history.totals`). How many numbers a server
or a worker has is written before them: what is missing at their end is unknown, and what is too much is left out. So a
program reads the records of those that had fewer quantities, or more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, Quantity

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

"""Finds the line of an instruction in the tables that CPython keeps with a function's code.

There are three formats: pairs of bytes up to 3.9 (`co_lnotab`) and in 3.10 (PEP 626), and entries of several bytes
from 3.11 on (Objects/locations.md in CPython's source). A table may be torn or of a hostile process: any bytes give a
number.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.kernel.stacks.layout import Version

_NO_LINE, _LONG, _NO_COLUMNS = 15, 14, 13
_ONE_LINE = range(10, 13)
_NO_LINE_3_10 = -128
_MOST_LINE = 0x7FFFFFFF  # CPython's own


def find_line(version: Version, table: bytes, first: int, offset: int) -> int:
    """The line of an instruction; `first`, that of the function, where the table has none. offset: of the instruction
    in the code, in bytes."""
    line: int | None = first
    for start, end, here in _RANGES.get(version, _list_entries)(table, first):
        if start <= offset < end:
            line = here
            break
        if end > offset:
            break
    return line if line is not None and 0 < line <= _MOST_LINE else first


def _list_pairs(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """The ranges of instructions, with their line, of a table of 3.9."""
    start, line = 0, first
    for step, change in zip(table[::2], table[1::2]):  # noqa: B905 - an odd byte at the end is torn
        if step:
            yield start, start + step, line
        start += step
        line += _signed(change)
    yield start, 1 << 62, line


def _list_pairs_3_10(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    start, line = 0, first
    for step, change in zip(table[::2], table[1::2]):  # noqa: B905 - as above
        has_line = _signed(change) != _NO_LINE_3_10
        line += _signed(change) if has_line else 0
        yield start, start + step, line if has_line else None
        start += step


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _list_entries(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """The same of a table of 3.11 and later: the first byte of each entry, and only that, has its highest bit set."""
    start, line, place = 0, first, 0
    while place < len(table):
        kind, units = table[place] >> 3 & 15, (table[place] & 7) + 1
        place += 1
        if kind in (_LONG, _NO_COLUMNS):
            line += _read_signed(table, place)
        elif kind in _ONE_LINE:
            line += kind - _ONE_LINE.start
        yield start, start + 2 * units, None if kind == _NO_LINE else line
        start += 2 * units
        while place < len(table) and not table[place] & 0x80:
            place += 1


def _read_signed(table: bytes, place: int) -> int:
    """A number in groups of six bits, the least significant one first; 0x40 says that another group follows, and the
    lowest bit of the number is its sign."""
    value = 0
    for position, byte in enumerate(table[place : place + 6]):
        value |= (byte & 0x3F) << 6 * position
        if not byte & 0x40:
            break
    return -(value >> 1) if value & 1 else value >> 1


_RANGES = {(3, 9): _list_pairs, (3, 10): _list_pairs_3_10}

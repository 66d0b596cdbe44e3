"""Finds exported symbols in an ELF file: just as much of the format as that takes.

Layouts are those of elf(5). The file belongs to the watched process, so its content is not trusted: every size is
bounded, and an odd one raises ValueError.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

_ehdr = struct.Struct("<16sHHIQQQIHHHHHH")
_phdr = struct.Struct("<IIQQQQQQ")  # type, flags, offset, virtual address, physical address, file size, memory size
_shdr = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_sym = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size

PT_LOAD, SHT_DYNSYM = 1, 11
ELFCLASS64, ELFDATA2LSB = 2, 1

_MOST_HEADERS = 256
_MOST_BYTES = 1 << 20  # of one table; those of libpython take 0.2 MB
_MOST_NAMES = 256  # places of one name in the table of names: it may also be the end of longer names


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the file that is mapped: its place in the file, its size there, and its virtual address."""

    offset: int
    size: int
    address: int


@dataclass(frozen=True, slots=True)
class Elf:
    """What is known of an ELF file. is_64_bit: whether it is for a 64-bit little-endian machine; without that, nothing
    else is known. symbols: virtual address and size, by name."""

    is_64_bit: bool
    segments: tuple[Segment, ...] = ()
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def read_elf(path: str, names: Collection[str]) -> Elf:
    """Read the segments and the named dynamic symbols of a file. Raises OSError, or ValueError if it is not ELF."""
    descriptor = _open_regular(path)
    try:
        return _read(descriptor, names)
    except struct.error as error:
        raise ValueError(str(error)) from None
    finally:
        os.close(descriptor)


def _open_regular(path: str) -> int:
    """Open a file for reading. A FIFO or a device that has taken its place is not opened: the first would block, and
    opening a device may change its state. Raises OSError, or ValueError if the file is not a regular one."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise ValueError("not a regular file")
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(found)


def _read(descriptor: int, names: Collection[str]) -> Elf:
    header = _pread(descriptor, 0, _ehdr.size)
    if header[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    if header[4] != ELFCLASS64 or header[5] != ELFDATA2LSB:
        return Elf(False)
    _, _, _, _, _, phoff, shoff, _, _, _, phnum, _, shnum, _ = _ehdr.unpack(header)
    programs = _table(descriptor, _phdr, phoff, phnum)
    sections = _table(descriptor, _shdr, shoff, shnum)
    return Elf(
        True,
        tuple(Segment(row[2], row[5], row[3]) for row in programs if row[0] == PT_LOAD),
        _find_symbols(descriptor, sections, names),
    )


def _table(descriptor: int, row: struct.Struct, offset: int, number: int) -> list[tuple[int, ...]]:
    if number > _MOST_HEADERS:
        raise ValueError("too many headers")
    return list(row.iter_unpack(_pread(descriptor, offset, number * row.size)))


def _find_symbols(
    descriptor: int, sections: list[tuple[int, ...]], names: Collection[str]
) -> dict[str, tuple[int, int]]:
    """The named symbols in the table of dynamic symbols; a file has one at most."""
    table = next((row for row in sections if row[1] == SHT_DYNSYM and row[6] < len(sections)), None)
    if table is None or not names:
        return {}
    strings = _pread(descriptor, sections[table[6]][4], sections[table[6]][5])
    symbols = _pread(descriptor, table[4], table[5] - table[5] % _sym.size)
    places = {place: name for name in names for place in _find_name(strings, name)}
    found: dict[str, tuple[int, int]] = {}
    for row, place in enumerate(memoryview(symbols).cast("I")[:: _sym.size // 4].tolist()):
        if place in places:
            _, _, _, section, value, size = _sym.unpack_from(symbols, row * _sym.size)
            if section and size:  # defined here, not imported
                found[places[place]] = value, size
    return found


def _find_name(strings: bytes, name: str) -> Iterator[int]:
    ends = re.finditer(re.escape(name.encode()) + b"\0", strings)
    return (match.start() for match in islice(ends, _MOST_NAMES))


def _pread(descriptor: int, offset: int, size: int) -> bytes:
    if size > _MOST_BYTES or offset > 1 << 40:
        raise ValueError("a table is too large")
    data = os.pread(descriptor, size, offset)
    if len(data) != size:
        raise ValueError("the file is too short")
    return data

"""Finds exported symbols in an ELF file: just as much of the format as that takes.

Layouts are those of elf(5). The file belongs to the watched process, so its content is not trusted: every size is
bounded, and an odd one raises ValueError.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

_ehdr = struct.Struct("<16sHHIQQQIHHHHHH")
_phdr = struct.Struct("<IIQQQQQQ")  # type, flags, offset, virtual address, physical address, file size, memory size
_shdr = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_sym = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size

PT_LOAD, SHT_DYNSYM = 1, 11
ELFCLASS64, ELFDATA2LSB = 2, 1

_MOST_HEADERS = 256
_MOST_BYTES = 8 << 20  # of one table; those of libpython take 0.2 MB


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
    # Without O_NONBLOCK, opening a FIFO that took the file's place would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        return _read(descriptor, names)
    except struct.error as error:
        raise ValueError(str(error)) from None
    finally:
        os.close(descriptor)


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
        _find_symbols(descriptor, sections, {name.encode() for name in names}),
    )


def _table(descriptor: int, row: struct.Struct, offset: int, number: int) -> list[tuple[int, ...]]:
    if number > _MOST_HEADERS:
        raise ValueError("too many headers")
    return list(row.iter_unpack(_pread(descriptor, offset, number * row.size)))


def _find_symbols(
    descriptor: int, sections: list[tuple[int, ...]], names: Collection[bytes]
) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != SHT_DYNSYM or link >= len(sections):
            continue
        strings = _pread(descriptor, sections[link][4], sections[link][5])
        for at, _, _, section, value, length in _sym.iter_unpack(_pread(descriptor, offset, size - size % _sym.size)):
            if not section or not length:
                continue  # imported, not defined here
            for name in names:
                if strings.startswith(name + b"\0", at):
                    found[name.decode()] = value, length
    return found


def _pread(descriptor: int, offset: int, size: int) -> bytes:
    if size > _MOST_BYTES or offset > 1 << 40:
        raise ValueError("a table is too large")
    data = os.pread(descriptor, size, offset)
    if len(data) != size:
        raise ValueError("the file is too short")
    return data

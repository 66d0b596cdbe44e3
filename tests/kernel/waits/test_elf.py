"""Reading symbols from ELF files: real ones, a tiny one, and bytes that a hostile process could put in its place."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.real_uwsgi import uwsgi_binary
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.memory import Elf, Segment, read_elf

NAMES = ("uwsgi", "_PyRuntime")

STRINGS = b"\0libuwsgi\0_PyRuntime\0printf\0"
"""`uwsgi` has no string of its own: a linker uses the end of a longer one."""

PLACES = {name: STRINGS.index(name.encode() + b"\0") for name in ("uwsgi", "_PyRuntime", "printf")}


def tiny(*, string_size: int | None = None, symbol_size: int | None = None, headers: int = 3, link: int = 1) -> bytes:
    """An ELF file with one segment, a table of names and three symbols: `uwsgi`, `_PyRuntime` and one that is only
    imported."""
    symbols = b"".join(
        struct.pack("<IBBHQQ", PLACES[name], 0x11, 0, section, value, size)
        for name, section, value, size in (
            ("printf", 0, 0, 0),
            ("uwsgi", 5, 0x4000, 0x2B88),
            ("_PyRuntime", 5, 0x8000, 0x28B20),
        )
    )
    segments = struct.pack("<IIQQQQQQ", 1, 6, 0x1000, 0x2000, 0x2000, 0x3000, 0x3000, 0x1000)
    at_strings = 64 + len(segments)
    at_symbols = at_strings + len(STRINGS)
    at_sections = at_symbols + len(symbols)
    sections = [
        bytes(64),
        _section(3, at_strings, len(STRINGS) if string_size is None else string_size, 0),
        _section(11, at_symbols, len(symbols) if symbol_size is None else symbol_size, link),
    ]
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, at_sections, 0, 64, 56, 1, 64, headers, 0
    )
    return header + segments + STRINGS + symbols + b"".join(sections)


def _section(kind: int, offset: int, size: int, link: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 8, 24)


def read(path: Path, content: bytes) -> Elf:
    path.write_bytes(content)
    return read_elf(str(path), NAMES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_uwsgi_exports_its_global() -> None:
    """The symbol that identifies uWSGI's own mutex is in the real program."""
    found = read_elf(uwsgi_binary(), NAMES)
    assert found.is_64_bit
    assert found.symbols["uwsgi"][1] > 5000
    assert found.segments


def test_the_running_interpreter_exports_its_runtime() -> None:
    """CPython's global state is found in the program or in the library that runs this test."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "python" in os.path.basename(line.split()[-1])}
    libraries = [file for file in files if os.path.isfile(file) and "cpython" not in file]
    assert any("_PyRuntime" in read_elf(file, NAMES).symbols for file in libraries)


def test_tiny_file(path: Path) -> None:
    """Segments and symbols are read; an imported symbol is none of the file's."""
    found = read(path, tiny())
    assert found == Elf(
        True, (Segment(0x1000, 0x3000, 0x2000, 0x3000),), {"uwsgi": (0x4000, 0x2B88), "_PyRuntime": (0x8000, 0x28B20)}
    )
    assert read_elf(str(path), ("printf",)).symbols == {}


def test_every_truncation_is_refused(path: Path) -> None:
    """A file cut off anywhere is an error of two kinds, never a crash."""
    whole = tiny()
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"."):
            read(path, whole[:length])


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 1 << 21])
def test_tables_larger_than_any_are_not_read(path: Path, size: int) -> None:
    """The sizes in the file are bounded before anything is allocated."""
    for content in (tiny(string_size=size), tiny(symbol_size=size)):
        with pytest.raises(ValueError, match="too large"):
            read(path, content)


def test_odd_headers(path: Path) -> None:
    """Many section headers are refused; a link to no section leaves the symbols unknown."""
    with pytest.raises(ValueError, match="too many headers"):
        read(path, tiny(headers=257))
    assert read(path, tiny(link=3)).symbols == {}
    assert read(path, tiny(headers=0)).symbols == {}


def test_other_machines_and_other_files(path: Path) -> None:
    """Of a 32-bit or big-endian program only that is known; anything else is no ELF file."""
    for place in (4, 5):
        other = bytearray(tiny())
        other[place] = 1 if place == 4 else 2
        assert read(path, bytes(other)) == Elf(False)
    for content in (b"", b"#!/bin/sh\n" + bytes(100), b"\x7fELF"):
        with pytest.raises(ValueError, match=r"."):
            read(path, content)


def test_a_hundred_thousand_candidate_names(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is full of one name costs no more than its first places."""
    monkeypatch.setattr(memory, "_MOST_NAMES", 3)
    assert list(memory._find_name(b"uwsgi\0" * 100_000, "uwsgi")) == [0, 6, 12]


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A FIFO would block, and opening a device can change its state: neither is opened, nor through a link."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    link = tmp_path / "link"
    link.symlink_to("/dev/tty")
    for path in (fifo, link, Path("/dev/null"), tmp_path):
        with pytest.raises(ValueError, match="not a regular file"):
            read_elf(str(path), NAMES)
    writer = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # a reader that had opened it would have left no trace otherwise
    os.close(writer)
    with pytest.raises(FileNotFoundError):
        read_elf(str(tmp_path / "none"), NAMES)


def test_no_descriptor_is_left_open(path: Path) -> None:
    """Failed and successful reads close what they opened."""
    before = len(os.listdir("/proc/self/fd"))
    for content in (tiny(), b"", tiny()[:100]):
        path.write_bytes(content)
        try:
            read_elf(str(path), NAMES)
        except ValueError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


@given(
    changes=st.lists(st.tuples(st.integers(0, len(tiny()) - 1), st.integers(0, 255)), max_size=20), seed=st.integers()
)
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], seed: int) -> None:
    """Whatever bytes the file has, reading it succeeds or raises OSError or ValueError."""
    content = bytearray(tiny())
    for place, value in changes:
        content[place] = value
    path = tmp_path_factory.getbasetemp() / f"damaged{os.getpid()}"
    for damaged in (bytes(content), b"\x7fELF\2\1" + random.Random(seed).randbytes(300)):
        path.write_bytes(damaged)
        try:
            found = read_elf(str(path), NAMES)
        except (OSError, ValueError):
            continue
        assert set(found.symbols) <= set(NAMES)

"""Another process's memory: reading it, its map, and the symbols of its ELF files; texts may be hostile."""

import ctypes
import errno
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import uwsgi_binary
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.descriptors import Polled, decode_polled
from uwsgi_headroom.kernel.waits.memory import (
    Elf,
    MemoryMap,
    RefusedToReadError,
    Segment,
    parse_mappings,
    read_elf,
    read_generation,
    read_memory_map,
    read_pieces,
)

PID = os.getpid()
BYTES = ctypes.create_string_buffer(b"0123456789abcdef")
PLACE = ctypes.addressof(BYTES)


@pytest.mark.parametrize("address", [0, 8, 2**63, 2**64 - 8])
def test_addresses_without_memory(address):
    """Pieces are read at once, in their order. One that is not there is left out, and those behind it are read."""
    assert read_pieces(PID, [(PLACE, 4), (PLACE + 8, 2)]) == [b"0123", b"89"]
    assert read_pieces(PID, []) == []
    assert read_pieces(PID, [(PLACE, 2), (address, 8), (PLACE + 2, 2)])[:2] == [b"01", None]
    if address < 2**63:
        assert read_pieces(PID, [(address, 8), (PLACE + 2, 2)]) == [None, b"23"]


@as_root
def test_without_the_right_it_is_refused():
    def ask() -> bool:
        try:
            read_pieces(PID, [(PLACE, 2)])
        except RefusedToReadError:
            return True
        return False

    assert as_nobody(ask)


def test_a_filter_of_system_calls(monkeypatch):
    """It answers with EPERM, also for a process of the same user."""
    ctypes.set_errno(errno.EPERM)

    class Libc:
        @staticmethod
        def process_vm_readv(*_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(memory, "_LIBC", Libc)
    with pytest.raises(RefusedToReadError):
        read_pieces(PID, [(PLACE, 2)])


def test_entries_of_an_array():
    """Negative descriptors do not count; a connection is waited for by writing alone."""
    entries = [(3, 1), (-1, 1), (4, 4), (5, 5), (6, 0xFFFC)]
    array = b"".join(struct.pack("=iHH", descriptor, events, 0) for descriptor, events in entries)
    polled = [Polled(3, False), Polled(4, True), Polled(5, False), Polled(6, True)]
    assert decode_polled(array, 5) == (polled, None)
    assert decode_polled(array + struct.pack("=qq", 4, 20_000_000), 5) == (polled, 4020)


LIBRARY = "/usr/lib/libpython3.11.so.1.0"

TEXT = b"""\
555555554000-555555556000 r-xp 00000000 fe:01 11 /usr/bin/uwsgi
555555556000-555555558000 rw-p 00002000 fe:01 11 /usr/bin/uwsgi
555555558000-55555555a000 rw-p 00000000 00:00 0 \n\
55555555a000-555555600000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
7f1000000000-7f1000100000 r--p 00000000 fe:01 12 /usr/lib/libpython3.11.so.1.0
7f1000100000-7f1000200000 rw-p 00100000 fe:01 12 /usr/lib/libpython3.11.so.1.0
7f1000200000-7f1000240000 rw-p 00000000 00:00 0 \n\
7f1000300000-7f1000301000 rw-s 00000000 00:01 13 /dev/zero (deleted)
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
"""


def made_of(text: bytes, known: tuple[tuple[int, int, memory.Region], ...] = ()) -> MemoryMap:
    return MemoryMap(True, known, tuple(sorted(memory._find_images(os.getpid(), list(parse_mappings(text))))))


def test_regions_of_a_map():
    """Data of programs and libraries, zero-initialized data right behind it included, is not heap or stack."""
    memory = made_of(TEXT, ((0x7F1000120000, 0x7F1000130000, "python"),))
    expected = {
        0x555555557000: "image",
        0x555555559000: "image",  # zero-initialized
        0x55555555B000: "heap",
        0x7F0000000010: "heap",
        0x7F1000120000: "python",
        0x7F100012FFFF: "python",
        0x7F1000130000: "image",
        0x7F1000210000: "image",
        0x7F1000240000: "heap",
        0x7FFFFFFDE000: "heap",
        0: "heap",
        2**64 - 1: "heap",
    }
    assert {address: memory.region(address) for address in expected} == expected
    assert memory.has_python


def test_memory_of_allocators_right_behind_a_file():
    """Only what the program's file says is zero-initialized data; the rest, and all behind other files, is heap."""
    segments = read_elf(uwsgi_binary(), ()).segments
    last = max(segments, key=lambda each: each.address)
    start = 0x7F2000000000
    end = start + (last.address + last.size + 0xFFF & ~0xFFF)
    zeroed = start + last.address + last.size_in_memory
    stack, other = end + (9 << 20), 0x7F3000001000
    text = (
        f"{start:x}-{end:x} rw-p 00000000 fe:01 11 {uwsgi_binary()}\n"
        f"{end:x}-{end + (1 << 20):x} rw-p 00000000 00:00 0 \n"
        f"{end + (1 << 20):x}-{end + (1 << 20) + 4096:x} ---p 00000000 00:00 0 \n"
        f"{end + (1 << 20) + 4096:x}-{stack:x} rw-p 00000000 00:00 0 \n"
        f"{other - 4096:x}-{other:x} r--p 00000000 fe:01 12 {__file__}\n"
        f"{other:x}-{other + (1 << 20):x} rw-p 00000000 00:00 0 \n"
    )
    region = made_of(text.encode()).region
    assert zeroed > end
    assert [region(each) for each in (end, zeroed - 1, zeroed, stack - 8)] == ["image", "image", "heap", "heap"]
    assert region(other) == "heap"


def test_symbols_are_located_by_the_segment_that_is_mapped():
    elf = Elf(True, (Segment(0x100000, 0x1000, 0x300000, 0x1000),), {"_PyRuntime": (0x300100, 0x50)})
    mappings = [mapping for mapping in parse_mappings(TEXT) if mapping.path == LIBRARY]
    assert list(memory._locate(elf, mappings)) == [(0x7F1000100100, 0x7F1000100150, "python")]
    assert list(memory._locate(elf, [])) == []


def test_extension_modules_do_not_hide_the_interpreter():
    lines = [
        f"7e00000{number:02x}000-7e00000{number:02x}fff r--p 0 0:0 1 /lib/_m{number}.cpython-311.so"
        for number in range(99)
    ]
    lines += ["7e1000000000-7e1000001000 r--p 0 0:0 1 /lib/pyuwsgi.cpython-311-x86_64-linux-gnu.so"]
    mappings = list(parse_mappings("\n".join(lines).encode() + b"\n" + TEXT))
    assert memory.paths_to_search(mappings, "/usr/bin/uwsgi") == [
        "/lib/pyuwsgi.cpython-311-x86_64-linux-gnu.so",
        LIBRARY,
    ]


HOSTILE = (b"", b"/", b"zz-7f00 rw-p 0 0:0 1 /x", b"7f00 rw-p 0 0:0 1 /x", b"- - - - - /")


@pytest.mark.parametrize(
    "line", [*HOSTILE, b"7f00-7f01 rw-p 0 0:0 1 /a\x0b7f00\xe2\x80\xa8\xff\x85b", b"1" * 5000 + b"-1 rw-p 0 0:0 1 /x"]
)
def test_hostile_lines_do_no_harm(line):
    assert LIBRARY in {mapping.path for mapping in parse_mappings(line + b"\n" + TEXT)}


def test_own_map():
    """The map of this very process: an object of Python is on the heap, the runtime where the loader says."""
    memory = read_memory_map(os.getpid())
    assert memory.is_64_bit
    assert memory.has_python
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    assert memory.region(runtime) == "python"
    assert memory.region(id(object())) == "heap"


def test_a_map_without_a_file_that_may_be_read_later_is_none(monkeypatch):
    """It is kept until uWSGI starts again, without the locks of that file."""
    monkeypatch.setattr(memory, "read_elf", lambda *_: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many")))
    with pytest.raises(OSError, match="too many"):
        read_memory_map(os.getpid())


def test_of_a_library_that_may_not_be_read_nothing_is_known(monkeypatch):
    located, read = [], memory.read_elf

    def refuse(path, names):
        if path.endswith("/library"):
            raise PermissionError
        return read(path, names)

    monkeypatch.setattr(memory, "paths_to_search", lambda *_: ["/library"])
    monkeypatch.setattr(memory, "read_elf", refuse)
    monkeypatch.setattr(memory, "_locate", lambda _, mappings: located.append(mappings) or ())
    assert read_memory_map(os.getpid()).is_64_bit
    assert len(located) == 1


def test_large_map_is_not_read_but_leaves_the_word_size(monkeypatch):
    monkeypatch.setattr(memory, "_MOST_MAP_BYTES", 1000)
    known = read_memory_map(os.getpid())
    assert known.is_64_bit
    assert known.images == ()


def test_forty_thousand_lines_of_anonymous_memory():
    """Anonymous memory that belongs to no file is not parsed line by line."""
    anonymous = b"".join(b"7e%010x-7e%010x rw-p 00000000 00:00 0 \n" % (2 * at, 2 * at + 1) for at in range(40_000))
    assert len(list(parse_mappings(anonymous + TEXT))) == len(list(parse_mappings(TEXT)))


def test_replaced_program(tmp_path):
    """A program that was deleted is read all the same; a library in whose place a FIFO is now, is not."""
    program = tmp_path / "python-copy"
    program.write_bytes(Path(os.path.realpath(sys.executable)).read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1) as process:
        process.stdout.readline()
        program.unlink()
        os.mkfifo(f"{program} (deleted)")
        memory = read_memory_map(process.pid)
        process.stdin.close()
    assert memory.is_64_bit
    assert memory.has_python


def test_generation():
    """Forks share the generation; a process that has ended has none, and no memory."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # now a zombie, which has no memory
    with pytest.raises(ProcessLookupError):
        read_generation(pid)
    os.waitpid(pid, 0)
    with pytest.raises(FileNotFoundError):
        read_generation(pid)
    assert read_pieces(pid, [(PLACE, 2)]) == [None]
    assert read_generation(os.getpid())[0] > 1


NAMES = ("uwsgi", "_PyRuntime")

STRINGS = b"\0libuwsgi\0_PyRuntime\0printf\0"
"""`uwsgi` has no string of its own: a linker uses the end of a longer one."""

PLACES = {name: STRINGS.index(name.encode() + b"\0") for name in ("uwsgi", "_PyRuntime", "printf")}


def tiny(*, string_size: int | None = None, symbol_size: int | None = None, headers: int = 3, link: int = 1) -> bytes:
    """An ELF file with one segment and three symbols: `uwsgi`, `_PyRuntime` and one that is only imported."""
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
def path(tmp_path):
    return tmp_path / "file"


def test_uwsgi_exports_its_global():
    found = read_elf(uwsgi_binary(), NAMES)
    assert found.is_64_bit
    assert found.symbols["uwsgi"][1] > 5000
    assert found.segments


def test_tiny_file(path):
    before = len(os.listdir("/proc/self/fd"))
    found = read(path, tiny())
    assert found == Elf(
        True, (Segment(0x1000, 0x3000, 0x2000, 0x3000),), {"uwsgi": (0x4000, 0x2B88), "_PyRuntime": (0x8000, 0x28B20)}
    )
    assert read_elf(str(path), ("printf",)).symbols == {}
    assert len(os.listdir("/proc/self/fd")) == before


def test_every_truncation_is_refused(path):
    whole, before = tiny(), len(os.listdir("/proc/self/fd"))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"."):
            read(path, whole[:length])
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 1 << 21])
def test_tables_larger_than_any_are_not_read(path, size):
    for content in (tiny(string_size=size), tiny(symbol_size=size)):
        with pytest.raises(ValueError, match="too large"):
            read(path, content)


def test_odd_headers(path):
    """Many section headers are refused; a link to no section leaves the symbols unknown."""
    with pytest.raises(ValueError, match="too many headers"):
        read(path, tiny(headers=257))
    assert read(path, tiny(link=3)).symbols == {}
    assert read(path, tiny(headers=0)).symbols == {}


def test_other_machines_and_other_files(path):
    """Of a 32-bit or big-endian program only that is known; anything else is no ELF file."""
    for place in (4, 5):
        other = bytearray(tiny())
        other[place] = 1 if place == 4 else 2
        assert read(path, bytes(other)) == Elf(False)
    for content in (b"", b"#!/bin/sh\n" + bytes(100), b"\x7fELF"):
        with pytest.raises(ValueError, match=r"."):
            read(path, content)


def test_of_a_hundred_thousand_candidate_names_the_first_are_read(path, monkeypatch):
    monkeypatch.setattr(memory, "_MOST_NAMES", 3)
    assert list(memory._find_name(b"uwsgi\0" * 100_000, "uwsgi")) == [0, 6, 12]


def test_only_regular_files_are_opened(tmp_path):
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


@given(
    changes=st.lists(st.tuples(st.integers(0, len(tiny()) - 1), st.integers(0, 255)), max_size=20), seed=st.integers()
)
def test_damaged_files(tmp_path_factory, changes, seed):
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

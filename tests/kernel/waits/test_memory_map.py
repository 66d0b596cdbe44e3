"""Memory maps: of this process, of real uWSGI, and texts that a hostile process could have."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.real_uwsgi import uwsgi_binary
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.memory import (
    Elf,
    MemoryMap,
    Segment,
    parse_mappings,
    read_elf,
    read_generation,
    read_memory_map,
)

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


def test_regions_of_a_map() -> None:
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


def test_memory_of_allocators_right_behind_a_file() -> None:
    """Of the memory right behind a program, what its file says is zero-initialized data. Thread stacks, and the memory
    of allocators that the kernel has joined to it, are heap; so is all behind a file that is no program."""
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


def test_symbols_are_located_by_the_segment_that_is_mapped() -> None:
    """A symbol's address is that of the file, moved by where its first mapped segment lies."""
    elf = Elf(True, (Segment(0x100000, 0x1000, 0x300000, 0x1000),), {"_PyRuntime": (0x300100, 0x50)})
    mappings = [mapping for mapping in parse_mappings(TEXT) if mapping.path == LIBRARY]
    assert list(memory._locate(elf, mappings)) == [(0x7F1000100100, 0x7F1000100150, "python")]
    assert list(memory._locate(elf, [])) == []


def test_extension_modules_do_not_hide_the_interpreter() -> None:
    """Hundreds of modules called `*.cpython-311-*.so` lie before libpython, and are not searched; pyuwsgi is."""
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


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"/",
        b"zz-7f00 rw-p 0 0:0 1 /x",
        b"7f00 rw-p 0 0:0 1 /x",
        b"- - - - - /",
        b"7f00-7f01 rw-p 0 0:0 1 /a\x0b7f00\xe2\x80\xa8\xff\x85b",
        b"1" * 5000 + b"-1 rw-p 0 0:0 1 /x",
    ],
)
def test_hostile_lines_do_no_harm(line: bytes) -> None:
    """A line of another form is left out; the other lines are read."""
    assert LIBRARY in {mapping.path for mapping in parse_mappings(line + b"\n" + TEXT)}


def test_own_map() -> None:
    """The map of this very process: an object of Python is on the heap, the runtime where the loader says."""
    memory = read_memory_map(os.getpid())
    assert memory.is_64_bit
    assert memory.has_python
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    assert memory.region(runtime) == "python"
    assert memory.region(id(object())) == "heap"


def test_large_map_is_not_read_but_leaves_the_word_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process with too many mappings it is only known that it is a 64-bit one: its locks are unknown."""
    monkeypatch.setattr(memory, "_MOST_MAP_BYTES", 1000)
    known = read_memory_map(os.getpid())
    assert known.is_64_bit
    assert known.images == ()


def test_forty_thousand_lines_of_anonymous_memory() -> None:
    """Anonymous memory that belongs to no file is not parsed line by line."""
    anonymous = b"".join(b"7e%010x-7e%010x rw-p 00000000 00:00 0 \n" % (2 * at, 2 * at + 1) for at in range(40_000))
    assert len(list(parse_mappings(anonymous + TEXT))) == len(list(parse_mappings(TEXT)))


def test_replaced_program(tmp_path: Path) -> None:
    """A program that was deleted is read all the same; a library in whose place a FIFO is now, is not."""
    program = tmp_path / "python-copy"
    program.write_bytes(Path(os.path.realpath(sys.executable)).read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "-c", "print(1, flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        program.unlink()
        os.mkfifo(f"{program} (deleted)")
        memory = read_memory_map(process.pid)
        process.stdin.close()
    assert memory.is_64_bit
    assert memory.has_python


def test_generation() -> None:
    """Forks share the generation; an ended process has none."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # now a zombie, which has no memory
    with pytest.raises(ProcessLookupError):
        read_generation(pid)
    os.waitpid(pid, 0)
    with pytest.raises(FileNotFoundError):
        read_generation(pid)
    assert read_generation(os.getpid()).start_code > 1

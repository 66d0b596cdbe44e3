"""Finds in which part of a worker's memory an address lies: that distinguishes the interpreter lock from others.

CPython keeps the lock in its global `_PyRuntime`, and uWSGI the mutex around accept(2) in its global `uwsgi`. Both are
exported symbols. Locks of the application are on the heap or on a stack; locks in the data of other libraries are
`image`, because nothing says what they are for.

All workers of a master are copies of one process with one memory map, so the map is read once per start of uWSGI.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits.elf import Elf, read_elf

Region = Literal["python", "uwsgi", "image", "heap"]
"""python: CPython's global state. uwsgi: uWSGI's own. image: other data of a program or library. heap: the
rest."""

_SYMBOLS: dict[str, Region] = {"_PyRuntime": "python", "uwsgi": "uwsgi"}

_MOST_MAP_BYTES = 512 << 10  # some 6,000 mappings; a worker with many libraries has 2,500
_MOST_IMAGES = 8

_IMAGE_NAME = re.compile(r"(lib)?python|.*uwsgi")
"""Names of files that may define the symbols. CPython's extension modules are called `*.cpython-311-*.so`: they never
do, and a worker may have hundreds."""

_STARTCODE, _ENDCODE, _STARTSTACK = 23, 24, 25  # fields 26 to 28 of proc_pid_stat(5); 0 is the field after the name


class Generation(NamedTuple):
    """Where a process's program lies in memory: the same for all forks of one exec(2), different after the next one."""

    start_code: int
    end_code: int
    start_stack: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """The memory map of a process. known: its ranges with a known owner, as start, end and region. images: its other
    ranges that belong to programs and libraries, sorted. is_64_bit: whether its program is."""

    is_64_bit: bool
    known: tuple[tuple[int, int, Region], ...]
    images: tuple[tuple[int, int], ...]

    @property
    def has_python(self) -> bool:
        """Whether CPython's global state was found."""
        return any(region == "python" for _, _, region in self.known)

    def region(self, address: int) -> Region:
        """The region of an address."""
        for start, end, region in self.known:
            if start <= address < end:
                return region
        place = bisect_right(self.images, (address, 1 << 64)) - 1
        return "image" if place >= 0 and self.images[place][0] <= address < self.images[place][1] else "heap"


def read_generation(pid: int) -> Generation:
    """Raises OSError, ProcessLookupError if the process has no memory any more, or ValueError if the kernel hides the
    fields from this user."""
    fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
    generation = Generation(*(int(field) for field in fields[_STARTCODE : _STARTSTACK + 1]))
    if not generation.start_code:
        raise ProcessLookupError(f"process {pid} has ended")
    if generation.start_code == 1:
        raise ValueError("the kernel hides the addresses")
    return generation


class Mapping(NamedTuple):
    """One line of a memory map. path: as in proc_pid_maps(5), also `[heap]`; empty for anonymous memory."""

    start: int
    end: int
    offset: int
    path: str


def read_memory_map(pid: int) -> MemoryMap:
    """Read the memory map of a process. If it is larger than any worker's should be, nothing is known of it but
    whether the program is a 64-bit one. Raises OSError."""
    mappings = list(parse_mappings(read_maps(pid)))
    program = os.readlink(f"/proc/{pid}/exe")
    known: list[tuple[int, int, Region]] = []
    is_64_bit = False
    for path in [program, *paths_to_search(mappings, program)]:
        try:
            elf = read_elf(f"/proc/{pid}/exe" if path == program else f"/proc/{pid}/root{path}", _SYMBOLS)
        except PermissionError:
            if path == program:
                raise
            continue
        except (OSError, ValueError):
            continue  # deleted or replaced since: its symbols are unknown, and the answer `unknown`
        is_64_bit = is_64_bit or (path == program and elf.is_64_bit)
        known += _locate(elf, [mapping for mapping in mappings if mapping.path == path])
    return MemoryMap(is_64_bit, tuple(known), tuple(sorted(_images(mappings))))


def read_maps(pid: int) -> bytes:
    """The text of the memory map; empty if it is too large."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        text = file.read(_MOST_MAP_BYTES + 1)
    return text if len(text) <= _MOST_MAP_BYTES else b""


def parse_mappings(text: bytes) -> Iterator[Mapping]:
    """The mappings of files in the text of proc_pid_maps(5), and the anonymous ones right behind them. Lines of another
    form are left out."""
    end = b""
    for line in text.split(b"\n"):
        # Most lines of a large map are anonymous memory, which needs no more than this.
        if b"/" not in line and not (end and line.startswith(end + b"-")):
            end = b""
            continue
        with suppress(ValueError):
            span, _, offset, _, rest = line.split(b" ", 4)
            start, _, end = span.partition(b"-")
            path = rest.partition(b" ")[2].strip(b" ").decode(errors="surrogateescape")
            yield Mapping(int(start, 16), int(end, 16), int(offset, 16), path)


def paths_to_search(mappings: list[Mapping], program: str) -> list[str]:
    """The files besides the program that may define the symbols."""
    paths = dict.fromkeys(mapping.path for mapping in mappings if mapping.path.startswith("/"))
    named = (path for path in paths if path != program and _IMAGE_NAME.match(os.path.basename(path)))
    return list(islice(named, _MOST_IMAGES))


def _locate(elf: Elf, mappings: list[Mapping]) -> Iterator[tuple[int, int, Region]]:
    """The ranges of the symbols of a file that is mapped like this."""
    bias = find_load_bias(elf, mappings)
    if bias is not None:
        for name, (address, size) in elf.symbols.items():
            yield bias + address, bias + address + size, _SYMBOLS[name]


def find_load_bias(elf: Elf, mappings: list[Mapping]) -> int | None:
    """What to add to a file's virtual addresses to have those in a process that has mapped it like this; None if it has
    not."""
    for segment in elf.segments:
        for mapping in mappings:
            if mapping.offset <= segment.offset < mapping.offset + (mapping.end - mapping.start):
                return mapping.start + segment.offset - mapping.offset - segment.address
    return None


def _images(mappings: list[Mapping]) -> Iterator[tuple[int, int]]:
    """The ranges of mapped files, and their zero-initialized data: the anonymous mappings right behind them."""
    end_of_image = -1
    for mapping in mappings:
        if mapping.path.startswith("/") or (not mapping.path and mapping.start == end_of_image):
            yield mapping.start, mapping.end
            end_of_image = mapping.end

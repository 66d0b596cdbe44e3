"""Finds in which part of a worker's memory an address lies: that tells the interpreter lock from other locks.

CPython keeps the lock in its global `_PyRuntime`, and uWSGI the mutex around accept(2) in its global `uwsgi`. Both are
exported symbols. Locks of the application are on the heap or on a stack; locks in the data of other libraries are
`image`, because nothing says what they are for.

All workers of a master are copies of one process with one memory map, so the map is read once per start of uWSGI.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits.elf import Elf, read_elf

Region = Literal["python", "uwsgi", "image", "heap"]
"""python: CPython's global state. uwsgi: uWSGI's own. image: other data of a program or library. heap: the
rest."""

_SYMBOLS: dict[str, Region] = {"_PyRuntime": "python", "uwsgi": "uwsgi"}

_MOST_MAP_BYTES = 4 << 20  # some 40,000 mappings
_MOST_IMAGES = 16

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
    """Raises OSError, or ValueError if the fields are hidden."""
    fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
    generation = Generation(*(int(fields[at]) for at in (_STARTCODE, _ENDCODE, _STARTSTACK)))
    if generation.start_code <= 1:
        raise ValueError("the kernel hides the addresses")
    return generation


class _Mapping(NamedTuple):
    start: int
    end: int
    offset: int
    path: str


def read_memory_map(pid: int) -> MemoryMap:
    """Read the memory map of a process. Raises OSError, or ValueError if it is larger than any worker's should be."""
    mappings = list(_mappings(pid))
    program = os.readlink(f"/proc/{pid}/exe")
    known: list[tuple[int, int, Region]] = []
    is_64_bit = read_elf(f"/proc/{pid}/exe", ()).is_64_bit
    for path in _paths_to_search(mappings, program):
        try:
            elf = read_elf(f"/proc/{pid}/root{path}" if path != program else f"/proc/{pid}/exe", _SYMBOLS)
        except (OSError, ValueError):
            continue  # deleted or replaced since: its symbols are unknown, and the answer `unknown`
        known += _locate(elf, [mapping for mapping in mappings if mapping.path == path])
    return MemoryMap(is_64_bit, tuple(known), tuple(sorted(_images(mappings))))


def _mappings(pid: int) -> Iterator[_Mapping]:
    with open(f"/proc/{pid}/maps", "rb") as file:
        text = file.read(_MOST_MAP_BYTES + 1)
    if len(text) > _MOST_MAP_BYTES:
        raise ValueError("the memory map is too large")
    for line in text.decode(errors="surrogateescape").splitlines():
        span, _, offset, _, rest = line.split(" ", 4)
        start, _, end = span.partition("-")
        yield _Mapping(int(start, 16), int(end, 16), int(offset, 16), rest.partition(" ")[2].strip())


def _paths_to_search(mappings: list[_Mapping], program: str) -> list[str]:
    """The files that may define the symbols: the program, and what is named after Python or uWSGI."""
    paths = dict.fromkeys(
        mapping.path
        for mapping in mappings
        if mapping.path == program or any(word in os.path.basename(mapping.path) for word in ("python", "uwsgi"))
    )
    return [path for path in paths if path.startswith("/")][:_MOST_IMAGES]


def _locate(elf: Elf, mappings: list[_Mapping]) -> Iterator[tuple[int, int, Region]]:
    """The ranges of the symbols of a file that is mapped like this."""
    for segment in elf.segments:
        for mapping in mappings:
            if mapping.offset <= segment.offset < mapping.offset + (mapping.end - mapping.start):
                bias = mapping.start + segment.offset - mapping.offset - segment.address
                for name, (address, size) in elf.symbols.items():
                    yield bias + address, bias + address + size, _SYMBOLS[name]
                return


def _images(mappings: list[_Mapping]) -> Iterator[tuple[int, int]]:
    """The ranges of mapped files, and their zero-initialized data: the anonymous mappings right behind them."""
    end_of_image = -1
    for mapping in mappings:
        if mapping.path.startswith("/") or (not mapping.path and mapping.start == end_of_image):
            yield mapping.start, mapping.end
            end_of_image = mapping.end

"""Reads a few bytes of another process's memory, without waiting for bytes that never come, and knows its map: in which
part an address lies, and where exported symbols are.

process_vm_readv(2) neither stops the process nor changes it. It takes the right that waits take. But it waits for a
page that is not in memory: for a moment if it was swapped out, permanently if the process has mapped a file there whose
server does not answer (FUSE, userfaultfd), or if its memory map is locked. So all that is read here is a question for
`aside`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from uwsgi_headroom.kernel import procfs

Piece: TypeAlias = tuple[int, int]
"""An address, and a number of bytes."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class RefusedToReadError(Exception):
    """The kernel, or a filter of system calls, does not let this process read the memory."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_pieces(pid: int, pieces: Sequence[Piece]) -> list[bytes | None]:
    """These pieces of a process's memory; None for one that the process does not have, or not as a whole. Raises
    RefusedToReadError."""
    found: list[bytes | None] = []
    while len(found) < len(pieces):
        wanted = pieces[len(found) :]
        buffer = ctypes.create_string_buffer(sum(length for _, length in wanted))
        here = _Iovec(ctypes.addressof(buffer), len(buffer))
        there = (_Iovec * len(wanted))(*[_Iovec(address, length) for address, length in wanted])
        copied = _LIBC.process_vm_readv(pid, ctypes.byref(here), 1, there, len(wanted), 0)
        code = ctypes.get_errno() if copied < 0 else 0
        if code in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise RefusedToReadError
        if code not in (0, errno.EFAULT):  # the process has ended, or an address cannot be one
            return found + [None] * len(wanted)
        start = 0
        for _, length in wanted:
            if start + length > copied:
                found.append(None)  # go on with the one behind it
                break
            found.append(buffer.raw[start : start + length])
            start += length
    return found


_ehdr = struct.Struct("<16sHHIQQQIHHHHHH")
_phdr = struct.Struct("<IIQQQQQQ")  # type, flags, offset, virtual address, physical address, file size, memory size
_shdr = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_sym = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size

PT_LOAD, SHT_DYNSYM = 1, 11
ELFCLASS64, ELFDATA2LSB = 2, 1

_MOST_HEADERS = 256
_MOST_BYTES = 1 << 20  # of one table; those of libpython take 0.2 MB
_MOST_NAMES = 256  # places of one name in the table of names: it may also be the end of longer names


class Segment(Struct, frozen=True):
    """A part of the file that is mapped: its place in the file, its size there, its virtual address, and its size in
    memory, which is larger where zero-initialized data follows."""

    offset: int
    size: int
    address: int
    size_in_memory: int


class Elf(Struct, frozen=True):
    """What is known of an ELF file. is_64_bit: whether it is for a 64-bit little-endian machine; without that, nothing
    else is known. symbols: virtual address and size, by name.

    Layouts are those of elf(5). The file belongs to the watched process, so its content is not trusted: sizes are
    bounded, and an odd one raises ValueError.
    """

    is_64_bit: bool
    segments: tuple[Segment, ...] = ()
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def read_elf(path: str, names: Collection[str]) -> Elf:
    """Read the segments and the named dynamic symbols of a file. Raises OSError, or ValueError if it is not ELF."""
    descriptor = procfs.open_regular(path)
    try:
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
        tuple(Segment(row[2], row[5], row[3], row[6]) for row in programs if row[0] == PT_LOAD),
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


Region = Literal["python", "uwsgi", "image", "heap"]
"""python: CPython's global state. uwsgi: uWSGI's own. image: other data of a program or library. heap: the
rest."""

_SYMBOLS: dict[str, Region] = {"_PyRuntime": "python", "uwsgi": "uwsgi"}

_MOST_MAP_BYTES = 512 << 10  # some 6,000 mappings; a worker with many libraries has 2,500
_MOST_IMAGES = 8
_MOST_SIZES = 64
"""Files that are read for the size of their zero-initialized data."""

_SMALL = 128 << 10
"""Bytes up to which the memory right behind a file is its zero-initialized data. The allocators of the C library and of
CPython map at least 132 and 256 KB at once, and the kernel may put these there, too, or join them to such data."""

_IMAGE_NAME = re.compile(r"(lib)?python|.*uwsgi")
"""Names of files that may define the symbols. CPython's extension modules are called `*.cpython-311-*.so`: they never
do, and a worker may have hundreds."""

_STARTCODE, _STARTSTACK = 23, 25  # fields 26 to 28 of proc_pid_stat(5); 0 is the field after the name


Generation: TypeAlias = tuple[int, ...]
"""Where a process's program lies in memory: its code and its stack. The same for all forks of one exec(2), different
after the next one."""


class MemoryMap(Struct, frozen=True):
    """The memory map of a process. known: its ranges with a known owner, as start, end and region. images: its other
    ranges that belong to programs and libraries, sorted. is_64_bit: whether its program is.

    CPython keeps the lock in its global `_PyRuntime`, and uWSGI the mutex around accept(2) in its global `uwsgi`. Both
    are exported symbols. Locks of the application are on the heap or a stack; those in the data of other libraries are
    `image`, because nothing says what they are for.

    All workers of a master are copies of one process with one memory map, so the map is read once per start of uWSGI.
    """

    is_64_bit: bool
    known: tuple[tuple[int, int, Region], ...]
    images: tuple[tuple[int, int], ...]
    pool_variable: str = ""
    """The environment variable that bounds the threads of a library which computes in several; empty without one."""

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
    """Raises OSError: ProcessLookupError if the process has no memory any more, PermissionError if the kernel hides the
    fields from this user. Raises ValueError if they are no numbers."""
    fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
    generation = tuple(map(int, fields[_STARTCODE : _STARTSTACK + 1]))
    if not generation[0]:
        raise ProcessLookupError(f"process {pid} has ended")
    if generation[0] == 1:
        raise PermissionError("the kernel hides the addresses")
    return generation


class MappedRange(NamedTuple):
    """One line of a memory map. path: as in proc_pid_maps(5), also `[heap]`; empty for anonymous memory."""

    start: int
    end: int
    offset: int
    path: str


def read_memory_map(pid: int) -> MemoryMap:
    """Read the memory map of a process. If it is larger than any worker's should be, nothing is known of it but
    whether the program is a 64-bit one. Raises OSError."""
    mappings = read_mappings(pid)
    known: list[tuple[int, int, Region]] = []
    is_64_bit = False
    for is_program, elf, mapped in read_images(pid, mappings, _SYMBOLS):
        is_64_bit = is_64_bit or (is_program and elf.is_64_bit)
        known += _locate(elf, mapped)
    names = {os.path.basename(mapping.path) for mapping in mappings}
    variable = next((each for library, each in _POOLS.items() if any(library in name for name in names)), "")
    return MemoryMap(is_64_bit, tuple(known), tuple(sorted(_find_images(pid, mappings))), variable)


_POOLS = {"openblas": "OPENBLAS_NUM_THREADS", "libmkl_": "MKL_NUM_THREADS", "libgomp": "OMP_NUM_THREADS"}
"""What bounds the threads of libraries that start one for each CPU of the host in each worker, by parts of names."""


def read_mappings(pid: int) -> list[MappedRange]:
    """The memory map as `parse_mappings`; empty if it is too large. Raises OSError."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        text = file.read(_MOST_MAP_BYTES + 1)
    return list(parse_mappings(text)) if len(text) <= _MOST_MAP_BYTES else []


def read_images(
    pid: int, mappings: list[MappedRange], names: Collection[str]
) -> Iterator[tuple[bool, Elf, list[MappedRange]]]:
    """The program of a process, and the other files that may define these symbols: whether it is the program, and where
    the file is mapped. Those that cannot be read are left out: deleted or replaced since. Raises OSError if they may be
    read later, and PermissionError if the program may not be read."""
    program = os.readlink(f"/proc/{pid}/exe")
    places = {program: f"/proc/{pid}/exe"} | {
        path: f"/proc/{pid}/root{path}" for path in paths_to_search(mappings, program)
    }
    for path, place in places.items():
        try:
            elf = read_elf(place, names)
        except (OSError, ValueError) as error:
            is_passing = getattr(error, "errno", 0) in procfs.PASSING  # the map is kept until uWSGI starts again
            if is_passing or (path == program and isinstance(error, PermissionError)):
                raise
            continue
        yield path == program, elf, [mapping for mapping in mappings if mapping.path == path]


def parse_mappings(text: bytes) -> Iterator[MappedRange]:
    """The mappings of files in the text of proc_pid_maps(5), and the anonymous one right behind a private mapping of a
    file. Lines of another form are left out."""
    end = b""
    for line in text.split(b"\n"):
        # Most lines of a large map are anonymous memory, which needs no more than this.
        if b"/" not in line and not (end and line.startswith(end + b"-")):
            end = b""
            continue
        with suppress(ValueError):
            is_behind = b"/" not in line
            span, access, offset, _, rest = line.split(b" ", 4)
            start, _, end = span.partition(b"-")
            path = rest.partition(b" ")[2].strip(b" ").decode(errors="surrogateescape")
            if not is_behind or access == b"rw-p":  # stacks of threads have a page without access in front
                yield MappedRange(int(start, 16), int(end, 16), int(offset, 16), path)
            if is_behind or not access.endswith(b"p"):
                end = b""


def paths_to_search(mappings: list[MappedRange], program: str) -> list[str]:
    """The files besides the program that may define the symbols."""
    paths = dict.fromkeys(mapping.path for mapping in mappings if mapping.path.startswith("/"))
    named = (path for path in paths if path != program and _IMAGE_NAME.match(os.path.basename(path)))
    return list(islice(named, _MOST_IMAGES))


def _locate(elf: Elf, mappings: list[MappedRange]) -> Iterator[tuple[int, int, Region]]:
    bias = find_load_bias(elf, mappings)
    if bias is not None:
        for name, (address, size) in elf.symbols.items():
            yield bias + address, bias + address + size, _SYMBOLS[name]


def find_load_bias(elf: Elf, mappings: list[MappedRange]) -> int | None:
    """What to add to a file's virtual addresses to have those in a process that has mapped it like this; None if it has
    not."""
    for segment in elf.segments:
        for mapping in mappings:
            if mapping.offset <= segment.offset < mapping.offset + (mapping.end - mapping.start):
                return mapping.start + segment.offset - mapping.offset - segment.address
    return None


def _find_images(pid: int, mappings: list[MappedRange]) -> Iterator[tuple[int, int]]:
    """The ranges of mapped files, and their zero-initialized data: in the anonymous mappings right behind them."""
    sizes = 0
    for number, mapping in enumerate(mappings):
        if mapping.path.startswith("/"):
            yield mapping.start, mapping.end
        elif not mapping.path and number and mappings[number - 1].end == mapping.start:
            end, file = mapping.end, mappings[number - 1].path
            if not file.startswith("/"):  # a name that a program gave to memory
                continue
            if end - mapping.start > _SMALL and sizes < _MOST_SIZES:
                sizes += 1
                end = min(end, _find_end(pid, file, mappings) or mapping.start)
            yield mapping.start, end


def _find_end(pid: int, path: str, mappings: list[MappedRange]) -> int | None:
    """Where the zero-initialized data of a file ends in memory; None if it is no program or library. Of a file that
    cannot be read, everything behind it counts as such: what a lock there is for remains unknown."""
    try:
        elf = read_elf(f"/proc/{pid}/root{path}", ())
    except ValueError:
        return None
    except OSError:
        return 1 << 64
    bias = find_load_bias(elf, [mapping for mapping in mappings if mapping.path == path])
    return None if bias is None else bias + max(each.address + each.size_in_memory for each in elf.segments)

"""Reads the stacks of a process's Python threads from its memory: names of functions, files and lines.

The process runs meanwhile, and may be hostile: every address and every length that is read is doubtful. So all is
bounded: threads, frames, lengths of texts and tables, and the bytes of one look. An object counts only if its type is
the expected one. What does not fit together is torn, and gives no stack.

Whose state is which thread's: CPython keeps the `pthread_t` of each, and the C library keeps the kernel's id of the
thread somewhere behind that address. Where, is learnt: at the place where all threads have ids of this process.
(CPython up to 3.10 keeps no id of the kernel, and up to 3.12 one that is wrong in the main thread of a forked process.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.kernel.stacks.layout import SEVERAL, Layout, NoRuntimeError, Runtime, Version
from uwsgi_headroom.kernel.waits.memory import Piece

_NO_LINE, _LONG, _NO_COLUMNS = 15, 14, 13
_ONE_LINE = range(10, 13)
_NO_LINE_3_10 = -128
_MOST_LINE = 0x7FFFFFFF  # CPython's own


def find_line(version: Version, table: bytes, first: int, offset: int) -> int:
    """The line of an instruction; `first`, that of the function, where the table has none. offset: of the instruction
    in the code, in bytes.

    There are three formats: pairs of bytes up to 3.9 (`co_lnotab`) and in 3.10 (PEP 626), and entries of several bytes
    from 3.11 on (Objects/locations.md in CPython's source). A table may be torn or of a hostile process: any bytes give
    a number.
    """
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


Read = Callable[[Sequence[Piece]], list[bytes | None]]

MOST_INTERPRETERS, MOST_THREADS, MOST_FRAMES = 16, 512, 128
MOST_BYTES = 4 << 20
"""Of one look at a process. A thread takes 1 to 10 kB, and less once its functions are known."""

_MOST_TEXT = 4096  # characters; the longest path that Linux opens
_MOST_TABLE = 32 << 10  # bytes; a function of 1,000 lines has some 10 kB
_MOST_CODES = 2048  # functions that are remembered
_MOST_LINES = 16_384
_MOST_ADDRESS = 1 << 56
_MOST_PIECES = 512  # of one system call, which takes 1,024 (IOV_MAX)
_TAGS = 7  # CPython 3.14 marks pointers in the lowest bits

_C_FRAME = 3  # the first owner that is no Python code
_THREAD_BYTES = 1024  # of the C library's data behind a pthread_t: its id is at 720 (glibc) or 48 (musl)

LONGEST_NAME, LONGEST_PATH = 100, 1000
"""In characters: of functions the beginning is kept, of paths the end."""


class TornError(Exception):
    """What was read does not fit together."""


class CodeObject(NamedTuple):
    """A function. lines: the address of its table of line numbers."""

    function: str
    file: str
    first_line: int
    lines: int


class Frame(NamedTuple):
    """A function that runs. offset: of the instruction in its code, in bytes."""

    code: CodeObject
    offset: int


class _State(NamedTuple):
    """What CPython keeps of a thread. address: of it; handle: the thread's `pthread_t`; interpreter: its address."""

    address: int
    handle: int
    interpreter: int


class _Fields(Struct, frozen=True):
    """Some fields of a structure that are read at once. start: the offset of the first byte; size: how many there are;
    places: of each field among them."""

    start: int
    size: int
    places: tuple[int, ...]

    def at(self, address: int) -> Piece:
        return address + self.start, self.size

    def unpack(self, data: bytes) -> list[int]:
        return [int.from_bytes(data[place : place + 8], "little") for place in self.places]


def _choose(layout: Layout, names: str) -> _Fields:
    """The fields with these names, without those that the layout does not have."""
    offsets = [layout[name] for name in names.split() if name in layout]
    start = min(offsets)
    return _Fields(start, max(offsets) + 8 - start, tuple(offset - start for offset in offsets))


class StackReader:
    """Reads the stacks of one process. read: reads pieces of its memory, as `read_pieces` does."""

    def __init__(self, runtime: Runtime, read: Read) -> None:
        self._runtime, self._layout = runtime, runtime.layout
        self._read = read
        self._left = MOST_BYTES
        self._ahead: dict[Piece, bytes] = {}
        self._links: list[Piece] = []
        self._id_place: int | None = None
        self._codes: dict[tuple[int, ...], CodeObject] = {}
        self._lines: dict[tuple[CodeObject, int], int] = {}
        self._thread = _choose(runtime.layout, "thread_next thread_interpreter thread_id")
        self._frame = _choose(runtime.layout, "frame_previous frame_code frame_instruction frame_owner")
        self._code = _choose(runtime.layout, "object_type code_function code_file code_first_line code_lines")
        self._bytes = _choose(runtime.layout, "object_type bytes_size")
        self._text = _choose(runtime.layout, "object_type text_length text_state")

    def find_threads(self, ids: Collection[int]) -> dict[int, int]:
        """Begin a look: the state of each thread, by the thread's id. ids: those of all threads of the process, as it
        knows them itself. Raises TornError, or NoRuntimeError if a thread seems to run in several interpreters.

        For several applications, uWSGI makes states in the main thread, for all threads. With an interpreter for each,
        those are used, and it is not known by whom; with a single one, they are not, and the oldest is the thread's. A
        state may also be that of a thread that begins (CPython up to 3.11 gives it the `pthread_t` of the thread that
        starts it), or of one that has ended and whose `pthread_t` a new one has: the oldest that runs is the thread's.
        """
        self._left = MOST_BYTES
        # The states are a chain, and mostly the same ones as the last time: read those at once.
        known = self._read(self._links)
        self._ahead = {piece: data for piece, data in zip(self._links, known, strict=True) if data is not None}
        self._links = []
        try:
            states = list(self._list_states())
        finally:
            self._ahead = {}
        threads = self._read_ids([handle for _, handle, _ in states], ids)
        by_id: dict[int, list[_State]] = {}
        for state in states:
            if (number := threads.get(state.handle)) is not None:
                by_id.setdefault(number, []).append(state)
        return {number: self._choose_state(found) for number, found in by_id.items()}

    def _choose_state(self, states: Sequence[_State]) -> int:
        """The one that a thread runs in, of all that seem to be its own, from the newest to the oldest. Raises
        TornError or NoRuntimeError."""
        oldest = states[-1]
        running = [state for state in states[::-1] if next(self.walk(state.address), None)] if states[:-1] else []
        if any(state.interpreter != oldest.interpreter for state in running):
            raise NoRuntimeError(SEVERAL)
        return (running or [oldest])[0].address

    def _list_states(self) -> Iterator[_State]:
        layout = self._layout
        interpreter = self._follow(self._runtime.address + layout["interpreters_head"])
        number = 0
        for _ in range(MOST_INTERPRETERS):
            if not interpreter:
                return
            state = self._follow(interpreter + layout["threads_head"])
            while state:
                following, of, handle = self._thread.unpack(self._link(self._thread.at(state)))
                if of != interpreter or number >= MOST_THREADS:
                    raise TornError
                yield _State(state, handle, interpreter)
                number += 1
                state = following
            interpreter = self._follow(interpreter + layout["interpreter_next"])

    def _follow(self, address: int) -> int:
        return int.from_bytes(self._link((address, 8)), "little")

    def _link(self, piece: Piece) -> bytes:
        """Read a link of the chain, which is read ahead the next time."""
        known = self._ahead.get(piece)
        data = known if known is not None else self._fetch(piece)[0]
        if len(self._links) < _MOST_PIECES:
            self._links.append(piece)
        return data

    def _read_ids(self, handles: Sequence[int], ids: Collection[int]) -> dict[int, int]:
        """The kernel's id of each thread, by its `pthread_t`; without those that have ended."""
        handles = [handle for handle in dict.fromkeys(handles) if 0 < handle < _MOST_ADDRESS]
        if self._id_place is not None:
            found = self._read_numbers(handles, self._id_place)
            if all(number in ids or not number for number in found.values()):
                return {handle: number for handle, number in found.items() if number}
        self._id_place = self._learn_id_place(handles, ids)
        if self._id_place is None:
            return {}
        return {handle: each for handle, each in self._read_numbers(handles, self._id_place).items() if each in ids}

    def _read_numbers(self, handles: Sequence[int], place: int) -> dict[int, int]:
        found = self._take([(handle + place, 4) for handle in handles])
        return {handle: int.from_bytes(data, "little") for handle, data in zip(handles, found, strict=True) if data}

    def _learn_id_place(self, handles: Sequence[int], ids: Collection[int]) -> int | None:
        """Where most threads, and at least one, have an id of this process, each a different one, and none has anything
        else but 0, which is that of a thread that has ended."""
        blocks = [data for data in self._take([(handle, _THREAD_BYTES) for handle in handles[:64]]) if data]
        best, place = 0, None
        for offset, row in enumerate(zip(*(struct.unpack(f"<{_THREAD_BYTES // 4}I", each) for each in blocks))):  # noqa: B905
            numbers = [number for number in row if number]
            if len(numbers) > best and len(set(numbers)) == len(numbers) and all(each in ids for each in numbers):
                best, place = len(numbers), 4 * offset
        return place

    def walk(self, state: int) -> Iterator[Frame]:
        """The frames of a thread, the one that runs first; none if it runs no Python code. Raises TornError."""
        layout = self._layout
        frame = self._pointer(state + layout["thread_frame"])
        if "cframe_frame" in layout:
            frame = self._pointer(frame + layout["cframe_frame"])
        if not frame:
            return
        (data,) = self._fetch(self._frame.at(frame))
        for _ in range(MOST_FRAMES):
            previous, tagged, instruction, *owner = self._frame.unpack(data)
            code, is_python = tagged & ~_TAGS, not owner or owner[0] & 0xFF < _C_FRAME
            pieces = [self._frame.at(previous)] if previous else []
            if is_python:
                pieces.append(self._code.at(code))
            found = self._fetch(*pieces)
            if is_python:
                yield Frame(self._find_code(code, found[-1]), self._find_offset(code, instruction))
            if not previous:
                return
            data = found[0]

    def _find_offset(self, code: int, instruction: int) -> int:
        """The offset of an instruction; negative in a function that has not begun."""
        if "code_instructions" in self._layout:
            return instruction - code - self._layout["code_instructions"]
        index = instruction & 0xFFFFFFFF
        index -= (index & 0x80000000) << 1
        return index if self._runtime.version == (3, 9) else 2 * index

    def _find_code(self, address: int, data: bytes) -> CodeObject:
        kind, function, file, first, lines = self._code.unpack(data)
        if kind != self._runtime.code_type:
            raise TornError
        key = address, function, file, first & _MOST_LINE, lines
        code = self._codes.get(key)
        if code is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            name, path = self._read_text(function)[:LONGEST_NAME], self._read_text(file)[-LONGEST_PATH:]
            code = self._codes[key] = CodeObject(name, path, first & _MOST_LINE, lines)
        return code

    def find_line(self, frame: Frame) -> int:
        """The line that a frame runs. Raises TornError."""
        line = self._lines.get(frame)
        if line is None:
            if len(self._lines) >= _MOST_LINES:
                self._lines.clear()
            table = self._read_table(frame.code.lines)
            line = find_line(self._runtime.version, table, frame.code.first_line, frame.offset)
            self._lines[frame] = line
        return line

    def _read_table(self, address: int) -> bytes:
        kind, size = self._bytes.unpack(*self._fetch(self._bytes.at(address)))
        if kind != self._runtime.bytes_type or size > _MOST_TABLE:
            raise TornError
        return self._fetch((address + self._layout["bytes_data"], size))[0] if size else b""

    def _read_text(self, address: int) -> str:
        kind, length, state = self._text.unpack(*self._fetch(self._text.at(address)))
        width, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        is_text = kind == self._runtime.text_type
        if not is_text or not is_compact or width not in _ENCODINGS or not 0 < length <= _MOST_TEXT:
            raise TornError
        place = self._layout["text_ascii" if is_ascii else "text_wide"]
        (data,) = self._fetch((address + place, width * length))
        text = data.decode(_ENCODINGS[width], errors="replace")
        return "".join(each if each.isprintable() else "?" for each in text)

    def _pointer(self, address: int) -> int:
        return int.from_bytes(self._fetch((address, 8))[0], "little")

    def _fetch(self, *pieces: Piece) -> list[bytes]:
        """Read pieces as a whole. Raises TornError."""
        found = self._take(pieces)
        if None in found:
            raise TornError
        return [data for data in found if data is not None]

    def _take(self, pieces: Sequence[Piece]) -> list[bytes | None]:
        """Read pieces, as far as that is allowed."""
        self._left -= sum(size for _, size in pieces)
        if self._left < 0 or any(not 0 < address < _MOST_ADDRESS for address, _ in pieces):
            return [None] * len(pieces)
        found: list[bytes | None] = []
        for start in range(0, len(pieces), _MOST_PIECES):
            found += self._read(pieces[start : start + _MOST_PIECES])
        return found


_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
"""By the width of a character in bytes."""

"""Finds the CPython of a process, and where it keeps what a stack is made of: offsets in its structures, for each
version that is read.

From 3.13 on, the process itself says so, in a table at the start of `_PyRuntime` (`_Py_DebugOffsets` in CPython's
Include/internal/pycore_debug_offsets.h). For 3.9 to 3.12, a table here has them, as their headers say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from uwsgi_headroom.kernel.waits.memory import find_load_bias, read_images, read_mappings, read_pieces

_OFFSETS = """
                        3.9 3.10 3.11 3.12 3.13 3.14
    interpreters_head    32   32   40   40   40   40
    interpreter_next      0    0    0    0   64   64
    threads_head          8    8   16   72   72   72
    thread_next           8    8    8    8  168  192
    thread_interpreter   16   16   16   16  176  200
    thread_id           176  176  152  136  192  216
    thread_frame         24   24   56   56  184  208
    cframe_frame          -    -    8    0    -    -
    frame_previous       24   24   48    8  232  256
    frame_code           32   32   32    0  240  264
    frame_instruction   104   96   56   56  248  272
    frame_owner           -    -   69   70  264  288
    code_file           104  104  112  112  280  320
    code_function       112  112  128  128  296  336
    code_first_line      40   40   72   68  312  352
    code_lines          120  120  136  136  304  344
    code_instructions     -    -  184  192  344  384
    object_type           8    8    8    8  360  408
    bytes_size           16   16   16   16  520  600
    bytes_data           32   32   32   32  528  608
    text_length          16   16   16   16  552  632
    text_state           32   32   32   32  544  624
    text_ascii           48   48   48   40  560  640
    text_wide            72   72   72   56  560  640
"""
"""Of each field of `Layout`: its offset up to 3.12, on 64-bit machines; from 3.13 on, the place in `_Py_DebugOffsets`
that has its offset, eight bytes (`text_wide`: what it follows). `-` for none."""

Version = tuple[int, int]
"""Major and minor version of CPython: structures are the same for all of its patch releases."""

DEBUG_BYTES = 1024
"""How much of `_PyRuntime` is read for the table; that of 3.14 has 744 bytes."""

_COOKIE = b"xdebugpy"
_MOST_OFFSET = 1 << 20
"""The largest offset that is believed: that of the list of interpreters in `_PyRuntime` has five digits."""


Layout: TypeAlias = Mapping[str, int]
"""Offsets in bytes. A field that a version does not have is left out.

`interpreters_head` is in `_PyRuntime`: the first interpreter; `threads_head` in that: the first state of a thread. In
such a state, `thread_id` is the `pthread_t`, and `thread_frame` the frame that runs, or where there is `cframe_frame`,
the `_PyCFrame` that points to it there. In a frame, `frame_instruction` is a pointer to the instruction, or without
`code_instructions` its index; and `frame_owner` what it belongs to: from 3 on, it is not Python's but a mark that C
code was entered. In a code object, `code_lines` is the table of line numbers. A compact `str` has its characters at
`text_ascii` if all are ASCII, else at `text_wide`.
"""


def _read_columns() -> Iterator[tuple[Version, Layout]]:
    """Each version, and the numbers of its column by field."""
    heads, *rows = (line.split() for line in _OFFSETS.strip().splitlines())
    for place, head in enumerate(heads, 1):
        yield (3, int(head[2:])), {row[0]: int(row[place]) for row in rows if row[place] != "-"}


_COLUMNS = dict(_read_columns())

LAYOUTS: Mapping[Version, Layout] = {version: column for version, column in _COLUMNS.items() if version <= (3, 12)}
"""Of the versions that do not say it themselves."""


def read_debug_offsets(version: Version, table: bytes) -> Layout | None:
    """The layout that a process says it has. table: the first bytes of its `_PyRuntime`. None: the version has no such
    table, the table is not as expected, or the build has no interpreter lock (its structures are different)."""
    if version not in _COLUMNS or table[:8] != _COOKIE:
        return None
    try:
        number, free_threaded = struct.unpack_from("<QQ", table, 8)
        known = {name: struct.unpack_from("<Q", table, place)[0] for name, place in _COLUMNS[version].items()}
    except struct.error:
        return None
    if (number >> 24 & 0xFF, number >> 16 & 0xFF) != version or free_threaded:
        return None
    if max(known.values()) > _MOST_OFFSET:
        return None
    known["text_wide"] += 16  # behind the length and the address of its UTF-8 form
    return known


_STATE, _VERSION, _SINCE = "_PyRuntime", "Py_Version", {10: "Py_NewRef", 9: "PyFrame_GetCode"}
_TYPES = ("PyCode_Type", "PyUnicode_Type", "PyBytes_Type")
_SYMBOLS = (_STATE, _VERSION, *_SINCE.values(), *_TYPES)

NO_PYTHON = "the workers have no CPython whose symbols can be found"
OTHER_PYTHON = "the code of CPython {}.{} cannot be read: only that of 3.9 to 3.14, with the interpreter lock"

SEVERAL = (
    "uWSGI runs applications in several interpreters of a process, so it is not known whose stack is whose: the option "
    "`single-interpreter` runs them in one"
)


class NoRuntimeError(Exception):
    """The code of a process cannot be read; the message is the reason, for an operator."""


class Runtime(Struct, frozen=True):
    """The CPython of a process. address: of `_PyRuntime`. The types are the addresses of those objects."""

    version: Version
    address: int
    layout: Layout
    code_type: int
    text_type: int
    bytes_type: int


def find_runtime(pid: int) -> Runtime:
    """Find the CPython of a process. Raises OSError, RefusedToReadError if its memory may not be read, or
    NoRuntimeError.

    All of it follows from exported symbols, which a stripped program has as well. A uWSGI has CPython in its own file,
    in a plugin or in libpython.
    """
    symbols = _find_symbols(pid)
    if not {_STATE, *_TYPES} <= symbols.keys():
        raise NoRuntimeError(NO_PYTHON)
    state = symbols[_STATE]
    number, table = read_pieces(pid, [(symbols.get(_VERSION, state), 8), (state, DEBUG_BYTES)])
    if _VERSION in symbols:
        (packed,) = struct.unpack("<Q", number or bytes(8))
        version = packed >> 24 & 0xFF, packed >> 16 & 0xFF
    else:  # CPython says its version in a symbol since 3.11
        version = 3, next((minor for minor, symbol in _SINCE.items() if symbol in symbols), 8)
    layout = LAYOUTS.get(version) or read_debug_offsets(version, table or b"")
    if layout is None:
        raise NoRuntimeError(OTHER_PYTHON.format(*version))
    return Runtime(version, state, layout, *(symbols[name] for name in _TYPES))


def _find_symbols(pid: int) -> dict[str, int]:
    """The addresses of the symbols, all of one file; empty if no file has them."""
    for _, elf, mapped in read_images(pid, read_mappings(pid), _SYMBOLS):
        bias = find_load_bias(elf, mapped)
        if _STATE in elf.symbols and bias is not None:
            return {name: bias + address for name, (address, _) in elf.symbols.items()}
    return {}

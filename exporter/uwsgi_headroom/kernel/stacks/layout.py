"""Finds the CPython of a process, and where it keeps what a stack is made of: offsets in its structures, for each
version that is read.

From 3.13 on, the process itself says so, in a table at the start of `_PyRuntime` (`_Py_DebugOffsets` in CPython's
Include/internal/pycore_debug_offsets.h). For 3.9 to 3.12, a table here has them, as their headers say.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from msgspec import Struct

from uwsgi_headroom.kernel.waits.memory import (
    find_load_bias,
    parse_mappings,
    paths_to_search,
    read_elf,
    read_maps,
    read_pieces,
)

_OFFSETS = """
                        3.9 3.10 3.11 3.12 later
    interpreters_head    32   32   40   40 runtime.interpreters_head
    interpreter_next      0    0    0    0 interpreter.next
    threads_head          8    8   16   72 interpreter.threads_head
    thread_next           8    8    8    8 thread.next
    thread_interpreter   16   16   16   16 thread.interp
    thread_id           176  176  152  136 thread.thread_id
    thread_frame         24   24   56   56 thread.current_frame
    cframe_frame          -    -    8    0 -
    frame_previous       24   24   48    8 frame.previous
    frame_code           32   32   32    0 frame.executable
    frame_instruction   104   96   56   56 frame.instr_ptr
    frame_owner           -    -   69   70 frame.owner
    code_file           104  104  112  112 code.filename
    code_function       112  112  128  128 code.qualname
    code_first_line      40   40   72   68 code.firstlineno
    code_lines          120  120  136  136 code.linetable
    code_instructions     -    -  184  192 code.instructions
    object_type           8    8    8    8 object.type
    bytes_size           16   16   16   16 bytes.length
    bytes_data           32   32   32   32 bytes.data
    text_length          16   16   16   16 text.length
    text_state           32   32   32   32 text.state
    text_ascii           48   48   48   40 text.ascii_size
    text_wide            72   72   72   56 text.ascii_size
"""
"""Of each field of `Layout`: its offset up to 3.12, on 64-bit machines, and the name that `_TABLES` has for it from
3.13 on; `-` for none."""

Version = tuple[int, int]
"""Major and minor version of CPython: structures are the same for all of its patch releases."""

DEBUG_BYTES = 1024
"""How much of `_PyRuntime` is read for the table; that of 3.14 has 744 bytes."""

_COOKIE = b"xdebugpy"
_MOST_OFFSET = 1 << 20
"""The largest offset that is believed: that of the list of interpreters in `_PyRuntime` has five digits."""


class Layout(Struct, frozen=True):
    """Offsets in bytes. None: the version has no such field."""

    interpreters_head: int
    """In `_PyRuntime`: the first interpreter."""
    interpreter_next: int
    threads_head: int
    """In an interpreter: the first state of a thread."""
    thread_next: int
    thread_interpreter: int
    thread_id: int
    """In a state of a thread: the `pthread_t` of the thread."""
    thread_frame: int
    """In a state of a thread: the frame that runs, or the `_PyCFrame` that points to it."""
    cframe_frame: int | None
    """In a `_PyCFrame`: the frame that runs."""
    frame_previous: int
    frame_code: int
    frame_instruction: int
    """In a frame: a pointer to the instruction, or its index, as `code_instructions` says."""
    frame_owner: int | None
    """In a frame: what it belongs to. From 3 on, it is not Python's but a mark that C code was entered."""
    code_file: int
    code_function: int
    code_first_line: int
    code_lines: int
    """In a code object: the table of line numbers."""
    code_instructions: int | None
    """In a code object: the instructions. None: frames hold the index of the instruction instead of a pointer."""
    object_type: int
    bytes_size: int
    bytes_data: int
    text_length: int
    text_state: int
    text_ascii: int
    """In a `str` of ASCII characters: the characters."""
    text_wide: int
    """In another compact `str`: the characters."""


def _read_columns() -> Iterator[tuple[str, dict[str, str | None]]]:
    """The version at the head of each column, and what the column has by field."""
    heads, *rows = (line.split() for line in _OFFSETS.strip().splitlines())
    for place, head in enumerate(heads, 1):
        yield head, {row[0]: None if row[place] == "-" else row[place] for row in rows}


_COLUMNS = dict(_read_columns())
_NAMES = _COLUMNS.pop("later")

LAYOUTS: Mapping[Version, Layout] = {
    (3, int(head[2:])): Layout(**{name: offset and int(offset) for name, offset in column.items()})  # type: ignore[arg-type]
    for head, column in _COLUMNS.items()
}
"""Of the versions that do not say it themselves."""

_TABLE_3_13 = """
    runtime: size finalizing interpreters_head
    interpreter: size id next threads_head gc modules sysdict builtins gil gil_state gil_enabled gil_locked gil_holder
    thread: size prev next interp current_frame thread_id native_thread_id datastack status
    frame: size previous executable instr_ptr localsplus owner
    code: size filename name qualname linetable firstlineno argcount names kinds instructions
    object: size type
    type: size name repr flags
    tuple: size item length
    list: size item length
    dict: size keys values
    float: size value
    long: size tag digit
    bytes: size length data
    text: size state length ascii_size
"""
_TABLE_3_14 = (
    _TABLE_3_13.replace("threads_head gc", "threads_head threads_main gc")
    .replace("gil_holder", "gil_holder code_generation tlbc_generation")
    .replace("localsplus owner", "localsplus owner stackpointer tlbc_index")
    .replace("kinds instructions", "kinds instructions tlbc")
    .replace("    dict:", "    set: size used table mask\n    dict:")
)
_TABLES: dict[Version, str] = {(3, 13): _TABLE_3_13, (3, 14): _TABLE_3_14}
"""The fields of `_Py_DebugOffsets` behind its cookie, its version and its flag of a build without the interpreter
lock; each has eight bytes."""


def read_debug_offsets(version: Version, table: bytes) -> Layout | None:
    """The layout that a process says it has. table: the first bytes of its `_PyRuntime`. None: the version has no such
    table, the table is not as expected, or the build has no interpreter lock (its structures are different)."""
    names = _TABLES.get(version)
    if names is None or table[:8] != _COOKIE:
        return None
    try:
        number, free_threaded = struct.unpack_from("<QQ", table, 8)
        offsets = {name: struct.unpack_from("<Q", table, place)[0] for name, place in _list_fields(names)}
    except struct.error:
        return None
    if (number >> 24 & 0xFF, number >> 16 & 0xFF) != version or free_threaded or max(offsets.values()) > _MOST_OFFSET:
        return None
    known: dict[str, Any] = {field: name and offsets[name] for field, name in _NAMES.items()}
    return Layout(
        **{**known, "text_wide": known["text_wide"] + 16}
    )  # behind the length and the address of its UTF-8 form


def _list_fields(names: str) -> Iterator[tuple[str, int]]:
    """Each field of a table and its place in bytes."""
    places = count(24, 8)
    for line in names.strip().splitlines():
        structure, _, fields = line.strip().partition(":")
        for field in fields.split():
            yield f"{structure}.{field}", next(places)


_STATE, _VERSION, _SINCE_3_10, _SINCE_3_9 = "_PyRuntime", "Py_Version", "Py_NewRef", "PyFrame_GetCode"
_TYPES = ("PyCode_Type", "PyUnicode_Type", "PyBytes_Type")
_SYMBOLS = (_STATE, _VERSION, _SINCE_3_10, _SINCE_3_9, *_TYPES)

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
        version = 3, 10 if _SINCE_3_10 in symbols else 9 if _SINCE_3_9 in symbols else 8
    layout = LAYOUTS.get(version) or read_debug_offsets(version, table or b"")
    if layout is None:
        raise NoRuntimeError(OTHER_PYTHON.format(*version))
    return Runtime(version, state, layout, *(symbols[name] for name in _TYPES))


def _find_symbols(pid: int) -> dict[str, int]:
    """The addresses of the symbols, all of one file; empty if no file has them."""
    mappings = list(parse_mappings(read_maps(pid)))
    program = os.readlink(f"/proc/{pid}/exe")
    for path in [program, *paths_to_search(mappings, program)]:
        try:
            elf = read_elf(f"/proc/{pid}/exe" if path == program else f"/proc/{pid}/root{path}", _SYMBOLS)
        except (OSError, ValueError):
            continue  # deleted or replaced since
        bias = find_load_bias(elf, [mapping for mapping in mappings if mapping.path == path])
        if _STATE in elf.symbols and bias is not None:
            return {name: bias + address for name, (address, _) in elf.symbols.items()}
    return {}

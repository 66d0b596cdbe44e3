"""Finds the CPython of a process: where its global state is, which version it has, and how it lays out its structures.

All of it follows from exported symbols, which a stripped program has as well. A uWSGI has CPython in its own file, in a
plugin or in libpython.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from uwsgi_headroom.kernel.stacks.layout import DEBUG_BYTES, Layout, Version, read_debug_offsets
from uwsgi_headroom.kernel.stacks.layout_table import LAYOUTS
from uwsgi_headroom.kernel.waits.elf import read_elf
from uwsgi_headroom.kernel.waits.memory import read_pieces
from uwsgi_headroom.kernel.waits.memory_map import find_load_bias, parse_mappings, paths_to_search, read_maps

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


@dataclass(frozen=True, slots=True)
class Runtime:
    """The CPython of a process. address: of `_PyRuntime`. The types are the addresses of those objects."""

    version: Version
    address: int
    layout: Layout
    code_type: int
    text_type: int
    bytes_type: int


def find_runtime(pid: int) -> Runtime:
    """Find the CPython of a process. Raises OSError, RefusedToReadError if its memory may not be read, or
    NoRuntimeError."""
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

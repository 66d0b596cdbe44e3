"""Where CPython keeps things is as its headers, or the process, say; anything else is refused."""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kernel.stacks.pythons import find_python, planted_stacks
from uwsgi_headroom.kernel.stacks.layout import DEBUG_BYTES, LAYOUTS, Layout, Version, find_runtime, read_debug_offsets
from uwsgi_headroom.kernel.waits.memory import read_pieces

VERSIONS: tuple[Version, ...] = ((3, 9), (3, 10), (3, 11), (3, 12))
"""From 3.13 on, a process says them itself."""

_FIELDS: Mapping[str, str | Mapping[Version, str | None]] = {
    "interpreters_head": "offsetof(_PyRuntimeState, interpreters.head)",
    "interpreter_next": "offsetof(PyInterpreterState, next)",
    "threads_head": {
        (3, 9): "offsetof(PyInterpreterState, tstate_head)",
        (3, 11): "offsetof(PyInterpreterState, threads.head)",
    },
    "thread_next": "offsetof(PyThreadState, next)",
    "thread_interpreter": "offsetof(PyThreadState, interp)",
    "thread_id": "offsetof(PyThreadState, thread_id)",
    "thread_frame": {(3, 9): "offsetof(PyThreadState, frame)", (3, 11): "offsetof(PyThreadState, cframe)"},
    "cframe_frame": {(3, 9): None, (3, 11): "offsetof(_PyCFrame, current_frame)"},
    "frame_previous": {(3, 9): "offsetof(PyFrameObject, f_back)", (3, 11): "offsetof(_PyInterpreterFrame, previous)"},
    "frame_code": {(3, 9): "offsetof(PyFrameObject, f_code)", (3, 11): "offsetof(_PyInterpreterFrame, f_code)"},
    "frame_instruction": {
        (3, 9): "offsetof(PyFrameObject, f_lasti)",
        (3, 11): "offsetof(_PyInterpreterFrame, prev_instr)",
    },
    "frame_owner": {(3, 9): None, (3, 11): "offsetof(_PyInterpreterFrame, owner)"},
    "code_file": "offsetof(PyCodeObject, co_filename)",
    "code_function": {(3, 9): "offsetof(PyCodeObject, co_name)", (3, 11): "offsetof(PyCodeObject, co_qualname)"},
    "code_first_line": "offsetof(PyCodeObject, co_firstlineno)",
    "code_lines": {(3, 9): "offsetof(PyCodeObject, co_lnotab)", (3, 10): "offsetof(PyCodeObject, co_linetable)"},
    "code_instructions": {(3, 9): None, (3, 11): "offsetof(PyCodeObject, co_code_adaptive)"},
    "object_type": "offsetof(PyObject, ob_type)",
    "bytes_size": "offsetof(PyVarObject, ob_size)",
    "bytes_data": "offsetof(PyBytesObject, ob_sval)",
    "text_length": "offsetof(PyASCIIObject, length)",
    "text_state": "offsetof(PyASCIIObject, state)",
    "text_ascii": "sizeof(PyASCIIObject)",
    "text_wide": "sizeof(PyCompactUnicodeObject)",
}
"""By field of `Layout`: what the compiler is asked; by the first version that it holds for, if it changed."""

_PROGRAM = """
#define Py_BUILD_CORE 1
#include <stddef.h>
#include <stdio.h>
#include "Python.h"
#include "frameobject.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030B0000
#include "internal/pycore_frame.h"
#endif
int main(void) {{ printf("{form}\\n", {values}); }}
"""

_HEADERS = "import sysconfig; print(sysconfig.get_path('include'))"


def ask_compiler(headers: Path, version: Version) -> Layout:
    """The offsets that a C program prints which is compiled with these headers."""
    known = {name: question for name in _FIELDS if (question := _question(name, version))}
    program = _PROGRAM.format(
        form=" ".join(["%zu"] * len(known)), values=", ".join(f"(size_t){question}" for question in known.values())
    )
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "offsets.c"), Path(folder, "offsets")
        source.write_text(program)
        subprocess.run(["cc", "-w", f"-I{headers}", f"-I{headers}/internal", "-o", made, source], check=True)
        answer = subprocess.run([made], check=True, capture_output=True, text=True).stdout
    return dict(zip(known, map(int, answer.split()), strict=True))


def _question(name: str, version: Version) -> str | None:
    question = _FIELDS[name]
    if isinstance(question, str):
        return question
    return question[max(since for since in question if since <= version)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_is_that_of_the_headers(version):
    path = find_python(version[1])
    headers = path and Path(
        subprocess.run([path, "-c", _HEADERS], capture_output=True, text=True, check=True).stdout.strip()
    )
    if not headers or not (headers / "Python.h").exists() or not shutil.which("cc"):
        pytest.skip(f"the headers of Python 3.{version[1]} or a C compiler are not here")
    assert ask_compiler(headers, version) == LAYOUTS[version]


@pytest.mark.integration
@pytest.mark.parametrize("minor", [13, 14])
def test_the_table_of_a_process(minor):
    """It is believed with its cookie, its version, an interpreter lock and offsets of a possible size only."""
    path = find_python(minor)
    if path is None:
        pytest.skip(f"there is no Python 3.{minor} here: set PYTHON3_{minor} to its path")
    with planted_stacks(path) as planted:
        runtime = find_runtime(planted.process.pid)
        (table,) = read_pieces(planted.process.pid, [(runtime.address, DEBUG_BYTES)])
    assert table
    version = 3, minor
    assert read_debug_offsets(version, table) == runtime.layout
    assert read_debug_offsets((3, 27 - minor), table) is None
    assert read_debug_offsets((3, 12), table) is None
    assert read_debug_offsets(version, table[:100]) is None
    assert read_debug_offsets(version, b"y" + table[1:]) is None
    for place, number in ((16, 1), (24 + 8 * 2, 1 << 40)):  # free-threaded; an offset that cannot be
        changed = bytearray(table)
        struct.pack_into("<Q", changed, place, number)
        assert read_debug_offsets(version, bytes(changed)) is None

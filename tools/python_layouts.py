"""`python3 -m tools.python_layouts FOLDER...`: writes where CPython 3.9 to 3.12 keep what a stack is made of.

Each folder has the headers of one version, such as `/usr/include/python3.11`; those of all four are needed. The C
compiler is asked for the offsets. From 3.13 on, a process says them itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from tools.environments import ROOT
from uwsgi_headroom.kernel.stacks.layout import Layout, Version

TABLE = ROOT / "exporter" / "uwsgi_headroom" / "kernel" / "stacks" / "layout_table.py"

VERSIONS: tuple[Version, ...] = ((3, 9), (3, 10), (3, 11), (3, 12))

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

_HEAD = (
    '"""Where CPython 3.9 to 3.12 keep what a stack is made of, on 64-bit machines: see `tools.python_layouts`."""\n'
)


def read_version(headers: Path) -> Version:
    text = (headers / "patchlevel.h").read_text()
    major, minor = (re.search(rf"#define PY_{part}_VERSION\s+(\d+)", text) for part in ("MAJOR", "MINOR"))
    if not major or not minor:
        raise ValueError(f"{headers} has no headers of CPython")
    return int(major[1]), int(minor[1])


def ask_compiler(headers: Path) -> Layout:
    version = read_version(headers)
    asked = {field.name: _question(field.name, version) for field in fields(Layout)}
    known = {name: question for name, question in asked.items() if question}
    program = _PROGRAM.format(
        form=" ".join(["%zu"] * len(known)), values=", ".join(f"(size_t){question}" for question in known.values())
    )
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "offsets.c"), Path(folder, "offsets")
        source.write_text(program)
        subprocess.run(["cc", "-w", f"-I{headers}", f"-I{headers}/internal", "-o", made, source], check=True)
        answer = subprocess.run([made], check=True, capture_output=True, text=True).stdout
    numbers: dict[str, int | None] = dict.fromkeys(asked)
    numbers.update(zip(known, map(int, answer.split()), strict=True))
    return Layout(**numbers)  # type: ignore[arg-type]


def _question(name: str, version: Version) -> str | None:
    question = _FIELDS[name]
    if isinstance(question, str):
        return question
    return question[max(since for since in question if since <= version)]


def render(layouts: Mapping[Version, Layout]) -> str:
    """The module with the table: a row for each field, a column for each version."""
    rows = [("", *(f"{major}.{minor}" for major, minor in sorted(layouts)))]
    for field in fields(Layout):
        values = [getattr(layouts[version], field.name) for version in sorted(layouts)]
        rows.append((field.name, *("-" if value is None else str(value) for value in values)))
    lines = "".join(f"    {name:<18}{''.join(f'{value:>5}' for value in values)}\n" for name, *values in rows)
    return f'{_HEAD}\nOFFSETS = """\n{lines}"""\n'


def main(folders: Iterable[Path]) -> str | None:
    layouts = {read_version(folder): ask_compiler(folder) for folder in folders}
    if missing := [".".join(map(str, version)) for version in VERSIONS if version not in layouts]:
        return f"the headers of {', '.join(missing)} are missing"
    TABLE.write_text(render({version: layouts[version] for version in VERSIONS}))
    return None


if __name__ == "__main__":
    sys.exit(main(map(Path, sys.argv[1:])))

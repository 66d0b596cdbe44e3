"""Where CPython keeps things is as its headers, or the process, say; anything else is refused."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.kernel.stacks.pythons import find_python, planted_stacks
from tools.python_layouts import VERSIONS, ask_compiler
from uwsgi_headroom.kernel.stacks.layout import DEBUG_BYTES, LAYOUTS, Version, find_runtime, read_debug_offsets
from uwsgi_headroom.kernel.waits.memory import read_pieces

_HEADERS = "import sysconfig; print(sysconfig.get_path('include'))"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_is_that_of_the_headers(version: Version) -> None:
    """The committed offsets are those that the C compiler finds."""
    path = find_python(version[1])
    headers = path and Path(
        subprocess.run([path, "-c", _HEADERS], capture_output=True, text=True, check=True).stdout.strip()
    )
    if not headers or not (headers / "Python.h").exists() or not shutil.which("cc"):
        pytest.skip(f"the headers of Python 3.{version[1]} or a C compiler are not here")
    assert ask_compiler(headers) == LAYOUTS[version]


@pytest.mark.integration
@pytest.mark.parametrize("minor", [13, 14])
def test_the_table_of_a_process(minor: int) -> None:
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

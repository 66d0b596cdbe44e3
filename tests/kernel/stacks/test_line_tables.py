"""Lines are those that CPython itself finds in its tables, on every version that is here."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from tests.kernel.stacks.pythons import MINORS, find_python
from uwsgi_headroom.kernel.stacks.reader import find_line

_DUMP = """
import argparse, dis, json, sys, types
def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)
def lines(code):
    if sys.version_info >= (3, 10):
        return [row for row in code.co_lines() if row[0] < row[1]]
    starts = [*dis.findlinestarts(code), (len(code.co_code), None)]
    return [(start, end, line) for (start, line), (end, _) in zip(starts, starts[1:])]
for module in (argparse, json):
    with open(module.__file__) as file:
        for code in codes(compile(file.read(), module.__file__, "exec")):
            table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
            print(json.dumps([table.hex(), code.co_firstlineno, lines(code)]))
"""


@pytest.mark.parametrize("minor", MINORS)
def test_lines_of_the_standard_library(minor: int) -> None:
    """For the beginning and the end of each range of instructions of two modules."""
    path = find_python(minor)
    if path is None:
        pytest.skip(f"there is no Python 3.{minor} here: set PYTHON3_{minor} to its path")
    dumped = subprocess.run([path, "-c", _DUMP], capture_output=True, text=True, check=True).stdout.splitlines()
    compared = 0
    for row in dumped:
        table, first, ranges = json.loads(row)
        for start, end, line in ranges:
            wanted = first if line is None else line
            for offset in (start, end - 2):
                # A function's first instructions have a line 0 or none: that of the function is shown.
                assert find_line((3, minor), bytes.fromhex(table), first, offset) == (wanted or first), (
                    row[-200:],
                    offset,
                )
                compared += 1
    assert compared > 2000


def test_tables_of_any_bytes() -> None:
    """Any bytes give a line, and not before the first one there is."""
    chance = random.Random(1)
    for _ in range(3000):
        table = chance.randbytes(chance.randrange(60))
        version = 3, chance.choice(MINORS)
        assert find_line(version, table, chance.randrange(1, 1000), chance.randrange(-4, 500)) > 0

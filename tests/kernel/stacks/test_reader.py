"""Stacks are those of the process itself, on every CPython that is here; torn memory gives none."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.kernel.contained import started
from tests.kernel.stacks.pythons import MINORS, PROGRAM, find_python, planted_stacks
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel.stacks.layout import NoRuntimeError, find_runtime
from uwsgi_headroom.kernel.stacks.looks import choose_frame, is_application
from uwsgi_headroom.kernel.stacks.reader import (
    LONGEST_NAME,
    LONGEST_PATH,
    MOST_BYTES,
    MOST_FRAMES,
    MOST_THREADS,
    CodeObject,
    Frame,
    StackReader,
    TornError,
    find_line,
)
from uwsgi_headroom.kernel.waits.memory import Piece, read_pieces

PAGE = 4096


def python(minor: int) -> str:
    path = find_python(minor)
    if path is None:
        pytest.skip(f"there is no Python 3.{minor} here: set PYTHON3_{minor} to its path")
    return path


def tasks_of(pid: int) -> set[int]:
    return set(map(int, os.listdir(f"/proc/{pid}/task")))


def read_stack(reader: StackReader, state: int) -> list[tuple[str, str, int]]:
    return [(frame.code.function, frame.code.file, reader.find_line(frame)) for frame in reader.walk(state)]


@pytest.mark.integration
@pytest.mark.parametrize("minor", MINORS)
def test_stacks_of_a_process(minor):
    """Of every thread they are those that the process reports, also in a forked child."""
    with planted_stacks(python(minor)) as planted:
        pid, expected = planted.process.pid, planted.stacks()
        runtime = find_runtime(pid)
        assert runtime.version == (3, minor)
        reader = StackReader(runtime, partial(read_pieces, pid))
        for _ in range(2):  # the second time from what was remembered
            states = reader.find_threads(tasks_of(pid))
            assert states.keys() == tasks_of(pid)
            assert {number: read_stack(reader, states[number]) for number in expected} == {
                number: stack[:MOST_FRAMES] for number, stack in expected.items()
            }
        child = planted.fork()
        of_child = StackReader(find_runtime(child), partial(read_pieces, child))

        def rests() -> bool:
            try:
                return read_stack(of_child, of_child.find_threads({child})[child])[0] == wanted
            except (KeyError, IndexError, TornError):
                return False

        source = PROGRAM.read_text().splitlines()
        line = source.index("        time.sleep(3600)", source.index("class Child:")) + 1
        wanted = ("Child.rests" if minor > 10 else "rests", str(PROGRAM), line)
        wait_until(rests, what="the child to rest")


@pytest.mark.integration
def test_a_process_without_python_is_refused():
    with started(sleep := shutil.which("sleep") or "sleep", "60") as process:
        wait_until(
            lambda: Path(f"/proc/{process.pid}/exe").resolve().name == Path(sleep).resolve().name, what="sleep to start"
        )
        with pytest.raises(NoRuntimeError, match="no CPython"):
            find_runtime(process.pid)


@contextlib.contextmanager
def running(program: str) -> Iterator[tuple[int, StackReader]]:
    """Run a program until the block ends, once it has printed a line; its pid, and a reader of its stacks."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process.pid, StackReader(find_runtime(process.pid), partial(read_pieces, process.pid))
        finally:
            process.kill()


@pytest.mark.integration
def test_threads_that_come_and_go_make_no_further_interpreter():
    program = (
        "import _thread, time\ndef ends(): time.sleep(0)\ndef main():\n    print(flush=True)\n"
        "    while True:\n        _thread.start_new_thread(ends, ())\n        time.sleep(0)\nmain()\n"
    )
    with running(program) as (pid, reader):
        seen: set[str] = set()
        for _ in range(3000):
            with contextlib.suppress(TornError, FileNotFoundError):
                states = reader.find_threads(tasks_of(pid))
                if pid in states:
                    seen.add([frame.code.function for frame in reader.walk(states[pid])][-2])
        assert seen == {"main"}


@pytest.mark.integration
def test_a_name_of_100_kilobytes_is_not_read():
    program = (
        "import time, types\ndef f():\n    print(flush=True)\n    time.sleep(3600)\ncode = f.__code__\n"
        "names = {name: 'x' * 100_000 for name in ('co_name', 'co_qualname') if hasattr(code, name)}\n"
        "types.FunctionType(code.replace(**names), globals())()\n"
    )
    with running(program) as (pid, reader):
        state = reader.find_threads({pid})[pid]
        with pytest.raises(TornError):
            list(reader.walk(state))


class Image:
    """Memory that was read once, page by page, and what a hostile or changing process makes of it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pages: dict[int, bytes] = {}
        self._chance: random.Random | None = None
        self._harm = 0.0
        self.read_bytes = self.calls = 0

    def damage(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._harm = self._chance.choice((0.002, 0.02, 0.2, 0.9))
        self.read_bytes = self.calls = 0

    def read(self, pieces: Sequence[Piece]) -> list[bytes | None]:
        self.calls += 1
        self.read_bytes += sum(size for _, size in pieces)
        return [self._read(address, size) for address, size in pieces]

    def _read(self, address: int, size: int) -> bytes | None:
        start = address - address % PAGE
        pages = [self._page(page) for page in range(start, address + size, PAGE)]
        if None in pages:
            return None
        data = b"".join(page for page in pages if page)[address - start :][:size]
        if self._chance is None or self._chance.random() > self._harm:
            return data
        return self._harmed(data, self._chance)

    def _page(self, address: int) -> bytes | None:
        if self._chance is None and address not in self._pages:
            (page,) = read_pieces(self._pid, [(address, PAGE)])
            if page is not None:
                self._pages[address] = page
        return self._pages.get(address)

    def _harmed(self, data: bytes, chance: random.Random) -> bytes | None:
        if chance.random() < 0.2 or not data:
            return None
        changed = bytearray(data)
        if len(data) >= 8 and chance.random() < 0.5:
            pages = list(self._pages)
            target = chance.choice(
                (0, 1, chance.choice(pages), chance.choice(pages) + 8 * chance.randrange(512), 2**64 - 1)
            )
            place = 8 * chance.randrange(len(data) // 8)
            changed[place : place + 8] = target.to_bytes(8, "little")
        else:
            for _ in range(chance.randrange(1, 4)):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return bytes(changed)


@pytest.mark.integration
@pytest.mark.parametrize("minor", [minor for minor in MINORS if find_python(minor)])
def test_torn_memory(minor):
    """Whatever the memory holds: there is a stack or none, within the bounds, and never another error."""
    with planted_stacks(python(minor)) as planted:
        pid, expected = planted.process.pid, planted.stacks()
        runtime, tasks, image = find_runtime(pid), tasks_of(pid), Image(pid)
        reader = StackReader(runtime, image.read)
        states = reader.find_threads(tasks)
        for number in expected:  # learn the pages that it takes
            assert read_stack(reader, states[number]) == expected[number][:MOST_FRAMES]
    torn = whole = 0
    for seed in range(150):
        image.damage(seed)
        if seed % 8 == 0:
            reader = StackReader(runtime, image.read)
        try:
            found = reader.find_threads(tasks)
        except (TornError, NoRuntimeError):
            found = states
            torn += 1
        assert len(found) <= MOST_THREADS
        assert set(found) <= tasks
        for state in found.values():
            frames = []
            try:
                for frame in reader.walk(state):
                    frames.append(frame)
                    assert 0 <= reader.find_line(frame) < 1 << 31
                choose_frame(frames)
                whole += 1
            except TornError:
                torn += 1
            assert len(frames) <= MOST_FRAMES
            assert all(len(frame.code.function) <= LONGEST_NAME for frame in frames)
            assert all(len(frame.code.file) <= LONGEST_PATH for frame in frames)
        assert image.read_bytes <= MOST_BYTES + 512 * PAGE
    assert torn > 500
    assert whole > 500


def frame(file: str, function: str = "function") -> Frame:
    return Frame(CodeObject(function, file, 1, 0), 0)


OWN_FILES = "/srv/shop/orders.py orders.py /srv/lib/orders.py /srv/shop/python3.11.py"
OTHER_FILES = """
/srv/shop/.venv/lib/python3.11/site-packages/django/db.py /usr/lib/python3/dist-packages/flask/app.py <string>
/usr/lib/python3.11/threading.py /usr/lib64/python3.9/json/decoder.py lib/python3.12/site-packages/x.py
"""


@pytest.mark.parametrize("file", [*OWN_FILES.split(), *OTHER_FILES.split(), "<frozen importlib._bootstrap>"])
def test_files_of_the_application(file):
    """Files of the standard library and of installed packages, and code without a file, are no application's."""
    assert is_application(file) == (file in OWN_FILES.split())


PACKAGES = "/v/lib/python3.11/site-packages"


def test_the_first_frame_of_the_application():
    """The application's function that was called last counts, with the library's function that it has called."""
    orders, view = frame("/srv/shop/orders.py", "query_orders"), frame("/srv/shop/views.py", "view")
    reads, executes = (
        frame("/usr/lib/python3.11/socket.py", "readinto"),
        frame(f"{PACKAGES}/psycopg2/extras.py", "execute"),
    )
    stack = [reads, executes, orders, frame(f"{PACKAGES}/flask/app.py", "dispatch"), view]
    assert choose_frame(stack) == (orders, "psycopg2 execute")
    assert choose_frame([frame("/usr/lib/python3.11/queue.py", "get"), view]) == (view, "queue get")
    assert choose_frame(stack[2:]) == (orders, "")
    assert choose_frame(stack, ("/srv/shop/v",)) == (view, "flask dispatch")
    assert choose_frame(stack[:2]) == (stack[0], "")
    assert choose_frame([]) is None


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
def test_lines_of_the_standard_library(minor):
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

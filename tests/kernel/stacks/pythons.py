"""Finds the CPythons of this machine, and runs the program with planted stacks on one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tests.support.real_uwsgi import wait_until

PROGRAM = Path(__file__).with_name("planted_stacks.py")

MINORS = range(9, 15)
"""Of the versions 3.9 to 3.14."""


@cache
def find_python(minor: int) -> str | None:
    """The path of a CPython 3.MINOR: `PYTHON3_MINOR` in the environment, or of pyenv, uv or the system."""
    name, home = f"python3.{minor}", Path.home()
    installed = sorted(home.glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
    installed += sorted(home.glob(f".local/share/uv/python/cpython-3.{minor}.*/bin/{name}"))
    named = [os.environ.get(f"PYTHON3_{minor}"), *map(str, installed), f"/usr/bin/{name}", shutil.which(name)]
    for path in named:
        if path and os.access(path, os.X_OK):
            done = subprocess.run(
                [path, "-c", "import sys; print(sys.version_info[1])"], check=False, capture_output=True, text=True
            )
            if done.stdout.strip() == str(minor):
                return path
    return None


class Planted(Struct, frozen=True):
    process: subprocess.Popen[str]
    children: list[int] = field(default_factory=list)

    def fork(self) -> int:
        self.children.append(self.ask("fork")["child"])
        return self.children[-1]

    def ask(self, request: str = "") -> Any:
        self.process.stdin.write(f"{request}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stacks(self) -> dict[int, list[tuple[str, str, int]]]:
        """The stack of each thread, once all wait in the functions that were planted."""
        found: list[dict[int, list[tuple[str, str, int]]]] = [{}]

        def all_wait() -> bool:
            answer = self.ask()
            before = found[0]
            found[0] = {int(number): [tuple(frame) for frame in frames] for number, frames in answer.items()}
            return before == found[0] and len(found[0]) == 9 and all(map(self._sleeps, found[0]))

        wait_until(all_wait, what="the threads to wait")
        return found[0]

    def _sleeps(self, thread: int) -> bool:
        stat = Path(f"/proc/{self.process.pid}/task/{thread}/stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[0] == "S"


@contextlib.contextmanager
def planted_stacks(python: str) -> Iterator[Planted]:
    process = subprocess.Popen(
        [python, "-X", "utf8", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    planted = Planted(process)
    try:
        process.stdout.readline()
        yield planted
    finally:
        for child in planted.children:
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate()

"""Long-running programs: started in order, each when the one before is ready, watched, ended in reverse."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.progress import step

START_SECONDS = 30.0  # a loaded small machine needs some for Python alone
STOP_SECONDS = 10.0  # uWSGI lets its workers finish for a while
TAIL = 15  # lines of a program's log that explain its end


@dataclass(frozen=True)
class Program:
    """A program: `sentence` is said while it starts, and it is up when `ready` is true."""

    name: str
    sentence: str
    command: Sequence[str | Path]
    ready: Callable[[], bool]
    variables: Mapping[str, str] = field(default_factory=dict)


class ProgramError(Exception):
    """A program ended, or did not become ready; the message holds the end of its log."""


@dataclass(frozen=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    log: Path

    def refuse_if_ended(self) -> None:
        status = self.process.poll()
        if status is not None:
            how = f"status {status}" if status >= 0 else signal.Signals(-status).name
            raise ProgramError(f"{self.program.name} ended ({how}){self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL:]
        return ". Its last words:\n" + "\n".join(f"  | {line}" for line in lines) if lines else ", silently"


@contextlib.contextmanager
def running(programs: Sequence[Program], directory: Path, cwd: Path) -> Iterator[Callable[[], None]]:
    """Run `programs` while the block runs, with their logs in `directory`.

    Yields a check that raises `ProgramError` once one has ended: the others would show half a picture.
    """
    started: list[_Running] = []

    def check() -> None:
        for each in started:
            each.refuse_if_ended()

    try:
        for program in programs:
            with step(program.sentence):
                started.append(_start(program, directory / f"{program.name}.log", cwd))
                _wait_until_ready(started[-1], check)
        yield check
    finally:
        _end([each.process for each in reversed(started)])


def _start(program: Program, log: Path, cwd: Path) -> _Running:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in program.command],
            cwd=cwd,
            env={**os.environ, **program.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches us alone, and we end them in order
        )
    return _Running(program, process, log)


def _wait_until_ready(starting: _Running, check: Callable[[], None]) -> None:
    end = time.monotonic() + START_SECONDS
    while not starting.program.ready():
        check()
        if time.monotonic() > end:
            raise ProgramError(f"{starting.program.name} is not ready after {START_SECONDS:g} s{starting.last_words()}")
        time.sleep(0.05)
    check()  # something else may have answered in its place


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what ignored us, and workers that outlived their master
        process.wait()

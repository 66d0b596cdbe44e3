"""Runs long-lived programs: starts each when the one before is ready, watches them, ends them in reverse order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.commands import note, show_step

START_SECONDS = 60.0  # on a busy small machine, starting Python alone takes seconds
STOP_SECONDS = 10.0  # uWSGI gives its workers time to finish
TAIL = 15  # lines of a program's log that explain its end


@dataclass(frozen=True)
class Program:
    """A program to run. `sentence` is printed while it starts, unless empty; the program is up when `ready` is true.

    required: whether the others are useless without this program; otherwise it is optional. instead: returns what to
    start if this optional program has ended at its start, such as the same on another port, or None.
    """

    name: str
    sentence: str
    command: Sequence[str | Path]
    ready: Callable[[], bool]
    variables: Mapping[str, str] = field(default_factory=dict)
    required: bool = True
    instead: Callable[[], Program | None] = lambda: None


class ProgramError(Exception):
    """A program ended, or did not become ready; the message has the end of its log.

    without: the message to print where the other programs continue without this one.
    """

    def __init__(self, program: Program, words: str) -> None:
        self.program = program
        self.without = f"  Going on without {program.name}, which {words}"
        super().__init__(f"{program.name} {words}")


@dataclass(frozen=True)
class _Started:
    program: Program
    process: subprocess.Popen[bytes]
    log: Path

    def refuse_if_ended(self) -> None:
        status = self.process.poll()
        if status is not None:
            how = f"status {status}" if status >= 0 else signal.Signals(-status).name
            raise ProgramError(self.program, f"ended ({how}){self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL:]
        return ". Its log ends with:\n" + "\n".join(f"  | {line}" for line in lines) if lines else " without output"


class Running:
    """The programs that run, and those that were lost."""

    def __init__(self, directory: Path, cwd: Path) -> None:
        self._directory, self._cwd = directory, cwd
        self._started: list[_Started] = []
        self._lost: list[_Started] = []
        self._news: list[str] = []

    def names(self) -> list[str]:
        """The names of the running programs."""
        return [started.program.name for started in self._started]

    def pids(self) -> dict[str, int]:
        """The process id of each running program, by name."""
        return {started.program.name: started.process.pid for started in self._started}

    def start(self, program: Program) -> None:
        """Starts a program and returns when it is ready. Raises `ProgramError` if it fails, or a required one ends.

        An optional program that takes long continues to start in the background: on a busy machine Prometheus may need
        a minute.
        """
        started = _start(program, self._directory / f"{program.name}.log", self._cwd)
        self._started.append(started)
        end = time.monotonic() + START_SECONDS
        try:
            while not program.ready():
                started.refuse_if_ended()
                self.check()
                if time.monotonic() > end:
                    if not program.required:
                        waited = f"not ready after {START_SECONDS:g} s"
                        self._news.append(f"  {program.name} is {waited}; it continues to start in the background")
                        return
                    raise ProgramError(program, f"is not ready after {START_SECONDS:g} s{started.last_words()}")
                time.sleep(0.05)
            started.refuse_if_ended()  # another process may have answered on its port
        except ProgramError:
            if not program.required:
                self._lose(started)
            raise

    def check(self) -> None:
        """Raises `ProgramError` once a required program has ended; notes the end of an optional one."""
        for started in list(self._started):
            try:
                started.refuse_if_ended()
            except ProgramError as error:
                if started.program.required:
                    raise
                self._lose(started)
                self._news.append(error.without)

    def news(self) -> list[str]:
        """Returns messages since the last call about optional programs: ended, or not ready yet."""
        news, self._news = self._news, []
        return news

    def kill(self, name: str) -> None:
        """Kills a running program and all its processes with SIGKILL; `check` and `news` do not report this end."""
        (killed,) = [started for started in self._started if started.program.name == name]
        self._started.remove(killed)
        _kill_group(killed.process)

    def end(self) -> None:
        """Ends all programs, in reverse order; kills those that ignore SIGTERM."""
        _end([started.process for started in [*reversed(self._started), *self._lost]])

    def _lose(self, lost: _Started) -> None:
        self._started.remove(lost)
        self._lost.append(lost)
        lost.process.terminate()


@contextlib.contextmanager
def running(programs: Iterable[Program], directory: Path, cwd: Path, ending: str = "") -> Iterator[Running]:
    """Runs `programs` during the block, with their logs in `directory`; takes each when the one before is ready.

    Reports and skips an optional program that does not start. ending: printed during shutdown.
    """
    up = Running(directory, cwd)
    try:
        for program in programs:
            _start_or_skip(up, program)
            for text in up.news():
                note(text)
        yield up
    finally:
        with _said(ending):
            up.end()


def _start_or_skip(up: Running, program: Program) -> None:
    """Starts a program, or what it names instead; notes why an optional one does not start. Raises `ProgramError`."""
    try:
        with _said(program.sentence):
            up.start(program)
    except ProgramError as error:
        if error.program.required:
            raise
        other = program.instead()
        if other:
            _start_or_skip(up, other)
        else:
            note(error.without)


def _said(sentence: str) -> contextlib.AbstractContextManager[None]:
    return show_step(sentence) if sentence else contextlib.nullcontext()


def _start(program: Program, log: Path, cwd: Path) -> _Started:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in program.command],
            cwd=cwd,
            env={**os.environ, **program.variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the programs in order
        )
    return _Started(program, process, log)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        _kill_group(process)  # processes that ignored SIGTERM, and workers that outlived their master


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

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

from tools.progress import note, show_step

START_SECONDS = 60.0  # a loaded small machine needs some for Python alone
STOP_SECONDS = 10.0  # uWSGI lets its workers finish for a while
TAIL = 15  # lines of a program's log that explain its end


@dataclass(frozen=True)
class Program:
    """A program: `sentence` is said while it starts, unless it is empty, and it is up when `ready` is true.

    required: whether the others make no sense without it.
    """

    name: str
    sentence: str
    command: Sequence[str | Path]
    ready: Callable[[], bool]
    variables: Mapping[str, str] = field(default_factory=dict)
    required: bool = True


class ProgramError(Exception):
    """A program ended, or did not become ready; the message holds the end of its log. without: where others go on."""

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
        return ". Its last words:\n" + "\n".join(f"  | {line}" for line in lines) if lines else ", silently"


class Running:
    """The programs that run, and those that were lost."""

    def __init__(self, directory: Path, cwd: Path) -> None:
        self._directory, self._cwd = directory, cwd
        self._started: list[_Started] = []
        self._lost: list[_Started] = []
        self._news: list[str] = []

    def names(self) -> list[str]:
        """The names of those that run."""
        return [each.program.name for each in self._started]

    def start(self, program: Program) -> None:
        """Returns when it is ready. Raises `ProgramError` where it, or a required one that runs, is lost.

        One that is not required and takes long is left to start: on a busy machine Prometheus may need a minute.
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
                        self._news.append(f"  {program.name} is not ready after {START_SECONDS:g} s; it starts beside")
                        return
                    raise ProgramError(program, f"is not ready after {START_SECONDS:g} s{started.last_words()}")
                time.sleep(0.05)
            started.refuse_if_ended()  # something else may have answered in its place
        except ProgramError:
            if not program.required:
                self._lose(started)
            raise

    def check(self) -> None:
        """Raise `ProgramError` once a required one has ended: the others would show half a picture."""
        for each in list(self._started):
            try:
                each.refuse_if_ended()
            except ProgramError as error:
                if each.program.required:
                    raise
                self._lose(each)
                self._news.append(error.without)

    def news(self) -> list[str]:
        """What happened since the last call to programs that are not required: ended, or not ready yet."""
        news, self._news = self._news, []
        return news

    def kill(self, name: str) -> None:
        """SIGKILL to a program that runs and all its processes: an end on purpose, which nobody reports."""
        (killed,) = [each for each in self._started if each.program.name == name]
        self._started.remove(killed)
        _kill_group(killed.process)

    def end(self) -> None:
        """End all, in the reverse order, for certain."""
        _end([each.process for each in [*reversed(self._started), *self._lost]])

    def _lose(self, lost: _Started) -> None:
        self._started.remove(lost)
        self._lost.append(lost)
        lost.process.terminate()


@contextlib.contextmanager
def running(programs: Sequence[Program], directory: Path, cwd: Path, ending: str = "") -> Iterator[Running]:
    """Run `programs` while the block runs, with their logs in `directory`.

    One that is not required and does not start is reported and left out. ending: said while they are ended.
    """
    up = Running(directory, cwd)
    try:
        for program in programs:
            try:
                with _said(program.sentence):
                    up.start(program)
            except ProgramError as error:
                if error.program.required:
                    raise
                note(error.without)
            for text in up.news():
                note(text)
        yield up
    finally:
        with _said(ending):
            up.end()


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
            start_new_session=True,  # Ctrl-C reaches us alone, and we end them in order
        )
    return _Started(program, process, log)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        _kill_group(process)  # what ignored us, and workers that outlived their master


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""Starts commands under a guard, and ends them with everything that they started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.processes import guard

STOP_SECONDS = 5.0
"""How long a command may take to end after the signal, before it is killed."""

CHECK_SECONDS = 0.2
"""How often the processes of a run are checked while it is measured."""

_KILL_SECONDS = 20.0

_TAIL_LINES = 15
_TAIL_BYTES = 8192


class RunError(HeadroomError):
    """A run has no result; the message says why, as a sentence."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A command that runs under a guard. `process` is the guard: it ends with the command and has its exit status."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def pids(self) -> list[int]:
        """Return the PIDs of the command and of all processes below it."""
        return guard.descendants(self.process.pid)

    def ended(self) -> str | None:
        """Return how the command ended, with the end of its log; None while it runs."""
        status = self.process.poll()
        return None if status is None else f"{self.name} ended ({_describe_status(status)}){self.last_words()}"

    def refuse_if_ended(self) -> None:
        """Raise `RunError` if the command has ended."""
        if sentence := self.ended():
            raise RunError(sentence)

    def last_words(self) -> str:
        """Return the end of the log as the end of a sentence."""
        lines = _read_tail(self.log)
        return ". Its log ends with:\n" + "\n".join(f"  | {line}" for line in lines) if lines else " without output."


@contextlib.contextmanager
def guarded(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    temporary: Path | None = None,
    output: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[Guarded]:
    """Run a command during the block; then end it, first with the signal `stop`.

    log: the file for its errors, and for its output unless `output` is given. temporary: a directory that the guard
    removes if this process is killed. Raises `RunError` if the setup is wrong, or a process cannot be ended, and
    OSError if no process can be started.
    """
    try:
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(temporary or ""), *command],
                stdin=subprocess.PIPE,
                stdout=errors if output is None else output,
                stderr=errors,
                cwd=cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal reaches the runner only
            )
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
        raise RunError(f"{name} cannot be started in {cwd or Path.cwd()}: {error}.") from error
    running = Guarded(name, process, log)
    try:
        yield running
    finally:
        _end(running, stop)


def _end(running: Guarded, stop: signal.Signals) -> None:
    """End the command with a signal, then everything below the guard with SIGKILL."""
    process = running.process
    try:
        if process.poll() is None:
            process.send_signal(stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
    finally:  # also after another Ctrl-C
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b".")
            process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        status = process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        status = guard.LEFT_OVER
    if status == guard.LEFT_OVER:
        raise RunError(f"{running.name} cannot be ended: the processes {running.pids()} are left.")


def _describe_status(status: int) -> str:
    number = -status if status < 0 else status - 128 if status > 128 else 0
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"status {status}"


def _read_tail(log: Path) -> list[str]:
    with contextlib.suppress(OSError), log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
        return [line for line, _ in groupby(lines)][-_TAIL_LINES:]  # a repeated message would hide its cause
    return []

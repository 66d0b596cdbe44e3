"""Runs commands to their end, with their output only if they fail, and shows each step and how long it took."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TAIL = 15  # lines: pip and compilers print the cause at the end


class CommandError(Exception):
    """A command failed; the message contains the end of its output."""

    def __init__(self, command: str, said: str) -> None:
        lines = said.strip().splitlines() or ["(no output)"]
        self.last_line = lines[-1]
        tail = "\n".join(f"  | {line}" for line in lines[-TAIL:])
        super().__init__(f"this command failed: {command}\n{tail}")


def run_command(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Runs `command` to its end. Raises `CommandError` if it fails. If interrupted, kills all its processes, and
    removes the temporary files of pip and compilers."""
    words = [str(word) for word in command]
    with tempfile.TemporaryDirectory(prefix="headroom-", ignore_cleanup_errors=True) as temporary:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, "TMPDIR": temporary},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # pip starts compilers: one group can be killed together
        )
        try:
            said, _ = process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if process.returncode:
        raise CommandError(" ".join(words), said)


WIDTH = 64  # columns for the sentence and its dots; the time follows and the line stays within 80
DOT = 1.0  # seconds between two dots: after three without output, people think that a program hangs


@contextlib.contextmanager
def show_step(sentence: str) -> Iterator[None]:
    """Prints what is being done, dots during the block, then how many seconds the block took."""
    start, line, ended = time.monotonic(), [f"  {sentence}"], threading.Event()

    def grow() -> None:
        while not ended.wait(DOT):
            line.append(".")
            _write(".")

    _write(line[0])
    alive = threading.Thread(target=grow, daemon=True)
    alive.start()
    end = "  not done"
    try:
        yield
        end = f"{time.monotonic() - start:8.1f} s"
    finally:
        ended.set()
        alive.join()
        _write(f"{' ' * (WIDTH - len(''.join(line)))}{end}\n")


def note(text: str) -> None:
    _write(f"{text}\n")


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone; the work must still be finished
        sys.stdout.write(text)
        sys.stdout.flush()

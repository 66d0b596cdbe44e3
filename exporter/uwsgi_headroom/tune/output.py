"""The directory with the result of a `tune`: what is written there, and in which files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from uwsgi_headroom.errors import ConfigError, HeadroomError

RUNS, MEASURED, REPORT, INI, DIFF, CHART = (
    *("runs.jsonl", "measured.ini", "report.md", "recommended.ini", "recommended.diff", "runs.svg"),
)


class OutputDirectory:
    """Ini files may hold passwords, so files are readable by their owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        """Write a file. Raises HeadroomError if that is impossible: the disk is full."""
        path = self.path / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
        except OSError as error:
            raise HeadroomError(f"{path} cannot be written: {error.strerror}") from None


def open_output(given: str | None) -> OutputDirectory:
    """Make the directory, unless it is that of an interrupted tune. Raises ConfigError if it holds something else, and
    HeadroomError if it cannot be made or written."""
    path = Path(given) if given else Path(time.strftime("tune-%Y%m%d-%H%M%S"))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {entry.name for entry in path.iterdir()}
    except FileExistsError:
        raise ConfigError(f"--output: {path} is not a directory") from None
    except OSError as error:
        raise HeadroomError(f"{path} cannot be made: {error.strerror}") from None
    if REPORT in names:
        raise ConfigError(f"--output: {path} has the result of an earlier tune: give another directory")
    if names - {RUNS, MEASURED, INI, DIFF, CHART}:
        raise ConfigError(f"--output: {path} holds other files: give an empty or a new directory")
    if not os.access(path, os.W_OK | os.X_OK):
        raise HeadroomError(f"{path} cannot be written: permission denied")
    return OutputDirectory(path.absolute())

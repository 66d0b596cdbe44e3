"""Keeps outcomes in a file as JSON lines, and sums up repetitions.

A line has the outcome and a fingerprint of its setup and load. So a file is only continued by runs that do the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.experiment.setup import Setup
from uwsgi_headroom.tune.loads.load import Load

Key = tuple[str, str, int]
"""Names a run of an experiment: its setup, its load, the number of the repetition."""


class ResultsError(HeadroomError):
    """A results file cannot be read, written or continued."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a results file. run: the fingerprint of the setup and the load."""

    run: str
    outcome: Outcome

    @property
    def key(self) -> Key:
        return self.outcome.setup, self.outcome.load, self.outcome.number


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of a number of values."""

    median: float
    low: float
    high: float
    number: int


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the range. Raises ValueError without a value."""
    if not values:
        raise ValueError("no values")
    return Spread(median(values), min(values), max(values), len(values))


def by_setup(outcomes: Sequence[Outcome], label: str) -> dict[str, list[Outcome]]:
    """Return the outcomes of a load by setup, in their order. The list of a setup without a successful run is empty."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.load == label:
            found.setdefault(outcome.setup, []).extend([outcome] if outcome.answers else [])
    return found


def fingerprint(setup: Setup, load: Load) -> str:
    """Return a short text that differs between runs that do something else."""
    environment: Mapping[str, str] = dict(sorted(setup.environment.items()))
    text = msgspec.json.encode((setup.command, setup.is_uwsgi, str(setup.cwd or ""), environment, load))
    return hashlib.sha256(text).hexdigest()[:16]


class ResultsFile:
    """An open results file. `found`: the lines that it had."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self.found = self._read()

    def _read(self) -> list[Line]:
        """Read all complete lines, and cut off a torn last one: the machine or the runner stopped while writing it."""
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return []  # a device may have no end
        with open(self._descriptor, "rb", closefd=False) as file:
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        lines = []
        for number, line in enumerate(complete.splitlines(), 1):
            try:
                lines.append(msgspec.json.decode(line, type=Line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ResultsError(f"{self._path}, line {number}, is not the result of a run: {error}") from error
        if len(complete) < len(text):
            os.ftruncate(self._descriptor, len(complete))
        return lines

    def append(self, line: Line) -> None:
        """Write a line, and wait until it is on the disk. Raises `ResultsError` if the disk is full."""
        text = msgspec.json.encode(line) + b"\n"
        try:
            with open(self._descriptor, "ab", closefd=False) as file:
                file.write(text)
            os.fsync(self._descriptor)
        except OSError as error:
            raise ResultsError(f"cannot write the result to {self._path}: {error.strerror}") from error


@contextlib.contextmanager
def open_results(path: Path) -> Iterator[ResultsFile]:
    """Open a results file, which need not exist, for one series at a time. Raises `ResultsError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ResultsError(f"cannot write the results to {path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResultsError(f"another series of runs is writing to {path}") from error
        yield ResultsFile(path, descriptor)
    finally:
        os.close(descriptor)

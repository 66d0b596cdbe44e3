"""Keeps what the runs of an experiment found in a file, one line of JSON for each, and sums up repetitions.

A line has the outcome and a fingerprint of its setup and load. So a file is only continued by runs that do the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from app.lab.clients import Answers, Load
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.words.formats import duration, figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A server to measure."""

    name: str
    """Unique among the setups of one experiment, such as `4x8`."""
    command: tuple[str, ...]
    """Its words. `{port}` is replaced by a free port of 127.0.0.1 that it has to listen on, `{directory}` by a private
    directory of the run."""
    is_uwsgi: bool = True
    """Whether it is a uWSGI with a stats server on the UNIX socket `{directory}/stats`: only then figures are
    sampled."""
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it gets beside those of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """This project's figures of a uWSGI in the measured time, from its stats server; all as the API defines them."""

    throughput: float
    response_time: float | None
    concurrency: float
    shares: Mapping[int, float]
    """Of the requests, by worker id."""
    hot_ratio: float | None
    cost: float | None
    """Of unevenness, 0 to 1."""
    interpreter_load: float | None
    """The busiest worker's."""
    interpreter_waits: Mapping[int, float] = field(default_factory=dict)
    """Threads that wait for the interpreter lock, by worker id."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Threads in each wait state, on average."""
    residency: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    """CPU seconds of each worker on each CPU, by worker id; empty if unknown."""
    headroom: float | None = None
    limit: str | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one setup under one load."""

    setup: str
    load: str
    number: int
    """Of the repetition, from 0."""
    answers: Answers | None
    cpus: tuple[float, ...] = ()
    """The part of each CPU of the machine that was busy, 0 to 1, in order."""
    server_cpu: float | None = None
    """CPUs that the server's processes used."""
    clients_cpu: float | None = None
    """CPUs that the load's clients used."""
    memory: int | None = None
    """The most bytes that all processes of the server took together, shared pages counted once (PSS)."""
    observed: Observed | None = None
    """None for other servers than uWSGI."""
    error: str | None = None
    """Why there is no result, as a sentence; then `answers` is None."""

    def sum_up(self) -> str:
        answers = self.answers
        if answers is None:
            return f"failed: {self.error.splitlines()[0] if self.error else 'no answer'}"
        times = (("mean", answers.mean), ("p99", answers.p99))
        shown = "".join(f", {name} {duration(value)}" for name, value in times if value is not None)
        failed, unsuccessful = sum(answers.errors.values()), sum(answers.statuses.values())
        if unsuccessful:
            shown += f", {unsuccessful:,} redirects or errors below 500"
        return f"{figure(answers.throughput, 4)} requests/s{shown}{f', {failed:,} failed' if failed else ''}"


Key = tuple[str, str, int]
"""Names a run of an experiment: its setup, its load, the number of the repetition."""


class ResultsError(HeadroomError):
    """A results file cannot be read, written or continued."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    """The fingerprint of the setup and the load."""
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
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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

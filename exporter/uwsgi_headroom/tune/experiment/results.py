"""Keeps what the runs of an experiment found in a file, one line of JSON for each, sums up repetitions,
and draws them.

A line has the outcome and a fingerprint of its setup and load. So a file is only continued by runs that do the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from uwsgi_headroom import extras
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.experiment.server import Setup
from uwsgi_headroom.tune.loads.load_tools import Answers, Load
from uwsgi_headroom.words.formats import duration, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


GREY = "#7a7a7a"
"""Text and axes: a contrast of 4.3 to white and of 4.9 to black (WCAG 2.1)."""

BLUE = "#3a86c8"

WIDTH = 7.1
"""Of a chart, in inches, as are the heights."""

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "uwsgi-headroom",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": GREY,
    "text.parse_math": False,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}


def draw_bars(path: Path, *, title: str, unit: str, rows: Mapping[str, Spread]) -> None:
    """Draw a horizontal bar for each row: the median, with a line from the lowest to the highest value."""
    with open_chart(path, title, 0.9 + 0.35 * max(1, len(rows))) as axes:
        draw_medians(axes, list(rows.values()))
        label_rows(axes, list(rows), unit)


def draw_medians(axes: Axes, spreads: Sequence[Spread], shift: float = 0.0) -> None:
    """Draw a bar with its range for each row. shift: from the middle of the row, in rows."""
    places = [row + shift for row in range(len(spreads))]
    axes.barh(places, [values.median for values in spreads], 0.4, color=BLUE, label="measured")
    for place, values in zip(places, spreads, strict=True):
        axes.plot([values.low, values.high], [place, place], color=GREY, linewidth=1.5, marker="|")


def label_rows(axes: Axes, names: Sequence[str], unit: str) -> None:
    """Name the rows, from the top on, and the horizontal axis."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)


@contextlib.contextmanager
def open_chart(path: Path, title: str, height: float) -> Iterator[Axes]:
    """Yield empty axes to draw on, and write the chart when the block ends without an error.

    Equal input gives equal bytes with one version of matplotlib. It is imported when a chart is drawn, because only the
    extra `tune` has it: every function raises `HeadroomError` if it is missing, and OSError if the file cannot be
    written.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise HeadroomError(f"charts need {extras.describe_missing(['matplotlib'])} ({error})") from error
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the reader's fonts may have it
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        yield axes
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})

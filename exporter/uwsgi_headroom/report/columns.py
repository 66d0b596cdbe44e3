"""The data of a capacity review: for each server, columns with one value per quarter of an hour, and their arithmetic.

A source (`sources`) fills the columns, from Prometheus or a history file; `review` computes from them and knows no
source. In a column, nan is "not known": a sum or a mean is of the known values, a quotient is known if both parts are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.record import AdviceSeverity, SocketHolders

Column = NDArray[np.float64]

STEP = 900.0
"""Seconds between two values of a column."""

LEAST_COVERED = 0.5
"""Share of a quarter that must have been sampled: a source leaves the columns of other quarters unknown."""

PERCENTILES = (0.5, 0.9, 0.95, 0.99)


class WorkerColumns(Struct, frozen=True, kw_only=True):
    """One worker slot. requests: completed per second; busy: mean threads in service; running: seconds in service of
    completed requests, per second; cpu: CPU seconds per second; accepting: share of the time; lock: mean threads that
    wait for the interpreter lock."""

    worker_id: int
    requests: Column
    busy: Column
    running: Column
    cpu: Column
    accepting: Column
    lock: Column


class EventMark(Struct, frozen=True, kw_only=True):
    """Something that happened to a server, at `time` (epoch seconds). kind: as in the journal."""

    time: float
    kind: str
    title: str


class ServerData(Struct, frozen=True, kw_only=True):
    """One uWSGI server. All columns are as long as `time`, which has the ends of consecutive quarters of an hour in
    epoch seconds, multiples of STEP, without gaps. All but `covered` is unknown in a quarter of which less than
    LEAST_COVERED was sampled.

    server, service, host: names; those of a history file have the service and the host of its exporter, or "".
    covered: share of the quarter that was sampled. requests, static, lost: per second. busy: mean threads in service
    (concurrency); running: seconds in service of completed requests per second, concurrency by Little's law; response
    time is running / (requests - static). full: share of the time with every available thread busy. occupancy[i]: share
    of the samples up to OCCUPANCY_BOUNDS[i] (`history.totals`; not cumulative), and above the last bound.
    configured, available, workers_accepting: threads, threads of workers that accept, workers that accept. queue: mean
    connections waiting, over all measured sockets; queue_full: share of the time at the limit of any.
    cpus: usable. cpu_own, cpu_idle, cpu_others: CPUs used by the server, unused, and used by others, among them.
    memory_per_worker, memory_available: bytes.
    bounds, by_time: by_time[i]: requests per second with response times up to bounds[i] and above bounds[i - 1]; the
    last bound is inf. percentiles: of the quarter's response times, by PERCENTILES, in seconds.
    slow: requests per second that missed the objective, for any reason; judged: those that count for it.
    reloads, respawns, harakiris, exceptions, overflows: numbers of events in the quarter.
    waits: mean threads by state (`record.waits`); backends, routes: mean threads by name; empty where off.
    limits: the share of the quarter in which the exporter's verdict was that something else than its resources limits
    the server, by the code of that; unknown where it was not.
    socket_holders: at the end, the workers that take requests from each socket, where some do not take them from every
    one; None where all do, or it is not known. A Prometheus has it only where each worker has sockets of its own.
    settings: the rules of the review of settings that had something to say when it was last known; None if it never
    was.
    """

    server: str
    service: str = ""
    host: str = ""
    time: Column
    covered: Column
    requests: Column
    static: Column
    lost: Column
    busy: Column
    running: Column
    full: Column
    occupancy: tuple[Column, ...]
    configured: Column
    available: Column
    workers_accepting: Column
    queue: Column
    queue_full: Column
    cpus: Column
    cpu_own: Column
    cpu_idle: Column
    cpu_others: Column
    memory_per_worker: Column
    memory_available: Column
    bounds: tuple[float, ...] = ()
    by_time: tuple[Column, ...] = ()
    percentiles: tuple[Column, ...] = ()
    objective: Slo | None = None
    slow: Column
    judged: Column
    reloads: Column
    respawns: Column
    harakiris: Column
    exceptions: Column
    overflows: Column
    waits: Mapping[str, Column] = field(default_factory=dict)
    backends: Mapping[str, Column] = field(default_factory=dict)
    routes: Mapping[str, Column] = field(default_factory=dict)
    by_worker: tuple[WorkerColumns, ...] = ()
    events: tuple[EventMark, ...] = ()
    thunder_lock: bool | None = None
    limits: Mapping[str, Column] = field(default_factory=dict)
    socket_holders: SocketHolders | None = None
    settings: Mapping[str, AdviceSeverity] | None = None

    @property
    def timed(self) -> Column:
        """Requests per second with a response time: all but static files."""
        timed: Column = self.requests - np.nan_to_num(self.static)
        return timed


class Query(Struct, frozen=True, kw_only=True):
    """A question to the source, for the appendix. seconds: how long its answers took together; answers: how many."""

    text: str
    answers: int
    seconds: float


class ReviewData(Struct, frozen=True, kw_only=True):
    """What a source has about a range. since, until: of the range that was asked for, in epoch seconds, multiples of
    STEP. source: one line that says where the data is from. time_zone: an IANA name, in which days and hours are
    counted. problems: sentences about what is missing or doubtful; with `partial`, the source failed halfway and the
    rest is missing."""

    servers: tuple[ServerData, ...]
    since: float
    until: float
    source: str
    time_zone: str = "UTC"
    queries: tuple[Query, ...] = ()
    problems: tuple[str, ...] = ()
    partial: bool = False


def mean(values: Column) -> float | None:
    """The mean of the known values."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def last_known(values: Column) -> float | None:
    """The last value that is known."""
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def total(values: Column) -> float | None:
    """The sum of the known values; None if none is known."""
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else None


def divide(part: Column, whole: Column) -> Column:
    """part / whole; nan where the whole is not positive."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), dtype=np.float64)


def add_known(columns: Sequence[Column], length: int) -> Column:
    """The sum of the values that are known; nan where none is."""
    if not columns:
        return np.full(length, np.nan)
    table = np.stack(columns)
    return np.where(np.isnan(table).all(axis=0), np.nan, np.nansum(table, axis=0))


def add_all(columns: Sequence[Column], needed: Sequence[Column], length: int) -> Column:
    """The sum of columns; nan where one is unknown although the one beside it in `needed` is known."""
    total = add_known(columns, length)
    for column, beside in zip(columns, needed, strict=True):
        total[np.isnan(column) & ~np.isnan(beside)] = np.nan
    return total


def split_cumulative(columns: Mapping[float, Column]) -> tuple[tuple[float, ...], tuple[Column, ...]]:
    """The values between the bounds of a cumulative histogram, which must have the bound inf; no bounds without it. A
    bound that is unknown while the whole is known is left out: an objective's threshold that changed."""
    whole = columns.get(float("inf"))
    if whole is None:
        return (), ()
    bounds = tuple(bound for bound in sorted(columns) if not (np.isnan(columns[bound]) & ~np.isnan(whole)).any())
    between, below = [], np.zeros_like(whole)
    for bound in bounds:
        between.append(np.maximum(0.0, columns[bound] - below))
        below = columns[bound]
    return bounds, tuple(between)

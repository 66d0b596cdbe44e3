"""What a source delivers: for each server one record a quarter of an hour, in the form of a history file.

A source (`sources`) reads or makes the records. `review` merges them and judges them as `check` judges its window; it
knows no source. What is unknown is None, as in every window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.kernel.waits import GRANT
from uwsgi_headroom.record import UNKNOWN, Cpus, Memory, ServerRecord, Waits, WorkerRecord
from uwsgi_headroom.store.record import Levels, Record, merge_records

STEP = 900.0
"""Seconds of a quarter of an hour."""

LEAST_COVERED = 0.5
"""Share of a quarter that must have been sampled: a source leaves out the others."""

UP = 0.5
"""A worker that accepted requests for less than this share of the time counts as cheaper mode's reserve."""

_NO_WAITS = Waits(off=f"the history does not have it: {GRANT}", needs_right=True)
"""Of an instant, a review knows no waits. Those of the range are in the window, if the exporter could see them."""


class ServerHistory(Struct, frozen=True, kw_only=True):
    """One uWSGI server."""

    server: str
    service: str = ""
    host: str = ""
    quarters: Mapping[float, Record]
    """By their end (epoch seconds, multiples of STEP). Of an hour, each quarter has the whole record."""
    sampled: float
    """Seconds of the range."""

    @property
    def records(self) -> list[Record]:
        """Each record once."""
        return list({id(record): record for record in self.quarters.values()}.values())


class ReviewData(Struct, frozen=True, kw_only=True):
    """What a source has about a range (epoch seconds, multiples of STEP). problems: sentences about what is missing or
    doubtful; partial: the source failed halfway."""

    servers: tuple[ServerHistory, ...]
    since: float
    until: float
    source: str
    time_zone: str = "UTC"
    problems: tuple[str, ...] = ()
    partial: bool = False


def judge(records: Sequence[Record]) -> Figures:
    """The figures of some quarters of one server together, which are in the order of time."""
    whole = merge_records(records)
    return compute_figures(
        Known(whole.window, _describe(whole), whole.levels.others_follow, whole.response_times, whole.routes)
    )


def _describe(record: Record) -> ServerRecord:
    """The server at the end of a record, as far as a history knows it."""
    window, levels, workers = record.window, record.levels, record.window.workers
    threads = None if window.configured is None else round(window.configured / max(1, len(workers)))
    setup = replace(UNKNOWN, mapped=True, socket_holders=levels.socket_holders) if levels.socket_holders else UNKNOWN
    return ServerRecord(
        workers=tuple(_describe_worker(worker, window, threads) for worker in workers),
        time=record.until,
        thunder_lock=levels.thunder_lock,
        cpus=None if levels.cpus is None else Cpus(levels.cpus, "host"),
        memory=_describe_memory(levels, len(workers)),
        setup=setup,
        waits=_NO_WAITS,
    )


def _describe_worker(worker: WorkerWindow, window: Window, threads: int | None) -> WorkerRecord:
    is_up = worker.up_seconds >= UP * window.observed_seconds
    return WorkerRecord(worker.worker_id, "accepting" if is_up else "reserve", threads)


def _describe_memory(levels: Levels, workers: int) -> Memory | None:
    each, available = levels.memory_per_worker, levels.memory_available
    return Memory(each, "anonymous", each * workers, available, "host") if each and available is not None else None


def mean_busy(record: Record) -> float | None:
    """Mean threads in service; None if unknown."""
    busy = sum_if_all_known([worker.busy_seconds for worker in record.window.workers])
    return None if busy is None else ratio(busy, record.window.observed_seconds)


def count_requests(window: Window) -> int:
    return sum(worker.requests for worker in window.workers)


def count_timed(record: Record) -> int:
    """Requests with a response time: all but static files."""
    return sum(worker.requests - worker.static_requests for worker in record.window.workers)


def running_seconds(record: Record) -> float | None:
    """Seconds in service of the requests that were completed."""
    return sum_if_all_known([worker.running_time for worker in record.window.workers])


def queue_full_seconds(window: Window) -> float | None:
    """The time for which the queue was full that was full for longest; None if no queue is measured."""
    return max(window.queue_full_seconds.values(), default=None)


def count_refused(window: Window) -> int | None:
    """Connections that this server dropped. Earlier versions know those of all listeners of a network namespace
    together, which count while a queue of the server was full."""
    if window.refused is not None or window.overflows is None:
        return window.refused
    return window.overflows if queue_full_seconds(window) else 0


def divide_known(
    records: Iterable[Record], part: Callable[[Record], float | None], whole: Callable[[Record], float | None]
) -> float | None:
    """Sum over sum, of the records in which both are known."""
    pairs = [(part(record), whole(record)) for record in records]
    known = [(above, below) for above, below in pairs if above is not None and below is not None]
    return ratio(sum(above for above, _ in known), sum(below for _, below in known))


def sum_known(values: Iterable[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None

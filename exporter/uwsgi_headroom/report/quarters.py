"""What a source delivers: for each server one record a quarter of an hour, in the form of a history file.

`review` merges them and judges them as `check` judges its window. What is unknown is None, as in every window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.kernel.waits import GRANT
from uwsgi_headroom.record import UNKNOWN, Cpus, Memory, ServerRecord, Waits, WorkerRecord
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.store.record import Levels, Record, merge_records

STEP = 900.0
"""Seconds of a quarter of an hour."""

LEAST_COVERED = 0.5
"""Share of a quarter that must have been sampled: a source leaves out the others."""

UP = 0.5
"""A worker that accepted requests for less than this share of the time counts as cheaper mode's reserve."""

_NO_WAITS = Waits(off=f"the history does not have it: {GRANT}", needs_right=True)
"""Of an instant. Those of the range are in the window, if the exporter could see them."""


class ServerHistory(Struct, frozen=True, kw_only=True):
    """quarters: by their end (epoch seconds, multiples of STEP); of an hour, each quarter has the whole record.
    sampled: seconds of the range."""

    server: str
    service: str = ""
    host: str = ""
    quarters: Mapping[float, Record]
    sampled: float

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


Progress = Callable[[int, int, str], None]
"""Shows how far a source is: is called with the number of steps done, of all steps, and what is done next."""


class Absent(Struct, frozen=True, kw_only=True):
    """Why a section of a review, or a part of one, is missing: a sentence."""

    reason: str


def judge(records: Sequence[Record]) -> Figures:
    whole = merge_records(records)
    return compute_figures(
        Known(whole.window, _describe(whole), whole.levels.others_follow, whole.response_times, whole.routes)
    )


def _describe(record: Record) -> ServerRecord:
    window, levels, workers = record.window, record.levels, record.window.workers
    threads = given(window.configured, lambda configured: round(configured / max(1, len(workers))))
    least = UP * window.observed_seconds
    return ServerRecord(
        workers=tuple(
            WorkerRecord(worker.worker_id, "accepting" if worker.up_seconds >= least else "reserve", threads)
            for worker in workers
        ),
        time=record.until,
        thunder_lock=levels.thunder_lock,
        cpus=given(levels.cpus, lambda count: Cpus(count, "host")),
        memory=_describe_memory(levels, len(workers)),
        setup=replace(UNKNOWN, mapped=bool(levels.socket_holders) or None, socket_holders=levels.socket_holders),
        waits=_NO_WAITS,
    )


def _describe_memory(levels: Levels, workers: int) -> Memory | None:
    each, available = levels.memory_per_worker, levels.memory_available
    if not each or available is None:
        return None
    return Memory(each, "anonymous", each * workers, available, "host")


def mean_busy(record: Record) -> float | None:
    busy = sum_if_all_known([worker.busy_seconds for worker in record.window.workers])
    return ratio(busy, record.window.observed_seconds)


def count_requests(record: Record) -> int:
    return sum(worker.requests for worker in record.window.workers)


def count_timed(record: Record) -> int:
    """Requests with a response time: all but static files."""
    return sum(worker.requests - worker.static_requests for worker in record.window.workers)


def running_seconds(record: Record) -> float | None:
    return sum_if_all_known([worker.running_time for worker in record.window.workers])


def queue_full_seconds(record: Record) -> float | None:
    """The time for which the queue was full that was full for longest; None if no queue is measured."""
    return max(record.window.queue_full_seconds.values(), default=None)


def count_refused(record: Record) -> int | None:
    """Connections that this server dropped. Earlier versions know those of all listeners of a network namespace
    together, which count while a queue of the server was full."""
    window = record.window
    if window.refused is not None or window.overflows is None:
        return window.refused
    return window.overflows * bool(queue_full_seconds(record))


def divide_known(
    records: Iterable[Record], part: Callable[[Record], float | None], whole: Callable[[Record], float | None]
) -> float | None:
    pairs = [(part(record), whole(record)) for record in records]
    known = [(above, below) for above, below in pairs if above is not None and below is not None]
    return ratio(sum(above for above, _ in known), sum(below for _, below in known))


def sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

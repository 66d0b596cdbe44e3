"""Packs the totals of one instant into a row of a history, and computes the growth between two rows.

Figures without a bound within an hour (thread time, queue time, CPU time of the machine) are stored as doubles. Counts,
and times bounded by one process, are stored modulo 2**32 (times in units of 0.1 ms), so their differences are exact.
Times of waiting threads are stored so in units of 10 ms, which is enough for an hour of 11,900 threads. A row takes 48
bytes a worker and 192 for the server, without sockets and backends.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS, CpuTotals, Number, Totals, WaitTotals
from uwsgi_headroom.kernel.waits.states import STATES

_WAIT_TICKS = 100  # per second
_TICKS = 10_000  # per second: enough for a process that uses 119 CPUs for an hour
_MODULO = 2**32
_PAGE = 1024  # bytes: resident memory up to 4 TiB
_LEVELS = len(OCCUPANCY_BOUNDS) + 1
_WAITS = 2 + len(STATES)
_SERVER_COUNTS, _WORKER_COUNTS = 5 + _LEVELS + 2, 8  # between the two: waits, and one for each backend
_SERVER_TIMES, _WORKER_TIMES, _SOCKET_TIMES = 7, 2, 3  # order in a row: the server, its sockets, its workers

Row = bytes
"""Times and counts: first the server's, then each worker's."""


WorkerGrowth = tuple[int, int, int, int, float, float, float, float, float, int, int]
"""The growth of a worker's totals, from 0 if they were unknown: requests, static requests, respawns, lost requests,
seconds up, CPU seconds, seconds of waiting for the interpreter lock, running time, busy seconds. Then its memory in
bytes at the start and at the end, 0 for unknown."""


class Growth(NamedTuple):
    """The growth of a server's totals.

    configured, available: threads at the end, 0 for unknown.
    cpu: seconds measured, then CPU seconds own, idle and of others.
    queue_since: for each socket, the start of the uninterrupted measurement that lasts until the end; inf if the queue
        is not measured at the end.
    waits: seconds observed, seconds of disagreement, then thread seconds by `STATES`; backends: thread seconds of each.
    """

    reloads: int
    exceptions: int
    harakiris: int
    respawns: int
    overflows: int
    occupancy: tuple[int, ...]
    configured: int
    available: int
    observed_seconds: float
    full_seconds: float
    gap_seconds: float
    cpu: tuple[float, float, float, float]
    queue_seconds: list[float]
    queue_full_seconds: list[float]
    queue_since: list[float]
    waits: list[float]
    backends: list[float]
    workers: Iterator[WorkerGrowth]


def shape_of(totals: Totals) -> tuple[object, ...]:
    """What rows have in common that can be compared: the number of workers, their sockets and the backends."""
    backends = totals.waits.backends if totals.waits else {}
    return (len(totals.workers), *totals.queue_seconds, "backends", *backends)


def pack_row(totals: Totals) -> Row:
    """The present totals as a row."""
    workers = totals.workers
    counts = [
        totals.reloads,
        sum(worker.exceptions for worker in workers),
        sum(worker.harakiris for worker in workers),
        sum(worker.respawns for worker in workers),
        totals.overflows or 0,
        *totals.occupancy,
        totals.configured or 0,  # 0 for unknown: every server has threads
        totals.available or 0,
    ]
    waits = totals.waits or WaitTotals()
    thread_times = (waits.observed_seconds, waits.disagreement_seconds, *waits.seconds, *waits.backends.values())
    counts += [round(seconds * _WAIT_TICKS) for seconds in thread_times]
    cpu = totals.cpu or CpuTotals()
    times = [
        totals.observed_seconds,
        totals.full_seconds,
        totals.gap_seconds,
        cpu.measured_seconds,
        cpu.own_seconds,
        cpu.idle_seconds,
        cpu.others_seconds,
        *totals.queue_seconds.values(),
        *(totals.queue_full_seconds.get(name, 0.0) for name in totals.queue_seconds),
        *(totals.queue_since.get(name, math.inf) for name in totals.queue_seconds),
    ]
    for worker in workers:
        counts += (
            worker.requests,
            worker.static_requests,
            worker.respawns,
            worker.lost,
            round(worker.up_seconds * _TICKS),
            round((worker.cpu_seconds or 0.0) * _TICKS),
            round(worker.interpreter_lock_seconds * _WAIT_TICKS),
            (worker.resident_bytes or 0) // _PAGE,
        )
        times += (worker.running_time or 0.0, worker.busy_seconds or 0.0)
    return array("d", times).tobytes() + array("I", [count % _MODULO for count in counts]).tobytes()


def _unpack(row: Row, sockets: int, backends: int) -> tuple[array[int], array[float]]:
    """The counts and the times of a row."""
    counts, times = array("I"), array("d")
    of_server = counts.itemsize * (_SERVER_COUNTS + _WAITS + backends) + times.itemsize * (
        _SERVER_TIMES + _SOCKET_TIMES * sockets
    )
    of_worker = counts.itemsize * _WORKER_COUNTS + times.itemsize * _WORKER_TIMES
    workers = (len(row) - of_server) // of_worker
    end = times.itemsize * (_SERVER_TIMES + _SOCKET_TIMES * sockets + _WORKER_TIMES * workers)
    times.frombytes(row[:end])
    counts.frombytes(row[end:])
    return counts, times


def compare_rows(first: Row, last: Row, sockets: int, backends: int) -> Growth:
    """The growth between two rows of the same workers, sockets and backends; the latter two by their number."""
    early, times_before = _unpack(first, sockets, backends)
    late, times_after = _unpack(last, sockets, backends)
    counts = [(after - before) % _MODULO for before, after in zip(early, late, strict=True)]
    of_workers = _SERVER_TIMES + _SOCKET_TIMES * sockets
    queue_since = list(times_after[of_workers - sockets : of_workers])
    times = [after - before for before, after in zip(times_before, times_after, strict=True)]
    server, of_threads, by_worker = _split(counts, backends)
    reloads, exceptions, harakiris, respawns, overflows, *occupancy = server[:-2]
    configured, available = late[_SERVER_COUNTS - 2 : _SERVER_COUNTS]
    observed, full, gap, measured, own, idle, others, *queues = times[: of_workers - sockets]
    requests, static_requests, respawns_of_workers, lost, up, cpu, lock, _ = _columns(by_worker, _WORKER_COUNTS)
    running, busy = _columns(times[of_workers:], _WORKER_TIMES)
    *_, memory_before = _columns(_split(early, backends)[2], _WORKER_COUNTS)
    *_, memory_after = _columns(_split(late, backends)[2], _WORKER_COUNTS)
    workers = zip(
        requests,
        static_requests,
        respawns_of_workers,
        lost,
        [ticks / _TICKS for ticks in up],
        [ticks / _TICKS for ticks in cpu],
        [ticks / _WAIT_TICKS for ticks in lock],
        running,
        busy,
        [pages * _PAGE for pages in memory_before],
        [pages * _PAGE for pages in memory_after],
        strict=True,
    )
    return Growth(
        reloads=reloads,
        exceptions=exceptions,
        harakiris=harakiris,
        respawns=respawns,
        overflows=overflows,
        occupancy=tuple(occupancy),
        configured=configured,
        available=available,
        observed_seconds=observed,
        full_seconds=full,
        gap_seconds=gap,
        cpu=(measured, own, idle, others),
        queue_seconds=queues[:sockets],
        queue_full_seconds=queues[sockets:],
        queue_since=queue_since,
        waits=[ticks / _WAIT_TICKS for ticks in of_threads[:_WAITS]],
        backends=[ticks / _WAIT_TICKS for ticks in of_threads[_WAITS:]],
        workers=workers,
    )


def _split(counts: Sequence[int], backends: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The counts of a row: the server's, those of what threads wait for, and those of the workers."""
    workers = _SERVER_COUNTS + _WAITS + backends
    return counts[:_SERVER_COUNTS], counts[_SERVER_COUNTS:workers], counts[workers:]


def _columns(workers: Sequence[Number], width: int) -> list[Sequence[Number]]:
    """One sequence per column, with the values of all workers."""
    return [workers[place::width] for place in range(width)]

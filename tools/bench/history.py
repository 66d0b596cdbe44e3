"""Measures what the history file costs: bytes, the event loop's time, the writer's CPU, and delays while it is read.

    python3 -m tools.bench.history

Records are made up: response times of some 40 bins, all states of waiting, every worker busy. The event loop's
delay is the longest over ten reads of each range, of a task that sleeps for 5 ms at a time, paired with as long without
reads.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tools.support.scripted_watch import ScriptedWatch
from tools.support.simulated_server import Server
from uwsgi_headroom.documents.history import build_stored_history
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import STATES
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.store.database import Database
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import DAY, TIERS, Levels, Minute, Record
from uwsgi_headroom.watch.kept_history import MinuteCutter

SHAPES = ((4, 8), (8, 8), (64, 16))
"""Processes, and threads of each."""

RANGES = ((DAY // 4, 360), (DAY, 288), (14 * DAY, 600), (14 * DAY, 336), (90 * DAY, 360))
"""Seconds, and points."""

_BINS = Bins()


def main() -> None:
    print("| server | a minute | all that is kept | cutting a minute, on the event loop |")
    print("|---|---|---|---|")
    for processes, threads in SHAPES:
        day, minute = _measure_size(processes)
        cut = _measure_cut(processes, threads)
        print(f"| {processes}x{threads} | {minute:.0f} bytes | {day / 1e6:.1f} MB | {1000 * cut:.2f} ms |", flush=True)
    print("\n| servers of 8x8 | the writer's CPU time for a minute of all of them | of one CPU |")
    print("|---|---|---|")
    for servers in (1, 20, 200):
        seconds = _measure_writer(servers)
        print(f"| {servers} | {1000 * seconds:.1f} ms | {seconds / 60:.3%} |", flush=True)
    print("\n| range of one server of 8x8 | points | time | longest delay of the event loop | without |")
    print("|---|---|---|---|---|")
    for line in asyncio.run(_measure_reads()):
        print(line, flush=True)


def _measure_size(processes: int) -> tuple[float, float]:
    """Bytes of all that is kept, computed from those of a day, and of a record."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history"
        database = Database(open_to_write(path), path, 10**12)
        empty = database.size
        now = 20_000 * DAY
        database.write([_minute(now // 60 + number, processes) for number in range(1, 1441)], now + DAY)
        ((length, records),) = database._execute("SELECT avg(length(data)), count(*) FROM records")
        each = (database.size - empty) / records
        database.close()
    return each * sum(tier.kept / tier.seconds for tier in TIERS), length


def _measure_cut(processes: int, threads: int) -> float:
    """CPU seconds of the event loop's thread for one minute, the median."""
    spent: list[float] = []

    class Writer:
        def put(self, _minute: Minute) -> None: ...

    watch, server = ScriptedWatch(writer=Writer()), Server(processes, threads)  # type: ignore[arg-type]
    cutter = watch.watch._minutes
    assert isinstance(cutter, MinuteCutter)
    cut = cutter._cut

    def timed(*arguments: object) -> None:
        began = time.thread_time()
        cut(*arguments)  # type: ignore[arg-type]
        spent.append(time.thread_time() - began)

    cutter._cut = timed  # type: ignore[assignment, method-assign]
    watch.seconds(server, 600, lambda second: server.serve(1 + second % processes, 5))
    return statistics.median(spent)


def _measure_writer(servers: int) -> float:
    """CPU seconds of one transaction with a minute of every server; the mean over an hour, with quarters and hours."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history"
        database = Database(open_to_write(path), path, 10**12)
        now, spent = 20_000 * DAY, 0.0
        for number in range(1, 61):
            minutes = [_minute(now // 60 + number, 8, f"shop {server}") for server in range(servers)]
            began = time.thread_time()
            database.write(minutes, now + 60 * number)
            spent += time.thread_time() - began
        return spent / 60


async def _measure_reads() -> list[str]:
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history"
        database = Database(open_to_write(path), path, 10**12)
        now = time.time() // 3600 * 3600
        for hour in range(90 * 24, 0, -1):
            end = int(now) // 60 - (hour - 1) * 60
            database.write([_minute(end - 59 + number, 8) for number in range(60)], now - (hour - 1) * 3600)
        for seconds, points in RANGES:
            step = math.ceil(seconds / points)
            times: list[float] = []
            delays: list[float] = []
            without: list[float] = []
            for _ in range(10):
                began = time.monotonic()
                arguments = (path, "shop", step, now - seconds, now, now)
                task = asyncio.create_task(asyncio.to_thread(build_stored_history, *arguments))
                delays.append(await _longest_delay(task.done))
                times.append(time.monotonic() - began)
                assert (await task).time
                paired = asyncio.create_task(asyncio.sleep(times[-1]))
                without.append(await _longest_delay(paired.done))
            lines.append(
                f"| {seconds / DAY:g} d | {points} | {1000 * statistics.median(times):.0f} ms "
                f"| {1000 * max(delays):.1f} ms | {1000 * max(without):.1f} ms |"
            )
    return lines


async def _longest_delay(is_over: Callable[[], bool]) -> float:
    longest = 0.0
    while not is_over():
        began = time.monotonic()
        await asyncio.sleep(0.005)
        longest = max(longest, time.monotonic() - began - 0.005)
    return longest


def _minute(number: int, processes: int, name: str = "shop") -> Minute:
    return Minute(name, number, replace(_record(processes), until=number * 60.0))


def _record(processes: int) -> Record:
    workers = tuple(_workers(range(1, processes + 1)))
    window = Window(
        asked=60.0,
        seconds=60.0123,
        until=0.0,
        observed_seconds=60.0123,
        full_seconds=1.2345,
        gap_seconds=0.0,
        reloads=0,
        exceptions=0,
        harakiris=0,
        respawns=0,
        overflows=0,
        workers=workers,
        queue_seconds={"127.0.0.1:8000": 12.3456},
        queue_full_seconds={"127.0.0.1:8000": 0.0},
        occupancy=(0, 20, 50, 70, 60, 40, 30, 20, 8, 2, 0, 0),
        configured=8 * processes,
        available=8 * processes,
        cpu=CpuWindow(60.0, 45.6789, 60.1234, 15.4321),
        waits=WaitWindow(60.0, 3.2109, dict.fromkeys(STATES, 12.3456), {}),
    )
    counts = [0.0] * len(_BINS)
    for place in range(40):
        counts[20 + place] = 60 * math.exp(-(((place - 20) / 10) ** 2))
    times = ResponseTimeWindow(_BINS, 0.2, round(sum(counts)), counts, [each / 5 for each in counts])
    return Record(0.0, window, times, None, Levels(4.0, 8_123_456_789, 51_234_567, False, False, None))


def _workers(ids: Iterable[int]) -> Iterator[WorkerWindow]:
    for worker_id in ids:
        yield WorkerWindow(
            worker_id, 1234 + worker_id, 0, 0, 0, 60.0123, 123.4567, 125.6789, 45.6789, 1.2345, 51_234_816, 4096
        )


if __name__ == "__main__":
    main()

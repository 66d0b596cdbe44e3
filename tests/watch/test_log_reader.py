"""The logs of all servers are read in a thread, within bounds, and no hung file keeps the others waiting."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import cast

import pytest

from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.uwsgi_log.log import LogBatch, UwsgiLog
from uwsgi_headroom.uwsgi_log.scan import BLOCK_BYTES
from uwsgi_headroom.watch import log_reader
from uwsgi_headroom.watch.log_reader import BURST_SECONDS, BYTES_PER_SECOND, MOST_CPU, LogReader
from uwsgi_headroom.watch.watch import Watch

REQUEST = b"[pid: 1|app: 0|req: 1/1] 10.0.0.7 () {28 vars in 316 bytes} [x] GET / => generated 3 bytes in 5 msecs\n"
KNOWN = b"DAMN ! worker 1 (pid: %d) died, killed by signal 11 :( trying respawn ...\n"


class Watched:
    def __init__(self, log: UwsgiLog) -> None:
        self.log: UwsgiLog | None = log
        self.batches: list[LogBatch] = []

    def take_log(self, batch: LogBatch) -> None:
        self.batches.append(batch)

    @property
    def lines(self) -> int:
        return sum(batch.lines for batch in self.batches)


def reader_of(watches: Sequence[Watched], clock: MovableClock) -> LogReader:
    return LogReader(lambda: cast("list[Watch]", list(watches)), clock.clock.monotonic)


@pytest.fixture
def one(tmp_path):
    """The path of a log, a watch of it, its reader, and the clock of that."""
    path, clock = tmp_path / "shop.log", MovableClock()
    path.touch()
    watched = Watched(UwsgiLog(str(path)))
    return path, watched, reader_of([watched], clock), clock


async def turns(reader: LogReader, clock: MovableClock, number: int, seconds: float = 0.5) -> None:
    for _ in range(number):
        await reader.turn()
        clock.move(seconds)


def test_every_log_is_read(tmp_path):
    paths = [tmp_path / f"{number}.log" for number in range(200)]
    for path in paths:
        path.touch()
    watches, clock = [Watched(UwsgiLog(str(path))) for path in paths], MovableClock()
    reader = reader_of(watches, clock)
    asyncio.run(turns(reader, clock, 1))
    for path in paths:
        with path.open("ab") as file:
            file.write(REQUEST * 50 + KNOWN % 7)
    began = time.process_time()
    asyncio.run(turns(reader, clock, 20))
    assert time.process_time() - began < 2.0
    assert all(watch.lines == 51 for watch in watches)


def test_a_log_that_grows_by_200_megabytes_a_second(one):
    """It is read in part; the event loop goes on meanwhile, and the CPU time stays within its share."""
    path, watched, reader, clock = one
    gaps: list[float] = []

    async def measure() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    async def run() -> float:
        await reader.turn()
        block = REQUEST * 100_000
        measuring = asyncio.create_task(measure())
        spent = 0.0
        for _ in range(3):
            with path.open("ab") as file:
                for _ in range(100_000_000 // len(block)):
                    await asyncio.sleep(0)
                    file.write(block)
            clock.move(0.5)
            before = time.process_time()
            await reader.turn()
            spent += time.process_time() - before
        measuring.cancel()
        return spent

    spent = asyncio.run(run())
    assert watched.log.totals.skipped_bytes > 150_000_000
    assert 0 < watched.lines * len(REQUEST) <= BYTES_PER_SECOND * 4
    assert spent < 10 * MOST_CPU * (3 + BURST_SECONDS)  # the loop's own work is in it, and this machine may be busy
    assert sorted(gaps)[len(gaps) // 2] < 0.5


async def test_the_share_of_the_cpu_is_kept(one, monkeypatch):
    share = 1e-5  # less than a block takes on any machine
    monkeypatch.setattr(log_reader, "MOST_CPU", share)
    path, watched, reader, clock = one
    without_time: list[bool] = []
    await reader.turn()
    for number in range(20):
        with path.open("ab") as file:
            file.write(b"".join(KNOWN % (number * 40_000 + each) for each in range(40_000)))
        clock.move(0.5)
        left, lines = reader._cpu_left + share * 0.5, watched.lines
        await reader.turn()
        without_time.append(left <= 0)
        assert left > 0 or watched.lines - lines <= BLOCK_BYTES / len(KNOWN % 0)  # the least that a turn reads
    assert sum(without_time) >= 18
    assert watched.log.totals.skipped_bytes > 0
    assert 0 < watched.lines < 20 * 40_000


async def test_a_hung_file_keeps_no_other_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(log_reader, "PATIENCE_SECONDS", 0.2)
    answers = threading.Event()

    class Hung(UwsgiLog):
        def read(self, now: float, most: int, cpu_until: float) -> LogBatch:
            answers.wait(30)
            return super().read(now, most, cpu_until)

    path, clock = tmp_path / "shop.log", MovableClock()
    path.touch()
    hung, other = Watched(Hung(str(tmp_path / "hung.log"))), Watched(UwsgiLog(str(path)))
    reader = reader_of([hung, other], clock)

    await turns(reader, clock, 3)
    with path.open("ab") as file:
        file.write(REQUEST)
    await turns(reader, clock, 2)
    assert other.lines == 1
    assert hung.batches == []
    answers.set()
    await asyncio.to_thread(wait_until, lambda: hung.log not in reader._stuck)
    await turns(reader, clock, 1)
    assert hung.batches


async def test_a_turn_that_hung_takes_nothing_from_later_ones(tmp_path, monkeypatch):
    """What it has read of the hung log counts; it leaves its other logs to later turns."""
    monkeypatch.setattr(log_reader, "PATIENCE_SECONDS", 0.2)
    paths, clock, answers = [tmp_path / "hung.log", tmp_path / "shop.log"], MovableClock(), threading.Event()
    for path in paths:
        path.touch()
    watches = [Watched(UwsgiLog(str(path))) for path in paths]
    reader, log = reader_of(watches, clock), watches[0].log
    await turns(reader, clock, 1)
    read = log.read
    monkeypatch.setattr(log, "read", lambda *limits: (read(*limits), answers.wait(30))[0])
    for path in paths:
        path.write_bytes(REQUEST * 50)
    await turns(reader, clock, 1)
    answers.set()
    await asyncio.to_thread(wait_until, lambda: log not in reader._stuck)
    await turns(reader, clock, 2)
    assert [watch.lines for watch in watches] == [50, 50]


def test_without_logs_there_is_no_thread():
    clock = MovableClock()
    before = threading.active_count()
    asyncio.run(turns(reader_of([], clock), clock, 3))
    assert threading.active_count() == before

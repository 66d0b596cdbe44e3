"""Measures the CPU time that percentiles take: following requests at each sample, and the estimate of each batch.

Simulated servers, whose every thread serves requests of lognormal length, are sampled at 5 samples a second for two
minutes of their own time. Times are CPU time of this thread; decoding the documents is not in them.

    python3 -m tools.bench.percentile_cost
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from tools.support.simulated_server import EPOCH
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.response_times.recorder import Completed, ResponseTimeRecorder
from uwsgi_headroom.stats.decoder import decode
from uwsgi_headroom.stats.server import Snapshot, Worker

SHAPES = ((4, 8, 0.3), (8, 8, 0.5), (64, 16, 0.5), (64, 16, 1.0), (64, 64, 1.0))
"""Processes, threads of each, and the share of the time in which a thread is busy."""

SECONDS, RATE, MEAN = 120, 5, 0.3


def main() -> None:
    print("| server | threads busy | a sample, median | a batch, median | a batch, longest | of one CPU |")
    print("|---|---|---|---|---|---|")
    for processes, threads, busy in SHAPES:
        samples, batches = _measure(processes, threads, busy)
        share = (sum(samples) + sum(batches)) / SECONDS
        print(
            f"| {processes}x{threads} | {processes * threads * busy:.0f} | {1000 * statistics.median(samples):.2f} ms "
            f"| {1000 * statistics.median(batches):.1f} ms | {1000 * max(batches):.1f} ms | {share:.2%} |",
            flush=True,
        )


def _measure(processes: int, threads: int, busy: float) -> tuple[list[float], list[float]]:
    """CPU seconds of each sample that ended no batch, and of each that ended one."""
    recorder = ResponseTimeRecorder()
    samples: list[float] = []
    batches: list[float] = []
    for at, workers in _simulate(processes, threads, busy):
        reading = Reading(at, EPOCH + at, 0.001, 0.0005, 0, _EMPTY, HostFacts(off="simulated"))
        completed = Completed(
            sum(worker.requests or 0 for worker in workers), sum(worker.running_time or 0 for worker in workers), 0
        )
        ended = recorder.history.ended
        began = time.thread_time()
        recorder.add(reading, workers, completed, joined=at > 1.0)
        spent = time.thread_time() - began
        (samples if recorder.history.ended == ended else batches).append(spent)
    return samples, batches


_EMPTY = decode(b'{"version":"2.0.31","pid":1,"workers":[{"id":1,"pid":2,"cores":[{"id":0}]}]}')


def _simulate(processes: int, threads: int, busy: float) -> Iterator[tuple[float, tuple[Worker, ...]]]:
    """The workers at each sample. Every thread serves requests one after another, with pauses between."""
    assert isinstance(_EMPTY, Snapshot)
    template = _EMPTY.workers[0]
    chance = random.Random(1)
    pause = MEAN * (1 - busy) / busy
    count = processes * threads
    begins = [chance.expovariate(1 / (MEAN + pause)) for _ in range(count)]
    ends = [begin + _draw(chance) for begin in begins]
    requests, running = [0] * count, [0.0] * count
    at = 1.0
    while at < SECONDS + 1:
        for thread in range(count):
            while ends[thread] <= at:
                requests[thread] += 1
                running[thread] += ends[thread] - begins[thread]
                begins[thread] = ends[thread] + (chance.expovariate(1 / pause) if pause else 0.0002)
                ends[thread] = begins[thread] + _draw(chance)
        workers = []
        for number in range(processes):
            own = range(number * threads, (number + 1) * threads)
            workers.append(
                Worker(
                    **{
                        **{name: getattr(template, name) for name in template.__struct_fields__},
                        "worker_id": number + 1,
                        "threads": threads,
                        "requests": sum(requests[thread] for thread in own),
                        "static_requests": 0,
                        "running_time": sum(running[thread] for thread in own),
                        "serving": {
                            thread % threads: EPOCH + int(begins[thread]) for thread in own if begins[thread] <= at
                        },
                        "thread_requests": tuple(requests[thread] for thread in own),
                    }
                )
            )
        yield at, tuple(workers)
        at += (1 + 0.2 * (2 * chance.random() - 1)) / RATE


def _draw(chance: random.Random) -> float:
    return chance.lognormvariate(-1.56, 0.85)


if __name__ == "__main__":
    main()

"""Measures the memory that the exporter takes for a server after an hour.

Each simulated server has 8 processes with 8 threads, is sampled once a second for an hour of its own time, and serves
two requests a second. Prints the growth of this process's resident memory for each server.
"""

from __future__ import annotations

import argparse
import ctypes
import gc

import psutil

from tests.support.clock import MovableClock
from tests.support.simulated_server import Server
from uwsgi_headroom.source.address import Unix
from uwsgi_headroom.watch.watch import Watch

SECONDS = 3700


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.hour_memory", description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=20, help="how many (default %(default)s)")
    servers = parser.parse_args().servers
    _watch_for(2, 30)  # loads and warms up what every server shares
    before = _resident()
    watches = _watch_for(servers, SECONDS)
    each = (_resident() - before) / len(watches)
    print(f"{each / 1e3:.0f} kB for each of {servers} servers, after {SECONDS} s: {200 * each / 1e6:.0f} MB for 200")


def _watch_for(number: int, seconds: int) -> list[Watch]:
    hands = MovableClock()
    watches = [
        Watch(f"s{place}", Unix(f"/run/s{place}"), samples_per_second=1.0, clock=hands.clock) for place in range(number)
    ]
    simulated = [Server(processes=8, threads=8) for _ in watches]
    for second in range(1, seconds):
        hands.move(1.0)
        for watch, server in zip(watches, simulated, strict=True):
            slot = server.slots[second % 8]
            slot.busy = second % 2
            slot.requests += 2
            slot.running_time = (slot.running_time or 0.0) + 1.0
            reading = server.read(hands.clock.monotonic())
            watch.reader.outcome = reading
            watch._record(reading.at, reading)
    return watches


def _resident() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    main()

"""Measures how often an exporter that is stopped at a random moment blocks uWSGI's master.

The exporter samples a real uWSGI, and is stopped (SIGSTOP) at random times. Each time another reader tries for 1 s to
read the same stats: no response means that the master is blocked in its write to the stopped exporter. Prints Markdown.
The exit status does not depend on the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tools.support import real_uwsgi
from tools.support.exporter import Exporter, stoppable_exporter

PATIENCE_SECONDS = 1.0
SETTLE_SECONDS = 6.0
"""By then the sampler has adapted its pace to the cost of its reads."""


@dataclass(frozen=True)
class Case:
    """One uWSGI: workers x threads, the kind of its stats socket, and further options."""

    size: tuple[int, int]
    over: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """Counts of stops: `in_a_read`, with a connection to the stats open; `held`, with the master blocked."""

    case: Case
    document_bytes: int
    reads_a_second: float
    stops: int
    in_a_read: int
    held: int


CASES = (
    Case((64, 16), "UNIX"),
    Case((64, 16), "UNIX", ("--stats-minified",)),
    Case((64, 16), "UNIX", ("--stats-no-cores",)),
    Case((64, 16), "TCP"),
    Case((64, 64), "TCP"),
    Case((8, 8), "UNIX"),
    Case((8, 8), "TCP"),
)

Address = str | tuple[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.bench.stopped_mid_read", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--stops", type=int, default=300, metavar="N", help="stops of each case (default %(default)s)")
    stops = parser.parse_args().stops
    results = []
    for case in CASES:
        results.append(measure(case, stops))
        print(f"measured: {results[-1]}", file=sys.stderr)
    print(report(results))


def measure(case: Case, stops: int) -> Result:
    with serving(case) as (address, url):
        real_uwsgi.wait_until(lambda: read(address, 10), what="the stats")
        with stoppable_exporter(url) as running:
            before = running.value("uwsgi_exporter_samples_total")
            time.sleep(SETTLE_SECONDS)
            reads = (running.value("uwsgi_exporter_samples_total") - before) / SETTLE_SECONDS
            sockets, held = zip(*(stop_once(running, address) for _ in range(stops)), strict=True)
        idle = min(sockets)
        size = len(read(address, 10))
        return Result(case, size, reads, stops, sum(count > idle for count in sockets), sum(held))


def stop_once(running: Exporter, address: Address) -> tuple[int, bool]:
    """Stops the exporter once; returns how many sockets it had open, and whether the master was blocked."""
    time.sleep(random.uniform(0.2, 0.8))  # longer than the sampling interval
    running.stop()
    try:
        return open_sockets(running.pid), not read(address, PATIENCE_SECONDS)
    finally:
        running.resume()


@contextlib.contextmanager
def serving(case: Case) -> Iterator[tuple[Address, str]]:
    """Runs a case's uWSGI; yields the address of its stats, for `read` and for the exporter."""
    workers, threads = case.size
    options = ["--processes", str(workers), "--threads", str(threads), *case.options]
    if case.over == "UNIX":
        with real_uwsgi.uwsgi(*options) as server:
            yield server.stats, server.stats
    else:
        port = real_uwsgi.free_port()
        with real_uwsgi.uwsgi(*options, "--stats", f"127.0.0.1:{port}", stats=False):
            yield ("127.0.0.1", port), f"tcp://127.0.0.1:{port}"


def read(address: Address, timeout: float) -> bytes:
    """Returns the stats document; empty if none arrives within `timeout` seconds."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        try:
            client.connect(address)
            return b"".join(iter(lambda: client.recv(1 << 18), b""))
        except OSError:
            return b""


def open_sockets(pid: int) -> int:
    folder = f"/proc/{pid}/fd"
    return sum(os.readlink(f"{folder}/{entry}").startswith("socket:") for entry in os.listdir(folder))


def report(results: list[Result]) -> str:
    lines = [
        "| uWSGI | stats over | document | reads a second | stops | in a read | master held | odds, 95 % interval |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        workers, threads = result.case.size
        options = "".join(f" `{option.removeprefix('--')}`" for option in result.case.options)
        low, high = (100 * bound for bound in wilson(result.held, result.stops))
        lines.append(
            f"| {workers}x{threads}{options} | {result.case.over} | {result.document_bytes / 1000:.1f} kB "
            f"| {result.reads_a_second:.1f} | {result.stops} | {result.in_a_read} | {result.held} "
            f"| {low:.1f}-{high:.1f} % |"
        )
    return "\n".join(lines)


def wilson(count: int, of: int) -> tuple[float, float]:
    """Returns the 95 % confidence interval of a proportion (Wilson 1927), which is valid for counts near 0, too."""
    z = 1.96
    middle = (count + z * z / 2) / (of + z * z)
    reach = z / (of + z * z) * math.sqrt(count * (of - count) / of + z * z / 4)
    return max(0.0, middle - reach), middle + reach


if __name__ == "__main__":
    main()

"""Measures one exporter that watches many servers: `python3 -m tools.bench.many_servers [--servers 200]`.

Every server is a real uWSGI of 8 processes with 8 threads, with two requests a second that take half a second each, so
that one is in service on average. The exporter samples each server once a second, without waits and routes, and is
scraped as Prometheus does. With `--each 5`, the exporter watches each of them under five names. CPU is user and system
time of the exporter. Memory after an hour is measured apart, by
`tools.bench.hour_memory`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench import table
from tools.bench.client import Scraper
from tools.bench.exporters import cpu_seconds
from tools.support import exporter, real_uwsgi

BEGIN, END = "<!-- bench:many-servers -->", "<!-- /bench:many-servers -->"

SCRAPE_SECONDS = 15
"""The usual interval of Prometheus."""

_REQUEST = b"GET /?io_ms=500 HTTP/1.0\r\n\r\n"
_WARM_UP_SECONDS = 75  # until the window of a minute is full


@dataclass(frozen=True, slots=True)
class Result:
    """CPU: seconds of CPU per second, without scrapes; scrape_cpu: seconds of each scrape; scrapes: seconds until the
    last byte; interval: mean seconds between two samples of a server."""

    servers: int
    cpu: float
    scrape_cpu: Sequence[float]
    scrapes: Sequence[float]
    interval: float
    resident: int
    series: int
    sent: int


def main() -> None:
    options = _options()
    with _many_uwsgis(options.servers) as servers, _loaded([server.http for server in servers]):
        result = _measure([path for server in servers for path in _names(server.stats, options.each)], options.seconds)
    text = "\n\n".join([_report(result), table.machine()])
    print(text)
    if options.write:
        table.write(options.write, text, BEGIN, END)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.many_servers", description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=200, help="how many (default %(default)s)")
    parser.add_argument("--each", type=int, default=1, help="names that each is watched under (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of each measurement (default %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"put the table between {BEGIN} and its end")
    return parser.parse_args()


def _names(stats: str, each: int) -> list[str]:
    """The path of a stats socket, and links to it: the exporter refuses two servers of one path."""
    links = [f"{stats}{number}" for number in range(1, each)]
    for link in links:
        os.symlink(stats, link)
    return [stats, *links]


@contextlib.contextmanager
def _many_uwsgis(number: int) -> Iterator[list[real_uwsgi.Uwsgi]]:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        options = ("--processes", "8", "--threads", "8", "--thread-stacksize", "256")
        waiting = [pool.submit(lambda: stack.enter_context(real_uwsgi.uwsgi(*options))) for _ in range(number)]
        servers = []
        for started in waiting:
            servers.append(started.result())
            print(f"\r{len(servers)} servers", end="", file=sys.stderr)
        print(file=sys.stderr)
        for server in servers:
            real_uwsgi.wait_until(lambda server=server: server.document().count(b'"accepting":1') == 8, what="workers")  # type: ignore[misc]
        try:
            yield servers
        finally:
            for server in servers:  # together: each takes half a second to end
                server.process.terminate()


@contextlib.contextmanager
def _loaded(ports: Sequence[int]) -> Iterator[None]:
    """Two requests a second to each port, evenly spread, until the block ends."""
    ended = threading.Event()

    async def request(port: int) -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_REQUEST)
            await reader.read()
            writer.close()

    async def run() -> None:
        pause, at, tasks, place = 0.5 / len(ports), time.monotonic(), set(), 0
        while not ended.is_set():
            at += pause
            task = asyncio.create_task(request(ports[place % len(ports)]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            place += 1
            await asyncio.sleep(max(0.0, at - time.monotonic()))
        await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _measure(stats: Sequence[str], seconds: float) -> Result:
    addresses = [flag for place, path in enumerate(stats) for flag in ("--stats", f"app{place}=unix://{path}")]
    with exporter.exporter(*addresses, "--samples-per-second", "1", "--waits", "false") as running:
        scraper = Scraper(running.port)
        time.sleep(_WARM_UP_SECONDS)
        before = _samples(scraper)
        time.sleep(1)
        cpu, began = cpu_seconds(running.pid), time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - began
        rest = (cpu_seconds(running.pid) - cpu) / elapsed
        after = _samples(scraper)
        scrapes, scrape_cpu = [], []
        for _ in range(9):
            cpu, began = cpu_seconds(running.pid), time.monotonic()
            answer = scraper.scrape()
            scrapes.append(answer.seconds)
            time.sleep(0.3)
            scrape_cpu.append(cpu_seconds(running.pid) - cpu - rest * (time.monotonic() - began))
            time.sleep(1)
        resident = psutil.Process(running.pid).memory_info().rss
        scraper.close()
    interval = (elapsed + 1) * len(stats) / (after - before)
    return Result(len(stats), rest, scrape_cpu, scrapes, interval, resident, answer.series, answer.sent)


def _samples(scraper: Scraper) -> float:
    lines = scraper.scrape().body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("uwsgi_exporter_samples_total"))


def _report(result: Result) -> str:
    scrape = statistics.median(result.scrape_cpu)
    whole = result.cpu + scrape / SCRAPE_SECONDS
    return table.render_table(
        "servers | seconds between samples | CPU without scrapes | CPU of a sample, ms | CPU of a scrape, ms | of one "
        f"CPU, with a scrape each {SCRAPE_SECONDS} s | scrape, ms | resident, MB | series | answer, kB",
        [
            f"{result.servers} | {result.interval:.2f} | {result.cpu:.1%} | "
            f"{result.cpu * result.interval / result.servers * 1e3:.2f} | {_spread(result.scrape_cpu)} | {whole:.1%} | "
            f"{_spread(result.scrapes)} | {result.resident / 1e6:.0f} | {result.series} | {result.sent / 1e3:.0f}"
        ],
    )


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.0f} ({min(seconds) * 1e3:.0f}-{max(seconds) * 1e3:.0f})"


if __name__ == "__main__":
    main()

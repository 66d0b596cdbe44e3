"""Measures what reading uWSGI's log costs, and how much of it is read.

A writer, another process, appends to a file at a steady rate, and the exporter's own reader of logs follows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tools.bench.table import machine, make_parser, publish, render_table
from uwsgi_headroom.uwsgi_log.log import Batch, UwsgiLog
from uwsgi_headroom.uwsgi_log.scan import Scanner
from uwsgi_headroom.watch.log_reader import BYTES_PER_SECOND, LogReader
from uwsgi_headroom.watch.watch import Watch

REQUEST = (
    b"[pid: 4711|app: 0|req: 12/345] 10.0.0.7 () {28 vars in 316 bytes} [Wed Nov 25 18:54:16 2026] GET /shop/item?id=7 "
    b"=> generated 1234 bytes in 5 msecs (HTTP/1.1 200) 2 headers in 79 bytes (1 switches on core 0)\n"
)
DATED = b"Wed Nov 25 18:54:16 2026 - " + REQUEST
SHORT = b"x" * 39 + b"\n"
KNOWN = b"invalid HTTP request size (max 4096)...skip\n"
LINES = {
    "requests": REQUEST,
    "requests with a date": DATED,
    "lines of 40 bytes": SHORT,
    "requests, one known message among a hundred": REQUEST * 99 + KNOWN,
}
RATES = (1, 5, 20)
"""Megabytes a second: the last one is more than is read."""

WRITER = """
import sys, time
path, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
lines = sys.stdin.buffer.read()
began, written = time.monotonic(), 0
with open(path, "ab", buffering=0) as file:
    while (elapsed := time.monotonic() - began) < seconds:
        while written < elapsed * rate:
            written += file.write(lines * max(1, 65536 // len(lines)))
        time.sleep(0.01)
print(written)
"""


class _Watched:
    """A watch of nothing but a log, which counts what was read."""

    def __init__(self, log: UwsgiLog) -> None:
        self.log: UwsgiLog | None = log
        self.lines = 0

    def take_log(self, batch: Batch) -> None:
        self.lines += batch.lines


@contextlib.contextmanager
def _written(path: Path, lines: bytes, rate: float, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WRITER, str(path), str(rate), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(lines)
        process.stdin.close()
        yield process


async def _follow(path: Path, lines: bytes, rate: float, seconds: float) -> tuple[int, int, int, float]:
    """Bytes written, bytes skipped, lines read, and CPU seconds of this process."""
    log = UwsgiLog(str(path))
    watched = _Watched(log)
    reader = LogReader(lambda: [cast("Watch", watched)], time.monotonic)
    await reader.turn()
    following = asyncio.create_task(reader.run())
    with _written(path, lines, rate, seconds) as process:
        began = time.process_time()
        await asyncio.to_thread(process.wait)
        await asyncio.sleep(2.0)
        spent = time.process_time() - began
        assert process.stdout
        written = int(process.stdout.read())
    following.cancel()
    return written, log.totals.skipped_bytes, watched.lines, spent


def _scan_speed(lines: bytes) -> float:
    """Lines a CPU second that a scanner takes."""
    block = lines * (131_072 // len(lines))
    scanner = Scanner()
    scanner.scan(block)
    began = time.thread_time()
    for _ in range(200):
        scanner.scan(block)
    return 200 * block.count(b"\n") / (time.thread_time() - began)


def measure(seconds: float) -> str:
    """The text between the markers."""
    rows = []
    for name, lines in LINES.items():
        speed = _scan_speed(lines)
        for rate in RATES:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "shop.log")
                path.touch()
                written, skipped, read, spent = asyncio.run(_follow(path, lines, rate * 1e6, seconds))
            lost = written // len(lines) * lines.count(b"\n") - read if not skipped else None
            rows.append(
                f"{name} | {written / seconds / 1e6:.1f} | {read / seconds:,.0f} | {spent / (seconds + 2):.2%} | "
                f"{skipped / written:.0%} | {'-' if lost is None else lost} | {speed:,.0f}"
            )
    head = "log | written, MB/s | lines read a second | of one CPU | skipped | lines lost | lines a CPU second"
    note = (
        f"{seconds:g} s each. *Of one CPU*: all of the reading process. *Skipped*: of the bytes; up to "
        f"{BYTES_PER_SECOND / 1e6:g} MB/s are read, within 2 % of a CPU. *Lines lost*: written and not read, where "
        "nothing was skipped."
    )
    return "\n\n".join([render_table(head, rows), note, machine()])


def main() -> None:
    """Measures and prints the table."""
    parser = make_parser("tools.bench.uwsgi_log", __doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    publish(measure(arguments.seconds), "bench:uwsgi-log", arguments.write)


if __name__ == "__main__":
    main()

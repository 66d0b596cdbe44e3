"""Measures what reading uWSGI's log costs: `python3 -m tools.bench.uwsgi_log [--seconds SECONDS] [--write FILE]`.

A writer, another process, appends to a file at a steady rate, and the exporter's own reader of logs follows it.

With `--gigabytes NUMBER`, that much goes through one reader instead, as fast as it is read: its clock goes on by half a
second for each 2.4 MB. The log is rotated every 50 MB, and old files are removed, so it takes 150 MB of disk.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tools.bench.table import machine, render_table, write
from uwsgi_headroom.uwsgi_log.log import Batch, UwsgiLog
from uwsgi_headroom.uwsgi_log.scan import Scanner
from uwsgi_headroom.watch.log_reader import BYTES_PER_SECOND, LogReader
from uwsgi_headroom.watch.watch import Watch

BEGIN, END = "<!-- bench:uwsgi-log -->", "<!-- /bench:uwsgi-log -->"
BEGIN_LONG, END_LONG = "<!-- bench:uwsgi-log-long -->", "<!-- /bench:uwsgi-log-long -->"

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
        self.lines = self.known = 0

    def take_log(self, batch: Batch) -> None:
        self.lines += batch.lines
        self.known += sum(batch.seen.values())


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


PER_TURN, PER_FILE = 2_400_000, 50_000_000
KNOWN_EVERY = 10_000


def measure_long(gigabytes: float) -> str:
    """The text about so much of a log."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shop.log").touch()
        row = asyncio.run(_read_through(Path(folder, "shop.log"), round(gigabytes * 1e9)))
    head = "GB | rotations | lines lost or doubled | skipped | of one CPU at 4.8 MB/s | MB/s as fast as it goes | "
    note = (
        "Lines of requests, of which one in 10,000 is a known message; rotated in two ways in turn, by a new file and "
        "by `copytruncate`. *Resident*: of the process, after the first 100 MB, and the most that it was."
    )
    return "\n\n".join([render_table(head + "resident, MB", [row]), note, machine()])


async def _read_through(path: Path, most: int) -> str:
    now = 0.0
    log = UwsgiLog(str(path))
    watched = _Watched(log)
    reader = LogReader(lambda: [cast("Watch", watched)], lambda: now)
    block = (REQUEST * (KNOWN_EVERY - 1) + KNOWN) * max(1, PER_TURN // (len(REQUEST) * KNOWN_EVERY))
    lines, spent, wall, begun_with = 0, 0.0, 0.0, 0
    written, in_file, rotations = 0, 0, 0
    await reader.turn()
    while written < most or lines > watched.lines:
        if written < most:
            in_file, rotations = _append(path, block, in_file, rotations)
            written, lines = written + len(block), lines + block.count(b"\n")
        elif now > written / PER_TURN:  # twice the time it needs
            break
        now += 0.5
        began, used = time.monotonic(), time.process_time()
        await reader.turn()
        wall, spent = wall + time.monotonic() - began, spent + time.process_time() - used
        begun_with = begun_with or (_resident_bytes() if written > 1e8 else 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    skipped = log.totals.skipped_bytes / written
    wrong = abs(lines - watched.lines) + abs(lines // KNOWN_EVERY - watched.known)
    return (
        f"{written / 1e9:.1f} | {rotations} | {wrong} | {skipped:.0%} | "
        f"{spent / now:.2%} | {written / wall / 1e6:.0f} | {begun_with / 1e6:.1f}, {peak / 1e6:.1f}"
    )


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _append(path: Path, block: bytes, in_file: int, rotations: int) -> tuple[int, int]:
    """Append to the log, after a rotation if it is large. Returns what is in the file, and the number of rotations."""
    if in_file > PER_FILE:
        old, rotations, in_file = Path(f"{path}.{rotations}"), rotations + 1, 0
        if rotations % 2:
            path.rename(old)
        else:
            shutil.copy(path, old)
            os.truncate(path, 0)
        Path(f"{path}.{rotations - 3}").unlink(missing_ok=True)
    with path.open("ab") as file:
        file.write(block)
    return in_file + len(block), rotations


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description="measures what reading uWSGI's log costs")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"put the table between {BEGIN} and its end")
    parser.add_argument("--gigabytes", type=float, help="read that much instead, and write another table")
    arguments = parser.parse_args()
    text = measure_long(arguments.gigabytes) if arguments.gigabytes else measure(arguments.seconds)
    print(text)
    if arguments.write:
        write(arguments.write, text, *((BEGIN_LONG, END_LONG) if arguments.gigabytes else (BEGIN, END)))


if __name__ == "__main__":
    main()

"""Measures in which part of the exporter its CPU time goes, while it samples and nobody asks.

`python3 -m tools.bench.parts` prints a table: the exporter interrupts itself after each few milliseconds of CPU time
and counts the innermost module of its own that was running; what only asyncio ran counts as the event loop. One uWSGI
of 8x8 is watched.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from tools.bench import load, table
from tools.bench.cost import cpu_seconds
from tools.support.exporter import Exporter, exporter
from tools.support.real_uwsgi import uwsgi
from uwsgi_headroom import cli

BEGIN, END = "<!-- bench:parts -->", "<!-- /bench:parts -->"
TICK_SECONDS = 0.001
"""Of CPU time between two interrupts; the kernel's own tick, 1 to 10 ms, if that is longer."""

_PACKAGE = str(Path(cli.__file__).parent) + os.sep
_LOOP = ("serve.py", "cli.py", "__main__.py")


def name_part(frame: FrameType | None) -> str:
    """The part of the exporter that a frame runs: its room, and of the kernel's room the module or folder."""
    while frame:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            path = Path(file.removeprefix(_PACKAGE)).with_suffix("").parts
            return (
                "event loop" if os.path.basename(file) in _LOOP else ".".join(path[: 2 if path[0] == "kernel" else 1])
            )
        frame = frame.f_back
    return "event loop"


def _run_exporter() -> int:
    """The exporter, which writes what it has counted into the file PARTS after SIGUSR1."""
    counted: Counter[str] = collections.Counter()
    path = Path(os.environ["PARTS"])

    def write(*_: object) -> None:
        path.with_suffix(".new").write_text(json.dumps(counted))
        path.with_suffix(".new").rename(path)
        counted.clear()

    signal.signal(signal.SIGPROF, lambda _, frame: counted.update([name_part(frame)]))
    signal.signal(signal.SIGUSR1, write)
    signal.setitimer(signal.ITIMER_PROF, TICK_SECONDS, TICK_SECONDS)
    return cli.main(sys.argv[2:])


def measure(in_flight: int, seconds: float) -> tuple[Counter[str], float]:
    """What was counted by part, and milliseconds of CPU of a sample."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["PARTS"] = str(Path(folder) / "parts")
        server = stack.enter_context(uwsgi("--processes", "8", "--threads", "8", "--disable-logging"))
        stack.enter_context(load.in_flight(server, in_flight))
        command = (sys.executable, "-m", "tools.bench.parts", "--exporter")
        running: Exporter = stack.enter_context(exporter("--stats", server.stats, command=command))
        time.sleep(10)
        _take(running.pid, folder)
        taken, used = _count_samples(running), cpu_seconds(running.pid)
        time.sleep(seconds)
        counted = _take(running.pid, folder)
        return counted, 1e3 * (cpu_seconds(running.pid) - used) / (_count_samples(running) - taken)


def _count_samples(running: Exporter) -> float:
    return sum(value for name, value in running.scrape().items() if name.startswith("uwsgi_exporter_samples_total"))


def _take(pid: int, folder: str) -> Counter[str]:
    path = Path(folder) / "parts"
    os.kill(pid, signal.SIGUSR1)
    while not path.exists():
        time.sleep(0.01)
    counted = Counter(json.loads(path.read_text()))
    path.unlink()
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.parts", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="length of each run (default %(default)g)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table into a file")
    options = parser.parse_args()
    loads = {"idle": 0, "16 in flight": 16}
    found = {name: measure(in_flight, options.seconds) for name, in_flight in loads.items()}
    costs = [
        {part: count / counted.total() * cpu for part, count in counted.items()} | {"all": cpu}
        for counted, cpu in found.values()
    ]
    parts = sorted({part for of in costs for part in of}, key=lambda part: -sum(of.get(part, 0.0) for of in costs))
    head = " | ".join(["part of the exporter", *(f"8x8, {name}: ms of CPU a sample" for name in loads)])
    rows = [" | ".join([part, *(f"{of.get(part, 0.0):.3f}" for of in costs)]) for part in parts]
    number = " and ".join(str(counted.total()) for counted, _ in found.values())
    notes = f"Counted {number} times in {options.seconds:g} s each. {table.machine()}"
    text = f"{table.render_table(head, rows)}\n\n{notes}"
    print(text)
    if options.write:
        table.write(options.write, text, BEGIN, END)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--exporter"]:
        sys.exit(_run_exporter())
    main()

"""Runs the exporters under test, each as a process on a loopback port."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support import real_uwsgi
from tools.bench.scraper import Scraper

SAME_CONTENT = "ours, same content"
EVERYTHING = "ours, everything on"

OURS = {
    SAME_CONTENT: "{python} -m tools.bench.scrape.document_only {stats} {port}",
    EVERYTHING: "{python} -m uwsgi_headroom --stats unix://{stats} --web.listen-address 127.0.0.1:{port}",
}

_SAMPLES = re.compile(rb"^uwsgi_exporter_samples_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Exporter:
    """A running exporter, and the connection that scrapes it."""

    name: str
    process: subprocess.Popen[bytes]
    scraper: Scraper

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def samples(self) -> float:
        """Returns how many samples our exporter has taken so far; 0 for other exporters."""
        found = _SAMPLES.search(self.scraper.scrape().body)
        return float(found[1]) if found else 0.0

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process in seconds, including threads that have ended, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock id that clock_getcpuclockid(3) returns: CPUCLOCK_SCHED is 2


@contextlib.contextmanager
def running(name: str, command: str, stats: str) -> Iterator[Exporter]:
    """Run `command` (with `{stats}`, the path of the stats socket, and `{port}`) until the block ends."""
    port = real_uwsgi.free_port()
    arguments = [part.format(stats=stats, port=port, python=sys.executable) for part in shlex.split(command)]
    scraper = Scraper(port)
    with (
        contextlib.closing(scraper),
        real_uwsgi.running(arguments, lambda: _answers(scraper), name, log=Path(os.devnull)) as process,
    ):
        yield Exporter(name, process, scraper)


def _answers(scraper: Scraper) -> bool:
    try:
        scraper.scrape()
    except (OSError, http.client.HTTPException, RuntimeError):
        scraper.close()
        return False
    return True

"""Runs exporters, and scrapes them as Prometheus 2.42 does."""

import contextlib
import gzip
import http.client
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support import real_uwsgi

SAME_CONTENT = "ours, same content"
EVERYTHING = "ours, everything on"

OURS = {
    SAME_CONTENT: "{python} -m tools.bench.document_only {stats} {port}",
    EVERYTHING: "{python} -m uwsgi_headroom --stats unix://{stats} --web.listen-address 127.0.0.1:{port}",
}

HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/2.42.0",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}

_SAMPLES = re.compile(rb"^uwsgi_exporter_samples_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_SERIES = re.compile(rb"^[^#\n]", re.MULTILINE)
_UP = re.compile(rb"^uwsgi_up(\{[^}]*\})? 1(\.0)?$", re.MULTILINE)


class Answer(NamedTuple):
    """One scrape: `seconds` from the request to the last byte, `sent` bytes of the body as received (gzipped)."""

    seconds: float
    sent: int
    body: bytes

    @property
    def series(self) -> int:
        return len(_SERIES.findall(self.body))


class Scraper:
    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def scrape(self) -> Answer:
        """Scrapes once. Raises OSError or HTTPException, and RuntimeError unless the exporter could read uWSGI."""
        start = time.perf_counter()
        self._connection.request("GET", "/metrics", headers=HEADERS)
        response = self._connection.getresponse()
        sent = response.read()
        seconds = time.perf_counter() - start
        body = gzip.decompress(sent) if response.headers.get("Content-Encoding") == "gzip" else sent
        if response.status != 200 or not _UP.search(body):
            raise RuntimeError(f"HTTP {response.status}, or uwsgi_up is not 1")
        return Answer(seconds, len(sent), body)

    def answers(self) -> bool:
        try:
            self.scrape()
        except (OSError, http.client.HTTPException, RuntimeError):
            self.close()
            return False
        return True

    def close(self) -> None:
        self._connection.close()


class Exporter(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    scraper: Scraper

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def samples(self) -> float:
        """How many samples our exporter has taken so far; 0 for other exporters."""
        found = _SAMPLES.search(self.scraper.scrape().body)
        return float(found[1]) if found else 0.0

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process in seconds, including threads that have ended, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock id that clock_getcpuclockid(3) returns: CPUCLOCK_SCHED is 2


@contextlib.contextmanager
def running(name: str, command: str, stats: str) -> Iterator[Exporter]:
    """Run `command` (with `{stats}`, the path of the stats socket, and `{port}`) until the block ends."""
    port = real_uwsgi.free_port()
    arguments = [part.format(stats=stats, port=port, python=sys.executable) for part in shlex.split(command)]
    with (
        contextlib.closing(Scraper(port)) as scraper,
        real_uwsgi.running(arguments, scraper.answers, name, log=Path(os.devnull)) as process,
    ):
        yield Exporter(name, process, scraper)

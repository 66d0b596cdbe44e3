"""Measures one exporter of many servers, without waits and routes, at one sample a second of each."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support import exporter
from tools.bench.exporters import cpu_seconds
from tools.bench.scraper import Scraper

WARM_UP_SECONDS = 75
"""Until the window of a minute is full."""

_SCRAPES = 9
_SAMPLES = re.compile(r"^uwsgi_exporter_samples_total\{[^}]*\} (\S+)$", re.MULTILINE)
_UP = re.compile(r"^uwsgi_up\{[^}]*\} (\S+)$", re.MULTILINE)
_LEFT_OUT = re.compile(r"^uwsgi_exporter_pattern_servers\{.*state=\"left_out\"\} (\S+)$", re.MULTILINE)
_MESSAGE = re.compile(r'msg=("[^"]*"|\S+)')


@dataclass(frozen=True, slots=True)
class Result:
    """servers: that are watched; up: of those, readable; left_out: sockets that are not watched.

    cpu: seconds of CPU per second, without scrapes; scrape_cpu: seconds of each scrape; scrapes: seconds until the last
    byte; interval: mean seconds between two samples of a server that is up; said: warnings and errors of the log, and
    the number of their lines.
    """

    servers: int
    up: int
    left_out: int
    cpu: float
    scrape_cpu: Sequence[float]
    scrapes: Sequence[float]
    interval: float
    resident: int
    series: int
    sent: int
    said: Mapping[str, int]


def measure(stats: Sequence[str], seconds: float, max_servers: int | None = None) -> Result:
    """Run an exporter of these addresses, which may be globs, and measure it for so many seconds."""
    sampling = {"samples_per_second": 1, "waits": False, **({"max_servers": max_servers} if max_servers else {})}
    servers = [{"stats": f"unix://{path}"} if "*" not in path else {"stats": path} for path in stats]
    if len(servers) > 1 and not any("*" in path for path in stats):
        servers = [{**server, "name": f"app{place}"} for place, server in enumerate(servers)]
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        path = Path(folder) / "config.yml"
        path.write_text(json.dumps({"servers": servers, "sampling": sampling}))  # JSON is YAML
        with exporter.exporter("--config", str(path)) as running:
            return _measure(running, seconds)


def _measure(running: exporter.Exporter, seconds: float) -> Result:
    scraper = Scraper(running.port)
    time.sleep(WARM_UP_SECONDS)
    before = _count_samples(scraper)
    time.sleep(1)
    cpu, began = cpu_seconds(running.pid), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    rest = (cpu_seconds(running.pid) - cpu) / elapsed
    after = _count_samples(scraper)
    scrapes, scrape_cpu = [], []
    for _ in range(_SCRAPES):
        cpu, began = cpu_seconds(running.pid), time.monotonic()
        answer = scraper.scrape()
        scrapes.append(answer.seconds)
        time.sleep(0.3)
        scrape_cpu.append(cpu_seconds(running.pid) - cpu - rest * (time.monotonic() - began))
        time.sleep(1)
    resident = psutil.Process(running.pid).memory_info().rss
    scraper.close()
    text = answer.body.decode()
    up = [float(value) for value in _UP.findall(text)]
    return Result(
        servers=len(up),
        up=int(sum(up)),
        left_out=int(sum(map(float, _LEFT_OUT.findall(text)))),
        cpu=rest,
        scrape_cpu=scrape_cpu,
        scrapes=scrapes,
        interval=(elapsed + 1) * sum(up) / max(1.0, after - before),
        resident=resident,
        series=answer.series,
        sent=answer.sent,
        said=_read_log(running.log),
    )


def _count_samples(scraper: Scraper) -> float:
    return sum(map(float, _SAMPLES.findall(scraper.scrape().body.decode())))


def _read_log(log: Path) -> Mapping[str, int]:
    lines = [line for line in log.read_text().splitlines() if "level=warning" in line or "level=error" in line]
    return Counter(found[1].strip('"') if (found := _MESSAGE.search(line)) else line for line in lines)

"""Generates ninety days of recorded series, as the rules would have recorded them, for a real Prometheus."""

from __future__ import annotations

import math
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.monitoring import find

DAYS, DAY = 90, 86400
STEP, DAILY_STEP = 900, 3600
"""Seconds between samples: longer than in practice, because writing all of them would take minutes, but with a sample
at every time that a query uses (midnights and quarters of an hour)."""
LIMITS = ("hottest_interpreter", "interpreters", "threads", "cpu")
OBJECTIVE = 0.99
"""Of each server."""
THREADS = 32
"""Of each server."""
WAITS = {"cpu": 0.2, "interpreter_lock": 0.1, "backend": 0.5, "sleep": 0.15, "unknown": 0.05, "disk": 0.0}
"""Parts of the time of requests, by state."""


@dataclass(frozen=True)
class Server:
    """A server. busiest: threads busy in the busiest hour of the last weekday; growth: its relative growth over all
    days."""

    name: str
    instance: str
    busiest: float
    growth: float

    def labels(self) -> Mapping[str, str]:
        return {"job": "uwsgi", "instance": self.instance, "server": self.name}

    def busy(self, at: float, end: float) -> float:
        """Threads busy at a time: few at night and at weekends."""
        clock = time.gmtime(at)
        hour = clock.tm_hour + clock.tm_min / 60
        daylight = math.exp(-(((hour - 14) / 4.5) ** 2))
        weekday = 0.45 if clock.tm_wday >= 5 else 1.0
        grown = 1 - self.growth * (end - at) / (DAYS * DAY)
        return self.busiest * grown * (0.12 + 0.88 * daylight * weekday)


SERVERS = (
    Server("checkout", "10.0.0.1:9238", 0.86, 0.35),
    Server("checkout", "10.0.0.2:9238", 0.62, 0.30),
    Server("search", "10.0.0.3:9238", 0.34, 0.0),
)


def write(directory: Path, end: float) -> None:
    """Writes a history that ends at `end` into the data directory of a Prometheus, with promtool."""
    text = directory / "history.txt"
    with text.open("w") as file:
        file.writelines(_openmetrics(end))
    command = [str(find("promtool")), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=1440h"]
    subprocess.run([*command, str(text), str(directory)], check=True, capture_output=True, timeout=300)
    text.unlink()


def _openmetrics(end: float) -> Iterator[str]:
    """Yields lines grouped by family, as the format requires."""
    first = int(end - DAYS * DAY) // STEP * STEP
    times = range(first, int(end), STEP)
    day, lines = DAY // STEP, dict[str, list[str]]()
    for server in SERVERS:
        dice = random.Random(server.instance)
        busy = [max(0.0, server.busy(at, end) * dice.gauss(1, 0.05)) for at in times]
        for index, at in enumerate(times):
            _sample(lines, "server:uwsgi_utilization:ratio_rate5m", server, busy[index], at)
            if at % DAILY_STEP:
                continue
            today = sorted(busy[max(0, index - day) : index + 1])
            most, p95 = today[-1], today[int(0.95 * (len(today) - 1))]
            _sample(lines, "server:uwsgi_utilization:max1d", server, most, at)
            _sample(lines, "server:uwsgi_utilization:p95_1d", server, p95, at)
            _sample(lines, "server:uwsgi_slo_requests:rate1d", server, 100 * sum(today) / len(today), at)
            _sample(lines, "server:uwsgi_slo_bad_requests:ratio_rate1d", server, 0.012 * most**2, at)
            _sample(lines, "uwsgi_slo_objective_ratio", server, OBJECTIVE, at)
            _sample(lines, "server:uwsgi_queue_wait_seconds:p95_1d", server, 0.2 * most**4, at)
            _sample(lines, "server:uwsgi_requests:max1d", server, 300 * most, at)
            for place, limit in enumerate(LIMITS):
                _sample(lines, "server:uwsgi_headroom:min1d", server, (0.9 + 0.2 * place) / most, at, limit=limit)
            mean = THREADS * sum(today) / len(today)
            for state, part in WAITS.items():
                _sample(lines, "server:uwsgi_wait_threads:avg1d", server, mean * part, at, state=state)
    for name, samples in lines.items():
        yield f"# TYPE {name} gauge\n"
        yield from samples
    yield "# EOF\n"


def _sample(lines: dict[str, list[str]], name: str, server: Server, value: float, at: float, **part: str) -> None:
    labels = {**server.labels(), **part}
    text = ",".join(f'{key}="{label}"' for key, label in labels.items())
    lines.setdefault(name, []).append(f"{name}{{{text}}} {value:.4f} {at}\n")

"""Runs all rules over simulated days: on a quiet day and a busy day no alert may fire, and on an uneven day that costs
response time the right alerts must fire.

Requests arrive at random (Poisson), more by day than by night. Each uses its worker's interpreter for a random time,
and waits for something else for a random time. A free thread of a random worker takes the request, or the first thread
that becomes free; an interpreter serves one request at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import cos, pi
from pathlib import Path
from random import Random

import pytest

from tests.support import promtool

pytestmark = pytest.mark.slow

SCRAPE, MINUTES = 60, 24 * 60


@dataclass(frozen=True)
class Site:
    """One server. peak: load of its busiest minutes, in CPU seconds per second of all interpreters; cpu, wait: mean
    seconds that a request uses an interpreter, and waits for something else; preference: relative frequency with which
    each worker takes a request, equal if empty."""

    name: str
    workers: int
    threads: int
    peak: float
    cpu: float
    wait: float
    preference: Sequence[float] = ()


def load(second: float) -> float:
    """Part of the peak load at a second of the day: least at 3 a.m., most at 3 p.m."""
    return 0.55 - 0.45 * cos(2 * pi * (second / 3600 - 3) / 24)


@dataclass
class _Worker:
    """A worker. free: when its interpreter has finished its work; the other fields are totals."""

    busy: int = 0
    started: float = 0.0
    free: float = 0.0
    requests: int = 0
    running: float = 0.0
    cpu: float = 0.0


def counters(site: Site) -> Mapping[str, Sequence[float]]:
    """The values of each counter, minute by minute; for a worker's counter, the name ends with a space and the
    worker_id."""
    random = Random(f"{site.name} 1")
    workers = [_Worker() for _ in range(site.workers)]
    values: dict[str, list[float]] = {}
    full = queued = 0.0
    for now, full, queued in _scrapes(site, workers, random):
        values.setdefault("full", []).append(round(full, 3))
        values.setdefault("queue", []).append(round(queued, 3))
        for place, worker in enumerate(workers, start=1):
            values.setdefault(f"requests {place}", []).append(worker.requests)
            values.setdefault(f"running {place}", []).append(round(worker.running, 6))
            values.setdefault(f"busy {place}", []).append(round(worker.running + worker.busy * now - worker.started, 3))
            values.setdefault(f"cpu {place}", []).append(round(worker.cpu - max(0.0, worker.free - now), 2))
    return values


def _scrapes(site: Site, workers: list[_Worker], random: Random) -> Iterator[tuple[float, float, float]]:
    """Yields the time of each scrape, and until then the seconds with every thread busy and the queue-length
    integral."""
    endings: list[tuple[float, int, float]] = []
    waiting: deque[float] = deque()
    peak = site.peak / site.cpu
    threads = site.workers * site.threads
    busy, full, queued, at, scrape = 0, 0.0, 0.0, 0.0, 0
    arrival = random.expovariate(peak)

    def take(now: float) -> None:
        """A free thread begins a request: computing comes first, then waiting, so that its end is known at once."""
        place = _choose(site, workers, random)
        worker = workers[place]
        work = random.gammavariate(1.5, site.cpu / 1.5)
        worker.free = max(worker.free, now) + work
        worker.cpu += work
        worker.busy += 1
        worker.started += now
        heappush(endings, (worker.free + random.expovariate(1 / site.wait), place, now))

    while True:
        then = min(arrival, endings[0][0] if endings else arrival)
        while scrape * SCRAPE <= then:
            tick = scrape * SCRAPE
            since = max(0.0, tick - at)
            yield tick, full + since * (busy == threads), queued + since * len(waiting)
            scrape += 1
            if scrape > MINUTES:
                return
        full += (then - at) * (busy == threads)
        queued += (then - at) * len(waiting)
        at = then
        if then == arrival:
            if random.random() < load(then):
                if busy < threads:
                    take(then)
                    busy += 1
                else:
                    waiting.append(then)
            arrival = then + random.expovariate(peak)
            continue
        _, place, began = heappop(endings)
        worker = workers[place]
        worker.busy -= 1
        worker.started -= began
        worker.requests += 1
        worker.running += then - began
        if waiting:
            waiting.popleft()
            take(then)
        else:
            busy -= 1


def _choose(site: Site, workers: list[_Worker], random: Random) -> int:
    """A random worker with a free thread, by preference."""
    while True:
        place = random.choices(range(site.workers), site.preference or None)[0]
        if workers[place].busy < site.threads:
            return place


EVALUATION = "3m"
"""Evaluating the rules for 78 workers takes a while; this interval still sees what lasts five minutes."""

BUSY = (
    Site("two", workers=2, threads=8, peak=1.2, cpu=0.2, wait=1.3),
    Site("four", workers=4, threads=4, peak=2.4, cpu=0.3, wait=0.7),
    Site("eight", workers=8, threads=1, peak=3.2, cpu=0.5, wait=0.3),
)
"""At the peak, 0.4 to 0.6 of a CPU in each interpreter, and 60 to 70 % of the threads busy: barely healthy."""

LARGE = Site("sixty-four", workers=64, threads=2, peak=35, cpu=3, wait=2.9)
"""As busy as these, with so many workers that simulating a day takes most of a minute."""


def quiet(site: Site) -> Site:
    """The site with a twentieth of its load."""
    return replace(site, peak=site.peak / 20)


QUIET = (
    *map(quiet, BUSY),
    Site("wakes unevenly", workers=4, threads=4, peak=0.02, cpu=0.02, wait=0.05, preference=(16, 46, 5, 34)),
    Site("wakes one", workers=4, threads=4, peak=0.02, cpu=0.02, wait=0.05, preference=(1, 0, 0, 0)),
)
"""Little load; two of the servers share it as unevenly as an idle uWSGI may."""

UNEVEN = (Site("api", workers=4, threads=8, peak=2.0, cpu=0.25, wait=0.5, preference=(10, 70, 10, 10)),)
"""Requests are uneven and long: in the busy hours one of four workers has nearly half of them, and is saturated."""


@pytest.mark.parametrize("sites", [QUIET, [quiet(LARGE)]], ids=["small", "large"])
def test_a_quiet_day_is_silent(tmp_path: Path, sites: Sequence[Site]) -> None:
    """No alert fires on servers with little load, however unevenly some share it."""
    _promtool(tmp_path, sites, {FIRED: []})


@pytest.mark.parametrize("sites", [BUSY, [LARGE]], ids=["small", "large"])
def test_a_busy_day_is_silent(tmp_path: Path, sites: Sequence[Site]) -> None:
    """No alert fires on servers that are busy and even; they are as busy as stated above."""
    busiest = "max_over_time(server:uwsgi_utilization:ratio_rate5m[1d])"
    even = "min_over_time(server:uwsgi_hot_worker_ratio:ratio_rate5m[1d])"
    _promtool(
        tmp_path,
        sites,
        {
            FIRED: [],
            f"count({busiest} > 0.6 < 0.8)": [{"labels": "{}", "value": len(sites)}],
            f"count({even} >= 1 < 1.5)": [{"labels": "{}", "value": len(sites)}],
        },
    )


def test_an_uneven_and_costly_day_is_told(tmp_path: Path) -> None:
    """The ticket and the page about uneven workers fire, and otherwise only alerts about the same cause."""
    names = ("UwsgiHeadroomLow", "UwsgiHotWorkerSaturated", "UwsgiWorkersUneven")
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    _promtool(tmp_path, UNEVEN, {f"count by (alertname) ({FIRED})": samples})


FIRED = 'count_over_time(ALERTS{alertstate="firing"}[1d])'


def _promtool(directory: Path, sites: Sequence[Site], expected: Mapping[str, Sequence[object]]) -> None:
    """Runs all rules over a day of these sites, and compares the values of expressions at its end."""
    files = sorted(promtool.RULES.glob("*.yaml"))
    rules = promtool.write_rules(directory, files, promtool.rules_read(files, expected))
    asked = (
        {"expr": expression, "eval_time": f"{MINUTES}m", "exp_samples": list(samples)}
        for expression, samples in expected.items()
    )
    series = dict(each for site in sites for each in _series(site))
    assert promtool.evaluate(directory, series, f"{SCRAPE}s", asked, rules, EVALUATION) == ""


def _series(site: Site) -> Iterator[tuple[str, str]]:
    """Yields the exporter's series of the site, minute by minute."""
    values = counters(site)

    def one(name: str, numbers: Sequence[float] | float, **labels: str) -> tuple[str, str]:
        pairs = {"job": "uwsgi", "instance": "web1:9238", "server": site.name, **labels}
        selector = ",".join(f'{key}="{value}"' for key, value in pairs.items())
        constant = isinstance(numbers, (int, float))
        text = f"{numbers}x{MINUTES}" if constant else " ".join(f"{number:.15g}" for number in numbers)
        return f"{name}{{{selector}}}", text

    threads = site.workers * site.threads
    yield one("up", 1)
    yield one("uwsgi_up", 1)
    yield one("uwsgi_threads_configured", threads)
    yield one("uwsgi_threads_available", threads)
    yield one("uwsgi_threads_ceiling", threads)
    yield one("uwsgi_threads_stuck", 0)
    yield one("uwsgi_cpus_usable", site.workers)
    yield one("uwsgi_workers_sharing_one_cpu", 0)
    yield one("uwsgi_host_facts_available", 1)
    yield one("uwsgi_workers", site.workers, state="idle")
    yield one("uwsgi_server_reloads_total", 0)
    yield one("uwsgi_full_occupancy_seconds_total", values["full"])
    yield one("uwsgi_exporter_observed_seconds_total", [minute * SCRAPE for minute in range(MINUTES + 1)])
    yield one("uwsgi_exporter_samples_total", [5 * minute * SCRAPE for minute in range(MINUTES + 1)])
    yield one("uwsgi_exporter_sample_gap_seconds_total", 0)
    yield one("uwsgi_exporter_read_errors_total", 0, reason="timeout")
    yield one("uwsgi_exporter_sampling_duty_ratio", 0.001)
    yield one("uwsgi_socket_queue_measurable", 1, socket="/run/api.sock")
    yield one("uwsgi_socket_max_queue_length", 100, socket="/run/api.sock")
    yield one("uwsgi_socket_queue_seconds_total", values["queue"], socket="/run/api.sock")
    yield one("uwsgi_socket_queue_full_seconds_total", 0, socket="/run/api.sock")
    yield one("uwsgi_listen_overflows_total", 0)
    yield one("uwsgi_listen_drops_total", 0)
    for worker in map(str, range(1, site.workers + 1)):
        cpu = values[f"cpu {worker}"]
        yield one("uwsgi_worker_accepting", 1, worker_id=worker)
        yield one("uwsgi_worker_threads", site.threads, worker_id=worker)
        yield one("uwsgi_worker_requests_total", values[f"requests {worker}"], worker_id=worker)
        yield one("uwsgi_worker_static_requests_total", 0, worker_id=worker)
        yield one("uwsgi_worker_running_time_seconds_total", values[f"running {worker}"], worker_id=worker)
        yield one("uwsgi_worker_busy_thread_seconds_total", values[f"busy {worker}"], worker_id=worker)
        yield one("uwsgi_worker_cpu_seconds_total", [0.9 * seconds for seconds in cpu], worker_id=worker, mode="user")
        yield one("uwsgi_worker_cpu_seconds_total", [0.1 * seconds for seconds in cpu], worker_id=worker, mode="system")
        yield one("uwsgi_worker_exceptions_total", 0, worker_id=worker)
        yield one("uwsgi_worker_harakiri_total", 0, worker_id=worker)
        yield one("uwsgi_worker_respawns_total", 1, worker_id=worker)
        yield one("uwsgi_worker_lost_requests_total", 0, worker_id=worker)
        yield one("uwsgi_worker_resident_memory_bytes", 60_000_000, worker_id=worker)

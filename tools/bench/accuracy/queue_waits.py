"""Compares how long requests wait in a listen queue with what the clients and the application wrote down.

A request waits from its connection until the application is called, by one clock; parsing it is less than 1 ms of that.
The window holds every request of the load, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.real_uwsgi import uwsgi
from tools.bench.accuracy.generator import APP, Load, Record, generator
from tools.bench.accuracy.percentiles import SETTLE, judge_percentile, judge_share
from tools.bench.accuracy.scrapes import Scrape, exporting, first_reading
from tools.bench.table import Line, within
from uwsgi_headroom.numbers import percentile

INTERVAL = 0.2
"""Seconds between two samples, as by default."""

THRESHOLD = 0.5
"""Seconds, of the objective."""

SECOND = 1e9


@dataclass(frozen=True)
class Case:
    """A server whose queue fills and empties at random, and its load."""

    name: str
    processes: int
    threads: int
    load: Load
    tcp: bool


def every() -> Iterator[Case]:
    for place, tcp in (("UNIX", False), ("TCP", True)):
        yield Case(f"1x1 queue, {place}", 1, 1, Load(clients=10, io_ms=60, think_ms=500), tcp)
        yield Case(f"2x2 queue, {place}", 2, 2, Load(clients=60, io_ms=80, think_ms=900), tcp)
        yield Case(f"2x2 bursts, {place}", 2, 2, Load(clients=24, io_ms=40, think_ms=200, burst=1.5), tcp)


def run(case: Case, seconds: float) -> list[Line]:
    options = ["--processes", str(case.processes), "--listen", "100", "--disable-logging", "--http-socket", "web"]
    options += ["--threads", str(case.threads)] if case.threads > 1 else []
    with (
        uwsgi(*options, app=APP) as server,
        exporting(server.stats, "--window", "1h", "--slo", "500ms:95%") as (_, scraper),
    ):
        address = ("127.0.0.1", server.http) if case.tcp else str(server.directory / "web")
        with generator(case.load, address) as load:
            time.sleep(2.0)
            load.go()
            scraper.until(time.monotonic() + seconds, 0.5)
            truth = load.stop()
        time.sleep(SETTLE)
        last, document = scraper.scrape(), scraper.document()
    return list(_judge(document, last, scraper.scrapes, truth.records))


def _judge(document: Any, last: Scrape, scrapes: Sequence[Scrape], records: Sequence[Record]) -> Iterator[Line]:
    waits = sorted((record.enter - record.connected) / SECOND for record in records)
    mean = sum(waits) / len(waits)
    yield within("queue wait, mean", document["flow"]["queue_wait"], mean, 0.1, f"{len(waits)} requests", " ms", 1000)
    for ours in document["queue_waits"]["percentiles"]:
        wait = percentile(waits, ours["share"])
        yield judge_percentile(f"queue wait, p{100 * ours['share']:g}", ours, wait, INTERVAL)
    late = sum(record.leave - record.connected > THRESHOLD * SECOND for record in records) / len(records)
    bad = last.samples["uwsgi_slo_bad_requests_total"]
    missed = sum(bad[frozenset({("reason", reason)})] for reason in ("slow", "waited"))
    counted = missed / last.total("uwsgi_slo_requests_total")
    yield judge_share(f"beyond {THRESHOLD:g} s with the wait", counted, late)
    yield _judge_oldest(scrapes, records)


def _judge_oldest(scrapes: Sequence[Scrape], records: Sequence[Record]) -> Line:
    """Compares the age of the oldest request at the reading behind each scrape, whose time is known to some ms."""
    first, name = first_reading(scrapes), "uwsgi_listen_queue_oldest_wait_seconds"
    errors: list[float] = []
    ages: list[float] = []
    for scrape in scrapes:
        at = (first + scrape.elapsed) * SECOND
        truth = max([at - each.connected for each in records if each.connected <= at < each.enter], default=0) / SECOND
        if name in scrape.samples and truth > INTERVAL:
            ages.append(truth)
            errors.append(abs(scrape.total(name) - truth))
    middle = percentile(sorted(errors), 0.5)
    return Line(
        "oldest request, worst error",
        f"{1000 * max(errors):.0f} ms",
        f"{len(ages)} ages of {1000 * min(ages):.0f} to {1000 * max(ages):.0f} ms",
        f"median {1000 * middle:.0f} ms",
        "one interval",
        max(errors) <= INTERVAL,
    )

"""Compares percentiles of response times, and the shares of slow requests, with those that the application wrote down.

Two exporters watch one uWSGI, at 10 and 5 samples a second. Each window holds every request of the load, and nothing
else.
"""

import contextlib
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.support.real_uwsgi import uwsgi
from tools.bench.accuracy.generator import Case, Load, Record, generator
from tools.bench.accuracy.scrapes import Scrape, exporting, first_reading
from tools.bench.table import Line, within
from tools.scenarios.scenario import APP
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.numbers import percentile

RATES = (10, 5)
"""Samples per second."""

BOUNDS = (0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds; the shares of requests that are slower are compared, from two sampling intervals on."""

FAR, NEAR, SHARE, POINT = 0.1, 0.3, 0.1, 0.005
"""Targets: a percentile of two sampling intervals and more, of one to two; a share, relative, or else absolute."""

SETTLE = 3.0
"""Seconds after the load until the last batch has ended: of ten samples."""

FINE = 0.4
"""Seconds from which on the bounds of the histogram are near enough for a target."""


def every() -> Iterator[Case]:
    some = Load(clients=16, io_ms=150, think_ms=100)
    for shape in ("lognormal", "two kinds", "pareto"):
        yield Case(f"4x8 {shape}", 4, 8, replace(some, shape=shape))
    yield Case("4x8 constant 300 ms", 4, 8, replace(some, shape="constant", io_ms=300))
    yield Case("2x8 CPU-bound", 2, 8, Load(clients=12, io_ms=0, cpu_ms=40, think_ms=50), by_log=True)
    yield Case("8x1 near saturation", 8, 1, Load(clients=8, io_ms=200, think_ms=10, shape="lognormal"))
    yield Case("64x16 lognormal", 64, 16, Load(clients=300, io_ms=1000, think_ms=500, shape="lognormal"))


def run(case: Case, seconds: float) -> list[Line]:
    options = ("--log-format", "%(micros)", "--req-logger", "file:micros")
    with uwsgi(*case.options, *options, app=APP) as server, contextlib.ExitStack() as stack:
        more = ["--window", "1h", "--waits", "false", "--samples-per-second"]
        scrapers = [stack.enter_context(exporting(server.stats, *more, str(rate)))[1] for rate in RATES]
        load = stack.enter_context(generator(case.load, case.address(server)))
        time.sleep(2.0)
        load.go()
        time.sleep(seconds)
        records = load.stop().records
        time.sleep(SETTLE)
        measured = [(rate, each.document(), each.scrape()) for rate, each in zip(RATES, scrapers, strict=True)]
        log = [int(line) / 1e6 for line in (server.directory / "micros").read_text().split()]
    by_application = sorted((record.leave - record.enter) / 1e9 for record in records)
    truth = sorted(log) if case.by_log else by_application
    other = by_application if case.by_log else sorted(log)
    return [line for seen in measured for line in _judge(*seen, truth, other)]


def _judge(rate: int, document: Any, scrape: Scrape, truth: Sequence[float], other: Sequence[float]) -> Iterator[Line]:
    count = round(scrape.value("uwsgi_response_time_seconds_count"))
    error = count - len(truth)
    yield Line(f"{rate}/s count", str(count), str(len(truth)), f"{error:+d}", "exact", error == 0)
    for ours in document["response_times"]["percentiles"]:
        share = ours["share"]
        line = judge_percentile(f"{rate}/s p{100 * share:g}", ours, percentile(truth, share), 1 / rate)
        yield replace(line, note=f"{line.note}; other clock {1000 * percentile(other, share):.0f} ms")
        yield from _judge_quantile(rate, scrape, share, percentile(truth, share))
    for bound in BOUNDS:
        if bound >= 2 / rate:
            ours = 1 - scrape.value("uwsgi_response_time_seconds_bucket", le=str(bound)) / count
            true = sum(each > bound for each in truth) / len(truth)
            yield judge_share(f"{rate}/s slower than {bound:g} s", ours, true)


def _judge_quantile(rate: int, scrape: Scrape, share: float, truth: float) -> Iterator[Line]:
    """What PromQL makes of the exported histogram, from two sampling intervals on."""
    if truth < 2 / rate:
        return
    counts = [scrape.value("uwsgi_response_time_seconds_bucket", le=str(bound)) for bound in BUCKET_BOUNDS]
    ours = histogram_quantile(share, BUCKET_BOUNDS, counts, scrape.value("uwsgi_response_time_seconds_count"))
    target = None if truth < FINE else FAR
    yield within(f"{rate}/s p{100 * share:g} by PromQL", ours, truth, target, "", " ms", 1000)


def histogram_quantile(share: float, bounds: Sequence[float], counts: Sequence[float], total: float) -> float:
    """PromQL's `histogram_quantile`: the requests of a bucket are spread evenly over it. counts: up to each of the
    finite bounds, ascending; total: of all requests. Of those above the last bound, nothing but the bound is known."""
    rank = share * total
    place = bisect_left(counts, rank)
    if place == len(counts):
        return bounds[-1]
    low, below = (bounds[place - 1], counts[place - 1]) if place else (0.0, 0.0)
    return low + (bounds[place] - low) * (rank - below) / (counts[place] - below)


def judge_percentile(name: str, ours: Any, truth: float, interval: float) -> Line:
    """The line of a percentile, which may have only an upper bound. ours: as in the exporter's document. interval:
    seconds between two samples."""
    target = FAR if truth >= 2 * interval else NEAR if truth >= interval else None
    note = f"interval {1000 * ours['low']:.0f} to {1000 * ours['high']:.0f} ms"
    note += "" if ours["low"] <= truth <= ours["high"] else ", truth outside"
    if ours["seconds"] is not None:
        return within(name, ours["seconds"], truth, target, note, " ms", 1000)
    met = truth <= ours["under"] if target is None else False
    return Line(name, f"under {1000 * ours['under']:.0f} ms", f"{1000 * truth:.0f} ms", "-", "-", met, note)


def judge_share(name: str, ours: float, truth: float) -> Line:
    met = abs(ours - truth) <= max(POINT, SHARE * truth)
    return Line(name, f"{ours:.2%}", f"{truth:.2%}", f"{100 * (ours - truth):+.2f}", "10% or 0.5 points", met)


INTERVAL = 0.2
"""Seconds between two samples, as by default."""

THRESHOLD = 0.5
"""Seconds, of the objective."""

SECOND = 1e9


def every_queue() -> Iterator[Case]:
    """Servers whose queue fills and empties at random."""
    for place, tcp in (("UNIX", False), ("TCP", True)):
        yield Case(f"1x1 queue, {place}", 1, 1, Load(clients=10, io_ms=60, think_ms=500), tcp=tcp)
        yield Case(f"2x2 queue, {place}", 2, 2, Load(clients=60, io_ms=80, think_ms=900), tcp=tcp)
        yield Case(f"2x2 bursts, {place}", 2, 2, Load(clients=24, io_ms=40, think_ms=200, burst=1.5), tcp=tcp)


def run_queue(case: Case, seconds: float) -> list[Line]:
    with (
        uwsgi(*case.options, "--disable-logging", app=APP) as server,
        exporting(server.stats, "--window", "1h", "--slo", "500ms:95%") as (_, scraper),
    ):
        with generator(case.load, case.address(server)) as load:
            time.sleep(2.0)
            load.go()
            scraper.until(time.monotonic() + seconds, 0.5)
            truth = load.stop()
        time.sleep(SETTLE)
        last, document = scraper.scrape(), scraper.document()
    return list(_judge_queue(document, last, scraper.scrapes, truth.records))


def _judge_queue(document: Any, last: Scrape, scrapes: Sequence[Scrape], records: Sequence[Record]) -> Iterator[Line]:
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
    first, metric = first_reading(scrapes), "uwsgi_listen_queue_oldest_wait_seconds"
    figure, target, errors = "oldest request, worst error", "one interval", dict[float, float]()
    for scrape in scrapes:
        at = (first + scrape.elapsed) * SECOND
        age = max([at - each.connected for each in records if each.connected <= at < each.enter], default=0) / SECOND
        if metric in scrape.samples and age > INTERVAL:
            errors[age] = 1000 * abs(scrape.total(metric) - age)
    if not errors:
        return Line(figure, "-", "no old request at a scrape", "-", target, None)
    worst, median = max(errors.values()), percentile(sorted(errors.values()), 0.5)
    ages = f"{len(errors)} ages of {1000 * min(errors):.0f} to {1000 * max(errors):.0f} ms"
    return Line(figure, f"{worst:.0f} ms", ages, f"median {median:.0f} ms", target, worst <= 1000 * INTERVAL)

"""Compares percentiles of response times, and the shares of slow requests, with those that the application wrote down.

Three exporters watch one uWSGI, at 10, 5 and 1 samples a second; the last is for information. Each window holds every
request of the load, and nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.support.promql import histogram_quantile
from tests.support.real_uwsgi import free_port, uwsgi, wait_until
from tools.bench.accuracy.cases import APP
from tools.bench.accuracy.generator import Load
from tools.bench.accuracy.programs import SERVER, exporter, generator
from tools.bench.accuracy.scrapes import Scrape, Scraper
from tools.bench.accuracy.table import Line
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

RATES = (10, 5, 1)
"""Samples per second; all but the last have targets."""

BOUNDS = (0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds; the shares of requests that are slower are compared, from two sampling intervals on."""

FAR, NEAR, SHARE, POINT = 0.1, 0.3, 0.1, 0.005
"""Targets: a percentile of two sampling intervals and more, of one to two; a share, relative, or else absolute."""

SETTLE = 11.0
"""Seconds after the load until the last batch has ended: of ten samples, at one a second."""

FINE = 0.4
"""Seconds from which on the bounds of the histogram are near enough for a target."""


@dataclass(frozen=True)
class Case:
    """A server and its load. by_log: whether the truth is uWSGI's request log: the application is called only when its
    thread has the interpreter lock, and does not see the wait for it."""

    name: str
    processes: int
    threads: int
    load: Load
    by_log: bool = False


def every() -> Iterator[Case]:
    """All cases, in the order in which they run."""
    some = Load(clients=16, io_ms=150, think_ms=100)
    for shape in ("lognormal", "two kinds", "pareto"):
        yield Case(f"4x8 {shape}", 4, 8, _shaped(some, shape))
    yield Case("4x8 constant 300 ms", 4, 8, _shaped(some, "constant", io_ms=300))
    yield Case("2x8 CPU-bound", 2, 8, Load(clients=12, io_ms=0, cpu_ms=40, think_ms=50), by_log=True)
    yield Case("8x1 near saturation", 8, 1, Load(clients=8, io_ms=200, think_ms=10, shape="lognormal"))
    yield Case("64x16 lognormal", 64, 16, Load(clients=300, io_ms=1000, think_ms=500, shape="lognormal"))


def _shaped(load: Load, shape: str, io_ms: float = 150) -> Load:
    return Load(clients=load.clients, io_ms=io_ms, think_ms=load.think_ms, shape=shape)


def run(case: Case, seconds: float) -> list[Line]:
    """Measures a case for `seconds` and judges it."""
    options = ["--processes", str(case.processes), "--listen", "100", "--http-socket", "web"]
    options += ["--threads", str(case.threads)] if case.threads > 1 else []
    options += ["--log-format", "%(micros)", "--req-logger", "file:micros"]
    ports = [free_port() for _ in RATES]
    with uwsgi(*options, app=APP) as server, contextlib.ExitStack() as stack:
        for port, rate in zip(ports, RATES, strict=True):
            more = ["--samples-per-second", str(rate), "--window", "1h", "--waits", "false"]
            stack.enter_context(exporter(server.stats, port, *more))
        load = stack.enter_context(generator(case.load, str(server.directory / "web")))
        for port in ports:
            wait_until(partial(_is_read, port), what="a reading")
        time.sleep(2.0)
        load.go()
        time.sleep(seconds)
        records = load.stop().records
        time.sleep(SETTLE)
        measured = [
            (rate, read_document(port), Scraper(port).scrape()) for port, rate in zip(ports, RATES, strict=True)
        ]
        log = [int(line) / 1e6 for line in (server.directory / "micros").read_text().split()]
    by_application = sorted((record.leave - record.enter) / 1e9 for record in records)
    truth = sorted(log) if case.by_log else by_application
    other = by_application if case.by_log else sorted(log)
    lines: list[Line] = []
    for rate, document, scrape in measured:
        lines += _judge(rate, document, scrape, truth, other)
    return lines


def _is_read(port: int) -> bool:
    return bool(Scraper(port).scrape().samples.get("uwsgi_threads_available"))


def read_document(port: int) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", f"/api/v1/servers/{SERVER}?window=3600")
    document = json.loads(connection.getresponse().read())
    connection.close()
    return document


def _judge(rate: int, document: Any, scrape: Scrape, truth: Sequence[float], other: Sequence[float]) -> Iterator[Line]:
    has_target, interval = rate != RATES[-1], 1 / rate
    count = round(scrape.value("uwsgi_response_time_seconds_count"))
    error = count - len(truth)
    yield Line(f"{rate}/s count", str(count), str(len(truth)), f"{error:+d}", "exact", error == 0)
    for ours in document["response_times"]["percentiles"]:
        share = ours["share"]
        yield _judge_percentile(rate, ours, percentile(truth, share), percentile(other, share))
        yield from _judge_quantile(rate, scrape, share, percentile(truth, share))
    for bound in BOUNDS:
        if bound < 2 * interval:
            continue
        ours = 1 - scrape.value("uwsgi_response_time_seconds_bucket", le=str(bound)) / count
        true = sum(each > bound for each in truth) / len(truth)
        met = abs(ours - true) <= max(POINT, SHARE * true) if has_target else None
        target = "10% or 0.5 points" if has_target else "-"
        yield Line(
            f"{rate}/s slower than {bound:g} s",
            f"{ours:.2%}",
            f"{true:.2%}",
            f"{100 * (ours - true):+.2f}",
            target,
            met,
        )


def _judge_quantile(rate: int, scrape: Scrape, share: float, truth: float) -> Iterator[Line]:
    """What PromQL makes of the exported histogram, from two sampling intervals on."""
    if truth < 2 / rate:
        return
    counts = [scrape.value("uwsgi_response_time_seconds_bucket", le=str(bound)) for bound in BUCKET_BOUNDS]
    ours = histogram_quantile(share, BUCKET_BOUNDS, counts, scrape.value("uwsgi_response_time_seconds_count"))
    met = None if rate == RATES[-1] or truth < FINE else abs(ours / truth - 1) <= FAR
    name = f"{rate}/s p{100 * share:g} by PromQL"
    target = "-" if met is None else f"{FAR:.0%}"
    yield Line(name, f"{1000 * ours:.0f} ms", f"{1000 * truth:.0f} ms", f"{ours / truth - 1:+.1%}", target, met)


def _judge_percentile(rate: int, percentile: Any, truth: float, other: float) -> Line:
    interval, seconds, share = 1 / rate, percentile["seconds"], percentile["share"]
    target = None if rate == RATES[-1] or truth < interval else FAR if truth >= 2 * interval else NEAR
    name = f"{rate}/s p{100 * share:g}"
    note = f"interval {1000 * percentile['low']:.0f} to {1000 * percentile['high']:.0f} ms"
    note += "" if percentile["low"] <= truth <= percentile["high"] else ", truth outside"
    note += f"; other clock {1000 * other:.0f} ms"
    if seconds is None:
        met = truth <= percentile["high"] if target is None else False
        return Line(name, f"under {1000 * percentile['under']:.0f} ms", f"{1000 * truth:.0f} ms", "-", "-", met, note)
    error = seconds / truth - 1
    return Line(
        name,
        f"{1000 * seconds:.0f} ms",
        f"{1000 * truth:.0f} ms",
        f"{error:+.1%}",
        f"{target:.0%}" if target else "-",
        abs(error) <= target if target else None,
        note,
    )

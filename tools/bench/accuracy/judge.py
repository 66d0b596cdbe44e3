"""Compares the figures of one measured case with the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from tests.support.monitoring import Prometheus
from tools.bench.accuracy.generator import Truth
from tools.bench.accuracy.rules import BUSY, OBSERVED, QUEUE, REQUESTS, RULES, RUNNING, Rule
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.bench.table import Line, within

ENOUGH = 8
"""The least concurrency for which the observed concurrency has a target: below, sampling error dominates."""


@dataclass(frozen=True)
class Measured:
    """The truth and scrapes of one case. before, after: scrapes without load; start, end: scrapes under load."""

    truth: Truth
    scrapes: Sequence[Scrape]
    before: Scrape
    start: Scrape
    end: Scrape
    after: Scrape


def exact(case: Measured) -> Iterator[Line]:
    """Compares the requests between two scrapes without load, in total and by worker: they must be equal."""
    ours = {worker: round(n) for worker, n in Span(case.before, case.after).by_worker(REQUESTS).items()}
    truth = {worker: case.truth.counts().get(worker, 0) for worker in ours}
    failed = len(case.truth.failures)
    note = f"{failed} failed, the first: {case.truth.failures[0]}" if failed else ""
    off = sum(ours.values()) - sum(truth.values())
    yield Line("requests", str(sum(ours.values())), str(sum(truth.values())), f"{off:+d}", "exact", off == 0, note)
    wrong = sum(abs(ours[worker] - truth[worker]) for worker in ours)
    yield Line("share per worker", _shares(ours), _shares(truth), f"{wrong:+d}", "exact", wrong == 0)


def _shares(counts: dict[int, int]) -> str:
    return "/".join(f"{count / max(1, sum(counts.values())):.1%}"[:-1] for count in counts.values()) + " %"


def concurrency(case: Measured, bursty: bool) -> Iterator[Line]:
    """Compares both concurrencies under load, from the counters; `gauges` compares the gauges with these."""
    whole = Span(case.start, case.end)
    law, observed = whole.growth(RUNNING) / whole.seconds, whole.growth(BUSY) / whole.growth(OBSERVED)
    instants, samples = window(whole, case.scrapes), _samples(whole)
    truth = case.truth.in_application(instants)
    doubt = case.truth.in_client(instants) / truth - 1
    yield within("concurrency, Little's law", law, truth, None if bursty else 0.02, f"clients' own {doubt:+.2%}")
    error = sqrt(truth / samples) / truth
    target = None if round(truth) < ENOUGH else 0.05 if bursty else 0.03
    note = f"n {samples:.0f}, sampling error {error:.2%}"
    yield within("concurrency, observed", observed, truth, target, note)


def _samples(span: Span) -> float:
    return span.growth("uwsgi_exporter_samples_total")


def in_flight(case: Measured, middle: Scrape) -> Iterator[Line]:
    """One long request beside a light load: samples see it while it runs, Little's law only once it has ended."""
    running, whole = Span(case.start, middle), Span(case.start, case.end)
    truth, instants = case.truth, window(running, case.scrapes)
    law, observed = running.growth(RUNNING) / running.seconds, running.growth(BUSY) / running.growth(OBSERVED)
    there, done = truth.in_application(instants), truth.completed(instants)
    error = sqrt(there / _samples(running)) / there
    yield within("observed, while it runs", observed, there, 0.03, f"sampling error {error:.2%}")
    yield within("of which in flight: observed - law", observed - law, there - done, 0.05, "the long request itself")
    yield within("Little's law, while it runs", law, done, 0.02, "truth: what has ended")
    law, ended = whole.growth(RUNNING) / whole.seconds, truth.in_application(window(whole, case.scrapes))
    yield within("Little's law, after it ended", law, ended, 0.02)


def queue(case: Measured) -> Iterator[Line]:
    """Compares the wait in the listen queue with the time that clients waited beyond uWSGI's running time."""
    whole = Span(case.start, case.end)
    instants = window(whole, case.scrapes)
    ours = (whole.growth(QUEUE) / whole.growth(OBSERVED)) / (whole.growth(REQUESTS) / whole.seconds)
    truth = case.truth.client_time(instants) - whole.growth(RUNNING) / whole.growth(REQUESTS)
    length = whole.growth(QUEUE) / whole.growth(OBSERVED)
    note = f"mean length {length:.1f}; by the application's clock {case.truth.wait(instants) * 1000:.4g} ms"
    yield within("queue wait", ours, truth, 0.1, note, " ms", 1000)


def gauges(case: Measured) -> Iterator[Line]:
    """Compares every windowed gauge of the last scrape with its rule, over the scrapes nearest to its window's ends."""
    compared: list[tuple[Rule, dict[str, str], float, float]] = []
    for length in ("1m", "5m"):
        seconds = case.end.samples["uwsgi_window_seconds"][frozenset({("window", length)})]
        first = min(case.scrapes, key=lambda scrape: abs(case.end.elapsed - seconds - scrape.elapsed))
        span = Span(first, case.end)
        for rule in RULES:
            expected = rule.over(span)
            for labels, ours in case.end.samples.get(rule.gauge, {}).items():
                named = dict(labels)
                if named["window"] == length and set(rule.fixed) <= labels:
                    compared.append((rule, named, ours, expected[named.get(rule.by, "")]))
    yield _gauges("windowed gauges", compared)


def prometheus_gauges(prometheus: Prometheus) -> Iterator[Line]:
    """Compares every windowed gauge with what a real Prometheus computes from the exporter's counters, over the window
    that the gauge reports, at the same scrape."""
    ends = prometheus.query("timestamp(uwsgi_window_seconds)")
    if not ends:
        return
    at = max(ends.values())
    compared: list[tuple[Rule, dict[str, str], float, float]] = []
    for labels, seconds in prometheus.query("uwsgi_window_seconds", at).items():
        window = dict(labels)["window"]
        for rule in RULES:
            expected = prometheus.query(rule.expression.replace("[W]", f"[{seconds * 1000:.0f}ms]"), at)
            by_label = {dict(series).get(rule.by, ""): value for series, value in expected.items()}
            matchers = ",".join(f'{name}="{value}"' for name, value in (("window", window), *rule.fixed))
            for series, ours in prometheus.query(f"{rule.gauge}{{{matchers}}}", at).items():
                name = dict(series).get(rule.by, "")
                named = {**dict(rule.fixed), rule.by: name, "window": window}
                compared.append((rule, named, ours, by_label.get(name, float("nan"))))
    yield _gauges("windowed gauges, Prometheus", compared)


def _gauges(figure: str, compared: Sequence[tuple[Rule, dict[str, str], float, float]]) -> Line:
    """The line of gauges with their labels, each with what its rule says: each may be 1 % off."""
    worst, misses = (0.0, "all equal"), []
    for rule, labels, ours, truth in compared:
        off = 0.0 if abs(ours - truth) <= rule.least else abs(ours / truth - 1) if truth else float("inf")
        name = f"`{rule.gauge.removeprefix('uwsgi_')}{{{', '.join(filter(None, labels.values()))}}}` {off:.2%}"
        worst = max(worst, (off, f"worst: {name}"))
        misses += [] if off <= 0.01 else [name]
    note = "misses: " + ", ".join(misses) if misses else worst[1]
    return Line(figure, f"{len(compared)} gauges", "their rules", f"{worst[0]:.2%}", "1%", not misses, note)

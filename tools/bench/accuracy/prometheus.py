"""Compares the windowed gauges with what a real Prometheus computes from the exporter's counters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.support import monitoring
from tests.support.monitoring import Prometheus
from tools.bench.accuracy.rules import RULES, Rule
from tools.bench.accuracy.table import Line

TOLERANCE = 0.01


@contextlib.contextmanager
def beside(exporter: int) -> Iterator[Callable[[], Iterator[Line]]]:
    """Runs a Prometheus that scrapes the exporter at this port every second; yields a function that compares the two.
    Start it before the exporter."""
    with monitoring.prometheus([exporter]) as prometheus:
        # Prometheus must scrape the exporter's counters from the beginning.
        prometheus.wait_for("up")
        yield lambda: compare(prometheus)


def compare(prometheus: Prometheus) -> Iterator[Line]:
    """Compares every windowed gauge with its rule, over the window that the gauge reports, at the same scrape."""
    ends = prometheus.query("timestamp(uwsgi_window_seconds)")
    if not ends:
        return
    at = max(ends.values())
    worst, count, misses = (0.0, ""), 0, []
    for labels, seconds in prometheus.query("uwsgi_window_seconds", at).items():
        window = dict(labels)["window"]
        for rule in RULES:
            expected = prometheus.query(rule.expression.replace("[W]", f"[{seconds * 1000:.0f}ms]"), at)
            by_label = {dict(series).get(rule.by, ""): value for series, value in expected.items()}
            for name, ours in _gauge(prometheus, rule, window, at).items():
                truth = by_label.get(name, float("nan"))
                off = 0.0 if abs(ours - truth) <= rule.least else abs(ours / truth - 1) if truth else float("inf")
                labelled = ", ".join([*(value for _, value in rule.fixed), *([name] if name else []), window])
                text = f"`{rule.gauge.removeprefix('uwsgi_')}{{{labelled}}}` {off:.2%}"
                count, worst = count + 1, max(worst, (off, text))
                misses += [] if off <= TOLERANCE else [text]
    note = "misses: " + ", ".join(misses) if misses else f"worst: {worst[1]}"
    yield Line(
        "windowed gauges, Prometheus", f"{count} gauges", "their rules", f"{worst[0]:.2%}", "1%", not misses, note
    )


def _gauge(prometheus: Prometheus, rule: Rule, window: str, at: float) -> dict[str, float]:
    matchers = ",".join(f'{name}="{value}"' for name, value in (("window", window), *rule.fixed))
    values = prometheus.query(f"{rule.gauge}{{{matchers}}}", at)
    return {dict(labels).get(rule.by, ""): value for labels, value in values.items()}

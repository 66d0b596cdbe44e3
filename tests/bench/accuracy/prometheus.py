"""A real Prometheus beside the exporter: its word for what the windowed gauges should be."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.accuracy.rules import RULES, Rule
from tests.bench.accuracy.table import Line
from tests.real import free_port, wait_until

PROGRAM = shutil.which("prometheus")
TOLERANCE = 0.01

CONFIGURATION = """\
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: uwsgi
    static_configs: [{targets: ["127.0.0.1:EXPORTER"]}]
"""


class Prometheus:
    """Answers queries."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ready(self) -> bool:
        """Whether it answers queries yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def query(self, expression: str, at: float | None = None) -> dict[frozenset[tuple[str, str]], float]:
        """The values of an instant query, by their labels."""
        asked = urllib.parse.urlencode({"query": expression, "time": time.time() if at is None else at})
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{asked}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            result = json.load(answer)["data"]["result"]
        return {frozenset(it["metric"].items()): float(it["value"][1]) for it in result}


@contextlib.contextmanager
def beside(exporter: int) -> Iterator[Callable[[], Iterator[Line]]]:
    """Run Prometheus on the exporter at this port, every second; gives what compares it with the gauges. To be started
    before the exporter."""
    assert PROGRAM
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        configuration, log = Path(directory, "prometheus.yml"), Path(directory, "log")
        configuration.write_text(CONFIGURATION.replace("EXPORTER", str(exporter)))
        command = [PROGRAM, f"--config.file={configuration}", f"--storage.tsdb.path={directory}/data"]
        command += [f"--web.listen-address=127.0.0.1:{port}"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            prometheus = Prometheus(port)
            wait_until(prometheus.ready, what="Prometheus to be ready")
            # It learns of its targets some seconds later, and must know the exporter's counters from the beginning.
            wait_until(lambda: prometheus.query("up"), what="Prometheus to try the exporter")
            yield lambda: compare(prometheus)
        finally:
            process.terminate()
            process.wait(30)


def compare(prometheus: Prometheus) -> Iterator[Line]:
    """Every windowed gauge against its rule, over the very window that the gauge says it has, at the same scrape."""
    ends = prometheus.query("timestamp(uwsgi_window_seconds)")
    if not ends:
        return
    at = max(ends.values())
    worst, count, misses = (0.0, ""), 0, []
    for labels, seconds in prometheus.query("uwsgi_window_seconds", at).items():
        window = dict(labels)["window"]
        for rule in RULES:
            expected = prometheus.query(rule.expression.replace("[W]", f"[{seconds * 1000:.0f}ms]"), at)
            by_label = {dict(it).get(rule.by, ""): value for it, value in expected.items()}
            for name, ours in _gauge(prometheus, rule, window, at).items():
                truth = by_label.get(name, float("nan"))
                off = 0.0 if abs(ours - truth) <= rule.least else abs(ours / truth - 1) if truth else float("inf")
                said = ", ".join([*(value for _, value in rule.fixed), *([name] if name else []), window])
                text = f"`{rule.gauge.removeprefix('uwsgi_')}{{{said}}}` {off:.2%}"
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

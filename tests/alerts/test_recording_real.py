"""The recording rules in a real Prometheus, with a real exporter and a loaded uWSGI, equal the exporter's figures."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from alerts.__main__ import main
from tests.support import alert_scenes, monitoring
from tests.support.exporter import exporter
from tests.support.monitoring import Labels, Prometheus

pytestmark = pytest.mark.integration

WINDOW = "20s"
TOLERANCE = 0.1
"""Relative. Prometheus evaluates up to a second after a scrape, so its window and the exporter's differ by up to a
second in twenty at either end, in which a closed loop may do a little more or less than elsewhere. test_recording
checks that formulas agree to the ninth digit; this test is about labels, scrapes, and the order and timing of
evaluation."""

LEAST = {"uwsgi_unevenness_cost_ratio": 0.03, "uwsgi_queue_wait_seconds": 0.002}
"""Absolute differences that count as equal, for figures that may be 0."""

RECORDED = {
    "uwsgi_throughput_requests_per_second": "server:uwsgi_requests:rate",
    "uwsgi_mean_response_time_seconds": "server:uwsgi_response_time_seconds:ratio_rate",
    "uwsgi_queue_wait_seconds": "server:uwsgi_queue_wait_seconds:ratio_rate",
    'uwsgi_concurrency{method="littles_law"}': "server:uwsgi_concurrency_littles_law:rate",
    'uwsgi_concurrency{method="observed"}': "server:uwsgi_concurrency_observed:ratio_rate",
    "uwsgi_headroom_ratio": "server:uwsgi_headroom:ratio_rate",
    "uwsgi_hot_worker_ratio": "server:uwsgi_hot_worker_ratio:ratio_rate",
    "uwsgi_hot_worker_ratio_noise_floor": "server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate",
    "uwsgi_unevenness_cost_ratio": "server:uwsgi_unevenness_cost:ratio_rate",
    "uwsgi_worker_request_share": "worker:uwsgi_request_share:ratio_rate",
    "uwsgi_worker_response_time_seconds": "worker:uwsgi_response_time_seconds:ratio_rate",
    "uwsgi_worker_interpreter_load": "worker:uwsgi_interpreter_load:rate",
}
"""The gauges of a window, and the recorded series of the same figures."""


@pytest.mark.slow
def test_recorded_figures_of_a_loaded_server(tmp_path: Path) -> None:
    """One of three workers gets most of the requests; compares every windowed gauge at one time."""
    assert main(["--out", str(tmp_path), "--set", f"window={WINDOW}"]) == 0
    with (
        alert_scenes.mapped(processes=3, threads=4) as server,
        alert_scenes.loaded(server.hot, clients=4, io_ms=60, cpu_ms=6),
        alert_scenes.loaded(server.calm, clients=4, io_ms=60, cpu_ms=3),
        exporter("--stats", f"shop=unix://{server.stats}", "--window", WINDOW) as exporting,
        monitoring.prometheus([exporting.port], [tmp_path / "recording.yaml"]) as prometheus,
    ):
        prometheus.wait_for("server:uwsgi_queue_wait_seconds:ratio_rate20s", seconds=60)
        time.sleep(3)  # more than the first window, so that `rate` extrapolates less
        at = time.time() - 1
        pairs = {
            gauge: (_values(prometheus, gauge, at), _values(prometheus, name + WINDOW, at))
            for gauge, name in RECORDED.items()
        }
        assert prometheus.unwell() == {}
    for gauge, (said, recorded) in pairs.items():
        assert said, gauge
        assert recorded.keys() == said.keys(), gauge
        for labels, value in said.items():
            least = LEAST.get(gauge, 0.0)
            if gauge == "uwsgi_headroom_ratio" and ("limit", "threads") in labels:
                # The exporter knows which workers serve which socket: the threads of worker 1 run out first.
                assert value < recorded[labels]
                continue
            assert recorded[labels] == pytest.approx(value, rel=TOLERANCE, abs=least), f"{gauge} {labels}"


def _values(prometheus: Prometheus, expression: str, at: float) -> dict[Labels, float]:
    """Values by the labels that gauges and recorded series share."""
    return {
        frozenset(label for label in labels if label[0] not in ("__name__", "window", "method")): value
        for labels, value in prometheus.query(expression, at).items()
    }

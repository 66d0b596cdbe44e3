"""Series from totals."""

from __future__ import annotations

import pytest

from tests.support.scraped_series import series, watch_of
from tests.support.simulated_server import Server, emperor
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics import sampled_totals
from uwsgi_headroom.watch.watch import Watch


def series_of(watch: Watch, outcome) -> dict[str, float]:
    return series(watch, outcome, sampled_totals.families)


def test_a_busy_second() -> None:
    """Two workers of two threads for a second and a half; all threads are busy for a third of that."""
    server = Server(processes=2, threads=2, queue=3)
    server.busy(2, 2)
    readings = [server.read(10.0), server.read(10.5)]
    server.busy(2, 0)
    readings += [server.read(10.5001), server.read(11.5001)]
    values = series_of(watch_of(*readings), readings[-1])
    assert values['uwsgi_worker_busy_thread_seconds_total{worker_id="1"}'] == pytest.approx(3, abs=1e-3)
    assert values['uwsgi_worker_busy_thread_seconds_total{worker_id="2"}'] == pytest.approx(1, abs=1e-3)
    assert values['uwsgi_socket_queue_seconds_total{socket="app.sock"}'] == pytest.approx(4.5, abs=1e-3)
    assert values["uwsgi_full_occupancy_seconds_total"] == pytest.approx(0.5, abs=1e-3)
    assert values["uwsgi_exporter_observed_seconds_total"] == pytest.approx(1.5, abs=1e-3)
    assert values["uwsgi_exporter_sample_gap_seconds_total"] == 0
    assert values["uwsgi_exporter_samples_total"] == 4
    assert values["uwsgi_server_reloads_total"] == 0


def test_histogram_adds_up() -> None:
    """Buckets are cumulative, the last has all samples, and the histogram is valid for Prometheus."""
    server = Server(processes=1, threads=10)
    readings = []
    for at, busy in enumerate([0, 1, 2, 5, 9, 10, 10]):
        server.busy(busy)
        readings.append(server.read(float(at)))
    values = series_of(watch_of(*readings), readings[-1])
    buckets = {key.split('"')[1]: value for key, value in values.items() if "_bucket" in key}
    assert list(buckets.values()) == sorted(buckets.values())
    assert (buckets["0.1"], buckets["0.5"], buckets["0.9"], buckets["0.99"], buckets["1.0"]) == (2, 4, 5, 5, 7)
    assert buckets["+Inf"] == values["uwsgi_threads_busy_ratio_count"] == 7
    assert values["uwsgi_threads_busy_ratio_sum"] == pytest.approx(3.7)


def test_without_cores_nothing_is_said_of_threads() -> None:
    """Busy-thread seconds, occupancy and full time are absent, and not 0."""
    server = Server(cores=False, queue=None)
    readings = [server.read(float(at)) for at in range(5)]
    values = series_of(watch_of(*readings), readings[-1])
    assert set(values) == {
        "uwsgi_server_reloads_total",
        "uwsgi_no_worker_seconds_total",
        "uwsgi_starting_worker_seconds_total",
        "uwsgi_exporter_samples_total",
        "uwsgi_exporter_observed_seconds_total",
        "uwsgi_exporter_sample_gap_seconds_total",
    }


def test_server_that_is_down() -> None:
    """Gaps and samples continue; series of workers are absent until the server is back."""
    server = Server()
    watch = watch_of(server.read(10.0), server.read(10.5))
    down = ReadError("refused", "connection refused")
    watch._record(20.0, down)
    assert series_of(watch, down) == {
        "uwsgi_exporter_samples_total": 2,
        "uwsgi_exporter_observed_seconds_total": 0.5,
        "uwsgi_exporter_sample_gap_seconds_total": 9.5,
    }


def test_emperor() -> None:
    """An emperor has no integrals."""
    watch = watch_of(emperor(1.0), emperor(2.0))
    assert set(series_of(watch, emperor(2.0)).values()) == {0}


def test_workers_that_a_reload_took_away() -> None:
    """Slots that no longer exist have no series."""
    server = Server(processes=4)
    before = [server.read(10.0), server.read(10.5)]
    server.reload(11.0, processes=2)
    after = server.read(11.5)
    values = series_of(watch_of(*before, after), after)
    assert sum("busy_thread_seconds" in key for key in values) == 2
    assert values["uwsgi_server_reloads_total"] == 1


def test_labels_are_escaped() -> None:
    """A socket may have any name."""
    server = Server(socket='a"b\\c\nd')
    reading = server.read(1.0)
    assert 'uwsgi_socket_queue_seconds_total{socket="a\\"b\\\\c\\nd"}' in series_of(watch_of(reading), reading)

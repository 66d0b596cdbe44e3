"""Event marks, evaluated by promtool: there is one for each step with an event, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.dashboard_queries import queries
from tests.support.promtool import evaluate

STEP = 15
"""Seconds between scrapes, and between the points of a graph of an hour."""
IDENTITY = {"job": "uwsgi", "instance": "10.0.0.1:9238", "server": "shop"}


def _mark(name: str) -> str:
    values = {**IDENTITY, "service_label": "server", "service": ".*", "window": "5m"}
    (query,) = [query for query in queries("server", values, 3600) if query.where == f"server: mark {name}"]
    return query.expression


def _labels(**labels: str) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _trouble(directory: Path, name: str, kind: str, event: str, values: str, marked: list[int]) -> str:
    """promtool's output unless the mark `name` is exactly at the points `marked` of a counter with these values."""
    subject = f"{IDENTITY['server']} {IDENTITY['instance']} "
    sample = _labels(**IDENTITY, kind=kind, event=event, subject=subject)
    asked: list[dict[str, object]] = [
        {
            "expr": _mark(name),
            "eval_time": f"{point * STEP}s",
            "exp_samples": [{"labels": sample, "value": point * STEP * 1000}] if point in marked else [],
        }
        for point in range(len(values.split()))
    ]
    return evaluate(directory, {"uwsgi_events_total" + _labels(**IDENTITY, kind=kind): values}, f"{STEP}s", asked)


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        pytest.param("0 0 0 0 0", [], id="nothing"),
        pytest.param("0 1 1 1 2 2", [1, 4], id="two reloads"),
        pytest.param("0 0 3 3 3", [2], id="three in one step"),
        pytest.param("4 4 0 0 1 1", [4], id="a counter that starts again"),
        pytest.param("0 stale stale 7 7 8", [5], id="an exporter that was away"),
        pytest.param("_ _ 2 2 3", [4], id="a series that begins"),
        pytest.param("2 2 stale stale stale", [], id="a series that ends"),
    ],
)
def test_a_mark_is_where_something_happened(tmp_path: Path, values: str, marked: list[int]) -> None:
    """A mark is at the end of the step in which the counter grew, and nowhere else."""
    assert _trouble(tmp_path, "Reloads", "reload", "reload", values, marked) == ""


@pytest.mark.parametrize(
    ("name", "kind", "event"),
    [
        ("Workers ended", "worker_ended", "worker ended"),
        ("Configuration", "configuration_changed", "configuration changed"),
        ("Down and up", "server_down", "server down"),
        ("Down and up", "server_up", "server up"),
        ("Cheaper mode", "cheaper_up", "cheaper up"),
        ("Cheaper mode", "cheaper_down", "cheaper down"),
        ("Verdicts", "verdict_changed", "verdict changed"),
        ("Exporter", "exporter_started", "exporter started"),
        ("Exporter", "sampling_gap", "sampling gap"),
    ],
)
def test_each_kind_has_its_mark(tmp_path: Path, name: str, kind: str, event: str) -> None:
    """Each kind of event has a mark with its name in words."""
    assert _trouble(tmp_path, name, kind, event, "0 1 1", [1]) == ""


def test_an_event_of_another_kind_makes_no_mark(tmp_path: Path) -> None:
    """A reload does not make the mark of a configuration change."""
    assert _trouble(tmp_path, "Configuration", "reload", "reload", "0 1 1", []) == ""


def test_an_alert_is_named_without_labels_that_it_lacks(tmp_path: Path) -> None:
    """The text names the worker if the alert has one; otherwise Grafana would show `worker_id`."""
    labels = {**IDENTITY, "alertname": "UwsgiDown", "severity": "critical"}
    of_worker = {**IDENTITY, "alertname": "UwsgiWorker", "code": "x", "severity": "warning", "worker_id": "3"}
    series: dict[str, str] = {}
    expected: list[dict[str, object]] = []
    for alert, worker in ((labels, ""), (of_worker, "worker 3")):
        series["ALERTS" + _labels(**alert, alertstate="firing")] = "1 1"
        series["ALERTS_FOR_STATE" + _labels(**alert)] = "900 900"
        subject = f"shop 10.0.0.1:9238 {worker}"
        named = f"{alert['alertname']} {alert.get('code', '')}"
        own = {**alert, "alert": named, "subject": subject, **({"worker": worker} if worker else {})}
        expected.append({"labels": _labels(**own), "value": 900_000})
    asked = {"expr": _mark("Alerts"), "eval_time": f"{STEP}s", "exp_samples": expected}
    assert evaluate(tmp_path, series, f"{STEP}s", [asked]) == ""

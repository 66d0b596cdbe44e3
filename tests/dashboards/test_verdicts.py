"""The tables of verdicts have the words of the judge: title and act of its findings."""

from __future__ import annotations

from pathlib import Path

from tests.dashboards.dashboard_queries import queries
from tests.support.promtool import evaluate

_VALUES = {
    "service_label": "server",
    "service": ".*",
    "window": "1m",
    "job": ".*",
    "instance": ".*",
    "server": ".*",
    "utc_offset": "0",
}


def _series(name: str, server: str, **more: str) -> str:
    labels = {"job": "uwsgi", "instance": "web1:9238", "server": server, **more}
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items() if value) + "}"


def _finding(server: str, urgency: str, title: str, worker_id: str = "") -> str:
    name = "uwsgi_finding_since_time_seconds"
    return _series(name, server, code="x", urgency=urgency, title=title, act=f"Fix: {title}", worker_id=worker_id)


SERIES = {
    _series("uwsgi_verdict_info", "hurt", verdict="critical", harm="queue_wait", cause="x"): "1",
    _series("uwsgi_verdict_info", "refused", verdict="critical", harm="clients_refused", cause="x"): "1",
    _series("uwsgi_verdict_info", "fine", verdict="ok", harm="none", cause="none"): "1",
    _series("uwsgi_verdict_since_time_seconds", "fine"): "40",
    _finding("hurt", "page", "Requests wait.", "2"): "50",
    _finding("hurt", "ticket", "Memory grows."): "60",
    _finding("refused", "page", "The queue is full."): "70",
}


def _rows(name: str, where: str, **values: str) -> str:
    (query,) = [each for each in queries(name, {**_VALUES, "__from": "0", **values}, 3600) if each.where == where]
    return query.expression


def _row(server: str, verdict: str, title: str = "") -> str:
    words = {"title": title, "act": f"Fix: {title}"} if title else {}
    return _series("", server, service=server, verdict=verdict, **words)


def test_the_worst_server_comes_first_with_its_finding(tmp_path: Path) -> None:
    """A page before a ticket; who refuses clients before who lets them wait; a server without a finding is there."""
    rows = {_row("refused", "critical", "The queue is full."): 3.9, _row("hurt", "critical", "Requests wait."): 3.6}
    rows[_row("fine", "ok")] = 0
    asked = {
        "expr": _rows("fleet", "fleet: Servers, worst verdict first A"),
        "eval_time": "0s",
        "exp_samples": [{"labels": labels, "value": rank} for labels, rank in rows.items()],
    }
    assert evaluate(tmp_path, SERIES, "1m", [asked]) == ""


def test_a_server_has_all_its_findings(tmp_path: Path) -> None:
    """With when each began; of a server without any, since when its verdict is what it is."""
    where = "server: Verdict A"
    one = {"job": "uwsgi", "instance": "web1:9238"}
    of = "{{verdict={verdict!r}, title={title!r}, act={act!r}}}"
    hurt = [
        {"labels": of.format(verdict="critical", title=title, act=f"Fix: {title}").replace("'", '"'), "value": since}
        for title, since in (("Requests wait.", 50_000), ("Memory grows.", 60_000))
    ]
    asked = [
        {"expr": _rows("server", where, **one, server="hurt"), "eval_time": "0s", "exp_samples": hurt},
        {
            "expr": _rows("server", where, **one, server="fine"),
            "eval_time": "0s",
            "exp_samples": [{"labels": '{verdict="ok"}', "value": 40_000}],
        },
    ]
    assert evaluate(tmp_path, SERIES, "1m", asked) == ""

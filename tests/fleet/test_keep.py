"""The keep list leaves everything that rules, dashboards and the report read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.test_contract import names_in_query
from tools.fleet import cardinality, keep
from tools.fleet.cardinality import Shape
from tools.support.dashboard_queries import OUT

GUIDE = keep.ROOT / "docs" / "fleet.md"
OPTIONAL = {
    "uwsgi_backend_wait_thread_seconds_total",
    "uwsgi_route_busy_thread_seconds_total",
    "uwsgi_worker_cpu_residency_seconds_total",
}


def exported() -> set[str]:
    """Every name that a uWSGI server with all options has, and the exporter itself."""
    shape = Shape(workers=8, backends=1, routes=1, cpus=1, objective=True, apps=2, rules=1, messages=1, reloaded=True)
    configured = {"uwsgi_exporter_pattern_servers", "uwsgi_exporter_history_written"}  # by a glob, by a history file
    of_loops = {"uwsgi_worker_loop_held_seconds_total"}  # of a worker with coroutines, which has no waits
    of_emperors = {"uwsgi_emperor_vassals", "uwsgi_emperor_blacklisted_vassals"}
    return {*cardinality.of_server(shape), *cardinality.of_exporter(), *configured, *of_loops, *of_emperors}


def rule_files() -> list[Path]:
    return [file for file in (keep.ROOT / "alerts" / "rules").glob("*.yaml") if not file.name.startswith("compat-")]


def test_every_metric_of_a_rule_is_kept() -> None:
    """As parsed from the expressions, not as found in the text."""
    kept = set(keep.needed("rules"))
    for file in rule_files():
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                read = {name for name in names_in_query(rule["expr"]) if ":" not in name and name.startswith("uwsgi_")}
                assert read <= kept, rule


def test_every_metric_of_a_panel_is_kept() -> None:
    """Of all dashboards."""
    kept = set(keep.needed("dashboards"))
    for file in OUT.glob("*.json"):
        for expression in re.findall(r'"expr": ("(?:\\.|[^"\\])*")', file.read_text()):
            read = {name for name in names_in_query(json.loads(expression)) if ":" not in name}
            assert {name for name in read if name.startswith("uwsgi_")} <= kept, expression


def test_only_exported_metrics_are_kept() -> None:
    """A name that nobody exports would hide a spelling mistake."""
    assert set(keep.needed()) <= exported()


@pytest.mark.parametrize("sources", [("rules",), ("rules", "report"), ()])
def test_the_expression_keeps_these_names_only(sources: tuple[str, ...]) -> None:
    """As Prometheus anchors it."""
    (rule,) = keep.relabelling(keep.needed(*sources))
    kept = {name for name in exported() if re.fullmatch(rule["regex"], name)}
    assert kept == set(keep.needed(*sources))
    assert exported() - kept


def test_the_guide_has_the_current_list() -> None:
    """Which `python -m tools.fleet keep` prints."""
    (regex,) = re.findall(r"regex: (\S*uwsgi_up\S*)", GUIDE.read_text())
    assert regex == keep.relabelling(keep.needed())[0]["regex"]


def test_the_guide_federates_what_the_capacity_review_reads() -> None:
    """And nothing else."""
    text = (OUT / "capacity.json").read_text()
    read = set(re.findall(r"(?<![\w:])(?:(?:server|service):)?uwsgi_\w+(?::\w+)?(?![\w:])", text))
    matches = re.findall(r"- '\{__name__=~\"(\S+)\"\}'", GUIDE.read_text())
    federated = {name for match in matches for name in match.split("|")}
    assert federated == {*read, "ALERTS", "ALERTS_FOR_STATE"}

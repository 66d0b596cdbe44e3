"""Properties of every dashboard, read from its JSON, and `python3 -m dashboards`, which writes and checks it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dashboards.signals.verdict import RANKS
from tests.dashboards.dashboard_queries import NAMES, OUT, board, panels, queries
from tests.support.promtool import RULES

ROOT = Path(__file__).resolve().parents[2]
UIDS = {name: f"uwsgi-headroom-{name}" for name in NAMES}
OLD_ENOUGH = 36
"""The schema of Grafana 9.0, which later versions convert."""
KINDS = {"timeseries", "stat", "table", "heatmap", "bargauge", "state-timeline", "barchart", "row"}
"""Kinds of panels that Grafana 9.0 has."""


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def below(value):
    """Every object in a document."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from below(inner)


def variables(name):
    return {variable["name"]: variable for variable in board(name)["templating"]["list"]}


def test_what_the_import_dialogue_reads(name):
    """It asks for nothing, and each kind of panel is listed."""
    assert board(name)["__inputs"] == []
    needed = {each["id"] for each in board(name)["__requires"]}
    assert needed == {"grafana", "prometheus"} | {panel["type"] for panel in panels(board(name))} - {"row"}


def test_there_is_no_other_file():
    expected = sorted([*(f"{name}.json" for name in NAMES), "kustomization.yaml"])
    assert sorted(path.name for path in OUT.iterdir()) == expected


def test_all_is_never_passed_to_one_server():
    for name in ("fleet", "capacity"):
        for link in board(name)["links"]:
            one = link["url"].startswith((f"/d/{UIDS['server']}", f"/d/{UIDS['affinity']}"))
            assert link["includeVars"] is not one


def test_labels_and_pages_as_newer_grafanas_take_them():
    by_type = {panel["type"]: panel["options"] for name in NAMES for panel in panels(board(name)) if "options" in panel}
    assert by_type["barchart"]["xTickLabelMaxLength"] >= 10
    assert by_type["state-timeline"]["perPage"] == 0


def test_the_heat_map_ends_at_all_threads():
    (expression,) = [
        target["expr"]
        for panel in panels(board("server"))
        if panel["title"] == "How often how full"
        for target in panel["targets"]
    ]
    assert re.search(r'label_replace\(.*, "le", "1", "le", "\[\+\]Inf"\)', expression)


def test_alerts_lead_to_dashboards_that_there_are():
    line = re.search(r"^sed -i '(.*)' \S+/alerts.yaml$", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert line, "no such line"
    rules = (RULES / "alerts.yaml").read_text()
    done = subprocess.run(["sed", line[1]], input=rules, capture_output=True, text=True, check=True)
    alerts = [rule for group in yaml.safe_load(done.stdout)["groups"] for rule in group["rules"]]
    urls = [rule["annotations"]["dashboard_url"] for rule in alerts if "dashboard_url" in rule["annotations"]]
    assert len(urls) == len([rule for rule in alerts if "runbook_url" in rule["annotations"]])
    for url in urls:
        uid = re.match(r"https://grafana.example.org/d/uwsgi-headroom-(\w+)\?", url)[1]
        assert set(re.findall(r"var-(\w+)=", url)) <= set(variables(uid))


def test_every_grafana_from_9_on_can_load_it(name):
    """The old schema and panels, the uid that links use, no id."""
    document = board(name)
    assert document["uid"] == UIDS[name]
    assert document["schemaVersion"] == OLD_ENOUGH
    assert document.get("id") is None
    assert {panel["type"] for panel in document["panels"]} <= KINDS
    assert document["graphTooltip"] == 1, "no shared crosshair"
    for panel in panels(board(name)):
        for override in panel["fieldConfig"]["overrides"]:
            values = {value["id"]: value["value"] for value in override["properties"]}
            assert ("custom.displayMode" in values) is ("custom.cellOptions" in values), panel["title"]
            if "custom.displayMode" in values:
                assert values["custom.cellOptions"]["type"] == CELLS[values["custom.displayMode"]], panel["title"]


def test_every_panel_says_what_it_is(name):
    """A panel has a title, a unit and a description; no two have the same title or number."""
    every = list(panels(board(name)))
    assert every
    for panel in every:
        assert len(panel["description"]) > 30, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        if panel["type"] in ("timeseries", "heatmap", "state-timeline"):
            _, empty, why = panel["description"].partition("Empty ")
            assert panel["fieldConfig"]["defaults"].get("noValue", "") == empty + why, panel["title"]
            lines = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])[1:]
            assert {f"{line['color']} at" for line in lines} <= set(re.findall(r"\w+ at", panel["description"]))
    assert len({panel["title"] for panel in every}) == len(every)
    assert len({panel["id"] for panel in every}) == len(every)


def test_panels_are_drawn_as_people_read_them(name):
    """No overlaps, kept columns, shown thresholds, units in words."""
    taken = {}
    for panel in board(name)["panels"]:
        at = panel["gridPos"]
        assert at.get("x", 0) + at["w"] <= 24
        for x in range(at.get("x", 0), at.get("x", 0) + at["w"]):
            for y in range(at.get("y", 0), at.get("y", 0) + at["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    for panel in panels(board(name)):
        if panel["type"] in ("table", "barchart"):
            for target in panel["targets"]:
                kept = re.search(r"\bby \(|\)\[\$__range:|^1 / count\(|^topk\(16, sum by", target["expr"])
                assert kept, (panel["title"], target["refId"])
    for panel in panels(board(name)):
        for override in panel["fieldConfig"]["overrides"] if panel["type"] == "table" else ():
            values = {value["id"]: value["value"] for value in override["properties"]}
            words = [mapping for mapping in values.get("mappings", ()) if mapping["type"] == "value"]
            if "thresholds" in values or (words and values.get("custom.displayMode") != "auto"):
                assert values["custom.displayMode"] in ("basic", "color-text"), panel["title"]
    units = {
        node["unit"] for node in below(board(name)) if isinstance(node, dict) and isinstance(node.get("unit"), str)
    }
    assert units
    assert units.isdisjoint({"cps", "cpm"})


def test_no_data_source_is_written_in(name):
    """Every query uses the data source of the variable: a Prometheus, and at first the default one."""
    document = board(name)
    datasources = [node["datasource"] for node in below(document) if isinstance(node, dict) and "datasource" in node]
    assert datasources
    assert all(datasource == {"type": "prometheus", "uid": "${datasource}"} for datasource in datasources)
    assert variables(name)["datasource"] == {
        **variables(name)["datasource"],
        "type": "datasource",
        "query": "prometheus",
    }
    assert variables(name)["datasource"]["current"]["value"] == "default"


def test_variables_are_the_same_everywhere(name):
    """Queries use only those, and all of them. Only the capacity review needs rules."""
    names = list(variables(name))
    assert names[:6] == ["datasource", "service_label", "service", "job", "instance", "server"]
    assert variables(name)["service_label"]["current"]["value"] == "server"
    many = name in ("fleet", "capacity")
    for variable in ("job", "instance", "server"):
        assert variables(name)[variable]["includeAll"] is many
    own = {variable: f"the_{variable}" for variable in variables(name)}
    text = " ".join(query.expression for query in queries(name, {**own, "__from": "0"}, 3600))
    assert [variable for variable in own if variable != "datasource" and f"the_{variable}" not in text] == []
    own = dict.fromkeys(variables(name), "x") | {"__from": "0"}
    recorded = [query.where for query in queries(name, own, 3600) if ":uwsgi_" in query.expression]
    assert bool(recorded) is (name == "capacity")


def _links(document):
    return [node["url"] for node in below(document) if isinstance(node, dict) and "/d/" in str(node.get("url", ""))]


def test_links_lead_somewhere(name):
    by_uid = {uid: other for other, uid in UIDS.items()}
    links = set()
    for url in _links(board(name)):
        uid = re.fullmatch(r"/d/([\w-]+)(\?.*)?", url)[1]
        links.add(uid)
        for variable in re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", url):
            assert "".join(variable) in variables(by_uid[uid])
    assert links >= set(UIDS.values()) - {UIDS[name]}
    for link in board(name)["links"]:
        assert link["keepTime"] is (UIDS["capacity"] not in (UIDS[name], link["url"].partition("/d/")[2]))


def test_marks_are_at_their_own_time(name):
    """Every dashboard marks alerts; an event has one mark, however long the time range is."""
    marks = {mark["name"]: mark for mark in board(name)["annotations"]["list"]}
    assert "Alerts" in marks
    assert all(mark["useValueForTime"] and " * 1000" in mark["expr"] for mark in marks.values())
    shown = {mark["name"] for mark in marks.values() if mark["enable"]}
    if name == "server":
        assert shown == {"Alerts", "Reloads", "Configuration", "Down and up", "Workers ended", "Exporter"}
        assert set(marks) - shown == {"Cheaper mode", "Verdicts"}


CELLS = {"basic": "gauge", "color-text": "color-text", "color-background-solid": "color-background", "auto": "auto"}
"""Grafana 10's names for the cell types of Grafana 9."""


def test_figures_are_of_now(name):
    """A server that is down has none, instead of its last one. Keys of the file are sorted."""
    for panel in panels(board(name)):
        if panel["type"] in ("stat", "bargauge"):
            assert all(target.get("instant") for target in panel["targets"]), panel["title"]
    text = (OUT / f"{name}.json").read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_no_column_is_cut_off(name):
    """The columns of a table fit into its panel on a screen of 1440 pixels. One without a width takes 150 or more."""
    for panel in panels(board(name)):
        renamed = {
            old: new
            for change in panel.get("transformations", ())
            for old, new in change["options"].get("renameByName", {}).items()
        }
        columns = {}
        for override in panel["fieldConfig"]["overrides"]:
            column = columns.setdefault(renamed.get(override["matcher"]["options"], override["matcher"]["options"]), {})
            column.update({value["id"]: value["value"] for value in override["properties"]})
        wide = sum(column.get("custom.width", 150) for column in columns.values() if not column.get("custom.hidden"))
        assert panel["type"] != "table" or wide <= (1440 - 32) * panel["gridPos"]["w"] / 24 - 24, panel["title"]


def test_graphs_beside_each_other_have_the_same_series():
    drawn = {panel["title"]: panel["targets"][0]["expr"] for panel in panels(board("fleet"))}
    for titles in (
        ("Headroom over time", "Threads busy over time"),
        ("Requests by service", "Response time by service"),
    ):
        all_of_them = [
            re.search(r"or (max by \([^)]*\) \(.*\) \* NaN\).*)", drawn[title], re.DOTALL) for title in titles
        ]
        (one, two) = [match and match[1] for match in all_of_them]
        assert one
        assert one == two


@pytest.mark.parametrize("name", ["fleet", "server"])
def test_the_first_screen_is_the_answer(name):
    """Verdict, title and act stand in the first row, or in the table below it."""
    document = board(name)
    shown = [panel for panel in document["panels"] if panel["type"] != "row"]
    assert any({"verdict", "title", "act"} <= _columns(panel) for panel in shown)
    visible = [each["label"] for each in document["templating"]["list"] if not each.get("hide")]
    assert len(visible) <= 6, visible
    assert len([mark for mark in document["annotations"]["list"] if not mark.get("hide")]) <= 4
    if name == "server":
        assert len(shown) <= 7
        assert max(panel["gridPos"].get("y", 0) + panel["gridPos"]["h"] for panel in shown) <= 18
        assert all(row["collapsed"] for row in document["panels"] if row["type"] == "row")


@pytest.mark.parametrize("name", ["fleet", "server"])
def test_a_verdict_has_the_words_of_the_other_faces(name):
    (verdict,) = [panel for panel in panels(board(name)) if "verdict" in _columns(panel)]
    words = {
        override["matcher"]["options"]: value["value"][0]["options"]
        for override in verdict["fieldConfig"]["overrides"]
        for value in override["properties"]
        if value["id"] == "mappings"
    }
    assert words["verdict"].keys() == RANKS.keys()


def _columns(panel):
    return {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}


with_sdk = pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk needs Python 3.11")


def run(*arguments):
    from dashboards.__main__ import main  # noqa: PLC0415  (cannot be imported by Python 3.10)

    return main(list(arguments))


@with_sdk
def test_drift_is_named(tmp_path, capsys):
    assert run("--out", str(tmp_path)) == 0
    assert run("--check", "--out", str(tmp_path)) == 0
    (tmp_path / "fleet.json").write_text("{}")
    assert run("--check", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err == f"{tmp_path}/fleet.json differs from the output of `python3 -m dashboards`\n"


@with_sdk
def test_colours_change_where_alerts_do():
    from dashboards import signal  # noqa: PLC0415  (as above)

    rules = "".join((RULES / f"{name}.yaml").read_text() for name in ("alerts", "recording"))
    for condition in (
        f") < {signal.HEADROOM_LOW}",
        f"server:uwsgi_hot_worker_ratio:ratio_rate5m > {signal.UNEVEN}",
        f">= {signal.INTERPRETER_BUSY}\n",
        f"server:uwsgi_slo_burn_rate:ratio_rate6h >= {signal.BURNS_HOURS:g} ",
        f"server:uwsgi_slo_burn_rate:ratio_rate1h >= {signal.BURNS_AN_HOUR} ",
        f"count_over_time(server:uwsgi_utilization:p95_1d[28d:1d]) >= {signal.FORECAST_DAYS}\n",
    ):
        assert condition in rules

"""All queries of the dashboards as Grafana would send them: from their JSON, with the variables replaced."""

import json
import re

from msgspec import Struct

from tools.environments import ROOT

OUT = ROOT / "dashboards" / "out"
NAMES = ("fleet", "server", "affinity", "capacity")


class Query(Struct, frozen=True):
    """A query. where: dashboard, panel and letter; kind: `instant`, `range`, or `values` of a label, with the series to
    search; step: seconds.
    """

    where: str
    kind: str
    expression: str
    step: float
    label: str = ""


def board(name):
    return json.loads((OUT / f"{name}.json").read_text())


def panels(document):
    """Yields every panel, including those in folded rows, but no rows."""
    for panel in document["panels"]:
        yield from panel.get("panels", [])
        if panel["type"] != "row":
            yield panel


def queries(name, values, seconds):
    """Yields every query of a dashboard. values: values of its variables; seconds: length of the time range."""
    document = board(name)
    step = max(15.0, round(seconds / 1000))
    known = {
        **values,
        "__rate_interval": f"{max(60, round(step + 15))}s",
        "__interval": f"{round(step)}s",
        "__range": f"{round(seconds)}s",
    }
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            text = substituted(variable["query"]["query"], known)
            series, label = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", text, re.DOTALL).groups()
            yield Query(f"{name}: variable {variable['name']}", "values", series, step, label)
    for annotation in document["annotations"]["list"]:
        yield Query(f"{name}: mark {annotation['name']}", "range", substituted(annotation["expr"], known), step)
    for panel in panels(document):
        for target in panel["targets"]:
            kind = "instant" if target.get("instant") else "range"
            each = 86400 if target.get("interval") == "1d" else step
            where = f"{name}: {panel['title']} {target['refId']}"
            yield Query(where, kind, substituted(target["expr"], known), each)


def substituted(text, values):
    """Replaces every variable in a text. Raises KeyError for an unknown one; `$1` is not a variable."""
    return re.sub(r"\$([A-Za-z_]\w*)", lambda match: values[match[1]], text)

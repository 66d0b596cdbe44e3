"""Every metric that a rule, a dashboard, a runbook or a document names is exported, or recorded."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.alerts.test_recording import rows
from tests.support.observations import HEALTH, everything
from tests.support.promtool import list_rules
from tools.tables import CAUSES, read_texts
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.history.events import KINDS
from uwsgi_headroom.metrics import families

ROOT = Path(__file__).resolve().parent.parent

OF_PROMETHEUS = {"up", "ALERTS", "ALERTS_FOR_STATE", "scrape_samples_scraped", "scrape_duration_seconds"}
PARTS = {"uwsgi_headroom", "uwsgi_exporter", "uwsgi_log"}
OF_NGINX = {
    "uwsgi_param",
    "uwsgi_params",
    "uwsgi_pass",
    "uwsgi_modifier1",
    "uwsgi_buffer_size",
    "uwsgi_buffers",
    "uwsgi_read_timeout",
    "uwsgi_temp_path",
    "uwsgi_request_buffering",
    "uwsgi_buffering",
}
"""Other things with such a name: this package and a folder of it, the Go exporter, nginx's words."""

NEVER_WRITTEN = ("listen_queue_errors", "failed_requests", "daemon_respawns", "avg_rt", "throttle_level")
"""Fields that uWSGI's document has and uWSGI never fills, or fills with what nobody should alert on."""

QUERIES = [*ROOT.glob("alerts/rules/*.yaml"), *ROOT.glob("dashboards/out/*.json")]
TEXTS = [
    *ROOT.glob("*.md"),
    *(path for folder in ("docs", "alerts", "dashboards", "deploy") for path in ROOT.glob(f"{folder}/**/*.md")),
]

_LEFT_OUT = re.compile(
    r"""
    "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*`   # strings
    | \#.*                                             # comments
    | \b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)
    | \{[^}]*\} | \[[^\]]*\]                           # matchers, ranges
    | \b\d[\w.]*                                       # numbers and durations
    """,
    re.VERBOSE,
)
_IDENTIFIER = re.compile(r"(?<![\w:$])[a-zA-Z_:][\w:]*(?![\w:]*\s*\()")
_WORDS = {"and", "or", "unless", "bool", "offset", "group_left", "group_right", "atan2", "inf", "nan"}
_NAME = re.compile(r"(?<![\w:/.-])(?:[a-z]+:)?uwsgi_\w+(?::\w+)?(?![\w/])")


def names_in_query(expression):
    """The metrics of a PromQL expression: what is neither a function, a label, a string nor a word of the language."""
    # Strings first: a brace within one ends no matcher.
    without = _LEFT_OUT.sub(" ", re.sub(r'"(?:\\.|[^"\\])*"', '""', expression))
    return {name for name in _IDENTIFIER.findall(without) if name.lower() not in _WORDS}


def names_in_text(text):
    """Everything in a text that looks like a metric of ours."""
    return set(_NAME.findall(text)) - PARTS - OF_NGINX


def _expressions(node):
    """Every query in a dashboard: targets and annotations (`expr`), variables (`query`, that of label_values too)."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr" and isinstance(value, str):
                yield value
            elif key in ("query", "definition") and isinstance(value, str):
                match = re.fullmatch(r"label_values\((.*),\s*\w+\)|query_result\((.*)\)", value, re.DOTALL)
                if match:
                    yield match[1] or match[2]
            else:
                yield from _expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _expressions(value)


def exported():
    """Every series name of the exporter over all captured documents, and the names of histograms."""
    metrics = list(families(everything(), HEALTH))
    return {sample.name for metric in metrics for sample in metric.samples} | {
        metric.name for metric in metrics if metric.samples
    }


def recorded():
    """Every recorded name, but for those of another exporter: these rules are only loaded where somebody wants them."""
    files = [path for path in ROOT.glob("alerts/rules/*.yaml") if not path.name.startswith("compat-")]
    return {rule["record"] for rule in list_rules(files) if "record" in rule}


CHART = ROOT / "deploy" / "kubernetes" / "uwsgi-headroom"


def of_the_chart():
    """The series that the chart records for autoscaling, and its name for the autoscaler."""
    text = (CHART / "templates" / "autoscaling.yaml").read_text()
    return set(re.findall(r"record: (\S+)", text)) | set(re.findall(r"metric: \{name: (\w+)\}", text))


@pytest.fixture(scope="module")
def known():
    return exported() | recorded() | OF_PROMETHEUS


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.name)
def test_queries(path, known):
    if path.suffix == ".json":
        names = set().union(*map(names_in_query, _expressions(json.loads(path.read_text()))))
    else:
        rules = list_rules([path])
        names = set().union(*(names_in_query(rule["expr"]) for rule in rules))
        names |= names_in_text(json.dumps([rule.get("annotations", {}) for rule in rules]))
    assert names <= known, f"not exported, not recorded: {sorted(names - known)}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts(path, known):
    """Names in prose may leave the end open (`uwsgi_worker_`)."""
    names = names_in_text(path.read_text())
    if path.name == "MIGRATION.md":
        names -= set(rows())
    if path.is_relative_to(CHART.parent):
        names -= of_the_chart()
    unknown = {
        name for name in names - known if not (name.endswith("_") and any(series.startswith(name) for series in known))
    }
    assert not unknown, f"not exported, not recorded: {sorted(unknown)}"


def test_something_is_read():
    assert {"recording.yaml", "alerts.yaml"} <= {path.name for path in QUERIES}
    assert {"README.md", "MIGRATION.md"} <= {path.name for path in TEXTS}
    assert len(recorded()) > 20


def test_nothing_is_made_of_what_uwsgi_never_writes(known):
    """Neither exported nor recorded, so no alert can be about it."""
    assert not [name for name in known for field in NEVER_WRITTEN if field in name]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("sum without (worker_id) (rate(a_total[5m]))", {"a_total"}),
        ('up{job="b"} == 0 and on(instance) c offset 5m', {"up", "c"}),
        ("level:d:rate5m * ignoring (x) group_left () (e > bool 0.5e3)", {"level:d:rate5m", "e"}),
        ('label_replace(f, "g", "$1", "h", "(.*)}") or vector(0)', {"f"}),
        ('histogram_quantile(0.9, sum by (le) (i_bucket{server=~"$server"}))', {"i_bucket"}),
        ("max_over_time(j[$__rate_interval]) # k", {"j"}),
        ("quantile_over_time (0.95, l[1d:5m] @ end())", {"l"}),
    ],
)
def test_metrics_of_a_query(expression, names):
    """Functions, labels, strings, numbers and comments are none."""
    assert names_in_query(expression) == names


def test_metrics_of_a_text():
    """With and without a level; not paths, packages, or other things."""
    text = "`uwsgi_up` and server:uwsgi_utilization:max1d, `uwsgi_worker_*` of uwsgi_headroom/uwsgi_x.py, uwsgi_params"
    assert names_in_text(text) == {"uwsgi_up", "server:uwsgi_utilization:max1d", "uwsgi_worker_"}


TOP = Path(__file__).resolve().parents[1]
PACKAGE = TOP / "exporter" / "uwsgi_headroom"
GUIDES = [
    *(TOP / f"{name}.md" for name in ("CONTRIBUTING", "README", "SECURITY")),
    *sorted((TOP / "docs").glob("*.md")),
    *sorted((TOP / "docs" / "dev").glob("*.md")),
]
TROUBLESHOOTING = TOP / "docs" / "troubleshooting.md"

FOLDERS = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
SOURCES = ("exporter", "alerts", "dashboards", "app", "tools", "tests")
LEAST_WORDS = 4
"""Shorter quotations are words of other programs, names and options."""

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")

guides = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)


def prose(guide):
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", guide.read_text())


def named_modules(text):
    """Modules and folders of the package in a text: behind `P/`, or named from the package on."""
    for code in _CODE.findall(text):
        name = code.partition("::")[0]
        first, slash, _ = name.removeprefix("P/").partition("/")
        is_ours = name.startswith("P/") or (slash and first in FOLDERS) or (name.endswith(".py") and not slash)
        if is_ours and re.fullmatch(r"[\w./-]+", name):
            yield name.removeprefix("P/")


@guides
def test_what_a_page_names_exists(guide):
    """Modules, also without the folder that all of them are in; tests; constants, in the file that the page says."""
    missing = [name for name in named_modules(prose(guide)) if not (PACKAGE / name).exists()]
    assert not missing
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", prose(guide)):
        assert re.search(rf"^ *(?:async )?def {name}\(", (TOP / file).read_text(), re.MULTILINE), f"{file}::{name}"
    for name, file in re.findall(r"`([A-Z_]{4,})`[ \n](?:in|of)[ \n]`([\w./-]+\.py)`", prose(guide)):
        path = next(path for path in (TOP / file, PACKAGE / file.removeprefix("P/")) if path.exists())
        assert re.search(rf"^{name}\b", path.read_text(), re.MULTILINE), f"{name} in {file}"


def test_modules_in_code_exist():
    """Those that a docstring, a comment or a message names by folder and file."""
    folders = "|".join(sorted(FOLDERS))
    path = re.compile(rf"(?<![\w./-])(?:exporter/uwsgi_headroom/)?((?:{folders})/[\w/]+\.(?:py|js|css))\b")
    sources = [file for folder in SOURCES for file in (TOP / folder).rglob("*.py")]
    named = {(name, str(file.relative_to(TOP))) for file in sources for name in path.findall(file.read_text())}
    places = (PACKAGE, TOP, TOP / "tests")
    assert [pair for pair in sorted(named) if not any((place / pair[0]).exists() for place in places)] == []


def test_a_guide_is_read():
    text = "\n".join(map(prose, GUIDES))
    assert len(set(named_modules(text))) > 50
    assert len(set(quoted_messages())) > 40


@cache
def written_texts():
    """Every text in the code of the exporter and of its page, with `…` for each value in it."""
    texts = [text for path in sorted(PACKAGE.rglob("*.py")) for text in _texts(ast.parse(path.read_text()))]
    scripts = [path.read_text() for path in sorted((PACKAGE / "web" / "static").glob("*.js"))]
    return "\n".join([*texts, *(re.sub(r"\$\{[^{}]*\}", "…", script) for script in scripts)])


def _texts(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def quoted_messages():
    """What docs/troubleshooting.md quotes in the columns "it says" and "you see"."""
    column = None
    for line in TROUBLESHOOTING.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            column = None
        elif column is None:
            column = next((place for place, cell in enumerate(cells) if cell in ("it says", "you see")), 0)
        else:
            yield from (code for code in _CODE.findall(cells[column]) if len(re.findall(r"\w+", code)) >= LEAST_WORDS)


@pytest.mark.parametrize("message", sorted(set(quoted_messages())))
def test_messages_are_those_of_the_program(message):
    """Each part of a quotation, between the dots, stands in a text of the code."""
    for part in message.split("…"):
        assert part.strip() in written_texts(), part


def test_every_reason_event_and_folder_is_explained():
    rows = re.findall(r"^\| `(\w+)` \| `", TROUBLESHOOTING.read_text(), re.MULTILINE)
    assert set(rows) == set(REASONS)
    assert read_texts("kinds").keys() == set(KINDS)
    assert read_texts("causes").keys() == set(CAUSES)
    drawing = (TOP / "docs" / "dev" / "design.md").read_text().partition("## Architecture")[2].split("```")[1]
    shown = set(re.findall(r"  ?(?<=\s)(\w+)/(?=\s)", drawing))
    assert shown == {name for name in FOLDERS if (PACKAGE / name / "__init__.py").exists()}

"""Facts and tables of the documents are those of the program."""

import configparser
import re
from collections import Counter

import yaml

from tests.support.captured_documents import NAMES
from tests.support.observations import proven, series, watched
from tools.environments import ROOT
from tools.scenarios.rows import ROWS
from tools.tables import ALERTS, list_rows
from uwsgi_headroom import routes
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.check.request import WATCH_SECONDS
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.documents.openapi import describe_api
from uwsgi_headroom.record import STATES
from uwsgi_headroom.stats import bounds as document
from uwsgi_headroom.top.view.screen import BINDINGS, SERVER_SORT_LABEL, WORKER_SORT_LABEL
from uwsgi_headroom.web import bounds
from uwsgi_headroom.words.states import LIMITS


def text_of(name):
    """A document, its lines joined: a sentence may be broken anywhere."""
    return " ".join(re.sub(r"\n>(?= |\n)", " ", (ROOT / name).read_text()).split())


def rows(name, first):
    _, found, table = (ROOT / name).read_text().partition(f"| {first} |")
    assert found, f"{name} has no table that begins with {first}"
    lines = [line for line in table.partition("\n\n")[0].splitlines()[2:] if line.startswith("|")]  # not a mark
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_what_the_readme_shows():
    """The number of alerts and of dashboards, an alert word for word, and what the judge says of the incident."""
    alerts = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    names = {alert["alert"] for alert in alerts}
    paging = {alert["alert"] for alert in alerts if "critical" in alert["labels"]["severity"]}
    counted = f"[{len(names)} alerts](docs/alerts.md)** for Prometheus: {len(paging)} of them can page you"
    assert counted in text_of("README.md")
    case = yaml.safe_load((ROOT / "alerts" / "tests" / "judge.test.yaml").read_text())["tests"][0]
    *_, shown = [fired["exp_annotations"] for asked in case["alert_rule_test"] for fired in asked["exp_alerts"]]
    assert " ".join(f"{shown['summary']} {shown['description']}".split()) in text_of("docs/alerts.md")
    page = (ROOT / "tests" / "frozen" / "pages" / "evenness.txt").read_text().partition("\n\n")[0]
    title, said = page.splitlines()[2].removeprefix("CRITICAL "), page.rpartition("/metrics: ")[2]
    act_and_evidence = said.removeprefix(f"{title} ")
    assert f"{title} {act_and_evidence}" in text_of("docs/alerts.md").replace("> ", "")
    assert len(list((ROOT / "dashboards" / "out").glob("*.json"))) == len(rows("docs/dashboards.md", "dashboard")) == 4
    assert "[Four dashboards]" in text_of("README.md")


def test_versions_of_python_and_uwsgi():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    pythons = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    uwsgis = sorted({match[0] for name in NAMES if (match := re.match(r"2\.0\.\d+", name))}, key=lambda text: text[4:])
    assert f"Python {pythons[0]} to {pythons[-1]}" in text_of("README.md")
    assert f"uWSGI {uwsgis[0]} to {uwsgis[-1]}" in text_of("README.md")
    assert f"| Python | {pythons[0]} to {pythons[-1]} |" in text_of("docs/installation.md")
    assert f"| uWSGI | {uwsgis[0]} to {uwsgis[-1]}" in text_of("docs/installation.md")


def test_findings_of_each_limit_and_complaint():
    text = (ROOT / "docs" / "limits.md").read_text()
    known = {row.code for row in list_rows()}
    named = [
        code
        for part in re.findall(r"\*\*Findings\*\*: (.*?Runbooks?:|.*?runbook:)", text, re.DOTALL)
        for code in _codes(part)
    ]
    assert len(named) > 30
    assert set(named) <= known
    scenarios = text_of("docs/dev/scenarios.md")
    for _, _, said, needs in rows("docs/complaints.md", "complaint"):
        assert set(_codes(said)) <= known
        assert "by hand" in needs or not _codes(said) or any(f"`{code}`" in scenarios for code in _codes(said))
    shown = " ".join(cell for row in rows("docs/limits.md", "no.") for cell in row)
    assert all(f"`{limit.name.split(' of ')[0]}`" in shown for limit in LIMITS.values())


def test_ranges_of_settings():
    configuration, check = text_of("docs/configuration.md"), text_of("docs/check.md")
    least, most = defaults.SAMPLES_PER_SECOND_RANGE
    assert f"`--samples-per-second` is from {least:g} to {most:g}" in configuration
    assert ", ".join(f"`{level}`" for level in defaults.LOG_LEVELS[:-1]) in configuration
    assert f"The exporter listens on {defaults.LISTEN_ADDRESS}" in configuration
    assert f"for {WATCH_SECONDS:g} s (`--seconds`: 2 to {defaults.HISTORY_SECONDS})" in check
    assert f"watches a uWSGI for {WATCH_SECONDS:g} s" in text_of("README.md")
    assert f"event streams are open ({bounds.MOST_STREAMS}:" in text_of("docs/api.md")


def test_bounds():
    """Those that docs/dev/bounds.md names, in the words around them."""
    text = text_of("docs/dev/bounds.md")
    parts = ("workers", "cores", "applications", "sockets", "vassals", "metrics", "custom metrics")
    assert all(f"{document.MOST[part]:,} {part}" in text for part in parts)
    for sentence in (
        f"names of {document.NAME_CHARACTERS} and paths of {document.PATH_CHARACTERS:,} characters",
        f"{routes.MOST_ROUTES} routes of a server besides `other`; paths of {routes.LONGEST_PATH:,} bytes and "
        f"{routes.MOST_SEGMENTS} segments; {routes.MOST_PATHS:,} different paths in one document",
        f"after {routes.SIGHTINGS} samples, and a segment with more than {routes.MOST_VALUES} names",
        f"{bounds.MOST_CONNECTIONS} connections",
        f"{bounds.MOST_STREAMS} event streams",
        f"head has {bounds.LINE_BYTES:,} bytes, the head {bounds.HEAD_BYTES:,} bytes and {bounds.HEAD_LINES} lines, "
        f"a body {bounds.BODY_BYTES:,} bytes",
        f"has {bounds.REQUEST_SECONDS:g} s to arrive",
        f"closed after {bounds.KEEP_ALIVE_SECONDS} s",
        f"no data for {bounds.STALLED_SECONDS:g} s, or less than {bounds.LEAST_RATE:,} bytes",
        f"{bounds.MOST_DOCUMENTS} documents, {bounds.MOST_RUNBOOKS} runbooks, {bounds.MOST_SCRAPES} scrapes, "
        f"{bounds.MOST_HISTORIES} histories and {bounds.MOST_PREDICTIONS} predictions",
    ):
        assert sentence in text
    assert bounds.HANDSHAKE_SECONDS == bounds.REQUEST_SECONDS


def test_flags_with_their_variables():
    table = rows("docs/configuration.md", "flag")
    shown = {re.findall(r"--[^ `]+", row[0])[0].replace("[no-]", ""): row[1].strip("`") for row in table}
    options = {flag.names[-1] for flag in make_command_line().commands["serve"].flags}
    assert shown.keys() == options - {"--help", "--version", "--check-config"}
    assert set(shown.values()) == {setting.variable for setting in FLAGS}
    assert all(variable.endswith(re.sub(r"[.-]", "_", flag[2:]).upper()) for flag, variable in shown.items())


def test_scenarios():
    assert len(ROWS) > 150
    assert "over 150 tested situations" in text_of("README.md")
    assert "over 150 situations" in text_of("docs/check.md")


def test_series_of_a_worker():
    names = [key for key in series(watched(proven("threads_4x8_busy"))) if "cpu_residency" not in key]
    each = Counter(match[1] for key in names if (match := re.search(r'worker_id="(\d+)"', key)))
    assert f"A worker costs at most {max(each.values())} series" in text_of("docs/metrics.md")


def test_the_cost_in_the_readme_is_what_was_measured():
    """The share of a CPU and the memory, from the rows of the evidence."""
    measured = [row for row in rows("docs/dev/evidence.md", "question") if row[1].endswith(" series")]
    for size, words in (
        (
            "8x8",
            "8 processes with 8 threads each, it uses {share:.1f} % of one CPU and {memory:.0f} MB of memory",
        ),
        ("64x16", "64 processes with 16 threads each, {share:.1f} % of one CPU and {memory:.0f} MB"),
    ):
        (figure,) = (row[1] for row in measured if size in row[0])
        share, memory = (float(part.split()[0]) for part in figure.split(", ")[:2])
        assert words.format(share=share, memory=memory) in text_of("README.md")


def test_tables_have_every_row():
    """Wait states in the order of the program, thresholds of `check`, paths of the API, and the keys of `top` with
    those that sort."""
    shown = [row[0].strip("`") for row in rows("docs/waits.md", "state")]
    assert tuple(shown) == STATES
    options = make_command_line().commands["check"].options
    shown = {row[0].strip("`").split()[0] for row in rows("docs/check.md", "flag")}
    assert shown == {option for option in options if option.startswith(("--min-", "--max-"))}
    shown = {path for row in rows("docs/api.md", "path") for path in re.findall(r"`([^`]+)`", row[0])}
    assert shown == set(describe_api()["paths"])
    shown = {key for row in rows("docs/page.md", "key") for key in re.findall(r"`([^`]+)`", row[0])}
    known = {key for binding in BINDINGS for key in binding.label.split()}
    sorting = set(re.findall(r"(?:^|, )(\w) ", f"{SERVER_SORT_LABEL}, {WORKER_SORT_LABEL}"))
    assert shown == known | sorting


def _codes(text):
    return re.findall(r"`([a-z]+(?:_[a-z]+)+|saturation|harakiri)`", text)


READERS = ("alerts/rules/*.yaml", "dashboards/out/*.json", "exporter/uwsgi_headroom/report/sources/prometheus.py")
NO_METRICS = {"uwsgi_headroom", "uwsgi_exporter", "uwsgi_modifier1"}
"""The package, the beginning of other names, and a directive of nginx."""


def test_lists_by_hand():
    """Names to keep are those that queries read; dependencies are those of setup.cfg."""
    needed = set()
    for pattern in READERS:
        files = [file for file in ROOT.glob(pattern) if not file.name.startswith("compat-")]
        assert files, pattern
        for file in files:
            needed.update(re.findall(r"(?<![\w:])(?:uwsgi|process)_\w+(?![\w:])", file.read_text()))
    kept = re.search(r"regex: (process_start_time_seconds\S+)", (ROOT / "docs" / "metrics.md").read_text())
    assert set(kept[1].split("|")) == {name for name in needed - NO_METRICS if not name.endswith("_")}
    setup = configparser.RawConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = {"all": setup["options"]["install_requires"]}
    listed |= {f"`[{extra}]`": setup["options.extras_require"][extra] for extra in ("top", "login")}
    expected = {
        match[1]: (use, f"≥ {match[2]}, < {match[3]}")
        for use, lines in listed.items()
        for match in re.finditer(r"^([\w-]+) *>= *([\d.]+), *< *([\d.]+)$", lines, re.MULTILINE)
    }
    assert len(expected) > 8
    assert {row[0]: (row[1], row[2]) for row in rows("docs/dev/how-to-add.md", "package")} == expected

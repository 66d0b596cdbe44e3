"""Tables and lists that people keep by hand agree with what they are about."""

from __future__ import annotations

import configparser
import re

from tests.markdown.test_facts import rows
from tools.environments import ROOT

READERS = (
    "alerts/rules/*.yaml",
    "dashboards/out/*.json",
    "exporter/uwsgi_headroom/report/sources/prometheus_queries.py",
)
NO_METRICS = {"uwsgi_headroom", "uwsgi_exporter", "uwsgi_modifier1"}
"""The package, the beginning of other names, and a directive of nginx."""


def test_the_list_to_keep_has_what_rules_dashboards_and_the_report_read() -> None:
    """All exported names in their queries, and no others."""
    needed: set[str] = set()
    for pattern in READERS:
        files = [file for file in ROOT.glob(pattern) if not file.name.startswith("compat-")]
        assert files, pattern
        for file in files:
            needed.update(re.findall(r"(?<![\w:])(?:uwsgi|process)_\w+(?![\w:])", file.read_text()))
    kept = re.search(r"regex: (process_start_time_seconds\S+)", (ROOT / "docs" / "fleet.md").read_text())
    assert set(kept[1].split("|")) == {name for name in needed - NO_METRICS if not name.endswith("_")}


def test_the_dependencies_are_those_of_setup_cfg() -> None:
    setup = configparser.RawConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = {"all": setup["options"]["install_requires"]}
    listed |= {f"`[{extra}]`": setup["options.extras_require"][extra] for extra in ("top", "login", "report")}
    expected = {
        match[1]: (use, f"≥ {match[2]}, < {match[3]}")
        for use, lines in listed.items()
        for match in re.finditer(r"^([\w-]+) *>= *([\d.]+), *< *([\d.]+)$", lines, re.MULTILINE)
    }
    assert len(expected) > 10
    assert {row[0]: (row[1], row[2]) for row in rows("docs/how-to-add.md", "package")} == expected

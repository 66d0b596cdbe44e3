"""`python3 -m tools.generate` (`make generate`): writes every generated file of the repository."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from alerts import __main__ as rules
from alerts.files import render as render_rules
from alerts.thresholds import Thresholds
from tools import (
    alert_tables,
    bounds_table,
    event_tables,
    finding_table,
    import_table,
    kubernetes_files,
    man_pages,
    metrics_table,
    scenes_table,
    settings_table,
    tune_flags_table,
    word_files,
)

CAN_MAKE_DASHBOARDS = sys.version_info >= (3, 11)
"""grafana-foundation-sdk needs Python 3.11."""


def generated_files() -> Iterator[tuple[Path, str]]:
    """Yields the path and text of each file, with the shipped thresholds; dashboards only on Python 3.11 and later."""
    rule_files, boards = render_rules(Thresholds()), dict[str, str]()
    for name, text in rule_files.items():
        yield rules.RULES / name, text
    if sys.version_info >= (3, 11):
        from dashboards import __main__ as dashboards  # noqa: PLC0415  (cannot be imported by Python 3.10)
        from dashboards.files import render as render_dashboards  # noqa: PLC0415

        boards = render_dashboards(Thresholds())
        for name, text in boards.items():
            yield dashboards.OUT / name, text
    yield from kubernetes_files.files(rule_files, boards)
    yield metrics_table.FILE, metrics_table.page()
    yield alert_tables.ALERTS_FILE, alert_tables.alerts_page()
    yield alert_tables.THRESHOLDS_FILE, alert_tables.thresholds_page()
    yield bounds_table.FILE, bounds_table.page()
    yield from man_pages.pages()
    yield scenes_table.FILE, scenes_table.page()
    yield event_tables.FILE, event_tables.page()
    yield import_table.FILE, import_table.page()
    yield finding_table.FILE, finding_table.page()
    yield tune_flags_table.FILE, tune_flags_table.page()
    yield settings_table.FILE, settings_table.page()
    yield from word_files.files()


def main() -> str | None:
    """Writes the files. Returns a message about files that it could not write."""
    for path, text in generated_files():
        path.write_text(text)
    return None if CAN_MAKE_DASHBOARDS else "dashboards were not written: they need Python 3.11"


if __name__ == "__main__":
    sys.exit(main())

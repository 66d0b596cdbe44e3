"""`python3 -m tools.generate` (`make generate`): writes every generated file that is committed.

What is generated and not committed is made when it is packaged or asked for: the Helm chart's rules and dashboards
(`tools.kubernetes_files`), the manual pages (`tools.release.backend`), the description of the API
(`uwsgi_headroom.documents.openapi`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tools import kubernetes_files, report_example, stylesheet, tables
from tools.environments import ROOT
from tools.generated_files import replace_section

CAN_MAKE_DASHBOARDS = sys.version_info >= (3, 11)
"""grafana-foundation-sdk needs Python 3.11."""

_WEB = ROOT / "exporter" / "uwsgi_headroom" / "web" / "static"
_REPORT = ROOT / "exporter" / "uwsgi_headroom" / "report" / "render" / "templates"

_SECTIONS: tuple[tuple[str, str, Callable[[], Iterable[str]]], ...] = (
    ("alerts", "alerts", tables.alerts),
    ("api", "documents", tables.api_documents),
    ("safety", "bounds", tables.bounds),
    ("complaints", "complaints", tables.complaints),
    ("configuration", "settings", tables.settings),
    ("installation", "scenes", tables.scenes),
    ("design", "imports", tables.imports),
    ("history", "kinds", tables.event_kinds),
    ("history", "causes", tables.event_causes),
    ("log", "messages", tables.log_messages),
    ("metrics", "metrics", tables.metrics),
    ("settings", "rules", tables.rules),
    ("findings", "findings", tables.findings_page),
    ("settings", "flags", tables.tune_flags),
)
"""Documents of docs/, the marks around a section in each, and the function that yields the lines between them."""


def generated_files() -> Iterator[tuple[Path, str]]:
    """Yields the path and text of each file; dashboards only on Python 3.11 and later."""
    if sys.version_info >= (3, 11):
        from dashboards import __main__ as dashboards  # noqa: PLC0415  (cannot be imported by Python 3.10)
        from dashboards.__main__ import render as render_dashboards  # noqa: PLC0415

        for name, text in render_dashboards().items():
            yield dashboards.OUT / name, text
    yield from kubernetes_files.committed()
    yield from _documents()
    yield report_example.FILE, report_example.make_example()
    yield from _words()


def _documents() -> Iterator[tuple[Path, str]]:
    for document in dict.fromkeys(document for document, _, _ in _SECTIONS):
        path = ROOT / "docs" / f"{document}.md"
        text = path.read_text()
        for owner, marks, lines in _SECTIONS:
            if owner == document:
                text = replace_section(text, marks, "".join(f"{line}\n" for line in lines()))
        yield path, text


def _words() -> Iterator[tuple[Path, str]]:
    """The files in which the page and the report have the words and colours of `uwsgi_headroom.words`."""
    yield _WEB / "words.js", stylesheet.page_module()
    for path, variables in (
        (_WEB / "page.css", stylesheet.page_variables()),
        (_REPORT / "report.css", stylesheet.report_variables()),
    ):
        yield path, replace_section(path.read_text(), "colours", variables, ("/*", "*/"))


def main() -> str | None:
    for path, text in generated_files():
        path.write_text(text)
    return None if CAN_MAKE_DASHBOARDS else "dashboards were not written: they need Python 3.11"


if __name__ == "__main__":
    sys.exit(main())

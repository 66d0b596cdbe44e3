"""The files in which the page and the report have the words and colours of `uwsgi_headroom.words`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.generated_files import replace_section
from uwsgi_headroom import report, web
from uwsgi_headroom.words import stylesheet

MODULE = Path(web.__file__).with_name("static") / "words.js"
PAGE_STYLE = MODULE.with_name("page.css")
REPORT_STYLE = Path(report.__file__).parent / "render" / "templates" / "report.css"

_COMMENT = ("/*", "*/")


def files() -> Iterator[tuple[Path, str]]:
    """Yields the path and text of each file."""
    yield MODULE, stylesheet.page_module()
    for path, variables in (
        (PAGE_STYLE, stylesheet.page_variables()),
        (REPORT_STYLE, stylesheet.report_variables()),
    ):
        yield path, replace_section(path.read_text(), "colours", variables, _COMMENT)

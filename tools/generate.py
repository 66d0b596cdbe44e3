"""`python3 -m tools.generate` (`make generate`): writes every generated file that is committed.

Others are made when they are packaged or asked for: the Helm chart's rules and dashboards (`tools.kubernetes_files`),
manual pages (`tools.release.backend`), the description of the API (`uwsgi_headroom.documents.openapi`). The words and
colours of the page and the report are committed because the page has no build step.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from tools import kubernetes_files, tables
from tools.environments import ROOT
from tools.tables import replace_section
from uwsgi_headroom.report.command import render
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.words.colours import BACKENDS, PALETTE, REPORT_BAND, Colour, ink_on
from uwsgi_headroom.words.states import (
    COLOURS,
    EVENTS,
    JUDGEMENTS,
    LIMITS,
    SERVER_STATES,
    STATUSES,
    WAITS,
    WORKERS,
)

CAN_MAKE_DASHBOARDS = sys.version_info >= (3, 11)
"""grafana-foundation-sdk needs Python 3.11."""

_WEB = ROOT / "exporter" / "uwsgi_headroom" / "web" / "static"
_REPORT = ROOT / "exporter" / "uwsgi_headroom" / "report" / "render"

_SECTIONS: tuple[tuple[str, str, Callable[[], Iterable[str]]], ...] = (
    ("alerts", "alerts", tables.alerts),
    ("configuration", "settings", tables.settings),
    ("installation", "scenes", tables.scenes),
    ("history", "kinds", tables.event_kinds),
    ("history", "causes", tables.event_causes),
    ("log", "messages", tables.log_messages),
    ("metrics", "metrics", tables.metrics),
    ("settings", "rules", tables.rules),
    ("findings", "findings", tables.findings_page),
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
    yield EXAMPLE, make_example()
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
    yield _WEB / "words.js", page_module()
    for path, variables in ((_WEB / "page.css", page_variables()), (_REPORT / "report.css", report_variables())):
        yield path, replace_section(path.read_text(), "colours", variables, ("/*", "*/"))


_WIDTH = 120
"""Of a line."""

_REPORT_COLOURS = ("bg", "panel", "ink", "dim", "line", "blue", "orange", "green", "purple", "vermillion")
"""The colours of the palette that a report uses by their own names."""


def page_module() -> str:
    tables: tuple[tuple[str, str, Mapping[str, object]], ...] = (
        (
            "What takes the time of a request in each state, in the order of the stack from the bottom; and in short.",
            "WAITS",
            {code: [state.name, state.short] for code, state in WAITS.items()},
        ),
        ("Each limit's name and colour.", "LIMITS", {code: [each.name, each.colour] for code, each in LIMITS.items()}),
        (
            "A sign and a word for each status and severity, so that colour alone says nothing.",
            "STATUS",
            {code: [status.sign, status.word] for code, status in STATUSES.items()},
        ),
        (
            "The states of a server, and of the page itself: paused by the reader, or the exporter does not answer.",
            "STATES",
            {code: f"{sign} {name}" for code, (sign, name) in SERVER_STATES.items()},
        ),
        (
            "The states of a worker, with a sign for those that take no requests.",
            "WORKERS",
            {code: f"{state.name} {state.sign}".rstrip() for code, state in WORKERS.items()},
        ),
        ("The colour of each kind of event.", "TONES", {code: event.tone for code, event in EVENTS.items()}),
    )
    text = "// The words for limits, severities, states and events. `make generate` writes them from `words/states.py`."
    for comment, name, table in tables:
        entries = [f"  {code}: {json.dumps(value, ensure_ascii=False)},\n" for code, value in table.items()]
        text += f"\n\n/** {comment} */\nexport const {name} = {{\n{''.join(entries)}}};"
    return f"{text}\n\n/** How many colours named backends have. */\nexport const NAMED_COLOURS = {len(BACKENDS)};\n"


def page_variables() -> str:
    """Write the variables of `web/static/page.css`, for light screens and then for dark ones."""
    return _blocks(dict(_page_colours()))


def report_variables() -> str:
    colours = {name: PALETTE[name] for name in _REPORT_COLOURS}
    colours["band"] = REPORT_BAND
    colours |= {code: PALETTE[judgement.colour] for code, judgement in JUDGEMENTS.items()}
    return _blocks(colours)


def _page_colours() -> Iterator[tuple[str, Colour]]:
    """The colours, and the ink on those of wait states, in which parts of a bar are drawn."""
    for name, colour in COLOURS.items():
        yield name, colour
        if name.startswith("wait-"):
            yield f"on-{name}", Colour(ink_on(colour.light), ink_on(colour.dark))


def _blocks(colours: Mapping[str, Colour]) -> str:
    light = _lines({name: colour.light for name, colour in colours.items()}, "  ")
    dark = _lines({name: colour.dark for name, colour in colours.items()}, "    ")
    return (
        ":root {\n  color-scheme: light dark;\n" + light + "}\n"
        "@media screen and (prefers-color-scheme: dark) {\n  :root {\n" + dark + "  }\n}\n"
    )


def _lines(colours: Mapping[str, str], indent: str) -> str:
    """Write declarations, as many as fit in a line."""
    lines: list[str] = []
    for name, colour in colours.items():
        declaration = f"--{name}: {colour};"
        if lines and len(lines[-1]) + 1 + len(declaration) <= _WIDTH:
            lines[-1] += f" {declaration}"
        else:
            lines.append(indent + declaration)
    return "".join(f"{line}\n" for line in lines)


EXAMPLE = ROOT / "docs" / "examples" / "capacity-review.md"

CHECKOUT = Service(name="checkout", servers=2, peak=45.0, contention=False, wait=0.19, growth=0.16, weekdays=(1.0,) * 7)
"""A service that grows steadily and has its threads as the first limit."""

_LABEL = "SYNTHETIC EXAMPLE: these services do not exist, and their figures were made up by a program."


def make_example() -> str:
    """The capacity review of a quarter of a year of that service, which says that it is made up."""
    quarter = stories.quarter()
    data = make_review_data(History(services=(CHECKOUT,), days=quarter.days, until=quarter.until, zone=quarter.zone))
    return render(build_review(replace(data, source="tools/generate.py, seed 1", problems=(_LABEL,))), "md").decode()


def main() -> str | None:
    for path, text in generated_files():
        path.write_text(text)
    return None if CAN_MAKE_DASHBOARDS else "dashboards were not written: they need Python 3.11"


if __name__ == "__main__":
    sys.exit(main())

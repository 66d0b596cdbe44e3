"""Writes the words and colours as the page and the report have them: a JavaScript module, and variables of CSS.

`python3 -m tools.generate` puts them into the files, which are committed because the page has no build step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from uwsgi_headroom.words.colours import BACKENDS, PALETTE, REPORT_BAND, Colour, ink_on
from uwsgi_headroom.words.states import (
    EVENTS,
    JUDGEMENTS,
    LIMITS,
    SERVER_STATES,
    STATUSES,
    WAITS,
    WORKERS,
    list_colours,
)

_WIDTH = 120
"""Of a line."""

_REPORT = ("bg", "panel", "ink", "dim", "line", "blue", "orange", "green", "purple", "vermillion")
"""The colours of the palette that a report uses by their own names."""


def page_module() -> str:
    tables: tuple[tuple[str, str, Mapping[str, object]], ...] = (
        ("The name of each limit.", "LIMITS", {code: limit.name for code, limit in LIMITS.items()}),
        ("The colour of each limit.", "LIMIT_COLOURS", {code: limit.colour for code, limit in LIMITS.items()}),
        (
            "What takes the time of a request in each state, in the order of the stack from the bottom; and in short.",
            "WAITS",
            {code: [state.name, state.short] for code, state in WAITS.items()},
        ),
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
        ("How many colours named backends have.", "NAMED_COLOURS", {}),
    )
    lines = [
        "// The words for limits, severities, states and events. `make generate` writes them from `words/states.py`."
    ]
    for comment, name, table in tables:
        lines += ["", f"/** {comment} */"]
        if not table:
            lines.append(f"export const {name} = {len(BACKENDS)};")
            continue
        entries = [f"  {code}: {json.dumps(value, ensure_ascii=False)}," for code, value in table.items()]
        lines += [f"export const {name} = {{", *entries, "};"]
    return "\n".join(lines) + "\n"


def page_variables() -> str:
    """Write the variables of `web/static/page.css`, for light screens and then for dark ones."""
    return _blocks(dict(_page_colours()))


def report_variables() -> str:
    colours = {name: PALETTE[name] for name in _REPORT}
    colours["band"] = REPORT_BAND
    colours |= {code: PALETTE[judgement.colour] for code, judgement in JUDGEMENTS.items()}
    return _blocks(colours)


def _page_colours() -> Iterator[tuple[str, Colour]]:
    """The colours, and the ink on those of wait states, in which parts of a bar are drawn."""
    for name, colour in list_colours().items():
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

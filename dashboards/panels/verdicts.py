"""Words and colours of verdicts, causes and acts: those of the exporter's own faces, as mappings of the codes."""

from __future__ import annotations

from dashboards.causes import CAUSES, HARMS
from dashboards.panels.tables import Column
from uwsgi_headroom.words.states import STATUSES

COLOURS = {"ok": "green", "warning": "orange", "critical": "red", "down": "red", "unknown": "text"}
"""By the verdict's code."""

CALLED = {"verdict": "Verdict", "harm": "Users", "cause": "What is wrong", "do": "Do"}
"""The display names of the columns."""

BEFORE_WATCH = {"0": ("from the start", "text")}
"""Since when, if that was before the exporter watched the server."""


def _felt(code: str) -> str:
    """The colour of what users feel: nothing that they feel is worse than no answer."""
    return "red" if code in ("down", "clients_refused") else "text"


def columns() -> dict[str, Column]:
    """The columns of `uwsgi_verdict_info`, with the label `do` for what to do. Words have the width that is left."""
    words = {code: (STATUSES[code].word if code in STATUSES else code.upper(), at) for code, at in COLOURS.items()}
    return {
        "verdict": Column(words=words, width=85),
        "harm": Column(words={code: (word, _felt(code)) for code, word in HARMS.items()}, width=80),
        "cause": Column(words={code: (each.name, "text") for code, each in CAUSES.items()}, wraps=True),
        "do": Column(words={code: (each.act or "-", "text") for code, each in CAUSES.items()}, wraps=True),
    }

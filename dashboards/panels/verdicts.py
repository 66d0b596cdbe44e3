"""Words and colours of verdicts, and the columns of what the judge finds."""

from __future__ import annotations

from dashboards.panels.tables import Column
from uwsgi_headroom.words.states import STATUSES

COLOURS = {"ok": "green", "warning": "orange", "critical": "red", "down": "red", "unknown": "text"}
"""By the verdict's code."""

CALLED = {"verdict": "Verdict", "title": "What is wrong", "act": "Do"}
"""The display names of the columns."""

BEFORE_WATCH = {"0": ("from the start", "text")}
"""Since when, if that was before the exporter watched the server."""


def columns() -> dict[str, Column]:
    """The columns of a verdict and its finding. Texts have the width that is left."""
    words = {code: (STATUSES[code].word if code in STATUSES else code.upper(), at) for code, at in COLOURS.items()}
    return {"verdict": Column(words=words, width=85), "title": Column(wraps=True), "act": Column(wraps=True)}

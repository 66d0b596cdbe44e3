"""Writes a report as JSON: the model of a review without the columns it was computed from (docs/report-contents.md)."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from uwsgi_headroom.report.review import Review

FORMAT = 1
"""Rises when a name changes its meaning or goes away. Names may be added."""


def render_json(review: Review) -> str:
    """The document. What is unknown is null; a section without data is an object with `reason` alone."""
    document = {"format": FORMAT, **_plain(review), "queries": _plain(review.data.queries)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """The value in JSON's types."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.name != "data"}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value

"""Writes a report for programs (docs/report.md): the sections as JSON, and what they are computed from as CSV.

The CSV has a line for each quarter hour and server, with units in the head.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.report.columns import PERCENTILES, STEP, Column, ReviewData, ServerData
from uwsgi_headroom.report.review import Review

_COLUMNS: tuple[tuple[str, str], ...] = (
    ("requests_per_second", "requests"),
    ("static_per_second", "static"),
    ("lost_per_second", "lost"),
    ("threads_in_service", "busy"),
    ("running_seconds_per_second", "running"),
    ("all_threads_busy_share", "full"),
    ("threads_configured", "configured"),
    ("threads_available", "available"),
    ("workers_accepting", "workers_accepting"),
    ("queue_connections", "queue"),
    ("queue_full_share", "queue_full"),
    ("cpus_usable", "cpus"),
    ("cpus_own", "cpu_own"),
    ("cpus_idle", "cpu_idle"),
    ("cpus_others", "cpu_others"),
    ("memory_per_worker_bytes", "memory_per_worker"),
    ("memory_available_bytes", "memory_available"),
    ("slow_per_second", "slow"),
    ("judged_per_second", "judged"),
    ("reloads", "reloads"),
    ("respawns", "respawns"),
    ("harakiris", "harakiris"),
    ("exceptions", "exceptions"),
    ("tcp_overflows", "overflows"),
)
"""Names in the head, with their units, and the columns of `ServerData`."""

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a cell that a spreadsheet takes for a formula."""


def render_csv(data: ReviewData) -> str:
    """The table. An unknown figure is an empty cell; quarter hours without any are left out."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    percentiles = [f"p{100 * share:g}_seconds" for share in PERCENTILES]
    writer.writerow(
        ["start", "until_epoch_seconds", "server", "service", "host", "sampled_share", *dict(_COLUMNS), *percentiles]
    )
    zone = ZoneInfo(data.time_zone)
    for server in data.servers:
        names = [safe_cell(name) for name in (server.server, server.service, server.host)]
        columns = [getattr(server, name) for _, name in _COLUMNS]
        columns += _padded(server)
        for place, end in enumerate(server.time):
            values = [_number(column[place]) for column in columns]
            if any(values):
                start = datetime.fromtimestamp(float(end) - STEP, zone).isoformat()
                writer.writerow([start, f"{end:.0f}", *names, _number(server.covered[place]), *values])
    return output.getvalue()


def safe_cell(text: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _padded(server: ServerData) -> list[Column]:
    """The columns of the percentiles; unknown ones as unknown."""
    missing = len(PERCENTILES) - len(server.percentiles)
    return [*server.percentiles, *[server.time * math.nan] * missing]


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


FORMAT = 2
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

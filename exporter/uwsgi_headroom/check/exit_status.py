"""Exit statuses of `check`, which are those of a monitoring plugin. Imports little, so that help answers at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Status = Literal["ok", "warning", "critical", "unknown"]

UNKNOWN = 3
"""Nothing was judged: no server could be read, the command was wrong, it was interrupted, or it failed."""

EXIT_STATUS: dict[Status, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNKNOWN}

WORST_FIRST: tuple[Status, ...] = ("critical", "warning", "unknown", "ok")
"""The order of the monitoring plugins' own library (`max_state_alt`): where one server is critical, another that cannot
be read does not hide it."""


def find_worst(statuses: Iterable[Status]) -> Status:
    """The worst of these statuses; unknown where there is none."""
    return min(statuses, key=WORST_FIRST.index, default="unknown")

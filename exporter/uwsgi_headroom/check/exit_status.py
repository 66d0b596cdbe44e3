"""Exit statuses of `check`, as for a monitoring plugin. Imports little, so that help appears at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Status = Literal["ok", "warning", "critical", "unknown"]

UNKNOWN = 3
"""There is no verdict: no server could be read, the usage was wrong, or the command failed or was interrupted."""

EXIT_STATUS: dict[Status, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNKNOWN}

WORST_FIRST: tuple[Status, ...] = ("critical", "warning", "unknown", "ok")
"""The order of `max_state_alt` in the library of the Monitoring Plugins: an unreadable server does not hide a critical
one."""


def find_worst(statuses: Iterable[Status]) -> Status:
    """Find the worst of these statuses; unknown if there is none."""
    return min(statuses, key=WORST_FIRST.index, default="unknown")

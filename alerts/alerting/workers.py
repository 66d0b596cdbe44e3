"""Alerts about workers that fail: stuck, killed, respawned, raising, growing."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `workers.yaml`."""
    return [Group("uwsgi-headroom workers", [])]

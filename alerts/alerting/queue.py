"""Alerts about listen queues: where requests wait before uWSGI sees them."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `queue.yaml`."""
    return [Group("uwsgi-headroom queue", [])]

"""Alerts about uneven workers: a ticket where it persists under load, a page where it hurts."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `balance.yaml`."""
    return [Group("uwsgi-headroom balance", [])]

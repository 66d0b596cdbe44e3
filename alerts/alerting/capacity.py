"""Alerts about load against a limit: threads, interpreters, CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `capacity.yaml`."""
    return [Group("uwsgi-headroom capacity", [])]

"""Alerts about what cannot be read: a server, an exporter, samples."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `availability.yaml`."""
    return [
        Group(
            "uwsgi-headroom availability",
            [
                Alert(
                    alert="UwsgiDown",
                    expr="uwsgi_up == 0",
                    hold="2m",
                    severity="critical",
                    summary=f"uWSGI {SERVER} on {INSTANCE} cannot be read.",
                    description="Its stats server has not answered for 2 minutes.",
                    dashboard=SERVER_DASHBOARD,
                ),
            ],
        )
    ]

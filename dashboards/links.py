"""From one dashboard to the next, with what was chosen; and to the server of a line in a table."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

FLEET, SERVER = "uwsgi-headroom-fleet", "uwsgi-headroom-server"
AFFINITY, CAPACITY = "uwsgi-headroom-affinity", "uwsgi-headroom-capacity"
"""Uids, which never change: the alerts lead to them."""

TITLES = {FLEET: "Fleet", SERVER: "Server", AFFINITY: "Affinity", CAPACITY: "Capacity review"}
ONE_SERVER = (SERVER, AFFINITY)
"""The dashboards of one server; the others are of many, where All may be chosen, which means nothing to these."""

_SHARED = "${datasource:queryparam}&${service_label:queryparam}&${service:queryparam}"


def links(at: str) -> Sequence[DashboardLink]:
    """To every dashboard but the one `at` which it is."""
    return [_link(at, uid) for uid in TITLES if uid != at]


def _link(at: str, to: str) -> DashboardLink:
    """The whole choice goes along where it has a meaning, and the time except from or to a review of months."""
    every = to == CAPACITY or (at in ONE_SERVER) == (to in ONE_SERVER)
    link = DashboardLink(TITLES[to]).type(DashboardLinkType.LINK).icon("dashboard").include_vars(every)
    link.keep_time(CAPACITY not in (at, to))
    return link.url(f"/d/{to}" if every else f"/d/{to}?{_SHARED}")


def to_server(*, now: bool = False) -> list[dict[str, object]]:
    """From a line that has `job`, `instance` and `server` to the page of that server; now: at the time that it shows by
    itself, not at the one that is shown here.
    """
    chosen = "&".join(f"var-{label}=${{__data.fields.{label}}}" for label in ("job", "instance", "server"))
    time = "" if now else "&${__url_time_range}"
    return [{"title": "Open this server", "url": f"/d/{SERVER}?{_SHARED}&{chosen}{time}"}]

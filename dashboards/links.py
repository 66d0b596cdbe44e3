"""From one dashboard to the next, with the time and what was chosen; and to the server of a line in a table."""

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
    every = to not in ONE_SERVER or at in ONE_SERVER
    link = DashboardLink(TITLES[to]).type(DashboardLinkType.LINK).icon("dashboard").keep_time(True)
    return link.include_vars(every).url(f"/d/{to}" if every else f"/d/{to}?{_SHARED}")


def to_server() -> list[dict[str, object]]:
    """From a line that has `job`, `instance` and `server` to the page of that server."""
    chosen = "&".join(f"var-{label}=${{__data.fields.{label}}}" for label in ("job", "instance", "server"))
    return [{"title": "Open this server", "url": f"/d/{SERVER}?{_SHARED}&{chosen}&${{__url_time_range}}"}]

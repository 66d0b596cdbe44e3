"""Links from one dashboard to another, which keep the chosen variables; and from a table's line to its server."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

FLEET, SERVER = "uwsgi-headroom-fleet", "uwsgi-headroom-server"
AFFINITY, CAPACITY = "uwsgi-headroom-affinity", "uwsgi-headroom-capacity"
"""Uids. They never change, because alerts link to them."""

TITLES = {FLEET: "Fleet", SERVER: "Server", AFFINITY: "Affinity", CAPACITY: "Capacity review"}
ONE_SERVER = (SERVER, AFFINITY)
"""The dashboards of one server. The others show many servers, and their choice `All` has no meaning for these."""

_SHARED = "${datasource:queryparam}&${service_label:queryparam}&${service:queryparam}"


def links(at: str) -> Sequence[DashboardLink]:
    """Links from the dashboard `at` to every other one."""
    return [_link(at, uid) for uid in TITLES if uid != at]


def _link(at: str, to: str) -> DashboardLink:
    """A link that keeps all variables if the target has the same kind, and the time except to and from the capacity
    review."""
    every = to == CAPACITY or (at in ONE_SERVER) == (to in ONE_SERVER)
    link = DashboardLink(TITLES[to]).type(DashboardLinkType.LINK).icon("dashboard").include_vars(every)
    link.keep_time(CAPACITY not in (at, to))
    return link.url(f"/d/{to}" if every else f"/d/{to}?{_SHARED}")


def to_server(*, now: bool = False) -> list[dict[str, object]]:
    """A link from a line with `job`, `instance` and `server` to the dashboard of that server. now: at that dashboard's
    default time, not at the time shown here.
    """
    chosen = "&".join(f"var-{label}=${{__data.fields.{label}}}" for label in ("job", "instance", "server"))
    time = "" if now else "&${__url_time_range}"
    return [{"title": "Open this server", "url": f"/d/{SERVER}?{_SHARED}&{chosen}{time}"}]

"""The dashboards and their JSON, as Grafana 9 to 12 read it."""

from __future__ import annotations

import json
from collections.abc import Callable

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.boards import affinity, capacity, fleet, server

FILES: dict[str, Callable[[], Dashboard]] = {
    "fleet.json": fleet.dashboard,
    "server.json": server.dashboard,
    "affinity.json": affinity.dashboard,
    "capacity.json": capacity.dashboard,
}


def render() -> dict[str, str]:
    """The text of every dashboard, by its file's name."""
    return {name: _json(board()) for name, board in FILES.items()}


def _json(board: Dashboard) -> str:
    return json.dumps(board, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

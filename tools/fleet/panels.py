"""Runs every query of the shipped dashboards on a store, and measures how long each takes."""

from __future__ import annotations

import contextlib
import http.client
import statistics
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tools.fleet import plan
from tools.fleet.context import JOB
from tools.support.dashboard_queries import NAMES, Query, queries
from tools.support.monitoring import Prometheus

TURNS = 3
DAY = 86400.0
TIMEOUT = 60.0


def measure(
    store: Prometheus, seconds: float, turns: int = TURNS, at: float | None = None
) -> dict[str, dict[str, Any]]:
    """Returns median and worst duration, in seconds, and the bytes of the answer, of every query of every dashboard.

    seconds: length of the time range; the capacity review looks ninety days back. at: end of the range, now by default.
    """
    now = time.time() if at is None else at
    measured: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        length = 90 * DAY if name == "capacity" else seconds
        for query in queries(name, variables(name, now - length), length):
            measured[query.where] = _run(store, query, now, length, turns)
    return measured


def variables(name: str, start: float) -> Mapping[str, str]:
    """Returns values for a dashboard's variables: all servers, or one that is uneven."""
    one = {"job": JOB, "instance": plan.instance(3), "server": "app-00-1"}
    return {
        "service_label": "server",
        "service": ".*",
        "window": "5m",
        "utc_offset": "0",
        "__from": str(round(start * 1000)),
        **(dict.fromkeys(one, ".*") if name in ("fleet", "capacity") else one),
    }


def _run(store: Prometheus, query: Query, now: float, length: float, turns: int) -> dict[str, Any]:
    durations, size, status = [], 0, 0
    for _ in range(turns):
        begin = time.perf_counter()
        status, size = _get(store.port, path(query, now, length))
        durations.append(time.perf_counter() - begin)
    return {"median": statistics.median(durations), "worst": max(durations), "bytes": size, "status": status}


def path(query: Query, now: float, length: float) -> str:
    """Returns the path and parameters of the HTTP API for a query of a dashboard."""
    if query.kind == "values":
        return f"/api/v1/label/{query.label}/values?" + urllib.parse.urlencode(
            {"match[]": query.expression, "start": now - length, "end": now}
        )
    if query.kind == "instant":
        return "/api/v1/query?" + urllib.parse.urlencode({"query": query.expression, "time": now})
    start = (now - length) // query.step * query.step
    return "/api/v1/query_range?" + urllib.parse.urlencode(
        {"query": query.expression, "start": start, "end": now, "step": query.step}
    )


def _get(port: int, target: str) -> tuple[int, int]:
    """Returns the status, and the bytes of the answer; (0, 0) if there is none in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", target)
        response = connection.getresponse()
        return response.status, len(response.read())
    return 0, 0

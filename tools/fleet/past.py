"""Reads months of recorded history from Prometheus, VictoriaMetrics and Thanos, from raw and from downsampled blocks.

The history is synthetic, so what the report must find is known. `promtool` makes blocks of it, `vmctl` copies them to
VictoriaMetrics, and Thanos uploads and downsamples them in a bucket in the file system.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.programs import running
from tools.environments import ROOT
from tools.fleet import panels, past_stores
from tools.fleet.past_stores import Source
from tools.support import recorded_months
from tools.support.dashboard_queries import queries
from tools.support.monitoring import Prometheus
from tools.support.synthetic import stories
from tools.support.synthetic.compare import compare
from tools.support.synthetic.openmetrics import write_blocks
from tools.support.synthetic.plan import History
from tools.support.synthetic.review_data import make_review_data
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import HttpPost, PrometheusApi, make_endpoint
from uwsgi_headroom.report.sources.selection import TimeRange

HISTORY = History(services=(replace(stories.STORY, servers=2, peak=83 / 3, reloads=(1.2,)),), days=4.0)
DAY = 86400.0
RARE = ("full", "queue", "occupancy", "by_time")
"""Columns that the comparison leaves out where they count a few samples: see tests/report/sources/test_agreement.py."""


def measure(directory: Path) -> dict[str, Any]:
    """Runs all stores on the history, and returns what the report and the capacity review found in each."""
    blocks = make_blocks(directory / "blocks")
    buckets = past_stores.make_buckets(directory, blocks)
    sources, programs = past_stores.list_programs(directory, blocks, buckets)
    with running(programs, directory, cwd=ROOT):
        past_stores.import_blocks(
            directory, blocks, next(source.port for source in sources if source.name == "victoriametrics")
        )
        time.sleep(35)  # the querier asks its stores what they have, every few seconds
        return {source.name: {"report": report(source), "capacity": capacity(source)} for source in sources}


def make_blocks(directory: Path) -> Path:
    """Writes four days of scrapes and ninety days of recorded series; both end before the last forty hours."""
    directory.mkdir(parents=True)
    write_blocks(HISTORY)(directory)
    recorded_months.write(directory, HISTORY.until)
    return directory


def report(source: Source) -> dict[str, Any]:
    """Returns the largest differences between what the report reads and what happened, or the error."""
    api = PrometheusApi(HttpPost(make_endpoint(f"http://127.0.0.1:{source.port}")))
    span = TimeRange(HISTORY.since, HISTORY.until, "UTC")
    begin = time.perf_counter()
    try:
        data = load_prometheus(api, lambda _now: span)
        truth = make_review_data(HISTORY).servers
        found = [
            difference
            for one, other in zip(data.servers, truth, strict=True)
            for difference in compare(one, other)
            if not (difference.column.startswith(RARE) and not difference.largest > 0.1)
        ]
    except (HeadroomError, AssertionError) as error:
        return {"error": str(error)[:500]}
    return {
        "seconds": time.perf_counter() - begin,
        "columns": len(found),
        "sum": max((one.sum, one.column) for one in found),
        "maximum": max((one.maximum, one.column) for one in found),
        "missing": max((one.missing, one.column) for one in found),
        "problems": list(data.problems)[:5],
    }


def capacity(source: Source) -> dict[str, Any]:
    """Returns the values of each query of the capacity review at the history's end."""
    store, end = Prometheus(source.port), HISTORY.until
    length = 90 * DAY
    results: dict[str, Any] = {}
    for query in queries("capacity", panels.variables("capacity", end - length), length):
        if query.kind == "values" or "mark" in query.where:
            continue
        try:
            if query.kind == "instant":
                found: Any = store.query(query.expression, end - 60)
            else:
                found = {
                    labels: dict(values)
                    for labels, values in store.query_range(
                        query.expression, (end - length) // query.step * query.step, end - 60, query.step
                    ).items()
                }
        except AssertionError as error:
            results[query.where] = {"error": str(error)[:300]}
            continue
        results[query.where] = {json.dumps(sorted(labels)): value for labels, value in found.items()}
    return results

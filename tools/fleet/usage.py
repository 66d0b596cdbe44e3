"""Measures what the programs of a store use: CPU, memory, disk; and how many samples the store takes."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from app.loopback import get
from tools.bench.exporters import cpu_seconds

COUNTERS = (
    "prometheus_tsdb_head_series",
    "prometheus_tsdb_head_samples_appended_total",
    "prometheus_agent_active_series",
    "prometheus_agent_samples_appended_total",
    "prometheus_remote_storage_samples_total",
    "prometheus_remote_storage_samples_pending",
    "prometheus_remote_storage_bytes_total",
    "prometheus_rule_group_last_duration_seconds",
    "prometheus_rule_evaluation_failures_total",
    "prometheus_rule_group_iterations_missed_total",
    "vm_rows_inserted_total",
    "vm_deduplicated_samples_total",
    "vm_data_size_bytes",
    "vm_rows",
    "vmalert_iteration_duration_seconds",
    "vmalert_execution_errors_total",
    "vmalert_remotewrite_sent_rows_total",
)
"""Of the programs' own `/metrics`: kept, summed over labels."""
_SAMPLE = re.compile(r"^([a-z_:A-Z0-9]+)(\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Usage:
    """A program at one moment. disk: bytes of its data directory; own: its own figures."""

    at: float
    cpu: float
    resident: int
    disk: int
    own: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read(pid: int, port: int | None, data: Path) -> Usage:
    """Measures a program. port: of its `/metrics`; data: its directory, which may not exist."""
    return Usage(
        time.time(),
        cpu_seconds(pid),
        psutil.Process(pid).memory_info().rss,
        _disk(data),
        own_figures(port) if port else {},
    )


def own_figures(port: int) -> dict[str, float]:
    """Returns the figures of `COUNTERS` that a program exports, summed over labels. VictoriaMetrics' index is counted
    apart from its samples."""
    sums: dict[str, float] = {}
    for found, labels, value in _SAMPLE.findall(get(port, "/metrics", timeout=30) or ""):
        if found in COUNTERS and 'quantile="' not in labels:
            name = f"{found} of the index" if 'type="indexdb"' in labels else found
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def _disk(directory: Path) -> int:
    """Returns the bytes that files occupy on disk; files that vanish meanwhile count nothing."""
    total = 0
    for file in directory.rglob("*") if directory.exists() else ():
        try:
            total += file.stat().st_blocks * 512
        except OSError:
            continue
    return total


def snapshot(port: int, data: Path) -> dict[str, float]:
    """Makes a Prometheus write all that it holds as blocks, and returns their bytes, samples and series."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/admin/tsdb/snapshot")
        name = json.loads(connection.getresponse().read())["data"]["name"]
    directory = data / "snapshots" / name
    stats = [json.loads(file.read_text())["stats"] for file in directory.glob("*/meta.json")]
    return {
        "bytes": _disk(directory),
        "samples": sum(one["numSamples"] for one in stats),
        "series": max((one["numSeries"] for one in stats), default=0),
    }

"""Measures the bytes of a sample at rest: a day of one stand-in host, in a Prometheus block and in VictoriaMetrics.

A short run says little about it: both stores write small parts first and merge them for hours.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.loopback import get
from app.programs import Program, running
from tools.environments import ROOT
from tools.fleet import hosts, past_stores, plan
from tools.fleet.exposition import Series
from tools.support.monitoring import find
from tools.support.real_uwsgi import free_port

BEGIN = 1_790_000_000.0 // 86400 * 86400
"""Midnight: the day fits into one block."""


def measure(directory: Path, captured: Sequence[Series], interval: int, hours: float) -> dict[str, Any]:
    """Returns bytes and samples of the same scrapes in both stores."""
    blocks = directory / f"blocks-{interval}"
    blocks.mkdir(parents=True)
    text = directory / f"day-{interval}.txt"
    with text.open("w") as file:
        file.writelines(scrapes(captured, interval, hours))
    command: list[str | Path] = [
        find("promtool"),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--max-block-duration=72h",
        text,
        blocks,
    ]
    subprocess.run([*command, text, blocks], check=True, capture_output=True)
    text.unlink()
    stats = [json.loads(file.read_text())["stats"] for file in blocks.glob("*/meta.json")]
    chunks = sum(file.stat().st_size for file in blocks.glob("*/chunks/*"))
    whole = sum(file.stat().st_size for file in blocks.rglob("*") if file.is_file())
    return {
        "interval": interval,
        "hours": hours,
        "samples": sum(one["numSamples"] for one in stats),
        "series": max(one["numSeries"] for one in stats),
        "prometheus": {"chunks": chunks, "all": whole},
        "victoriametrics": _victoriametrics(directory, blocks, interval),
    }


def scrapes(captured: Sequence[Series], interval: int, hours: float) -> Iterator[str]:
    """Yields the lines of all scrapes of one host, with the time of each."""
    host = hosts.build(captured, plan.Fleet(1), 0)
    target = f'{{instance="{plan.instance(0)}",job="uwsgi",'
    for number in range(int(hours * 3600 / interval)):
        at = BEGIN + number * interval + 0.123
        for line in host.text(BEGIN - 1000, at).splitlines():
            if not line.startswith("#"):
                yield f"{line.replace('{', target, 1).replace(',}', '}', 1)} {at:.3f}\n"
    yield "# EOF\n"


def _victoriametrics(directory: Path, blocks: Path, interval: int) -> dict[str, float]:
    """Copies the blocks to VictoriaMetrics, lets it merge them, and returns its bytes by kind of data."""
    port, data = free_port(), directory / f"victoria-metrics-{interval}"
    program = Program(
        f"victoria-metrics-{interval}",
        "starting VictoriaMetrics",
        ["victoria-metrics", f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={data}", "-retentionPeriod=2y"],
        lambda: get(port, "/health") is not None,
    )
    with running([program], directory, cwd=ROOT):
        subprocess.run(past_stores.vmctl(blocks, port), check=True, capture_output=True)
        get(port, "/internal/force_flush")
        get(port, "/internal/force_merge", timeout=60)
        time.sleep(20)
        metrics = get(port, "/metrics") or ""
    found = re.findall(r'^(vm_data_size_bytes|vm_rows)\{type="([^"]+)"\} (\S+)$', metrics, re.MULTILINE)
    return {f"{name} {kind}": float(value) for name, kind, value in found if float(value)}

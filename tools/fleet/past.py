"""Reads months of recorded history from Prometheus, VictoriaMetrics and Thanos, from raw and from downsampled blocks.

The history is synthetic, so what the report must find is known. `promtool` makes blocks of it, `vmctl` copies them to
VictoriaMetrics, and Thanos uploads and downsamples them in a bucket in the file system.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.loopback import get
from app.programs import Program, running
from tests.support import recorded_months
from tests.support.dashboard_queries import queries
from tests.support.monitoring import Prometheus, find
from tests.support.real_uwsgi import ROOT, free_port
from tests.support.synthetic import stories
from tests.support.synthetic.compare import compare
from tests.support.synthetic.openmetrics import write_blocks
from tests.support.synthetic.plan import History
from tests.support.synthetic.review_data import make_review_data
from tools.fleet import panels
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.sources.http_post import HttpPost
from uwsgi_headroom.report.sources.login import make_endpoint
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi
from uwsgi_headroom.report.sources.time_range import TimeRange

HISTORY = History(services=(replace(stories.STORY, servers=2, peak=83 / 3, reloads=(1.2,)),), days=4.0)
DAY = 86400.0
SETTLED_SECONDS = 25.0
RARE = ("full", "queue", "occupancy", "by_time")
"""Columns that the comparison leaves out where they count a few samples: see tests/report/sources/test_agreement.py."""


@dataclass(frozen=True)
class Source:
    """A store that answers on a port, and what was done with the history in it."""

    name: str
    port: int


def measure(directory: Path) -> dict[str, Any]:
    """Runs all stores on the history, and returns what the report and the capacity review found in each."""
    blocks = make_blocks(directory / "blocks")
    buckets = make_buckets(directory, blocks)
    sources, programs = list_programs(directory, blocks, buckets)
    with running(programs, directory, cwd=ROOT):
        _import(directory, blocks, next(source.port for source in sources if source.name == "victoriametrics"))
        time.sleep(35)  # the querier asks its stores what they have, every few seconds
        return {source.name: {"report": report(source), "capacity": capacity(source)} for source in sources}


def make_blocks(directory: Path) -> Path:
    """Writes four days of scrapes and ninety days of recorded series; both end before the last forty hours."""
    directory.mkdir(parents=True)
    write_blocks(HISTORY)(directory)
    recorded_months.write(directory, HISTORY.until)
    return directory


def make_buckets(directory: Path, blocks: Path) -> dict[str, Path]:
    """Uploads the blocks to a bucket and downsamples them; the second bucket lacks the raw blocks, as after
    `--retention.resolution-raw`."""
    bucket = directory / "bucket"
    configuration = ["--objstore.config", _bucket(bucket)]
    command = ["thanos", "tools", "bucket"]
    subprocess.run([*command, "upload-blocks", f"--path={blocks}", '--label=replica="a"', *configuration], check=True)
    downsample = [*command, "downsample", f"--data-dir={directory / 'work'}", f"--http-address=127.0.0.1:{free_port()}"]
    with subprocess.Popen([*downsample, *configuration]) as process:  # it continues until it is ended
        _wait_until_settled(bucket)
        process.terminate()
    without = directory / "bucket-without-raw"
    shutil.copytree(bucket, without)
    for block in _blocks(without):
        if resolution(block) == 0:
            shutil.rmtree(block)
    return {"raw": bucket, "downsampled": without}


def _wait_until_settled(bucket: Path) -> None:
    """Returns when no block was added for `SETTLED_SECONDS`."""
    known, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLED_SECONDS:
        if (number := len(list(_blocks(bucket)))) != known:
            known, since = number, time.monotonic()
        time.sleep(1)


def _blocks(bucket: Path) -> Iterator[Path]:
    return (file.parent for file in sorted(bucket.glob("*/meta.json")))


def resolution(block: Path) -> int:
    """Returns a block's resolution in milliseconds, 0 if raw."""
    resolution: int = json.loads((block / "meta.json").read_text())["thanos"]["downsample"]["resolution"]
    return resolution


def _bucket(directory: Path) -> str:
    return json.dumps({"type": "FILESYSTEM", "config": {"directory": str(directory)}})


def list_programs(directory: Path, blocks: Path, buckets: dict[str, Path]) -> tuple[list[Source], list[Program]]:
    """Returns the stores and their programs."""
    prometheus, victoria = free_port(), free_port()
    data = directory / "prometheus-data"
    shutil.copytree(blocks, data)
    (directory / "empty.yml").write_text("{}")
    sources = [Source("prometheus", prometheus), Source("victoriametrics", victoria)]
    programs = [
        _program(
            "prometheus",
            prometheus,
            "/-/ready",
            [
                find("prometheus"),
                f"--config.file={directory / 'empty.yml'}",
                f"--storage.tsdb.path={data}",
                "--storage.tsdb.retention.time=2y",
                f"--web.listen-address=127.0.0.1:{prometheus}",
                "--log.level=warn",
            ],
        ),
        _program(
            "victoria-metrics",
            victoria,
            "/health",
            [
                "victoria-metrics",
                f"-httpListenAddr=127.0.0.1:{victoria}",
                "-retentionPeriod=2y",
                f"-storageDataPath={directory / 'victoria-metrics-data'}",
            ],
        ),
    ]
    for name, bucket in buckets.items():
        store_http, store_grpc, query_grpc = free_port(), free_port(), free_port()
        programs.append(
            _program(
                f"store-{name}",
                store_http,
                "/-/ready",
                [
                    "thanos",
                    "store",
                    f"--data-dir={directory / f'store-{name}'}",
                    "--objstore.config",
                    _bucket(bucket),
                    f"--http-address=127.0.0.1:{store_http}",
                    f"--grpc-address=127.0.0.1:{store_grpc}",
                    "--log.level=warn",
                ],
            )
        )
        for kind, more in (
            ("", ()),
            (" auto", ("--query.auto-downsampling", "--query.instant.default.max_source_resolution=1h")),
        ):
            port, query_grpc = free_port(), free_port()
            sources.append(Source(f"thanos {name}{kind}", port))
            programs.append(
                _program(
                    f"query-{name}{kind}".replace(" ", "-"),
                    port,
                    "/-/ready",
                    [
                        "thanos",
                        "query",
                        "--query.replica-label=replica",
                        f"--endpoint=127.0.0.1:{store_grpc}",
                        *more,
                        f"--http-address=127.0.0.1:{port}",
                        f"--grpc-address=127.0.0.1:{query_grpc}",
                        "--log.level=warn",
                    ],
                )
            )
    return sources, programs


def _program(name: str, port: int, path: str, command: list[Any]) -> Program:
    return Program(name, f"starting {name}", command, lambda: get(port, path) is not None)


def _import(directory: Path, blocks: Path, port: int) -> None:
    with (directory / "vmctl.log").open("w") as log:
        subprocess.run(vmctl(blocks, port), check=True, stdout=log, stderr=log)


def vmctl(blocks: Path, port: int) -> list[str]:
    """Returns the command that copies blocks to VictoriaMetrics. vmctl 1.79 works only in a terminal, which `script`
    provides."""
    address = f"--vm-addr=http://127.0.0.1:{port}"
    return [
        "script",
        "-qec",
        shlex.join(["vmctl", "prometheus", "-s", f"--prom-snapshot={blocks}", address]),
        "/dev/null",
    ]


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
                    labels: [value for _, value in values]
                    for labels, values in store.query_range(
                        query.expression, (end - length) // query.step * query.step, end - 60, query.step
                    ).items()
                }
        except AssertionError as error:
            results[query.where] = {"error": str(error)[:300]}
            continue
        results[query.where] = {json.dumps(sorted(labels)): value for labels, value in found.items()}
    return results

"""The stores that read a history of blocks: Prometheus, VictoriaMetrics, and Thanos with and without raw blocks."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.loopback import get
from app.programs import Program
from tools.support.monitoring import find
from tools.support.real_uwsgi import free_port

SETTLED_SECONDS = 25.0
"""Without a new block, after which downsampling is taken to be complete."""


@dataclass(frozen=True)
class Source:
    """A store that answers on a port, and what was done with the history in it."""

    name: str
    port: int


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


def import_blocks(directory: Path, blocks: Path, port: int) -> None:
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

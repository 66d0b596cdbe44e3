"""A Prometheus and an Alertmanager as programs of the demo and of the tests.

They listen on 127.0.0.1 alone, and all they write is in the directory they are given. Their configuration is JSON,
which is YAML too: nothing but Python is needed to write it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.loopback import address, get
from app.programs import Program

JOB = "uwsgi"
"""The label `job` of all targets."""

NOBODY: dict[str, Any] = {
    "route": {"receiver": "nobody", "group_by": ["job", "server"], "group_wait": "1s", "group_interval": "5s"},
    "receivers": [{"name": "nobody"}],
}
"""A configuration of Alertmanager: it shows alerts, and sends them nowhere."""


def prometheus(
    program: Path,
    port: int,
    directory: Path,
    *,
    targets: Iterable[int],
    rules: Iterable[Path] = (),
    alertmanager: int | None = None,
    every: str = "1s",
) -> Program:
    """Write its configuration; it scrapes the ports `targets`, and evaluates the rule files, `every` so often.

    It looks for targets and Alertmanagers 5 s after it has started, and not before.
    """
    configuration = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(file.resolve()) for file in rules],
        "scrape_configs": [{"job_name": JOB, "static_configs": _static(*targets)}],
    }
    if alertmanager is not None:
        configuration["alerting"] = {"alertmanagers": [{"static_configs": _static(alertmanager)}]}
    return Program(
        name="prometheus",
        sentence="starting Prometheus",
        command=[
            program,
            f"--config.file={_written(directory / 'prometheus.yml', configuration)}",
            f"--storage.tsdb.path={directory / 'prometheus-data'}",
            f"--web.listen-address={address(port)}",
            f"--web.external-url=http://{address(port)}/",  # else links in alerts name the machine
            "--rules.alert.resend-delay=10s",  # what fires before Alertmanager is known would come a minute late
            "--log.level=warn",
        ],
        ready=lambda: get(port, "/-/ready") is not None,
    )


def alertmanager(program: Path, port: int, directory: Path, configuration: Mapping[str, Any]) -> Program:
    """Write its configuration; it talks to no other Alertmanager."""
    return Program(
        name="alertmanager",
        sentence="starting Alertmanager",
        command=[
            program,
            f"--config.file={_written(directory / 'alertmanager.yml', configuration)}",
            f"--storage.path={directory / 'alertmanager-data'}",
            f"--web.listen-address={address(port)}",
            f"--web.external-url=http://{address(port)}/",
            "--cluster.listen-address=",  # else it gossips on every address
            "--log.level=warn",
        ],
        ready=lambda: get(port, "/-/ready") is not None,
    )


def pages(port: int) -> dict[str, str]:
    """What there is to see at the Prometheus of this port, by its address: a page for people, or else JSON.

    Debian's pages come first, because where it has them, it has nothing but a notice at the addresses of upstream's.
    """
    page = next((path for path in ("/classic/alerts", "/alerts") if get(port, path) is not None), None)
    if page:
        return {f"http://{address(port)}{page}": "alert rules, their state"}
    return {
        f"http://{address(port)}/api/v1/rules": "rules, their state (JSON)",
        f"http://{address(port)}/api/v1/alerts": "active alerts (JSON)",
    }


def _static(*ports: int) -> list[dict[str, list[str]]]:
    return [{"targets": [address(port) for port in ports]}]


def _written(file: Path, configuration: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps(configuration, indent=2))
    return file

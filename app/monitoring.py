"""A Prometheus and an Alertmanager as programs of the demo and of the tests.

Both listen on 127.0.0.1 only and write only into the given directory. Their configuration is written as JSON, which is
valid YAML and needs no library.
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
"""A configuration of Alertmanager that shows alerts and sends no notifications."""


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
    """Writes the configuration and returns the program. Prometheus scrapes the ports `targets` and evaluates the rule
    files at the interval `every`.

    Prometheus discovers targets and Alertmanagers only 5 s after its start.
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
            f"--web.external-url=http://{address(port)}/",  # otherwise links in alerts contain the host name
            "--rules.alert.resend-delay=10s",  # default 1m: alerts that fire before Alertmanager is known would be late
            "--log.level=warn",
        ],
        ready=lambda: get(port, "/-/ready") is not None,
    )


def alertmanager(program: Path, port: int, directory: Path, configuration: Mapping[str, Any]) -> Program:
    """Writes the configuration and returns the program: an Alertmanager without a cluster."""
    return Program(
        name="alertmanager",
        sentence="starting Alertmanager",
        command=[
            program,
            f"--config.file={_written(directory / 'alertmanager.yml', configuration)}",
            f"--storage.path={directory / 'alertmanager-data'}",
            f"--web.listen-address={address(port)}",
            f"--web.external-url=http://{address(port)}/",
            "--cluster.listen-address=",  # otherwise Alertmanager listens for gossip on every address
            "--log.level=warn",
        ],
        ready=lambda: get(port, "/-/ready") is not None,
    )


def pages(port: int) -> dict[str, str]:
    """Returns addresses of the Prometheus on this port, each with what it shows: a web page if there is one, else JSON.

    Debian's page is tried first, because Debian's Prometheus serves only a notice at the address of upstream's page.
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

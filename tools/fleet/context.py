"""What all stores of a run share: directory, ports, targets, intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.support.real_uwsgi import free_port

JOB = "uwsgi"


@dataclass
class Context:
    """Directory and settings of a run. interval: of scrapes and rules, in seconds; relabel: `metric_relabel_configs` of
    all scrapers; rules: files."""

    directory: Path
    targets: Path
    interval: int
    rules: list[Path]
    relabel: list[dict[str, Any]] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    def port(self, name: str) -> int:
        """Returns the port of a program, the same at each call."""
        return self.ports.setdefault(name, free_port())

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.port(name)}"

    def data(self, name: str) -> Path:
        """Returns the data directory of a program, and creates it."""
        path = self.directory / f"{name}-data"
        path.mkdir(exist_ok=True)
        return path

    def scrape(self, external: Mapping[str, str]) -> dict[str, Any]:
        """Returns a Prometheus configuration that scrapes the fleet."""
        every = f"{self.interval}s"
        job = {
            "job_name": JOB,
            "file_sd_configs": [{"files": [str(self.targets)]}],
            "metric_relabel_configs": self.relabel,
        }
        return {
            "global": {
                "scrape_interval": every,
                "scrape_timeout": f"{min(self.interval, 10)}s",
                "evaluation_interval": every,
                "external_labels": dict(external),
            },
            "scrape_configs": [job],
        }

    def write(self, name: str, document: Mapping[str, Any]) -> Path:
        """Writes a configuration as JSON, which is valid YAML."""
        file = self.directory / name
        file.write_text(json.dumps(document, indent=1))
        return file

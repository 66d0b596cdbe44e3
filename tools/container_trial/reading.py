"""Reads an exporter's metrics and the reasons for what is unknown, over HTTP."""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any

Address = tuple[str, int]
SERVER = "shop"

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """The samples of one scrape: by metric name, the labels as text and the value."""

    samples: dict[str, list[tuple[str, float]]]

    def total(self, name: str, labels: str = "") -> float | None:
        """Returns the sum of a metric's samples that have `labels` in their text; None if there are none."""
        values = [value for text, value in self.samples.get(name, ()) if labels in text]
        return sum(values) if values else None

    def since(self, earlier: Reading, name: str, labels: str = "") -> float | None:
        """Returns by how much a counter grew; None if it is absent in either reading."""
        now, before = self.total(name, labels), earlier.total(name, labels)
        return None if now is None or before is None else now - before


def get(address: Address, path: str) -> str:
    """Returns the body of a GET. Raises `OSError` if there is no answer or the status is not 200."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    if response.status != 200:
        raise OSError(f"status {response.status} for {path}")
    return body


def scrape(address: Address) -> Reading:
    """Reads all metrics of an exporter."""
    samples: dict[str, list[tuple[str, float]]] = {}
    for name, labels, value in _SAMPLE.findall(get(address, "/metrics")):
        samples.setdefault(name, []).append((labels, float(value)))
    return Reading(samples)


def is_up(address: Address) -> bool:
    """Whether the exporter answers and reads its server."""
    try:
        return scrape(address).total("uwsgi_up") == 1
    except OSError:
        return False


def reasons(address: Address) -> dict[str, str]:
    """Returns why figures are unknown, by what is unknown, as the API says it."""
    document: dict[str, Any] = json.loads(get(address, f"/api/v1/servers/{SERVER}"))
    return {entry["what"]: entry["why"] for entry in document["unknown"]}

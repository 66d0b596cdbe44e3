"""A synthetic history as scrapes of the exporters, in the data directory of a Prometheus."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from tests.support.monitoring import find
from tests.support.synthetic.exposed import MINUTE, Exposed, expose
from tests.support.synthetic.load import sampled
from tests.support.synthetic.plan import History

PHASE = 7.3
"""Seconds from a full minute to the next scrape: Prometheus scrapes each target at its own time."""


def write_blocks(history: History, interval: float = 60.0, **labels: str) -> Callable[[Path], None]:
    """Makes a writer of the whole history, scraped every `interval` seconds, for `tests.support.monitoring.prometheus`.
    labels: of the target, beside job and instance. Nothing is scraped while a server is missing."""

    def write(directory: Path) -> None:
        text = directory / "history.txt"
        with text.open("w") as file:
            file.writelines(openmetrics(history, interval, labels))
        command = [str(find("promtool")), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=1440h"]
        subprocess.run([*command, str(text), str(directory)], check=True, capture_output=True, timeout=600)
        text.unlink()

    return write


def openmetrics(history: History, interval: float, labels: Mapping[str, str]) -> Iterator[str]:
    """Yields lines grouped by family, as the format requires."""
    families: dict[str, list[Iterator[str]]] = {}
    for service in history.services:
        for place in range(service.servers):
            phase = (PHASE + 11 * place) % interval
            times = np.arange(history.since + phase, history.until, interval)
            times = times[sampled(history, service, times)]
            target = {"instance": f"web{place + 1}:9238", "job": "uwsgi", **labels}
            for series in expose(history, service, place):
                families.setdefault(series.name, []).append(_lines(series, target, times, history.since))
    for name, series_lines in families.items():
        yield f"# TYPE {name} gauge\n"
        yield from chain(*series_lines)
    yield "# EOF\n"


def _lines(series: Exposed, target: Mapping[str, str], times: np.ndarray, since: float) -> Iterator[str]:
    labels = ",".join(f'{key}="{value}"' for key, value in {**target, **series.labels}.items())
    head = f"{series.name}{{{labels}}}"
    after = (times - since) / MINUTE
    if series.counter:
        before = np.floor(after).astype(int)
        ahead = np.minimum(before + 1, len(series.values) - 1)
        growth = np.maximum(0.0, series.values[ahead] - series.values[before])  # a reset is at the end of its minute
        values = series.values[before] + (after - before) * growth
    else:
        values = series.values[np.floor(after).astype(int)]
    for at, value in zip(times.tolist(), values.tolist(), strict=True):
        yield f"{head} {value:.6f} {at:.3f}\n"

"""The sizes of fleets of servers of 8x8: series, samples, memory and disk, by measured bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tools.fleet import cardinality
from tools.fleet.cardinality import Shape
from tools.fleet.plan import SLOTS

SERVERS = (100, 1_000, 10_000)
INTERVALS = (15, 60)
RECORDED = 167
"""Recorded series of a server of 8x8: 95 of the server, 72 of its workers, counted in a Prometheus with the rules."""
DAYS = 30


@dataclass(frozen=True)
class Size:
    """A fleet's size. memory: bytes of a Prometheus; disk: bytes of `DAYS`, by interval of scrapes."""

    servers: int
    series: int
    memory: float
    disk: dict[int, float]


def compute(servers: int, bytes_of_series: float, bytes_of_sample: float) -> Size:
    """Returns the size of a fleet with four servers on each host, all series, and all rules."""
    shape = Shape(workers=8, sockets=2, objective=True)
    of_host = SLOTS * (cardinality.total(cardinality.of_server(shape)) + RECORDED)
    of_host += cardinality.total(cardinality.of_exporter())
    series = servers * of_host // SLOTS
    disk = {interval: series / interval * DAYS * 86400 * bytes_of_sample for interval in INTERVALS}
    return Size(servers, series, series * bytes_of_series, disk)


def table(bytes_of_series: float, bytes_of_sample: float) -> str:
    """Returns a table in Markdown."""
    head = "| servers | series | samples/s at 15 s | samples/s at 60 s | memory | 30 days at 15 s | 30 days at 60 s |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for servers in SERVERS:
        size = compute(servers, bytes_of_series, bytes_of_sample)
        cells = [f"{servers:,}", f"{size.series:,}"]
        cells += [f"{size.series / interval:,.0f}" for interval in INTERVALS]
        cells += [_gigabytes(size.memory), *(_gigabytes(size.disk[interval]) for interval in INTERVALS)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _gigabytes(number: float) -> str:
    return f"{number / 1e9:,.1f} GB" if number < 1e12 else f"{number / 1e12:,.1f} TB"

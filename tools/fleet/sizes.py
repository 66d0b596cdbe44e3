"""The sizes of fleets of servers of 8x8: series, samples, memory and disk, by measured bytes."""

from __future__ import annotations

from tools.environments import ROOT
from tools.fleet import cardinality, exposition, keep
from tools.fleet.cardinality import Shape
from tools.fleet.plan import SLOTS

SERVERS = (100, 1_000, 10_000)
BYTES_OF_SERIES = 4000
"""In the memory of Prometheus 2.42, as measured."""
BYTES_OF_SAMPLE = {15: 2.51, 60: 2.56}
"""In its blocks, as measured, by the seconds between two scrapes."""
RECORDED = 167
"""Recorded series of a server of 8x8: 95 of the server, 72 of its workers, counted in a Prometheus with the rules."""
DAYS = 30


CAPTURED = ROOT / "tests" / "fleet" / "captured"
"""Expositions of a real exporter, by shape: two sockets, an objective, waits, five rules about settings that give
advice."""
SHAPES = (("2x8", 2), ("4x8", 4), ("8x8", 8), ("64x16", 64))


def shape(workers: int) -> Shape:
    """The shape of the captured servers."""
    return Shape(workers=workers, sockets=2, objective=True, rules=5)


def shapes() -> str:
    """Returns a table in Markdown: the series of a server by the formula, and in a real exposition, and those that
    rules, dashboards and the report read."""
    lines = [
        "| workers x threads | formula | real | of which rules, dashboards and the report need |",
        "|---|---|---|---|",
    ]
    own, needed = cardinality.of_exporter(), keep.needed()
    for name, workers in SHAPES:
        real = exposition.count((CAPTURED / f"{name}.metrics").read_text())
        of_server = {metric: number for metric, number in real.items() if metric not in own}
        kept = sum(number for metric, number in of_server.items() if metric in needed)
        formula = cardinality.total(cardinality.of_server(shape(workers)))
        lines.append(f"| {name} | {formula:,} | {sum(of_server.values()):,} | {kept:,} |")
    return "\n".join(lines)


def kept(*sources: str) -> int:
    """Returns the series of a real server of 8x8 that these sources read; of all series without sources."""
    real = exposition.count((CAPTURED / "8x8.metrics").read_text())
    own = cardinality.of_exporter()
    names = keep.needed(*sources) if sources else real
    return sum(number for metric, number in real.items() if metric in names and metric not in own)


def table() -> str:
    """Returns a table in Markdown for fleets with four servers on each host, all series, and all rules."""
    head = "| servers | series | samples/s at 15 s | samples/s at 60 s | memory | 30 days at 15 s | 30 days at 60 s |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    of_host = SLOTS * (cardinality.total(cardinality.of_server(shape(8))) + RECORDED)
    of_host += cardinality.total(cardinality.of_exporter())
    for servers in SERVERS:
        series = servers * of_host // SLOTS
        cells = [f"{servers:,}", f"{series:,}", *(f"{series / interval:,.0f}" for interval in BYTES_OF_SAMPLE)]
        cells.append(_gigabytes(series * BYTES_OF_SERIES))
        cells += [_gigabytes(series / each * DAYS * 86400 * size) for each, size in BYTES_OF_SAMPLE.items()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _gigabytes(number: float) -> str:
    return f"{number / 1e9:,.1f} GB" if number < 1e12 else f"{number / 1e12:,.1f} TB"

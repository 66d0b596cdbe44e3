"""Charts stay readable: of long names, and of figures that hardly differ."""

from __future__ import annotations

import re
from dataclasses import replace

from uwsgi_headroom.report.render.chapters import balance, users
from uwsgi_headroom.report.render.charts import shorten
from uwsgi_headroom.report.review.sections import HeatMap, Review


def test_a_long_name_is_shortened_in_the_middle() -> None:
    """Its beginning and its end tell servers apart; a short one stays."""
    assert shorten("web1") == "web1"
    assert shorten("a" * 40 + "b" * 40) == f"{'a' * 15}…{'b' * 15}"


def test_a_long_name_leaves_the_chart_its_room(plain: Review) -> None:
    """The row of a server with a name of 80 letters is nearly as wide as that of another."""

    def width(name: str) -> float:
        servers = tuple(replace(server, server=name) for server in plain.services[0].balance.servers)
        svg = balance._draw_shares(replace(plain.services[0].balance, servers=servers))
        across = [float(x) for x in re.findall(r"M ([\d.]+) [\d.]+ ?\n?L", svg)]
        return max(across) - min(across)

    assert width("x" * 80) > 0.6 * width("web1")


def _shades(*values: float) -> set[str]:
    rows = tuple(tuple(values[(day + hour) % len(values)] for hour in range(24)) for day in range(7))
    return set(re.findall(r'fill="(#[0-9a-f]{6})"/>', users._draw_heat_map(HeatMap(title="x", unit="ms", rows=rows))))


def test_noise_is_no_pattern() -> None:
    """Response times that differ by 0.4 ms of 200 have nearly one shade; by half, they have the whole scale."""
    low, high = sorted(_shades(200.0, 200.4)), _shades(100.0, 200.0)
    assert max(abs(int(low[0][at : at + 2], 16) - int(low[-1][at : at + 2], 16)) for at in (1, 3, 5)) <= 3
    assert high == {users._shade(0.0), users._shade(1.0)}

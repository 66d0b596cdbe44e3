"""Draws a figure by weekday and hour: plain SVG, as 168 cells with numbers take matplotlib a second."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import escape

from uwsgi_headroom.report.review.model import HeatMap
from uwsgi_headroom.words.colours import PALETTE

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES = tuple(
    (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:], 16))
    for colour in (PALETTE["cell-low"].light, "#7fb2d6", PALETTE["cell-high"].light)
)
"""The colours of the lowest, the middle and the highest value, as on the live page."""

_LEFT, _TOP, _WIDE, _TALL = 34, 16, 27, 15
"""Points: the room for the days and the title, and the size of a cell."""


def draw_heat_map(found: HeatMap) -> str:
    """Darker is more; each cell has its number."""
    width, height = _LEFT + 24 * _WIDE, _TOP + 7 * _TALL + 14
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" font-size="8" fill="var(--ink)">'
        f'<text x="{_LEFT}" y="10" font-size="9" fill="var(--dim)">{escape(found.title)} ({escape(found.unit)})</text>'
        f"{''.join(_parts(found))}</svg>"
    )


def shade(part: float) -> str:
    """The colour at a part (0 to 1) of the way from the lowest value to the highest."""
    place = min(1, int(2 * part))
    (low, high), rest = list(pairwise(_SHADES))[place], 2 * part - place
    mixed = (round(start + (end - start) * rest) for start, end in zip(low, high, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _parts(found: HeatMap) -> Iterator[str]:
    known = [value for row in found.rows for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for day, (name, row) in enumerate(zip(_DAYS, found.rows, strict=True)):
        top = _TOP + day * _TALL
        yield f'<text x="{_LEFT - 5}" y="{top + 10.5}" text-anchor="end">{name}</text>'
        for hour, value in enumerate(row):
            if value is not None:
                yield _cell(hour, top, value, (value - low) / (high - low) if high > low else 0.0)
    for hour in range(0, 24, 3):
        x, y = _LEFT + (hour + 0.5) * _WIDE, _TOP + 7 * _TALL + 10
        yield f'<text x="{x}" y="{y}" text-anchor="middle" fill="var(--dim)">{hour}:00</text>'


def _cell(hour: int, top: float, value: float, part: float) -> str:
    left, ink = _LEFT + hour * _WIDE, "#fefefe" if part > 0.5 else "#101418"
    return (
        f'<rect x="{left}" y="{top}" width="{_WIDE - 1}" height="{_TALL - 1}" fill="{shade(part)}"/>'
        f'<text x="{left + _WIDE / 2 - 0.5}" y="{top + 10}" text-anchor="middle" font-size="7" fill="{ink}">{value:.0f}'
        "</text>"
    )

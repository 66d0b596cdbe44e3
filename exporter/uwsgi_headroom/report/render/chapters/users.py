"""Section 3: what users felt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import escape

from uwsgi_headroom.analysis.littles_law import add_wait
from uwsgi_headroom.report.render.document import Block, Chart, Grid, Table, Text, absent, fine_share, seconds, whole
from uwsgi_headroom.report.review.sections import Absent, HeatMap, ObjectiveUse, Users
from uwsgi_headroom.words.colours import PALETTE, ink_on
from uwsgi_headroom.words.formats import chosen, fine_percent

INTRODUCTION = (
    "Response times are inside uWSGI. Users wait for them and, before that, in the listen queue; the network is not "
    "included. At peak: in the quarter hour that counts."
)

_NAMES = ("p50", "p90", "p95", "p99")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def write(users: Users) -> Iterator[Block]:
    yield _times(users)
    if not users.percentiles:
        yield absent("Percentiles are not known: the source has no response times by bound.")
    yield Table(
        heads=("requests", "lost with their worker", "killed by harakiri", "exceptions", "queue full", "dropped (TCP)"),
        rows=(
            (
                whole(users.requests),
                whole(users.lost),
                whole(users.harakiris),
                whole(users.exceptions),
                fine_share(users.queue_full),
                whole(users.overflows),
            ),
        ),
        caption="Numbers over the range. Queue full: share of the time, on the server with most; clients are then "
        "refused (UNIX sockets) or try again (TCP). Dropped: in quarter hours in which the server's queue was "
        f"full.{_elsewhere(users)} Lost requests are a lower bound.",
        numbers=range(6),
    )
    yield (
        Text(users.objective.reason, "absent")
        if isinstance(users.objective, Absent)
        else Text(_objective(users.objective))
    )
    for each in (users.load, users.response_time):
        if isinstance(each, Absent):
            yield absent(each.reason)
            return
        yield from _map(each)


def _times(users: Users) -> Table:
    def row(name: str, mean: float | None, percentiles: object, wait: float | None) -> tuple[str, ...]:
        known = percentiles if isinstance(percentiles, dict) else {}
        return (
            name,
            *(seconds(known.get(each)) for each in _NAMES),
            seconds(mean),
            seconds(wait),
            seconds(add_wait(mean, wait)),
        )

    return Table(
        heads=("", *_NAMES, "mean", "queue wait (mean)", "together (mean)"),
        rows=(
            row("over the range", users.mean, users.percentiles, users.queue_wait),
            row("at peak", users.mean_at_peak, users.percentiles_at_peak, users.queue_wait_at_peak),
        ),
        caption="Response times: p95 is the time that 95 of 100 requests do not exceed.",
        numbers=range(1, 8),
    )


def _elsewhere(users: Users) -> str:
    if not users.overflows_elsewhere:
        return ""
    return (
        f" The kernels dropped {whole(users.overflows_elsewhere)} more connections while these queues were not full: "
        "they may be those of other TCP listeners in the same network namespaces."
    )


def _objective(objective: ObjectiveUse) -> str:
    kept = "kept" if objective.budget <= 1 else "missed"
    peak = "" if objective.at_peak is None else f" At peak, {fine_share(objective.at_peak)} of what it permits."
    return (
        f"Objective: {fine_percent(objective.objective, 5)} of the requests within {chosen(objective.threshold)}. "
        f"{fine_share(objective.bad)} were slower (with the wait in the listen queue), lost or refused, "
        f"so it was {kept}: {fine_share(objective.budget)} of the "
        f"error budget of the range is used.{peak}"
    )


LEAST_SPREAD = 0.25
"""Values that differ by less than this part of the highest are much the same: they get no more of the scale of shades
than their difference is of this part, so that noise is not shown as a pattern."""


def _map(found: HeatMap) -> Iterator[Block]:
    known = [
        (value, day, hour)
        for day, row in zip(_DAYS, found.rows, strict=True)
        for hour, value in enumerate(row)
        if value is not None
    ]
    highest, day, hour = max(known)
    lowest = min(known)[0]
    words = f"{found.title} ({found.unit}): highest on {day} at {hour}:00 with {highest:.0f}, lowest {lowest:.0f}."
    yield Chart(words, lambda: _draw_heat_map(found))
    rows = [["" if value is None else f"{value:.0f}" for value in row] for row in found.rows]
    yield Grid(f"{found.title} ({found.unit})", [[day, *row] for day, row in zip(_DAYS, rows, strict=True)])


_SHADES = tuple(
    (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:], 16))
    for colour in (PALETTE["cell-low"].light, "#7fb2d6", PALETTE["cell-high"].light)
)
"""The colours of the lowest, the middle and the highest value, as on the live page."""

_LEFT, _TOP, _WIDE, _TALL = 34, 16, 27, 15
"""Points: the room for the days and the title, and the size of a cell."""


def _draw_heat_map(found: HeatMap) -> str:
    """Darker is more; each cell has its number."""
    width, height = _LEFT + 24 * _WIDE, _TOP + 7 * _TALL + 14
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" font-size="8" fill="var(--ink)">'
        f'<text x="{_LEFT}" y="10" font-size="9" fill="var(--dim)">{escape(found.title)} ({escape(found.unit)})</text>'
        f"{''.join(_cells(found))}</svg>"
    )


def _shade(part: float) -> str:
    """The colour at a part (0 to 1) of the way from the lowest value to the highest."""
    place = min(1, int(2 * part))
    (low, high), rest = list(pairwise(_SHADES))[place], 2 * part - place
    mixed = (round(start + (end - start) * rest) for start, end in zip(low, high, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _cells(found: HeatMap) -> Iterator[str]:
    known = [value for row in found.rows for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = max(high - low, LEAST_SPREAD * high)
    for day, (name, row) in enumerate(zip(_DAYS, found.rows, strict=True)):
        top = _TOP + day * _TALL
        yield f'<text x="{_LEFT - 5}" y="{top + 10.5}" text-anchor="end">{name}</text>'
        for hour, value in enumerate(row):
            if value is not None:
                yield _cell(hour, top, value, (value - low) / scale if scale else 0.0)
    for hour in range(0, 24, 3):
        x, y = _LEFT + (hour + 0.5) * _WIDE, _TOP + 7 * _TALL + 10
        yield f'<text x="{x}" y="{y}" text-anchor="middle" fill="var(--dim)">{hour}:00</text>'


def _cell(hour: int, top: float, value: float, part: float) -> str:
    left, shade = _LEFT + hour * _WIDE, _shade(part)
    text = f'text-anchor="middle" font-size="7" fill="{ink_on(shade)}">{value:.0f}</text>'
    return (
        f'<rect x="{left}" y="{top}" width="{_WIDE - 1}" height="{_TALL - 1}" fill="{shade}"/>'
        f'<text x="{left + _WIDE / 2 - 0.5}" y="{top + 10}" {text}'
    )

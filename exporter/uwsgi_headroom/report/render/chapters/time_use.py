"""Section 5: where the time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts import INK, draw
from uwsgi_headroom.report.render.document import Block, Chart, Table, Text, absent, amount, seconds, share
from uwsgi_headroom.report.review.sections import Absent, Part, TimeUse
from uwsgi_headroom.words.colours import ink_on
from uwsgi_headroom.words.formats import duration, percent
from uwsgi_headroom.words.states import WAITS

INTRODUCTION = (
    "What a mean request spends its time on at peak: its response time, divided by what the threads were seen to do. "
    "It says which change makes requests faster."
)


def write(time: TimeUse) -> Iterator[Block]:
    cpu = "unknown" if time.cpu_per_request is None else duration(time.cpu_per_request)
    mean = "unknown" if time.response_time is None else duration(time.response_time)
    yield Text(f"A mean request takes {mean} at peak and uses {cpu} of CPU time.")
    states = time.states
    if isinstance(states, Absent):
        yield absent(states.reason)
    else:
        parts = ", ".join(f"{part.name} {percent(part.share)}" for part in states)
        yield Chart(f"Time of a mean request: {parts}.", lambda: _draw_parts(states))
        yield _table("state", states)
    for name, found in (("backend", time.backends), ("route", time.routes)):
        yield absent(found.reason) if isinstance(found, Absent) else _table(name, found)


def _table(name: str, parts: Sequence[Part]) -> Table:
    return Table(
        heads=(name, "threads", "of a mean request", "share"),
        rows=[(part.name, amount(part.threads), seconds(part.per_request), share(part.share)) for part in parts],
        numbers=(1, 2, 3),
    )


_COLOURS = {state.name: state.colour.light for state in WAITS.values()}

_WIDE = 0.14
"""Share from which on a name fits into its part."""


def _draw_parts(parts: Sequence[Part]) -> str:
    """One bar, with the names in it or below it."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        start = 0.0
        total = sum(part.share for part in parts)
        for part in parts:
            width = part.share / total
            colour = _COLOURS.get(part.name, WAITS["other"].colour.light)
            axes.barh(0, width, left=start, height=0.6, color=_fixed(colour), edgecolor="#ffffff")
            size = percent(width) if part.per_request is None else duration(part.per_request)
            if width >= _WIDE:
                ink = _fixed(ink_on(colour))
                axes.text(start + width / 2, 0, f"{part.name}\n{size}", ha="center", va="center", color=ink)
            elif width >= 0.03:
                axes.text(
                    start + width / 2, -0.42, f"{part.name}\n{size}", ha="center", va="top", color=INK, fontsize=7
                )
            start += width
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.95, 0.35)
        axes.axis("off")

    return draw(0.95, paint)


def _fixed(colour: str) -> str:
    """A colour that looks the same and is not in the palette, which `draw` replaces by the page's variables: on a dark
    screen those are others, but the text on a part is chosen for this colour."""
    blue = int(colour[5:], 16)
    return f"{colour[:5]}{blue - 1 if blue else 1:02x}"

"""Section 9: what in the settings of uWSGI will cause trouble, or may."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.report.render.chapters.recommendations import show_place
from uwsgi_headroom.report.render.document import Block, Table, Text, absent
from uwsgi_headroom.report.review.sections import SettingAdvice, SettingsReview
from uwsgi_headroom.words.formats import counted

INTRODUCTION = (
    "What in the configuration of uWSGI will cause trouble later, and what may, as it was when the exporter last read "
    "it. Numbers in the lines are examples: `uwsgi-headroom review` on the machine prints those that fit, and where "
    "each option is set."
)


def write(found: SettingsReview, servers: int) -> Iterator[Block]:
    hurts = sum(each.severity == "warning" for each in found.advice)
    others = len(found.advice) - hurts
    will = f"{counted(hurts, 'setting')} will cause trouble" if hurts else "No setting is known to cause trouble"
    yield Text(f"{will}, {others} may." if others else f"{will}.")
    for number, each in enumerate(found.advice, 1):
        yield Table(
            heads=(
                f"{number}. {'Will cause trouble' if each.severity == 'warning' else 'May cause trouble'}",
                each.title,
            ),
            rows=list(_rows(each, servers)),
            style="advice",
        )
    if found.unknown:
        yield absent(f"Not reviewed, because their options are not known: {', '.join(found.unknown)}.")


def _rows(each: SettingAdvice, servers: int) -> Iterator[tuple[str, str]]:
    rows = (
        ("Why", each.reason),
        ("What to do", each.change),
        ("Write", ", ".join(f"`{line}`" for line in each.lines)),
        ("Needs", f"uWSGI {each.needs} or later" if each.needs else ""),
        ("Does not matter if", each.unless),
        ("Where", show_place(each.servers, servers)),
        ("Rule", f"`{each.rule}`"),
    )
    yield from (row for row in rows if row[1])

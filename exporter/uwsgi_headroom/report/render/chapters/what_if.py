"""Section 7: what if."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.report.render.document import (
    UNKNOWN,
    Block,
    Items,
    Table,
    Text,
    amount,
    limit_name,
    seconds,
    signed,
    size,
)
from uwsgi_headroom.report.review.sections import SettingRow, WhatIfReview

INTRODUCTION = (
    "What other settings of processes x threads would do on the server that reaches a limit first, predicted by a "
    "model from what was measured at peak. The model's error on the present setting stands beside it."
)


def write(found: WhatIfReview) -> Iterator[Block]:
    yield Text(
        f"Server {found.server}, at {amount(found.peak)} requests a second at peak. {_error(found)} Demands of a "
        f"request: {'from wait states' if found.demands_measured else 'from CPU time and response time only'}."
    )
    loads = [f"at {load:g}x" for load in found.loads]
    yield Table(
        heads=("setting", "serves at least, requests/s", "limit", *loads, "memory"),
        rows=[_row(row) for row in found.rows],
        caption="Serves at least: of today's setting, the load at peak times the headroom; of others, the number of "
        "the recommendation, or what the model promises. Response time at multiples of the load at peak: of today's "
        "setting at 1x as measured. More than a setting can serve: `no`.",
        numbers=range(1, 3 + len(loads) + 1),
        strong=[place for place, row in enumerate(found.rows) if row.is_today],
    )
    if found.cautions:
        yield Items(found.cautions)


def _error(found: WhatIfReview) -> str:
    if found.response_time_error is None:
        return "The model's error is not known: there is nothing to compare with."
    return f"The model misses the response time observed there by {signed(found.response_time_error)}."


def _row(row: SettingRow) -> tuple[str, ...]:
    fits = "" if row.fits is None else ", fits" if row.fits else ", does not fit"
    return (
        f"{row.setting} (today)" if row.is_today else row.setting,
        amount(row.most_throughput),
        limit_name(row.limit),
        *(seconds(value) if served else "no" for value, served in zip(row.response_times, row.sustained, strict=True)),
        UNKNOWN if row.memory is None else f"{size(row.memory)}{fits}",
    )

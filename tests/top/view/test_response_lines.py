"""The lines about percentiles and the objective, the column of the list, and the chart."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from tests.support.documents_with_times import (
    RESPONSE_TIMES,
    SHORT,
    objective,
    percentiles,
    with_objective,
    with_response_times,
)
from tests.support.simulated_server import EPOCH
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.top.feeds import NO_TREND, ResponseTimes, Trend
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.headline import objective_lines, percentile_lines
from uwsgi_headroom.top.view.plots import plot_lines

HOT = hot()
AT_IT = Navigation(view="workers", server=(0, "shop"))
RISING = ResponseTimes((0.5, 0.95), [[None] * 8, [None, None, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]], [0.16] * 8)


def drawn(server: Server, width: int, trend: Trend = NO_TREND) -> list[str]:
    return [line.plain for line in percentile_lines(server, trend, width)]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (
            140,
            "p50 under 160 ms, p90 300 ms (250 to 330), p95 480 ms (450 to 520), p99 910 ms (800 ms to 1.2 s); inside "
            "uWSGI, estimated",
        ),
        (120, "p50 under 160 ms, p90 300 ms (250 to 330), p95 480 ms (450 to 520), p99 910 ms (800 ms to 1.2 s)"),
        (90, "p50 under 160 ms, p95 480 ms (450 to 520), p99 910 ms (800 ms to 1.2 s)"),
        (60, "p50 under 160 ms, p95 480 ms, p99 910 ms"),
        (40, "p95 480 ms, p99 910 ms"),
        (30, "p95 480 ms"),
    ],
)
def test_as_much_about_the_percentiles_as_fits(width: int, text: str) -> None:
    """A narrow terminal leaves out what the figures are, p90, then intervals of long percentiles, then p50."""
    assert drawn(with_response_times(HOT), width) == [f"response     {text}"]


def test_a_sparkline_of_the_95th_percentile() -> None:
    """It is at the right end of the line if there is room."""
    trend = Trend(step=5.0, time=[EPOCH] * 8, response_times=RISING)
    assert drawn(with_response_times(HOT), 160, trend)[0].endswith("  ▄▅▆▇██ 40s")
    assert drawn(with_response_times(HOT), 90, trend)[0].endswith("1.2 s)")


def test_no_line_without_percentiles() -> None:
    """An older exporter's document has none; of a server that is down they are not current."""
    older = msgspec.json.decode(_without_new_keys(with_response_times(HOT)), type=Server)
    assert drawn(older, 80) == []
    assert objective_lines(older, 80) == []
    assert not any(line.startswith("response ") for line in lines(screen_model(older), AT_IT))
    down = msgspec.structs.replace(with_response_times(HOT), state="down")
    assert drawn(down, 80) == []


def _without_new_keys(server: Server) -> bytes:
    whole = msgspec.to_builtins(server, str_keys=True)
    del whole["response_times"], whole["objective"]
    return msgspec.json.encode(whole)


def test_the_objective_is_below_the_percentiles() -> None:
    """The first line has the share that missed it; at 80 by 24 the table of workers still has its rows."""
    server = with_objective(with_response_times(HOT), objective(load_multiple=1.6, load_multiple_reached=True))
    screen = lines(screen_model(server), AT_IT)
    place = next(place for place, line in enumerate(screen) if line.startswith("response "))
    assert screen[place + 1] == "objective    99 % within 1 s: 1.8 % missed it in the last hour (burn rate 1.8,"
    assert screen[place + 2] == "             0.2 in the last 5 min), queue wait 2.0 ms; p95 reaches 1 s at 1.6x"
    assert screen[place + 3] == "             today's load"
    assert [line.split()[0] for line in screen[-8:-1] if line.strip()][-2:] == ["3", "all"]


@pytest.mark.parametrize(("level", "style"), [("fast", "bold red"), ("slow", "bold yellow"), (None, "")])
def test_a_budget_that_burns_is_coloured(level: str | None, style: str) -> None:
    assert objective_lines(with_objective(HOT, objective(level=level)), 80)[1].style == style


def test_a_column_of_the_list_where_there_is_room_for_the_verdict_too() -> None:
    """From 100 columns on; a percentile below what samples show is a bound, and one that is not known a dash."""
    short = msgspec.structs.replace(SHORT, share=0.95)
    servers = [
        msgspec.structs.replace(with_response_times(HOT, section), name=name)
        for name, section in (("long", RESPONSE_TIMES), ("short", percentiles(short)), ("unknown", None))
    ]
    wide = lines(screen_model(*servers), Navigation(), 100)
    place = wide[1].index("P95") - 4
    cells = {line.split()[-40:][0].lstrip("> "): line[place : place + 7].strip() for line in wide[2:5]}
    assert sorted(cells.values()) == ["-", "480 ms", "<160 ms"]
    assert "VERDICT" in wide[1]
    assert "P95" not in lines(screen_model(*servers), Navigation(), 80)[1]


def test_a_chart_of_the_95th_percentile() -> None:
    """The present value is named, or the last one; where no sample shows any, the bound is."""
    whole = Trend(step=5.0, time=[EPOCH + place for place in range(8)], throughput=[1.0] * 8, response_times=RISING)
    drawn = [line.plain for line in plot_lines(whole, 80, 24)]
    assert "p95 inside uWSGI, estimated   now 900 ms, min 400 ms, max 900 ms" in drawn
    gone = msgspec.structs.replace(RISING, seconds=[[], [0.4, *[None] * 7]])
    drawn = [line.plain for line in plot_lines(msgspec.structs.replace(whole, response_times=gone), 80, 24)]
    assert "p95 inside uWSGI, estimated   last 400 ms, min 400 ms, max 400 ms" in drawn
    short = msgspec.structs.replace(RISING, seconds=[[], [None] * 8])
    drawn = [line.plain for line in plot_lines(msgspec.structs.replace(whole, response_times=short), 80, 24)]
    assert "p95 inside uWSGI, estimated   under 160 ms, or too few requests" in drawn
    older = msgspec.structs.replace(whole, response_times=ResponseTimes())
    assert not any("p95" in line.plain for line in plot_lines(older, 80, 24))


@pytest.mark.parametrize("width", [20, 40, 80, 120, 320])
def test_everything_fits(width: int) -> None:
    server = with_objective(with_response_times(HOT), objective(unjudged="not judged: " + "a reason " * 20))
    for height in (10, 24, 60):
        screen = lines(screen_model(server), AT_IT, width, height)
        assert len(screen) == height
        assert max(map(cell_len, screen)) <= width

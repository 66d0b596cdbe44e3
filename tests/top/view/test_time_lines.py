"""The lines of the head about time: the parts of a request, percentiles, the objective."""

import re

import msgspec
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from tests.support.documents_with_times import (
    KNOWN_WAITS,
    RESPONSE_TIMES,
    SHORT,
    objective,
    percentiles,
    waits,
    with_objective,
    with_reason,
    with_response_times,
    with_waits,
)
from tests.support.simulated_server import EPOCH
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.documents.history import HistoryDocument, ResponseTimeHistory
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import ServerDocument, TextLine
from uwsgi_headroom.record import STATES
from uwsgi_headroom.top.feeds import NO_TREND
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.terminal import Painter
from uwsgi_headroom.top.view.pages import plot_lines
from uwsgi_headroom.top.view.screen import draw_plain, fit_line, head_parts, time_bar

AT_IT = Navigation(view="workers", server=(0, "shop"))
WHY = "no permission to see what uWSGI's threads wait for: give the exporter CAP_SYS_PTRACE"


def drawn(section: WaitFigures, width: int) -> tuple[str, str]:
    server = with_waits(hot(), section)
    (line,) = [line for line in list_lines(server) if line.code == "time"]
    return fit_line(line, width).plain, time_bar(server, width).plain


@pytest.mark.parametrize("width", [40, 80, 120, 320])
def test_each_part_is_as_long_as_its_share(width):
    """The bar fills the line, and each part differs from its share by less than one column."""
    _, bar = drawn(KNOWN_WAITS, width)
    assert cell_len(bar) == width
    parts = bar.removeprefix(" " * 13).removesuffix("│")
    lengths = [len(part) + 1 for part in parts.split("│")[1:]]
    shares = [4.1, 2.2, 1.8, 0.5, 0.3]
    for length, share in zip(lengths, shares, strict=True):
        assert abs(length - len(parts) * share / sum(shares)) < 1


def test_figures_are_not_cut():
    """An ellipsis replaces those that do not fit; without room they stay before the bar."""
    whole, _ = drawn(KNOWN_WAITS, 130)
    for width in range(45, 130):
        figures, _ = drawn(KNOWN_WAITS, width)
        assert cell_len(figures) <= width
        shown = figures.removesuffix(" …")
        assert whole.startswith(shown)
        assert figures == whole or whole[len(shown)] in ", "
    heights = [screen(with_waits(hot()), 80, height) for height in range(10, 30)]
    figures = [any(line.startswith("time") for line in shown) for shown in heights]
    bars = [any("│" in line for line in shown) for shown in heights]
    assert figures[0] is False
    assert all(figure or not bar for figure, bar in zip(figures, bars, strict=True))
    assert (True, False) in zip(figures, bars, strict=True)
    assert bars[-1]


@pytest.mark.parametrize("name", ["データベース", "a\x1b[31mb", "x" * 300])
def test_any_name_of_a_backend_fits(name):
    """Wide, hostile and long names neither widen the bar nor reach the terminal unescaped."""
    for width in (24, 40, 80):
        for line in drawn(waits({"backend": 2.0, "cpu": 1.0}, {name: 2.0}), width):
            assert cell_len(line) <= width
            assert line.isprintable()


@pytest.mark.parametrize("colour", [True, False])
def test_the_bar_needs_no_colour(colour):
    """Edges and names are the same with and without colours, also in a terminal without UTF-8."""
    painted = Painter(colour=colour, styles=True, unicode=False).paint(time_bar(with_waits(hot()), 80), 80)
    assert ("\x1b[" in painted) is colour
    plain = re.sub(r"\x1b\[[0-9;]*m", "", painted)
    assert [part.strip() for part in plain.split("|")[1:3]] == ["postgres", "GIL"]


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_drawn(state):
    """A server whose requests do one thing alone has a bar of one part."""
    figures, bar = drawn(waits({state: 3.0}), 80)
    assert figures.startswith("time         30 ms ")
    assert bar.count("│") == 2


def screen(server: ServerDocument, width: int = 80, height: int = 24) -> list[str]:
    return lines(screen_model(server), AT_IT, width, height)


def test_the_lines_are_below_what_is_served():
    """At 80x24 nothing else of the head is lost; at 40x10 they are left out before what users wait and a worker."""
    words = [line.split()[:1] for line in screen(with_waits(hot()))]
    start = words.index(["served"])
    below = ["time", "│postgres", "headroom", "limits", "queue", "response", "in", "busiest"]
    assert words[start + 1 : start + 9] == [[word] for word in below]
    shown = screen(with_waits(hot()), 40, 10)
    assert not any(line.startswith("time") for line in shown)
    assert any(line.startswith("users wait") for line in shown)
    assert any(line.split()[:1] == ["4"] for line in shown)


def test_the_reason_is_shown_where_there_is_room():
    """And whole on the page of advice, once."""
    few, many = with_reason(hot(), WHY), with_reason(hot(20), WHY)
    reason = "time         not known: no permission to see what uWSGI's threads wait for"
    assert reason in screen(few)
    assert not any(line.startswith("time") for line in screen(many) + screen(few, 40, 10))
    assert screen(many) == screen(replace(many, unknown=()))
    assert reason in [line.plain for line in draw_plain(screen_model(many), AT_IT, 80, 0.0)]
    at_advice = replace(AT_IT, view="findings")
    for server in (with_reason(hot(), WHY), with_waits(with_reason(hot(), WHY))):
        text = " ".join(" ".join(lines(screen_model(server), at_advice, 80, 60)).split())
        assert text.count("Not known: waits: no permission") == 1
        assert text.count("give the exporter CAP_SYS_PTRACE.") == 1


def test_no_line_without_the_section():
    """An exporter of an earlier version gives no reason."""
    server = replace(hot(), unknown=())
    assert time_bar(server, 80) is None
    assert not any(line.startswith("time") for line in screen(server))
    assert not any(line.startswith("time") for line in screen(with_waits(server, waits({}))))
    server = hot()
    assert any(unknown.what == "waits" for unknown in server.unknown)
    assert not any(line.startswith("time") for line in screen(server))
    advice = lines(screen_model(server), replace(AT_IT, view="findings"), 80, 60)
    assert any("off: run the exporter with --waits" in line for line in advice)


HOT = hot()
RISING = ResponseTimeHistory(
    shares=(0.5, 0.95), seconds=[[None] * 8, [None, None, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]], finest=[0.16] * 8
)


def drawn_head(server: ServerDocument, width: int, trend: HistoryDocument = NO_TREND) -> list[str]:
    return [line.plain for _, line in head_parts(server, trend, width) if line.plain.startswith("response ")]


def test_a_sparkline_of_the_95th_percentile():
    """No line without percentiles."""
    trend = replace(NO_TREND, step=5.0, time=[EPOCH] * 8, response_times=RISING)
    assert drawn_head(with_response_times(HOT), 200, trend)[0].endswith("  ▄▅▆▇██ 40s")
    assert drawn_head(with_response_times(HOT), 90, trend)[0].endswith(" …")
    older = msgspec.json.decode(_without_new_keys(with_response_times(HOT)), type=ServerDocument)
    assert drawn_head(older, 80) == []
    assert not any(line.startswith(("response ", "objective ")) for line in lines(screen_model(older), AT_IT))
    down = replace(with_response_times(HOT), state="down")
    assert drawn_head(down, 80) == []


def _without_new_keys(server: ServerDocument) -> bytes:
    whole = msgspec.to_builtins(server, str_keys=True)
    del whole["response_times"], whole["objective"], whole["lines"]
    return msgspec.json.encode(whole)


def test_the_lines_of_an_exporter_are_shown_as_it_sends_them():
    """`top` composes none of its own then."""
    sent = TextLine(code="users_wait", label="users wait", parts=("5 ms", ", as was said"), tone=None, rank=0)
    server = replace(HOT, lines=(*list_lines(HOT)[:2], sent))
    assert "users wait   5 ms, as was said" in lines(screen_model(server), AT_IT)


@pytest.mark.parametrize(("level", "style"), [("fast", "bold red"), ("slow", "bold yellow"), (None, "bold")])
def test_a_budget_that_burns_is_coloured(level, style):
    server = with_objective(HOT, objective(level=level))
    (line,) = [line for line in list_lines(replace(server, status="ok")) if line.code == "objective"]
    assert fit_line(line, 80).spans[1].style == style


def test_a_column_of_the_list_where_there_is_room_for_the_verdict_too():
    """From 100 columns on; a percentile below what samples show is a bound, and one that is not known a dash."""
    short = replace(SHORT, share=0.95)
    servers = [
        replace(with_response_times(HOT, section), name=name)
        for name, section in (("long", RESPONSE_TIMES), ("short", percentiles(short)), ("unknown", None))
    ]
    wide = lines(screen_model(*servers), Navigation(), 100)
    place = wide[1].index("P95") - 4
    cells = {line.split()[-40:][0].lstrip("> "): line[place : place + 7].strip() for line in wide[2:5]}
    assert sorted(cells.values()) == ["-", "480 ms", "<160 ms"]
    assert "VERDICT" in wide[1]
    assert "P95" not in lines(screen_model(*servers), Navigation(), 80)[1]


def test_a_row_of_the_95th_percentile_in_the_plot():
    """The present value is named, or the last one."""
    whole = replace(
        NO_TREND, step=5.0, time=[EPOCH + place for place in range(8)], throughput=[1.0] * 8, response_times=RISING
    )
    drawn = [line.plain for line in plot_lines(whole, 80)]
    assert "p95 inside uWSGI, estimated   now 900 ms, min 400 ms, max 900 ms" in drawn
    gone = replace(RISING, seconds=[[], [0.4, *[None] * 7]])
    drawn = [line.plain for line in plot_lines(replace(whole, response_times=gone), 80)]
    assert "p95 inside uWSGI, estimated   last 400 ms, min 400 ms, max 400 ms" in drawn
    short = replace(RISING, seconds=[[], [None] * 8])
    drawn = [line.plain for line in plot_lines(replace(whole, response_times=short), 80)]
    assert "p95 inside uWSGI, estimated   not known" in drawn
    older = replace(whole, response_times=ResponseTimeHistory())
    assert not any("p95" in line.plain for line in plot_lines(older, 80))

"""The lines that say what requests spend their time on."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest
from rich.cells import cell_len

from tests.support.documents_with_times import KNOWN_WAITS, waits, with_reason, with_waits
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.waits import Destination, Waits
from uwsgi_headroom.record import STATES, State
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.terminal import Painter
from uwsgi_headroom.top.view.headline import outside_line, stuck_line, time_lines, why_not_known
from uwsgi_headroom.top.view.screen import draw_plain

AT_IT = Navigation(view="workers", server=(0, "shop"))
WHY = "no permission to see what uWSGI's threads wait for: give the exporter CAP_SYS_PTRACE"


def drawn(section: Waits, width: int) -> tuple[str, str]:
    """The two lines, as text."""
    found = time_lines(with_waits(hot(), section), width)
    return found[0].plain, found[1].plain


def test_figures_and_a_bar() -> None:
    """Parts are in the order of their sizes, named in both lines, with their own unit; requests that never end are
    threads."""
    figures, bar = drawn(KNOWN_WAITS, 100)
    assert figures == "time         89 ms: postgres 41, interp. lock 22, CPU 18, CPU wait 5.0, other 3.0"
    assert [part.strip() for part in bar.split("│")[1:-1]] == ["postgres", "interp. lock", "CPU", "", ""]
    server = with_waits(hot(), waits({"backend": 8.0}, {"postgres": 8.0}, throughput=None))
    found = time_lines(msgspec.structs.replace(server, flow=msgspec.structs.replace(server.flow, requests=0)), 80)
    assert found[0].plain == "time         8.0 threads, no request completed: postgres 8.0"
    figures, _ = drawn(waits({"sleep": 1.3, "cpu": 0.2}, throughput=1.0), 80)
    assert figures == "time         1.5 s: sleep 1.3, CPU 200 ms"


@pytest.mark.parametrize("width", [40, 80, 120, 320])
def test_each_part_is_as_long_as_its_share(width: int) -> None:
    """The bar fills the line, and each part differs from its share by less than one column."""
    _, bar = drawn(KNOWN_WAITS, width)
    assert cell_len(bar) == width
    parts = bar.removeprefix(" " * 13).removesuffix("│")
    lengths = [len(part) + 1 for part in parts.split("│")[1:]]
    shares = [4.1, 2.2, 1.8, 0.5, 0.3]
    for length, share in zip(lengths, shares, strict=True):
        assert abs(length - len(parts) * share / sum(shares)) < 1


def test_an_ellipsis_replaces_figures_that_do_not_fit() -> None:
    """No figure is cut in its middle, for that would be another figure."""
    whole, _ = drawn(KNOWN_WAITS, 100)
    for width in range(30, 100):
        figures, _ = drawn(KNOWN_WAITS, width)
        assert cell_len(figures) <= width
        shown = figures.removesuffix(" …")
        assert whole.startswith(shown)
        assert figures == whole or whole[len(shown)] in ", " or shown.endswith(":")


@pytest.mark.parametrize("name", ["データベース", "a\x1b[31mb", "x" * 300])
def test_any_name_of_a_backend_fits(name: str) -> None:
    """Wide, hostile and long names neither widen the bar nor reach the terminal unescaped."""
    for width in (24, 40, 80):
        for line in drawn(waits({"backend": 2.0, "cpu": 1.0}, {name: 2.0}), width):
            assert cell_len(line) <= width
            assert line.isprintable()


@pytest.mark.parametrize("colour", [True, False])
def test_the_bar_needs_no_colour(colour: bool) -> None:
    """Edges and names are the same with and without colours, also in a terminal without UTF-8."""
    found = time_lines(with_waits(hot()), 80)
    painted = Painter(colour=colour, styles=True, unicode=False).paint(found[1], 80)
    assert ("\x1b[" in painted) is colour
    plain = re.sub(r"\x1b\[[0-9;]*m", "", painted)
    assert [part.strip() for part in plain.split("|")[1:3]] == ["postgres", "interp. lock"]


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_drawn(state: State) -> None:
    """A server whose requests do one thing alone has a bar of one part."""
    figures, bar = drawn(waits({state: 3.0}), 80)
    assert figures.startswith("time         30 ms: ")
    assert bar.count("│") == 2


def screen(server: Server, width: int = 80, height: int = 24) -> list[str]:
    return lines(screen_model(server), AT_IT, width, height)


def test_the_lines_are_below_what_is_served() -> None:
    """At 80x24 nothing else of the head is lost; at 40x10 they are left out before what users wait and a worker."""
    words = [line.split()[:1] for line in screen(with_waits(hot()))]
    start = words.index(["served"])
    below = ["time", "│postgres", "headroom", "hot", "in", "response", "queue", "uWSGI"]
    assert words[start + 1 : start + 9] == [[word] for word in below]
    shown = screen(with_waits(hot()), 40, 10)
    assert not any(line.startswith("time") for line in shown)
    assert any(line.startswith("users wait") for line in shown)
    assert any(line.split()[:1] == ["4"] for line in shown)


def test_between_them_the_figures_stay() -> None:
    """If one of the lines fits, it is the one with the figures: a bar without them says less."""
    heights = [screen(with_waits(hot()), 80, height) for height in range(10, 30)]
    figures = [any(line.startswith("time") for line in shown) for shown in heights]
    bars = [any("│" in line for line in shown) for shown in heights]
    assert figures[0] is False
    assert all(figure or not bar for figure, bar in zip(figures, bars, strict=True))
    assert (True, False) in zip(figures, bars, strict=True)
    assert bars[-1]


def test_the_reason_is_shown_only_where_there_is_room() -> None:
    """The reason takes no row from a worker; a pipe has room."""
    few, many = with_reason(hot(), WHY), with_reason(hot(20), WHY)
    reason = "time         not known: no permission to see what uWSGI's threads wait for"
    assert reason in screen(few)
    assert not any(line.startswith("time") for line in screen(many) + screen(few, 40, 10))
    assert screen(many) == screen(msgspec.structs.replace(many, unknown=()))
    assert reason in [line.plain for line in draw_plain(screen_model(many), AT_IT, 80, 0.0)]


def test_the_whole_reason_is_on_the_page_of_advice_once() -> None:
    """A part that is not known is not called the whole."""
    at_advice = replace(AT_IT, view="findings")
    for server, begin in (
        (with_reason(hot(), WHY), "Not known: what requests spend their time on: no permission"),
        (with_waits(with_reason(hot(), WHY)), "Not fully known: what requests spend their time on: no permission"),
    ):
        text = " ".join(" ".join(lines(screen_model(server), at_advice, 80, 60)).split())
        assert text.count(begin) == 1
        assert text.count("give the exporter CAP_SYS_PTRACE.") == 1


def test_no_line_without_the_section() -> None:
    """An exporter of an earlier version gives no reason; one that was set not to look has it on the page of advice
    alone."""
    server = msgspec.structs.replace(hot(), unknown=())
    assert why_not_known(server) is None
    assert time_lines(server, 80) is None
    assert not any(line.startswith("time") for line in screen(with_waits(server, waits({}))))
    server = hot()
    assert any(unknown.what == "waits" for unknown in server.unknown)
    assert why_not_known(server) is None
    advice = lines(screen_model(server), replace(AT_IT, view="findings"), 80, 60)
    assert any("off: run the exporter with --waits" in line for line in advice)


def test_stuck_requests_stand_beside_the_time() -> None:
    """They are in the bar's threads, but not in the time of a request."""
    section = msgspec.structs.replace(KNOWN_WAITS, stuck=0.5)
    line = stuck_line(with_waits(hot(), section), 80)
    assert line.plain.strip() == "0.5 threads hold requests that are stuck, not counted here"
    assert stuck_line(with_waits(hot(), KNOWN_WAITS), 80) is None
    websockets = stuck_line(with_waits(hot(), msgspec.structs.replace(KNOWN_WAITS, lasting=14.0)), 80)
    assert websockets.plain.strip() == "14.0 threads hold requests that last, not counted here"
    narrow = stuck_line(with_waits(hot(), section), 40)
    assert narrow.cell_len <= 40


def test_what_requests_wait_for_outside_is_named() -> None:
    """A line below the bar at 80 columns by 24 lines, which any address fits."""
    destination = Destination(
        state="backend", name="postgres", address="10.0.0.5:5432", threads=4.1, per_request=0.041, connecting=0.0
    )
    server = with_waits(hot(), msgspec.structs.replace(KNOWN_WAITS, destinations=(destination,)))
    shown = lines(screen_model(server), AT_IT, 80, 24)
    place = next(place for place, line in enumerate(shown) if line.startswith("time"))
    assert shown[place + 2].strip() == "backend 41 ms: postgres at 10.0.0.5:5432"
    hostile = msgspec.structs.replace(destination, address="/run/\x1b[31m\u202e" + "x" * 300)
    for width in (40, 80):
        line = outside_line(with_waits(hot(), msgspec.structs.replace(KNOWN_WAITS, destinations=(hostile,))), width)
        assert line.cell_len <= width
        assert line.plain.isprintable()

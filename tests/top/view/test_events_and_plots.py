"""Events and charts of a server in the terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import EPOCH
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.top.feeds import Capacity, Concurrency, Headroom, Trend
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.pages import event_page
from uwsgi_headroom.top.view.plots import plot_lines


@pytest.fixture(autouse=True)
def _in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a time zone one hour ahead of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


EVENTS = (
    Event(
        id=3,
        time=EPOCH + 60.0,
        since=EPOCH + 60.0,
        kind="server_down",
        title="The server is down.",
        evidence="Connection refused.",
    ),
    Event(id=2, time=EPOCH - 90_000.0, since=EPOCH - 90_010.0, kind="worker_ended", title="Worker 3 ended.", count=4),
)


def test_events_are_shown_with_the_time_of_this_place() -> None:
    """The title has the zone; events of today have a clock time, older ones the day, all their age and evidence."""
    page = event_page(EVENTS, "", 80, EPOCH + 75.0)
    assert page.title
    assert page.title.plain.split() == ["TIME", "CET", "AGO", "EVENT"]
    assert [re.split(" {2,}", row.plain) for row in page.rows] == [
        ["23:14:20", "15s", "The server is down."],
        ["", "Connection refused."],
        ["13 Nov 22h", "25h", "Worker 3 ended. (4 times since 22:13:10)"],
    ]


def test_events_of_a_server_are_a_page() -> None:
    """The page has the verdict above the events; a filter matches their text or kind."""
    model = screen_model(msgspec.structs.replace(hot(), events=EVENTS))
    page = Navigation(view="events", server=(0, "shop"), chosen=True)
    drawn = lines(model, page)
    assert drawn[1].startswith("CRITICAL")
    assert any("The server is down." in line for line in drawn)
    drawn = lines(model, replace(page, row_filter="worker_ended"))
    assert not any("The server is down." in line for line in drawn)
    assert any("Worker 3 ended." in line for line in drawn)
    assert "No event matches the filter." in lines(model, replace(page, row_filter="nothing"))
    assert "No events so far." in lines(screen_model(msgspec.structs.replace(hot(), events=())), page)


def trend(points: int) -> Trend:
    rising = [float(point) for point in range(1, points + 1)]
    return Trend(
        step=1.0,
        time=[EPOCH + value for value in rising],
        throughput=rising,
        headroom=Headroom([2.0] * points),
        queue_wait=[None] * points,
        concurrency=Concurrency([4.0] * points),
        threads=Capacity([8.0] * points),
    )


def test_charts_of_load_headroom_wait_and_busy_threads() -> None:
    """A rising line rises, a headroom of 2x fills half of its chart, which 1x would fill; unknown values are named, and
    the axis has local times."""
    drawn = [line.plain for line in plot_lines(trend(8), 60, 21)]
    assert drawn[0].startswith("load, requests per second   now 8.00, min 1.00, max 8.00")
    top, bottom = (line.partition("│")[2] for line in (drawn[1], drawn[4]))
    assert top.rstrip("█▇▆▅▄▃▂▁").isspace()
    assert top[-1] == "█"
    assert bottom[0] == "▄"
    scale, half = (drawn[place].split("│") for place in (6, 8))
    assert (scale[0].strip(), set(scale[1])) == ("1.0x", {" "})
    assert (half[0].strip(), set(half[1])) == ("2.0x", {"█"})
    assert "wait in the listen queue   not known" in drawn
    busy = drawn.index("busy threads   now 4.0, min 4.0, max 4.0")
    assert [set(line.partition("│")[2].strip()) for line in drawn[busy + 1 : busy + 5]] == [set(), set(), {"█"}, {"█"}]
    assert drawn[-1].split() == ["23:13:20", "23:13:28", "CET"]


@pytest.mark.parametrize(("width", "height"), [(60, 10), (80, 24), (200, 50)])
def test_charts_fit(width: int, height: int) -> None:
    """Charts fit for any number of points."""
    for points in (1, 7, 240):
        drawn = plot_lines(trend(points), width, height)
        assert max(line.cell_len for line in drawn) <= width
        assert len(drawn) <= max(height, 9)


def test_no_history_yet() -> None:
    """The page says that there is no history."""
    assert [line.plain for line in plot_lines(Trend(), 80, 20)] == ["No history to draw yet."]

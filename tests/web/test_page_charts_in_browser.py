"""The charts over time in a real browser: pointer, zoom, events, limits."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support import real_uwsgi
from tests.support.browser import Tab, tab
from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import wait_until

pytestmark = pytest.mark.integration

CLOCK = re.compile(r"\d\d:\d\d:\d\d GMT\+5:30")
FIFTH = 9, 63
"""Seconds of a fifth of the charts: they show a minute after the exporter's start, and five minutes later."""

POINTED = """[...document.querySelectorAll(".panel:not([hidden]) .when")].every(
    (when) => when.textContent && !when.textContent.startsWith("latest"))"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Exporter]:
    """An exporter of an idle uWSGI, whose second worker was killed."""
    with (
        real_uwsgi.accepting("--processes", "2", "--listen", "50") as server,
        exporter("--stats", f"shop={server.stats}") as running,
    ):
        wait_until(
            lambda: running.scrape().get('uwsgi_up{server="shop"}') == 1, what="the exporter to see both workers"
        )
        worker = int(re.findall(rb'"pid":(\d+)', server.document().replace(b" ", b""))[2])
        os.kill(worker, signal.SIGKILL)
        yield running


def opened(shown: Tab, path: str = "/?range=300") -> Tab:
    """The page with its charts drawn."""
    shown.open(path)
    shown.drawn()
    return shown


def chart(shown: Tab) -> dict[str, float]:
    """The position of the first chart, scrolled into view. In one call: another range draws the chart anew."""
    box: dict[str, float] = shown.page.evaluate("""() => {
        const over = document.querySelector(".u-over");
        over.scrollIntoView({ block: "center" });
        const { x, y, width, height } = over.getBoundingClientRect();
        return { x, y, width, height };
    }""")
    assert box["width"] > 0
    return box


def drag(shown: Tab, begin: float, end: float) -> None:
    """Drag over the first chart, between these shares of its width."""
    box = chart(shown)
    mouse, y = shown.page.mouse, box["y"] + 50
    mouse.move(box["x"] + begin * box["width"], y)
    mouse.down()
    mouse.move(box["x"] + end * box["width"], y, steps=4)
    mouse.up()


def test_the_time_at_the_pointer(chromium: Browser, shop: Exporter) -> None:
    """Every chart shows the time at the pointer with its zone, or else the time of the latest figures."""
    with tab(chromium, shop.port, width=1440, timezone_id="Asia/Kolkata") as shown:
        opened(shown)
        moments = "[...document.querySelectorAll('.panel:not([hidden]) .legend:not(.quiet) .when')]"
        latest = f"{moments}.every((when) => when.textContent.startsWith('latest, '))"
        shown.until(latest)
        box = chart(shown)
        shown.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 50)
        shown.until(POINTED)
        times = {CLOCK.match(text)[0] for text in shown.page.locator(".when").all_inner_texts() if CLOCK.match(text)}  # type: ignore[index]
        assert len(times) == 1
        shown.page.mouse.move(1, 1)
        shown.until(latest)
        assert shown.problems == []


def test_dragging_zooms(chromium: Browser, shop: Exporter) -> None:
    """All charts show the selected time in finer slices; Escape and a double click restore the whole range."""
    with tab(chromium, shop.port, width=1440) as shown:
        opened(shown)
        with shown.page.expect_request(lambda request: "until=" in request.url) as asked:
            drag(shown, 0.5, 0.7)
        shown.page.get_by_role("button", name="Zoomed").wait_for()
        found = re.search(r"[?&]zoom=(\d+)-(\d+)$", shown.page.url)
        assert found
        seconds = int(found[2]) - int(found[1])
        assert FIFTH[0] <= seconds <= FIFTH[1]
        assert f"seconds={seconds}&" in asked.value.url
        with shown.page.expect_response(lambda response: "/history?" in response.url and "until=" not in response.url):
            shown.page.keyboard.press("Escape")
        shown.until("!location.search.includes('zoom')")
        assert not shown.page.get_by_role("button", name="Zoomed").is_visible()
        drag(shown, 0.5, 0.7)
        shown.until("location.search.includes('zoom')")
        shown.page.locator(".u-over").first.dblclick()
        shown.until("!location.search.includes('zoom')")
        assert shown.problems == []


def test_a_link_shows_the_same_stretch(chromium: Browser, shop: Exporter) -> None:
    """The zoom in a URL is loaded at once."""
    with (
        tab(chromium, shop.port) as shown,
        shown.page.expect_request(lambda request: "history?seconds=60&points=60&until=1700000060" in request.url),
    ):
        shown.open("/?range=300&zoom=1700000000-1700000060")


def test_a_finger_points(chromium: Browser, shop: Exporter) -> None:
    """A touch shows the figures at that time."""
    with tab(chromium, shop.port, width=400, has_touch=True) as shown:
        opened(shown)
        box = chart(shown)
        shown.page.touchscreen.tap(box["x"] + box["width"] - 5, box["y"] + 50)
        shown.until(POINTED)
        assert shown.problems == []


def test_two_fingers_zoom(chromium: Browser, shop: Exporter) -> None:
    """Two fingers zoom to the time between them."""
    with tab(chromium, shop.port, width=400, has_touch=True) as shown:
        opened(shown)
        shown.page.evaluate("""() => {
            const over = document.querySelector(".u-over");
            const { left, width } = over.getBoundingClientRect();
            const touch = (type, pointerId, part) => {
                const clientX = left + part * width;
                over.dispatchEvent(new PointerEvent(type, { pointerType: "touch", pointerId, clientX, bubbles: true }));
            };
            touch("pointerdown", 1, 0.5);
            touch("pointerdown", 2, 0.6);
            touch("pointermove", 2, 0.7);
            touch("pointerup", 2, 0.7);
        }""")
        shown.until("location.search.includes('zoom')")
        found = re.search(r"[?&]zoom=(\d+)-(\d+)$", shown.page.url)
        assert found
        assert FIFTH[0] <= int(found[2]) - int(found[1]) <= FIFTH[1]
        assert shown.problems == []


def test_events_are_listed(chromium: Browser, shop: Exporter) -> None:
    """The list has each event, its time and worker, including events before the page was opened."""
    with tab(chromium, shop.port) as shown:
        opened(shown)
        shown.page.locator("[data-kind=worker_ended]").first.wait_for()
        assert "Worker 2" in shown.text("[data-kind=worker_ended]")
        assert re.search(r"\d\d:\d\d:\d\d UTC", shown.text("[data-kind=worker_ended] time"))
        shown.page.locator("[data-kind=exporter_started]").wait_for()


def test_events_are_marked(chromium: Browser, shop: Exporter) -> None:
    """Near a mark, the legend names its event."""
    with tab(chromium, shop.port, width=1440) as shown:
        opened(shown)
        shown.page.locator("[data-kind=worker_ended]").first.wait_for()

        def titles() -> Iterator[str]:
            box = chart(shown)
            for place in range(1, int(box["width"]), 4):  # the legend names an event within eight pixels
                shown.page.mouse.move(box["x"] + box["width"] - place, box["y"] + 50)
                shown.page.evaluate("new Promise(requestAnimationFrame)")  # the legend is drawn with a frame
                yield shown.text(".when")

        # The end of the worker may be at one place with the start of the exporter, which is named then; its verdict is
        # some seconds later.
        wait_until(
            lambda: any(re.search("Worker 2 ended|Workers ended", title) for title in titles()),
            60,
            "the legend to name the event",
        )


def test_limits_are_named(chromium: Browser, shop: Exporter) -> None:
    """The listen queue's limit and headroom 1 are named."""
    with tab(chromium, shop.port) as shown:
        opened(shown)
        limits = shown.page.locator(".limit:visible").all_inner_texts()
        assert "1x: limit reached" in limits
        assert any("limit 50: more are refused" in limit for limit in limits)


def test_on_paper(chromium: Browser, shop: Exporter) -> None:
    """Printed, the page is light, has no controls, and cuts off no table."""
    with tab(chromium, shop.port, width=794, color_scheme="dark") as shown:
        opened(shown)
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
        assert not shown.page.get_by_role("button", name="Pause").is_visible()
        wide = (
            "[...document.querySelectorAll('table')].filter((each) => each.offsetWidth > each.parentNode.clientWidth)"
        )
        assert shown.page.evaluate(f"{wide}.map((each) => each.ariaLabel)") == []

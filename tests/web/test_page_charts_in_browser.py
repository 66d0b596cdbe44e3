"""The charts over time in a real browser: pointer, zoom, events, limits, days and weeks, requests that fail."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.support import real_uwsgi, stored_days
from tests.support.browser import Tab, opened, tab
from tests.support.captured_documents import path
from tests.support.exporter import exporter
from tests.support.real_uwsgi import wait_until
from tests.support.web_server import serving
from tests.web.test_app import replayed

pytestmark = pytest.mark.integration

CLOCK = re.compile(r"\d\d:\d\d:\d\d GMT\+5:30")
FIFTH = 9, 63
"""Seconds of a fifth of the charts: they show a minute after the exporter's start, and five minutes later."""

POINTED = """[...document.querySelectorAll(".panel:not([hidden]) .when")].every(
    (when) => when.textContent && !when.textContent.startsWith("latest"))"""


@pytest.fixture(scope="module")
def shop():
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


@contextlib.contextmanager
def drawn(chromium: Browser, port: int, path: str = "/?range=300", **options: Any) -> Iterator[Tab]:
    with opened(chromium, port, path, **options) as shown:
        shown.drawn()
        yield shown


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
    box = chart(shown)
    mouse, y = shown.page.mouse, box["y"] + 50
    mouse.move(box["x"] + begin * box["width"], y)
    mouse.down()
    mouse.move(box["x"] + end * box["width"], y, steps=4)
    mouse.up()


def test_the_time_at_the_pointer(chromium, shop):
    with drawn(chromium, shop.port, width=1440, timezone_id="Asia/Kolkata") as shown:
        moments = "[...document.querySelectorAll('.panel:not([hidden]) .legend:not(.quiet) .when')]"
        latest = f"{moments}.every((when) => when.textContent.startsWith('latest, '))"
        shown.until(latest)
        box = chart(shown)
        shown.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 50)
        shown.until(POINTED)
        times = {CLOCK.match(text)[0] for text in shown.page.locator(".when").all_inner_texts() if CLOCK.match(text)}
        assert len(times) == 1
        shown.page.mouse.move(1, 1)
        shown.until(latest)


def test_dragging_zooms(chromium, shop):
    """All charts show the selected time in finer slices; Escape and a double click restore the whole range."""
    with drawn(chromium, shop.port, width=1440) as shown:
        with shown.page.expect_request(lambda request: "until=" in request.url) as asked:
            drag(shown, 0.5, 0.7)
        shown.page.get_by_role("button", name="Zoomed").wait_for()
        found = re.search(r"[?&]zoom=(\d+)-(\d+)$", shown.page.url)
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


def test_a_link_shows_the_same_stretch(chromium, shop):
    with (
        tab(chromium, shop.port) as shown,
        shown.page.expect_request(lambda request: "history?seconds=60&points=60&until=1700000060" in request.url),
    ):
        shown.open("/?range=300&zoom=1700000000-1700000060")


def test_a_finger_points(chromium, shop):
    with drawn(chromium, shop.port, width=400, has_touch=True) as shown:
        box = chart(shown)
        shown.page.touchscreen.tap(box["x"] + box["width"] - 5, box["y"] + 50)
        shown.until(POINTED)


def test_two_fingers_zoom(chromium, shop):
    with drawn(chromium, shop.port, width=400, has_touch=True) as shown:
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
        assert FIFTH[0] <= int(found[2]) - int(found[1]) <= FIFTH[1]


def test_events_and_limits_are_named(chromium, shop):
    """The list has each event, its time and worker, also of before the page was opened; limits stand at their lines."""
    with drawn(chromium, shop.port) as shown:
        shown.page.locator("[data-kind=worker_ended]").first.wait_for()
        assert "Worker 2" in shown.text("[data-kind=worker_ended]")
        assert re.search(r"\d\d:\d\d:\d\d UTC", shown.text("[data-kind=worker_ended] time"))
        shown.page.locator("[data-kind=exporter_started]").wait_for()
    with drawn(chromium, shop.port) as shown:
        limits = shown.page.locator(".limit:visible").all_inner_texts()
        assert "1x: limit reached" in limits
        assert any("limit 50: more are refused" in limit for limit in limits)


def test_events_are_marked(chromium, shop):
    with drawn(chromium, shop.port, width=1440) as shown:
        shown.page.locator("[data-kind=worker_ended]").first.wait_for()

        def titles():
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


def test_on_paper(chromium, shop):
    """Printed, the page is light, has no controls, and cuts off no table."""
    with drawn(chromium, shop.port, width=794, color_scheme="dark") as shown:
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
        assert not shown.page.get_by_role("button", name="Pause").is_visible()
        wide = (
            "[...document.querySelectorAll('table')].filter((each) => each.offsetWidth > each.parentNode.clientWidth)"
        )
        assert shown.page.evaluate(f"{wide}.map((each) => each.ariaLabel)") == []


SERVER = "threads_4x8_busy"
WEEK = 7 * stored_days.DAY
ZONE = "Europe/Berlin"
PROBLEM = "/var/lib/history.db is damaged"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The port of an exporter with a history of 14 days, in records of a quarter of an hour."""
    path = Path(tmp_path_factory.mktemp("history")) / "history.db"
    stored_days.write(path, SERVER, time.time(), minutes=15)
    with serving(replayed(SERVER), sampling=True, history=path) as listening:
        yield listening


def legend(shown: Tab) -> str:
    return shown.text(".legend:not(.quiet) .when")


def test_a_week(chromium, port):
    """The ranges that the file has are offered, the URL's is shown, and a slice has both ends."""
    with drawn(chromium, port, f"/?range={WEEK}", width=1280, timezone_id=ZONE) as shown:
        labels = shown.page.locator("fieldset", has_text="Last").locator("label").all_inner_texts()
        assert labels == ["5 m", "15 m", "1 h", "6 h", "1 d", "7 d", "30 d"]
        assert shown.page.get_by_role("radio", name="7 d").is_checked()
        assert re.search(r"History since .* \(14 d\)\.", shown.text("details:last-child"))
        assert "Each point is a mean over 30 min" in shown.text(".ranges")
        assert re.fullmatch(
            r"latest, (\d+ \w+ )?\d\d:[03]0 to (\d+ \w+ )?\d\d:[03]0 (CET|CEST|GMT\+[12])", legend(shown)
        )
        shown.page.set_viewport_size({"width": 360, "height": 800})
        assert shown.overflow() <= 0


def test_what_existed_earlier_is_shown(chromium, port):
    """Workers, backends and sockets of the past are in the charts, also if they are gone by now."""
    with drawn(chromium, port, f"/?range={30 * stored_days.DAY}", width=1280) as shown:
        shown.until(f"document.body.textContent.includes('{stored_days.OLD_SOCKET}')")
        names = shown.text("main")
        assert stored_days.OLD_BACKEND in names
        assert stored_days.BACKEND in names
        strip = "canvas[aria-label^='Busy threads by worker']"
        shown.until(f"/\\d/.test(document.querySelector(\"{strip}\")?.getAttribute('aria-label'))")  # it is drawn
        rows = shown.page.locator(strip).get_attribute("aria-label") or ""
        assert re.findall(r"(\d+) \S+ busy|(\d+) \S+ ", rows)[-1][0] == str(stored_days.EARLIER_WORKERS)


def test_keys_zoom_into_the_past(chromium, port):
    """Plus and minus zoom in and out, brackets move, Escape goes back; a stretch of the past has finer steps."""
    with drawn(chromium, port, f"/?range={WEEK}", width=1280) as shown:

        def press(key):
            """Press a key until the charts follow: they do not while what was asked for before is still fetched."""
            before = shown.page.url
            for _ in range(300):
                shown.page.keyboard.press(key)
                if shown.page.url != before:
                    break
                shown.page.wait_for_timeout(100)
            return [int(each) for each in re.findall(r"\d{9,}", shown.page.url)]

        shown.until("document.querySelector('.ranges').textContent.includes('Each point is a mean over 30 min')")
        begin, end = press("+")
        assert end - begin == pytest.approx(WEEK / 2, abs=3600)
        shown.until("document.querySelector('.ranges').textContent.includes('Each point is a mean over 15 min')")
        earlier = press("[")
        assert earlier[0] == pytest.approx(begin - WEEK / 4, abs=3600)
        wider = press("-")
        assert wider[1] - wider[0] == pytest.approx(WEEK, abs=2 * 3600)
        shown.page.keyboard.press("Escape")
        shown.until("!location.search.includes('zoom')")


def in_system(history: dict[str, Any], time: float) -> float:
    """The requests in service and in listen queues in the slice of a history that contains a time."""
    at = next(at for at, end in enumerate(history["time"]) if end >= time)
    assert history["time"][at] - history["step"] < time
    queued = [socket["mean_queue"][at] for socket in history["sockets"]]
    return float(history["concurrency"]["observed"][at] + sum(mean for mean in queued if mean is not None))


@pytest.mark.parametrize(("name", "value"), [("the day before", "86400"), ("before the reload", "reload")])
def test_the_load_of_an_earlier_time(chromium, port, name, value):
    """It is requested once, when it is chosen."""
    asked: list[str] = []
    with tab(chromium, port, width=1280) as shown:
        shown.page.on("request", lambda request: asked.extend([request.url] * ("until=" in request.url)))
        shown.open(f"/?range={WEEK}")
        shown.drawn()
        shown.page.get_by_text("before the reload").wait_for()
        offered = shown.page.locator("fieldset", has_text="vs").locator("label").all_inner_texts()
        assert offered == ["-", "before the reload", "the hour before", "the day before"]
        assert asked == []
        with shown.page.expect_response(lambda answer: "until=" in answer.url) as response:
            shown.page.locator("label", has_text=name).click()
        entry = shown.page.locator(".legend.quiet li", has_text=name)
        entry.locator("b:not(:empty)").wait_for()
        earlier = response.value.json()
        shown.page.locator(".lines").first.focus()
        shown.page.keyboard.press("End")
        said = shown.page.locator(".lines").first.get_attribute("aria-valuetext") or ""
        assert f"{name} {entry.locator('b').inner_text()}" in said
        if value == "reload":
            moment = float(re.findall("until=([0-9.]+)", asked[0])[0]) - earlier["step"] / 2
        else:
            now = shown.page.evaluate(
                f"fetch('/api/v2/servers/{SERVER}/history?seconds=604800&points=336').then((a) => a.json())"
            )
            moment = now["time"][-1] - now["step"] / 2 - 86_400
        assert float(entry.locator("b").inner_text()) == pytest.approx(in_system(earlier, moment), abs=0.06)
        shown.page.reload()
        shown.page.locator(".legend.quiet b:not(:empty)").first.wait_for()
        entry.locator("b:not(:empty)").wait_for()
        assert f"vs={value}" in shown.page.url
        assert len(asked) == 2
        shown.page.locator("fieldset", has_text="vs").get_by_text("-", exact=True).click()
        entry.wait_for(state="detached")
        assert "vs=" not in shown.page.url
        assert shown.problems == []


def test_events_of_the_range_are_listed(chromium, port):
    """The list has the events of the time that the charts show, at most 200."""
    with drawn(chromium, port, "/?range=3600", width=1280) as shown:
        shown.page.locator("[data-kind=exporter_started]").wait_for()
        assert shown.page.locator("[data-kind=reload]").count() <= 1
        shown.page.locator("fieldset", has_text="Last").get_by_text("7 d", exact=True).click()
        shown.until("document.querySelectorAll('[data-kind=reload]').length >= 6")
        shown.page.locator("[data-kind=server_up]").wait_for()
        assert shown.page.locator(".events li").count() <= 200


def test_a_file_that_fails(chromium, port):
    """If the exporter cannot read its file, the page says why, keeps the charts, and recovers by itself."""
    answers: list[int] = []

    def fail(route):
        answers.append(503 if len(answers) < 1 else 200)
        if answers[-1] == 503:
            route.fulfill(status=503, json={"error": PROBLEM})
        else:
            route.continue_()

    with tab(chromium, port, width=1280) as shown:
        shown.open("/?range=3600")
        shown.drawn()
        before = legend(shown)
        shown.page.route("**/history?seconds=21600*", fail)
        shown.page.locator("fieldset", has_text="Last").get_by_text("6 h", exact=True).click()
        shown.until(f"document.body.textContent.includes({PROBLEM!r})")
        assert "Charts still show the previous range" in shown.text(".ranges")
        assert legend(shown)[:9] == before[:9]
        shown.until(f"!document.body.textContent.includes({PROBLEM!r})")
        assert answers[:2] == [503, 200]


REPLAYED = f"shop=file://{path('2.0.31_threads')}"


def test_a_range_whose_fetch_failed_is_loaded_whole_later(chromium):
    asked: list[dict[str, list[str]]] = []

    def answer(route):
        query = parse_qs(urlsplit(route.request.url).query)
        whole_hour_before = [each for each in asked if each["seconds"] == ["3600"]]
        asked.append(query)
        if query["seconds"] == ["3600"] and not whole_hour_before:
            route.fulfill(status=503, body="{}")
        else:
            route.continue_()

    with serving(REPLAYED, sampling=True) as port, tab(chromium, port) as shown:
        shown.page.route("**/history?*", answer)
        shown.open("/?range=300")
        shown.drawn()
        shown.page.locator("fieldset", has_text="Last").get_by_text("1 h", exact=True).click()
        shown.page.wait_for_event("response", lambda response: "seconds=3600" in response.url and response.ok)
    after_failure = asked[next(place for place, query in enumerate(asked) if query["seconds"] == ["3600"]) + 1 :]
    assert after_failure[0] == {"seconds": ["3600"], "points": ["240"]}


MEASURED = """async ([address, seconds, step, times, rates]) => {
    const { History } = await import(address);
    const history = new History("/servers/shop");
    Object.assign(history, { range: { seconds, points: seconds / step }, step });
    history.columns = new Map([["time", times], ["throughput", rates]]);
    return [history.span[1] - history.span[0], history.blank];
}"""


def test_the_time_that_the_charts_show(chromium):
    """They begin with the first figures, but are no narrower than five slices."""
    times = [1000.0 + 2 * place for place in range(200)]
    with serving(REPLAYED, sampling=True) as port, tab(chromium, port, bypass_csp=True) as shown:
        shown.open("/")

        def measure(times, rates):
            arguments = [shown.module("history.js"), 300, 2, times, rates]
            span, blank = shown.page.evaluate(MEASURED, arguments)
            return span, blank

        for slices, span in ((200, 300), (120, 240), (23, 46), (2, 10)):
            assert measure(times[:slices], [1.0] * slices) == (span, 0)
        holes = [None, None, *[1.0] * 48, None, None, None, *[1.0] * 47]
        assert measure(times[:100], holes) == (196, 6)
        late = [*times[:50], *[time + 3.0 for time in times[50:100]]]
        assert measure(late, [1.0] * 100) == (203, 0)
        away = [*times[:50], *[time + 30.0 for time in times[50:100]]]
        assert measure(away, [1.0] * 100) == (230, 30)

"""The charts over days and weeks in a real browser, with a history file of two weeks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Route as Intercepted

from tests.support import stored_days
from tests.support.browser import Tab, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed

pytestmark = pytest.mark.integration

SERVER = "threads_4x8_busy"
WEEK = 7 * stored_days.DAY
ZONE = "Europe/Berlin"
PROBLEM = "/var/lib/history.db is damaged"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an exporter with a history of 14 days, in records of a quarter of an hour."""
    path = Path(tmp_path_factory.mktemp("history")) / "history.db"
    stored_days.write(path, SERVER, time.time(), minutes=15)
    with serving(replayed(SERVER), sampling=True, history=path) as listening:
        yield listening


def opened(shown: Tab, path: str) -> Tab:
    """The page with its charts drawn."""
    shown.open(path)
    shown.drawn()
    return shown


def legend(shown: Tab) -> str:
    """The time of the figures in the first legend."""
    return shown.text(".legend:not(.quiet) .when")


def test_a_week(chromium: Browser, port: int) -> None:
    """The ranges that the file has are offered, the URL's is shown, and a slice has both ends."""
    with tab(chromium, port, width=1280, timezone_id=ZONE) as shown:
        opened(shown, f"/?range={WEEK}")
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
        assert shown.problems == []


def test_what_existed_earlier_is_shown(chromium: Browser, port: int) -> None:
    """Workers, backends and sockets of the past are in the charts, also if they are gone by now."""
    with tab(chromium, port, width=1280) as shown:
        opened(shown, f"/?range={30 * stored_days.DAY}")
        shown.until(f"document.body.textContent.includes('{stored_days.OLD_SOCKET}')")
        names = shown.text("main")
        assert stored_days.OLD_BACKEND in names
        assert stored_days.BACKEND in names
        strip = "canvas[aria-label^='Busy threads by worker']"
        shown.until(f"/\\d/.test(document.querySelector(\"{strip}\")?.getAttribute('aria-label'))")  # it is drawn
        rows = shown.page.locator(strip).get_attribute("aria-label") or ""
        assert re.findall(r"(\d+) \S+ busy|(\d+) \S+ ", rows)[-1][0] == str(stored_days.EARLIER_WORKERS)
        assert shown.problems == []


def test_keys_zoom_into_the_past(chromium: Browser, port: int) -> None:
    """Plus and minus zoom in and out, brackets move, Escape goes back; a stretch of the past has finer steps."""
    with tab(chromium, port, width=1280) as shown:
        opened(shown, f"/?range={WEEK}")

        def press(key: str) -> list[int]:
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
        assert shown.problems == []


def in_system(history: dict[str, Any], time: float) -> float:
    """The requests in service and in listen queues in the slice of a history that contains a time."""
    at = next(at for at, end in enumerate(history["time"]) if end >= time)
    assert history["time"][at] - history["step"] < time
    queued = [socket["mean_queue"][at] for socket in history["sockets"]]
    return float(history["concurrency"]["observed"][at] + sum(mean for mean in queued if mean is not None))


@pytest.mark.parametrize(("name", "value"), [("the day before", "86400"), ("before the reload", "reload")])
def test_the_load_of_an_earlier_time(chromium: Browser, port: int, name: str, value: str) -> None:
    """It is requested once, when it is chosen. The chart's newest figure is beside that of a day before, or that of the
    last slice before the reload; the URL keeps the choice, and an end of it takes the line away."""
    asked: list[str] = []
    with tab(chromium, port, width=1280) as shown:
        shown.page.on("request", lambda request: asked.extend([request.url] * ("until=" in request.url)))
        opened(shown, f"/?range={WEEK}")
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
                f"fetch('/api/v1/servers/{SERVER}/history?seconds=604800&points=336').then((a) => a.json())"
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


def test_events_of_the_range_are_listed(chromium: Browser, port: int) -> None:
    """The list has the events of the time that the charts show, at most 200."""
    with tab(chromium, port, width=1280) as shown:
        opened(shown, "/?range=3600")
        shown.page.locator("[data-kind=exporter_started]").wait_for()
        assert shown.page.locator("[data-kind=reload]").count() <= 1
        shown.page.locator("fieldset", has_text="Last").get_by_text("7 d", exact=True).click()
        shown.until("document.querySelectorAll('[data-kind=reload]').length >= 6")
        shown.page.locator("[data-kind=server_up]").wait_for()
        assert shown.page.locator(".events li").count() <= 200


def test_a_file_that_fails(chromium: Browser, port: int) -> None:
    """If the exporter cannot read its file, the page says why, keeps the charts, and recovers by itself."""
    answers: list[int] = []

    def fail(route: Intercepted) -> None:
        answers.append(503 if len(answers) < 1 else 200)
        if answers[-1] == 503:
            route.fulfill(status=503, json={"error": PROBLEM})
        else:
            route.continue_()

    with tab(chromium, port, width=1280) as shown:
        opened(shown, "/?range=3600")
        before = legend(shown)
        shown.page.route("**/history?seconds=21600*", fail)
        shown.page.locator("fieldset", has_text="Last").get_by_text("6 h", exact=True).click()
        shown.until(f"document.body.textContent.includes({PROBLEM!r})")
        assert "Charts still show the previous range" in shown.text(".ranges")
        assert legend(shown)[:9] == before[:9]
        shown.until(f"!document.body.textContent.includes({PROBLEM!r})")
        assert answers[:2] == [503, 200]

"""The page's history in a real browser, when one request to the exporter fails."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Route

from tests.support.browser import browser, tab
from tests.support.captured_documents import path
from tests.support.web_server import serving

pytestmark = pytest.mark.integration

SHOP = f"shop=file://{path('2.0.31_threads')}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


def test_a_range_whose_fetch_failed_is_loaded_whole_later(chromium: Browser) -> None:
    """If the first fetch of a new range fails, the next fetch covers the whole range."""
    asked: list[dict[str, list[str]]] = []

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        whole_hour_before = [each for each in asked if each["seconds"] == ["3600"]]
        asked.append(query)
        if query["seconds"] == ["3600"] and not whole_hour_before:
            route.fulfill(status=503, body="{}")
        else:
            route.continue_()

    with serving(SHOP, sampling=True) as port, tab(chromium, port) as shown:
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


def test_the_time_that_the_charts_show(chromium: Browser) -> None:
    """They begin with the first figures, but are no narrower than five slices. What is empty is counted: slices
    without figures and times without slices, but not what is before the first figures, nor a late sample."""
    times = [1000.0 + 2 * place for place in range(200)]
    with serving(SHOP, sampling=True) as port, tab(chromium, port, bypass_csp=True) as shown:
        shown.open("/")

        def measure(times: list[float], rates: list[float | None]) -> tuple[float, float]:
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

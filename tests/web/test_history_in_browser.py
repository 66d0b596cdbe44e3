"""The page's history in a real browser, when one request to the exporter fails."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Route

from tests.web.test_page_in_browser import FIXTURES
from tools.support.browser import browser, tab
from tools.support.web_server import serving

pytestmark = pytest.mark.integration


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

    path = next(FIXTURES.glob("*_threads.json"))
    with serving(f"shop=file://{path}", sampling=True) as port, tab(chromium, port) as shown:
        shown.page.route("**/history?*", answer)
        shown.open("/?range=300")
        shown.until("document.querySelectorAll('.uplot').length > 0")
        shown.page.get_by_text("1 h", exact=True).click()
        shown.page.wait_for_event("response", lambda response: "seconds=3600" in response.url and response.ok)
    after_failure = asked[next(place for place, query in enumerate(asked) if query["seconds"] == ["3600"]) + 1 :]
    assert after_failure[0] == {"seconds": ["3600"], "points": ["240"]}

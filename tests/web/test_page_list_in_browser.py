"""The list of servers in a real browser: filter, order, URL, keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.test_app import replayed
from tools.support import real_uwsgi
from tools.support.browser import Tab, browser, tab
from tools.support.exporter import exporter
from tools.support.web_server import get, serving
from uwsgi_headroom.web import live_page

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; every tab has a profile of its own."""
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an exporter of four servers, one of which is down."""
    address = replayed("threads_4x8_busy").partition("=")[2]
    names = [f"{name}={address}" for name in ("shop-10", "shop-2", "cart")]
    with serving(*names, "gone=/nowhere/stats", sampling=True) as served:
        yield served


def names(shown: Tab) -> list[str]:
    """The servers of the list, in its order."""
    return shown.page.locator("tbody tr a").all_inner_texts()


def test_the_filter(chromium: Browser, port: int) -> None:
    """A server matches if its row contains every word of the filter; the filter is in the URL and in links."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.keyboard.press("/")
        shown.page.keyboard.type("Shop")
        assert sorted(names(shown)) == ["shop-10", "shop-2"]
        assert shown.page.url.endswith("?filter=Shop")
        shown.page.reload()
        shown.page.wait_for_selector("tbody tr")
        assert sorted(names(shown)) == ["shop-10", "shop-2"]
        assert "2 shown" in shown.text(".about")
        shown.page.get_by_label("Filter").fill("nothing like it")
        assert "No server matches." in shown.text(".overview")
        shown.page.keyboard.press("Escape")
        assert len(names(shown)) == 4
        assert shown.page.url.endswith("/")
        assert shown.problems == []


def test_the_order(chromium: Browser, port: int) -> None:
    """A heading sorts, with numbers in names as numbers; the order is in the URL."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.get_by_role("button", name="Server", exact=True).click()
        assert names(shown) == ["cart", "gone", "shop-2", "shop-10"]
        assert shown.page.url.endswith("?sort=Server")
        shown.page.get_by_role("button", name="Server", exact=True).click()
        shown.page.reload()
        shown.page.wait_for_selector("tbody tr")
        assert names(shown) == ["shop-10", "shop-2", "gone", "cart"]


def test_a_server_that_is_down(chromium: Browser, port: int) -> None:
    """A server that is down comes first, says so in words, and has no headroom."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.wait_for_selector("tbody tr.down")
        headroom, name, state, *_ = shown.page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert (headroom, name) == ("\u2013", "gone")
        assert "DOWN" in state
        assert "4 servers, 1 down" in shown.text(".about")


def test_help(chromium: Browser, port: int) -> None:
    """`?` lists the keys, Escape closes the help; in the filter, `?` is a letter."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.keyboard.press("?")
        assert "filter" in shown.text("dialog[open]")
        shown.page.keyboard.press("Escape")
        shown.until("document.querySelector('dialog[open]') === null")
        shown.page.get_by_label("Filter").type("?")
        assert shown.page.get_by_label("Filter").input_value() == "?"
        assert shown.page.query_selector("dialog[open]") is None


def test_the_icon_of_text_pages(port: int) -> None:
    """A request for /favicon.ico is redirected to the icon."""
    status, headers, _ = get(port, "/favicon.ico")
    assert (status, headers["Location"]) == (307, live_page.url("icon.svg"))
    assert get(port, headers["Location"])[0] == 200


VASSAL = "[uwsgi]\nmaster = true\nstats = %d/vassal.stats\nsocket = %d/vassal.sock\n"


def test_a_vassal_is_linked_to_its_page(chromium: Browser) -> None:
    """A vassal is linked if its stats are read and its master's parent is this emperor."""
    options = ["--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"]
    with real_uwsgi.bare(*options, files={"vassals/shop.ini": VASSAL}) as emperor:
        stats = str(emperor.directory / "vassals" / "vassal.stats")
        real_uwsgi.wait_until(lambda: real_uwsgi.accepts(stats), what="the vassal")
        servers = ["--stats", f"emperor={emperor.stats}", "--stats", f"shop={stats}"]
        with exporter(*servers) as running, tab(chromium, running.port) as shown:
            shown.open("/servers/emperor")
            shown.page.get_by_role("link", name="shop", exact=True).click()
            shown.page.wait_for_selector("main[data-time]")
            assert shown.page.url.endswith("/servers/shop")
            assert f"vassal of PID {emperor.pid}" in shown.text(".which")
            assert shown.problems == []

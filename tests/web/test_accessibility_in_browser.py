"""The page for readers who use a keyboard, a screen reader or paper: axe-core finds nothing, keys reach every value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.support.browser import Tab, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed
from tests.web.test_page_list_in_browser import FULL, MIXED, listing

pytestmark = pytest.mark.integration

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an exporter of a busy server, with figures and a history."""
    with serving(replayed("threads_4x8_busy"), sampling=True) as served:
        yield served


def violations(shown: Tab) -> list[str]:
    """What axe-core finds, as a rule and the element."""
    found = Axe().run(shown.page, options=RULES).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_server(chromium: Browser, port: int, theme: str, width: int) -> None:
    """It has no violation, with all panels open, and with the help."""
    with tab(chromium, port, color_scheme=theme, width=width) as shown:
        shown.open("/")
        shown.until("document.querySelectorAll('.uplot').length > 5")
        shown.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert violations(shown) == []
        shown.page.keyboard.press("?")
        assert violations(shown) == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_list_of_servers(chromium: Browser, theme: str, width: int) -> None:
    """It has no violation, with servers in every state, a state that is chosen, and a full host."""
    with (
        serving("one=/nowhere/1", "two=/nowhere/2") as of_two,
        listing(chromium, of_two, MIXED, FULL, color_scheme=theme, width=width) as shown,
    ):
        assert violations(shown) == []
        shown.page.get_by_role("button", name="CRITICAL 2").click()
        assert violations(shown) == []


def test_keys_reach_every_value(chromium: Browser, port: int) -> None:
    """On a chart over time, arrow keys move the pointer of all charts; a screen reader says the values, the legend
    shows them. On a map of workers, they move from cell to cell."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.until("document.querySelectorAll('.uplot').length > 5")
        shown.until("JSON.parse(heard).window?.seconds > 6")
        shown.page.keyboard.press("p")  # the charts stand still
        chart = shown.page.get_by_role("slider", name="Throughput")
        chart.focus()
        shown.page.keyboard.press("Home")
        first = chart.get_attribute("aria-valuetext")
        assert chart.get_attribute("aria-valuenow") == "0"
        shown.page.keyboard.press("ArrowRight")
        assert chart.get_attribute("aria-valuenow") == "1"
        assert chart.get_attribute("aria-valuetext") != first
        when = (chart.get_attribute("aria-valuetext") or "")[: len("12:00:00")]
        assert when in shown.page.locator(".when").first.inner_text()
        strip = shown.page.get_by_role("slider", name="Busy threads by worker")
        strip.focus()
        shown.page.keyboard.press("ArrowLeft")
        assert (strip.get_attribute("aria-valuetext") or "").startswith("worker 1, ")
        shown.page.keyboard.press("ArrowDown")
        assert (strip.get_attribute("aria-valuetext") or "").startswith("worker 2, ")


BROKEN = """[...document.querySelectorAll("td:not(.left)")].filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
}).map((cell) => cell.textContent)"""


def test_print_breaks_no_figure(chromium: Browser, port: int) -> None:
    """On A4 the page is no wider than the paper, and no figure of a table goes over two lines."""
    with tab(chromium, port, width=718, height=1000) as shown:
        shown.open("/")
        shown.until("document.querySelectorAll('table[aria-label=Workers] tbody tr').length === 4")
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate(BROKEN) == []
        assert shown.overflow() <= 0

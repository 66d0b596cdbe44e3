"""The page for its readers in a real browser: the first screen, a keyboard, a screen reader, paper."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.support import alert_scenes
from tests.support.browser import Tab, opened, tab
from tests.support.exporter import exporter
from tests.support.web_server import serving
from tests.web.test_page_in_browser import picture
from tests.web.test_page_list_in_browser import FULL, MIXED, listing

pytestmark = pytest.mark.integration

WORDS, FIGURES = 120, 40
FIGURE = re.compile(r"(?<![\w.])[>≤]?\d[\d.,:]*( ?(%|ms|min|days|x|/s|kB|MB|GB|[smhd]))?(?!\w)")
"""A number with its unit."""

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

_TEXT = """() => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const seen = [], range = document.createRange();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const { parentElement: parent } = node;
        if (!parent.checkVisibility({ visibilityProperty: true }) || parent.closest(".unseen")) continue;
        range.selectNodeContents(node);
        const { top, bottom, height } = range.getBoundingClientRect();
        if (height && bottom > 0 && top < innerHeight) seen.push(node.textContent);
    }
    return seen.join(" ");
}"""

_COLOURED = """() => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--ok)";
    const { color } = getComputedStyle(probe);
    probe.remove();
    const has = (style) => [style.color, style.backgroundColor, style.borderTopColor].includes(color);
    const all = [...document.querySelectorAll("main *")];
    return all.filter((each) => each.checkVisibility() && has(getComputedStyle(each))).map((each) => each.outerHTML);
}"""


@pytest.fixture(scope="module")
def short():
    """A uWSGI of two threads."""
    with alert_scenes.short() as server:
        yield server


def looked_at(shown: Tab, name: str) -> str:
    """Checks what holds for every state, also that the advice is on the first screen of a phone; returns the text."""
    shown.drawn()
    assert shown.overflow() <= 0
    text = str(shown.page.evaluate(_TEXT))
    picture(shown, f"{name}-1440")
    figures = FIGURE.findall(text)
    words = [word for word in FIGURE.sub(" ", text).split() if re.search(r"[^\W\d]", word)]
    assert len(words) <= WORDS, words
    assert len(figures) <= FIGURES, text
    chart = shown.page.locator(".lines").first.bounding_box()
    assert chart["y"] < WIDE["height"] - chart["height"] / 2
    shown.page.set_viewport_size(PHONE)
    advice = shown.page.locator(".act").bounding_box()
    assert advice["y"] + advice["height"] <= PHONE["height"]
    assert shown.overflow() <= 0
    picture(shown, f"{name}-390")
    assert shown.problems == []
    return text


@pytest.mark.parametrize(
    ("clients", "status", "advice"),
    [
        (0, "ok", "Nothing to change"),
        (2, "warning", "DO Run .+ to find the line that sleeps"),
        (32, "critical", "DO Run .+ to find the line that sleeps"),
    ],
)
def test_a_server_that_runs(chromium, short, clients, status, advice):
    """The state, what is wrong and what to do; the verdict stays in view below, and one pointer is on all charts."""
    with (
        alert_scenes.loaded(short.web, max(1, clients), io_ms=200 if clients else 10),
        exporter("--stats", f"shop={short.stats}", "--slo", "500ms:99%") as running,
        tab(chromium, running.port, color_scheme="dark", **WIDE) as shown,
    ):
        shown.open("/?vs=86400")
        assert not shown.page.get_by_text("vs", exact=True).is_visible()  # nothing is kept of the day before
        shown.page.locator(f".headline[data-status={status}]").wait_for()
        shown.until("document.querySelector('table[aria-label=Workers] tbody tr')")
        text = looked_at(shown, status)
        assert re.search(advice, text)
        shown.page.set_viewport_size(WIDE)
        shown.page.get_by_role("link", name="Charts").click()
        shown.page.locator(".sections[data-stuck] .now").wait_for()
        assert shown.text(".sections .now").startswith(shown.text(".headline .state b"))
        over = shown.page.locator(".u-over:visible").last
        over.hover()
        shown.page.locator(".strip .pointer").first.wait_for()


def test_a_server_that_is_down(chromium):
    """Since when, why, what to do; nothing on the page is in the colour of a healthy server. The last figures stay,
    grey, with their age; the page recovers with the server."""
    with (
        alert_scenes.mortal("--processes", "2") as server,
        exporter("--stats", f"shop={server.stats}", "--slo", "500ms:99%", "--log", f"shop={server.log}") as running,
        tab(chromium, running.port, **WIDE) as shown,
    ):
        shown.open("/")
        shown.until("JSON.parse(heard).window !== null")
        shown.drawn()
        server.kill()
        shown.becomes("down")
        shown.until("document.querySelector('.since').textContent")
        text = looked_at(shown, "down")
        assert re.match(r"✖ DOWN since .*UTC \([\d.]+ s\)", shown.text(".headline .state"))
        assert "onnection refused" in shown.text("main .verdict")
        assert "Start uWSGI" in shown.text(".act")
        assert "Figures as of" in shown.text(".age")
        assert re.search(rf"read at \S*{re.escape(server.stats)}\.", text)
        assert shown.page.evaluate(_COLOURED) == []
        server.start()
        shown.becomes("up")
        assert shown.problems == []


RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def violations(shown: Tab) -> list[str]:
    found = Axe().run(shown.page, options=RULES).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_of_a_server(chromium, port, theme, width):
    """It has no violation, with all panels open, and with the help."""
    with opened(chromium, port, color_scheme=theme, width=width) as shown:
        shown.until("document.querySelectorAll('.uplot').length > 5")
        shown.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert violations(shown) == []
        shown.page.keyboard.press("?")
        assert violations(shown) == []


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_list_of_servers(chromium, theme, width):
    """It has no violation, with servers in every state, a state that is chosen, and a full host."""
    with (
        serving("one=/nowhere/1", "two=/nowhere/2") as of_two,
        listing(chromium, of_two, MIXED, FULL, color_scheme=theme, width=width) as shown,
    ):
        assert violations(shown) == []
        shown.page.get_by_role("button", name="CRITICAL 2").click()
        assert violations(shown) == []


def test_keys_reach_every_value(chromium, port):
    """On a chart over time, arrow keys move the pointer of all charts."""
    with opened(chromium, port) as shown:
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


def test_print_breaks_no_figure(chromium, port):
    """On A4 the page is no wider than the paper, and no figure of a table goes over two lines."""
    with opened(chromium, port, width=718, height=1000) as shown:
        shown.until("document.querySelectorAll('table[aria-label=Workers] tbody tr').length === 4")
        shown.page.emulate_media(media="print")
        assert shown.page.evaluate(BROKEN) == []
        assert shown.overflow() <= 0

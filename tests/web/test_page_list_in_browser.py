"""The list of servers in a real browser: what comes first, states, filter, order, URL, keyboard, narrow screens."""

import contextlib
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser

from tests.support import real_uwsgi
from tests.support.browser import Tab, opened, tab
from tests.support.exporter import exporter
from tests.support.web_server import get, serving
from tests.web.test_app import replayed
from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.watch.observation import NotWatched
from uwsgi_headroom.web import live_page

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def port():
    """The port of an exporter of four servers, one of which is down."""
    address = replayed("threads_4x8_busy").partition("=")[2]
    names = [f"{name}={address}" for name in ("shop-10", "shop-2", "cart")]
    with serving(*names, "gone=/nowhere/stats", sampling=True) as served:
        yield served


def names(shown: Tab) -> list[str]:
    return shown.page.locator("tbody tr a").all_inner_texts()


def chips(shown: Tab) -> list[str]:
    return shown.page.locator(".chips button:visible").all_inner_texts()


def summary(name: str, status: schema.Status = "ok", **changes: object) -> schema.Summary:
    of = schema.Summary(
        name=name,
        address=f"/run/uwsgi/{name}.stats",
        path=build.server_path(name),
        state="up",
        error=None,
        age=0.2,
        kind="server",
        version="2.0.31",
        status=status,
        verdict="Headroom 4.0x: threads run out first.",
        headroom=4.0,
        first="threads",
        throughput=41.0,
        response_time=0.182,
        observed=7.5,
        available=32,
        queue_wait=0.0,
        waiting="none",
    )
    return replace(of, **changes)


@contextlib.contextmanager
def listing(
    chromium: Browser,
    port: int,
    servers: Sequence[schema.Summary],
    host: str | None = None,
    others: Sequence[NotWatched] = (),
    **options: int,
) -> Iterator[Tab]:
    ordered = tuple(sorted(servers, key=build.urgency))
    listed = schema.Servers(time=1.8e9, version="1", servers=ordered, host=host, not_watched=tuple(others))
    body = msgspec.json.encode(listed).decode()
    with tab(chromium, port, **options) as shown:
        events = {"content_type": "text/event-stream", "body": f"data: {body}\n\n"}
        shown.page.route("**/api/v2/events", lambda route: route.fulfill(**events))
        shown.page.route("**/api/v2/servers", lambda route: route.fulfill(content_type="application/json", body=body))
        shown.open("/")
        yield shown


FULL = "web1: CPUs are full: 2 servers wait for a CPU. Add CPUs, or move load to another host."
WAITS = {
    "verdict": "Requests spend most of their time waiting for a CPU.",
    "act": "Find out who has the CPUs.",
    "of_host": True,
}
MIXED = (
    summary("well"),
    summary("starved", "critical", headroom=1.0, **WAITS),
    summary("hungry", "warning", **WAITS),
    summary("slow", "warning", act="Set `reload-on-rss` or `max-requests`."),
    summary("full", "critical", act="Raise `threads` from 8 to 12.", queue_wait=0.6, waiting="severe"),
    summary("tight", headroom=1.02),
    summary("gone", "unknown", state="down", age=65.0, act="Start uWSGI."),
)


def test_what_can_be_changed_comes_first(chromium, port):
    """After servers that are down, those that their own settings can help; what the host lacks is said once, above."""
    with listing(chromium, port, MIXED, FULL) as shown:
        assert names(shown) == ["gone", "full", "slow", "starved", "hungry", "tight", "well"]
        assert chips(shown) == ["✖ DOWN 1", "✖ CRITICAL 2", "▲ WARNING 2", "✓ OK 2"]
        assert shown.text(".whole") == f"▲ {FULL}"
        acts = shown.page.locator("td.act").all_inner_texts()
        assert acts[:4] == [
            "Start uWSGI.",
            "Raise threads from 8 to 12.",
            "Set reload-on-rss or max-requests.",
            "see above",
        ]
        assert shown.text("main").count("wait for a CPU") == 1
        assert shown.page.locator("tr.ok td.room").all_inner_texts() == ["▲ 1.0x", "4.0x"]
        assert shown.page.locator("td.room").nth(5).get_attribute("data-tone") == "warning"
    with listing(chromium, port, MIXED) as shown:
        assert shown.text("td.act >> nth=3") == "Find out who has the CPUs."
        assert not shown.page.locator(".whole").is_visible()


def test_states_are_chosen(chromium, port):
    """Only servers in the chosen states are shown, also after a reload; none chosen shows all."""
    with listing(chromium, port, MIXED) as shown:
        critical = shown.page.get_by_role("button", name="CRITICAL 2")
        critical.click()
        shown.page.get_by_role("button", name="DOWN 1").click()
        assert names(shown) == ["gone", "full", "starved"]
        assert "7 servers; 3 shown" in shown.text(".about")
        assert shown.page.url.endswith("?state=down%2Ccritical")
        shown.page.reload()
        shown.page.wait_for_selector("tbody tr")
        assert names(shown) == ["gone", "full", "starved"]
        assert critical.get_attribute("aria-pressed") == "true"
        shown.page.keyboard.press("Escape")
        assert len(names(shown)) == len(MIXED)
        assert shown.page.url.endswith("/")


CUT = """[...document.querySelectorAll(".overview *, header *, .whole, .chips *")].filter((node) =>
    node.offsetParent && (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1) &&
    getComputedStyle(node).overflow !== "visible" &&
    !(getComputedStyle(node).textOverflow === "ellipsis" && !node.children.length) &&
    getComputedStyle(node).webkitLineClamp === "none"
).map((node) => node.outerHTML.slice(0, 200))"""


def test_a_thousand_servers(chromium, port):
    """The list begins with 200 and has more; it fits the window, and nothing is cut without an ellipsis."""
    long = "application-with-a-name-of-sixty-letters-and-more-in-production"
    words = "Raise `threads` from 8 to 12: while all threads are busy, there are 20 requests at once for 8. " * 3
    of = [summary(f"{long}-{number}", "critical", act=words, verdict=words) for number in range(20)]
    of += [summary(f"server-{number}") for number in range(980)]
    with listing(chromium, port, of, words) as shown:
        assert shown.page.locator("tbody tr").count() == 200
        for width in (1440, 1024, 390):
            shown.page.set_viewport_size({"width": width, "height": 900})
            assert shown.overflow() <= 0
            assert shown.page.evaluate(CUT) == []
        shown.page.get_by_role("button", name="Show more: 800 left").click()
        shown.laid()
        assert shown.page.locator("tbody tr").count() == 400
        shown.page.get_by_label("Filter").fill("server-979")
        assert names(shown) == ["server-979"]


def test_the_filter(chromium, port):
    """A server matches if its row contains every word of the filter; the filter is in the URL and in links."""
    with opened(chromium, port) as shown:
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


def test_the_order(chromium, port):
    """A heading sorts, with numbers in names as numbers; the order is in the URL."""
    with opened(chromium, port) as shown:
        shown.page.get_by_role("button", name="Server", exact=True).click()
        assert names(shown) == ["cart", "gone", "shop-2", "shop-10"]
        assert shown.page.url.endswith("?sort=Server")
        shown.page.get_by_role("button", name="Server", exact=True).click()
        shown.page.reload()
        shown.page.wait_for_selector("tbody tr")
        assert names(shown) == ["shop-10", "shop-2", "gone", "cart"]


def test_help_and_a_server_that_is_down(chromium, port):
    """`?` lists the keys, Escape closes the help, and in the filter it is a letter."""
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.wait_for_selector("tbody tr.down")
        state, name, headroom, _, act, *_ = shown.page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert (headroom, name) == ("\u2013", "gone")
        assert "DOWN" in state
        assert act == "Start uWSGI, or wait until it has loaded its application"
        assert chips(shown)[0] == "✖ DOWN 1"
    with tab(chromium, port) as shown:
        shown.open("/")
        shown.page.keyboard.press("?")
        assert "filter" in shown.text("dialog[open]")
        shown.page.keyboard.press("Escape")
        shown.until("document.querySelector('dialog[open]') === null")
        shown.page.get_by_label("Filter").type("?")
        assert shown.page.get_by_label("Filter").input_value() == "?"
        assert shown.page.query_selector("dialog[open]") is None


def test_the_icon_of_text_pages(port):
    status, headers, _ = get(port, "/favicon.ico")
    assert (status, headers["Location"]) == (307, live_page.url("icon.svg"))
    assert get(port, headers["Location"])[0] == 200


VASSAL = "[uwsgi]\nmaster = true\nstats = %d/vassal.stats\nsocket = %d/vassal.sock\n"


def test_a_vassal_is_linked_to_its_page(chromium):
    """A vassal is linked if its stats are read and its master's parent is this emperor."""
    options = ["--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"]
    with real_uwsgi.bare(*options, files={"vassals/shop.ini": VASSAL}) as emperor:
        stats = str(emperor.directory / "vassals" / "vassal.stats")
        real_uwsgi.wait_until(lambda: real_uwsgi.accepts(stats), what="the vassal")
        servers = ["--stats", f"emperor={emperor.stats}", "--stats", f"shop={stats}"]
        with exporter(*servers) as running, tab(chromium, running.port) as shown:
            shown.open("/servers/emperor")
            shown.page.get_by_role("link", name="shop", exact=True).click()
            shown.laid()
            assert shown.page.url.endswith("/servers/shop")
            assert f"vassal of PID {emperor.pid}" in shown.text(".which")
            assert shown.problems == []


def test_servers_that_are_not_watched_are_below_the_list(chromium, port):
    """With the reason and the command; a hostile name is a text, and shows its controls."""
    names = ("<b>shop\u202e@mallory, PID 7", "wiki@www-data, PID 8")
    others = [NotWatched("rights", 22, names, "seen, not watched: needs the right of waits", "install it")]
    with listing(chromium, port, MIXED, others=others) as shown:
        found = shown.page.locator(".others p")
        shown.page.wait_for_selector(".others p")
        text = found.inner_text()
        assert text.startswith("22 uWSGIs seen, not watched: needs the right of waits: <b>shop\\u202e@mallory, PID 7; ")
        assert "and 20 more" in text
        assert found.locator("code").inner_text() == "install it"

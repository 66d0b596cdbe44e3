"""The page in a real browser: its figures are correct, and it says so when they are not current.

Pictures are left in the directory that $PICTURES names.
"""

import json
import os
import re
import signal
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support import alert_scenes, real_uwsgi
from tests.support.browser import Tab, opened, tab
from tests.support.captured_documents import path
from tests.support.exporter import exporter
from tests.support.web_server import serving
from tests.web.test_app import replayed
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.words.formats import factor

pytestmark = pytest.mark.integration

HOSTILE = """a/b "c" '<img src=x onerror=alert(1)>&amp;%2F\u202e"""
SHOWN = HOSTILE.replace("\u202e", r"\u202e")
PANELS = [
    "Load",
    "Workers",
    "Events",
    "Response time",
    "Response time percentiles",
    "Throughput",
    "Headroom by limit",
    "Listen queues",
    "Concurrency",
    "Every worker over time",
    "What if",
    "Figures",
    "Occupancy",
    "Worker details",
    "Setup",
    "Sampling",
]


@pytest.fixture(scope="module")
def shop():
    """An exporter of a uWSGI whose first worker gets three times as much as the second, with CPU to spare. It does not
    look at what requests wait for."""
    with (
        alert_scenes.mapped(processes=2) as server,
        alert_scenes.loaded(server.hot, clients=9, io_ms=240, cpu_ms=2),
        alert_scenes.loaded(server.calm, clients=3, io_ms=240, cpu_ms=2),
        exporter("--stats", f"shop={server.stats}", "--cpu-residency", "--waits=false") as running,
    ):
        yield running


def picture(of: Tab, name: str) -> None:
    """Keep a picture, if a directory is given."""
    if directory := os.environ.get("PICTURES"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        size = of.page.viewport_size
        tall = of.page.evaluate("document.documentElement.scrollHeight")
        of.page.set_viewport_size({"width": size["width"], "height": tall})  # content out of sight is not painted
        of.page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)
        of.page.set_viewport_size(size)


def test_everything_is_there(chromium, shop):
    """The hot worker is named, and marked only where it does harm."""
    with tab(chromium, shop.port, width=1440, height=900) as shown:
        shown.open("/")
        shown.drawn()
        assert [heading.text_content() for heading in shown.page.query_selector_all("h2:visible")] == PANELS
        assert shown.text("h1") == "shop"
        for drawn in shown.page.query_selector_all("canvas[role=img], .lines"):
            assert len(drawn.get_attribute("aria-label") or "") > 20
        picture(shown, "wide")
        assert shown.problems == []
    with tab(chromium, shop.port) as shown:
        shown.open("/")
        shown.until("document.querySelector('[data-figure=balance]')?.textContent === 'worker 1'")
        assert shown.page.query_selector_all("table[aria-label=Workers] tbody tr")
        assert shown.page.query_selector_all("table[aria-label=Workers] tr.hot") == []


def test_the_policy_is_watched(chromium, shop):
    """A script that the page's policy forbids does not run, and these tests notice it."""
    with tab(chromium, shop.port) as shown:
        shown.open("/")
        shown.page.evaluate("""() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'ran'";
            document.body.append(script);
        }""")
        shown.page.wait_for_timeout(100)
        assert any("policy: script-src-elem" in problem for problem in shown.problems)
        assert shown.page.title() != "ran"


def test_figures_are_those_of_the_api(chromium, shop):
    """Every key figure, and every worker's share, equals the document's, rounded to the digits shown."""
    with opened(chromium, shop.port) as shown:
        shown.until("JSON.parse(heard)?.balance?.hot_ratio > 0 && document.querySelector('[data-figure=response]')")
        from_page = shown.page.evaluate("""() => ({
            document: heard,
            time: document.querySelector("main").dataset.time,
            // Of two with one name, the first is the headline's.
            figures: Object.fromEntries([...document.querySelectorAll("[data-figure]")].reverse().map((figure) =>
                [figure.dataset.figure, figure.textContent])),
            shares: [...document.querySelectorAll("table[aria-label=Workers] tbody tr")]
                .map((row) => [row.cells[0].textContent, row.cells[4].textContent]),
        })""")
    document, figures = json.loads(from_page["document"]), from_page["figures"]
    assert document["time"] == float(from_page["time"])
    assert figures["verdict"] == document["verdict"]
    shares = {int(worker): share for worker, share in from_page["shares"]}
    headroom = document["headroom"]
    usable = headroom["factor"] if headroom["usable"] is None else headroom["usable"]
    room = headroom["factor"] if document["status"] == "ok" and usable < 1.05 else min(headroom["factor"], usable)
    if figures["headroom"] == "no":
        assert room < 1.05
    else:
        assert reads(figures["headroom"], room), (figures, headroom)
    assert reads(figures["served"], document["flow"]["throughput"])
    first = [(line["code"], line["parts"][0]) for line in document["lines"]]
    for code in ("users_wait", "served", "response", "queue", "in_service", "balance", "limits"):
        assert (code, figures[code]) in first
    for worker in document["workers"]:
        assert reads(shares[worker["worker_id"]], worker["share"]), (shares, worker)


def reads(text: str, value: float) -> bool:
    """Whether a figure with its unit equals this value, to half of its last digit."""
    match = re.fullmatch(r"([\d,]+)(\.\d+)? ?(ms|s|min|%|x|/s)?", text)
    assert match, text
    whole, part, unit = match.groups(default="")
    scale = {"ms": 0.001, "%": 0.01, "min": 60}.get(unit, 1)
    last = 10.0 ** -max(0, len(part) - 1)
    return abs(float(whole.replace(",", "") + part) * scale - value) <= 0.501 * last * scale


def test_the_exporter_stops_and_comes_back(chromium):
    with alert_scenes.mapped(processes=2) as server, alert_scenes.loaded(server.hot, clients=2, io_ms=60):
        port = real_uwsgi.free_port()
        with tab(chromium, port) as shown:
            with exporter("--stats", f"shop={server.stats}", port=port):
                shown.open("/")
                shown.becomes("up")
            shown.becomes("lost")
            assert "has not answered for" in shown.text("main .verdict")
            assert "NOT CURRENT" in shown.text(".headline .state")
            assert shown.page.title().startswith("?")
            picture(shown, "exporter-stopped")
            with exporter("--stats", f"shop={server.stats}", port=port):
                shown.becomes("up")
                shown.until("!document.querySelector('main .verdict').textContent.includes('answered')")
            assert [problem for problem in shown.problems if "Failed to load resource" not in problem] == []


def test_an_exporter_that_hangs(chromium):
    """Connections stay open without data: the page still turns stale, and recovers."""
    with exporter("--stats", replayed("threads_4x8_busy")) as running, tab(chromium, running.port) as shown:
        shown.open("/")
        running.process.send_signal(signal.SIGSTOP)
        shown.becomes("lost")
        running.process.send_signal(signal.SIGCONT)
        shown.becomes("up")


def test_hostile_names(chromium):
    """A server's name and all its texts are escaped, and the URL of its page works."""
    hostile = make_server(f"file://{path('hostile_quotes_and_json')}", name=HOSTILE)
    with serving(hostile, replayed("minified"), sampling=True) as port, tab(chromium, port) as shown:
        shown.open("/")
        shown.page.get_by_role("link", name=SHOWN, exact=True).click()
        shown.becomes("up")
        assert shown.text("h1") == SHOWN
        assert shown.page.url == f"http://127.0.0.1:{port}/servers/{quote(HOSTILE, safe='')}"
        assert SHOWN in shown.page.title()
        assert shown.page.query_selector("img") is None
        shown.page.reload()
        shown.becomes("up")
        assert shown.problems == []


def test_several_servers(chromium):
    """The list has the servers in the API's order, unreadable ones first; each links to its page."""
    names = ["emperor", "router_http_subscriptions", "threads_4x8_busy"]
    with serving(*map(replayed, names), "gone=/nowhere/stats", sampling=True) as port, tab(chromium, port) as shown:
        shown.open("/")
        picture(shown, "index")
        order, rows = shown.page.evaluate(  # at the same instant: a newer document may have another order
            """[JSON.parse(heard).servers.map((server) => server.name),
                [...document.querySelectorAll("tbody tr a")].map((link) => link.innerText)]"""
        )
        assert order[0] == "gone"
        assert shown.page.get_attribute("tbody tr:first-child", "class") == "down"
        assert "DOWN" in shown.text("tbody tr:first-child")
        assert rows == order
        for name, table in [("emperor", "Vassals"), ("router_http_subscriptions", "Backends")]:
            shown.page.get_by_role("link", name=name, exact=True).click()
            shown.page.wait_for_selector(f"table[aria-label={table}] tbody tr")
            assert shown.overflow() <= 0
            shown.page.get_by_role("link", name="All 4 servers").click()
        shown.page.get_by_role("link", name="gone", exact=True).click()
        shown.becomes("down")
        assert "No such file" in shown.text("main .verdict")
        assert shown.problems == []


def test_what_is_not_known(chromium):
    """Without figures there is neither a verdict nor an all-clear; each missing value has its reason."""
    with serving(replayed("no_cores")) as port, tab(chromium, port) as shown:
        shown.open("/")
        assert not shown.page.is_visible(".factor")
        assert "UNKNOWN" in shown.text(".state")
        assert not shown.page.is_visible(".act")
        assert "the PID of uWSGI's master is not proven" in shown.text(".unknown")
        assert "stats-no-cores" in shown.text(".unknown")
        assert [shown.page.query_selector(f"[data-figure={code}]") for code in ("users_wait", "queue")] == [None, None]
        assert shown.problems == []


def test_pages_that_need_no_script(chromium):
    """An old URL says that the server is gone; without JavaScript the page has the verdict of each server."""
    with serving(replayed("minified"), sampling=True) as port, tab(chromium, port) as shown:
        answer = shown.page.goto(f"http://127.0.0.1:{port}/servers/old")
        assert answer.status == 404
        assert "There is no server old" in shown.text("main")
    with (
        serving(replayed("minified"), "gone=/nowhere/stats", sampling=True) as port,
        tab(chromium, port, java_script_enabled=False) as shown,
    ):
        shown.page.goto(f"http://127.0.0.1:{port}/")
        assert "2 servers, 1 down" in shown.text("main")
        assert "no such file" in shown.text("main")


def test_pause_and_resume(chromium, shop):
    """A paused page keeps its figures and shows their time; resumed, it continues."""
    with opened(chromium, shop.port) as shown:
        shown.page.get_by_role("button", name="Pause").click()
        shown.becomes("paused")
        time = shown.page.get_attribute("main", "data-time")
        shown.page.wait_for_timeout(2500)
        assert shown.page.get_attribute("main", "data-time") == time
        assert "Paused: figures as of" in shown.text(".age")
        shown.page.get_by_role("button", name="Resume").click()
        shown.becomes("up")
        shown.until(f"document.querySelector('main').dataset.time > {time}")


def test_ranges_and_windows(chromium, shop):
    """A range fetches its history, a window its figures; both are in the URL, and a copied URL opens the same view."""
    with opened(chromium, shop.port) as shown:
        with shown.page.expect_request(lambda request: "/history?seconds=900&" in request.url):
            shown.page.locator("fieldset", has_text="Last").get_by_text("15 m", exact=True).click()
        with shown.page.expect_request(lambda request: "/events?window=300" in request.url):
            shown.page.get_by_text("5 min", exact=True).click()
        assert shown.page.url.endswith("?range=900&window=300")
        with shown.page.expect_request(lambda request: "/history?seconds=900&" in request.url):
            shown.page.reload()
        shown.until("JSON.parse(heard)?.window?.asked === 300")
        assert shown.page.get_by_role("radio", name="15 m").is_checked()
        assert shown.page.get_by_role("radio", name="5 min").is_checked()


def test_the_snapshot(chromium, shop):
    with opened(chromium, shop.port, permissions=["clipboard-read", "clipboard-write"]) as shown:
        shown.until("JSON.parse(heard).headroom !== null && JSON.parse(heard).findings.length")
        shown.page.get_by_role("button", name="Pause").click()
        shown.page.get_by_role("button", name="Copy", exact=True).click()
        shown.page.get_by_role("button", name="Copied").wait_for()
        copied = shown.page.evaluate("navigator.clipboard.readText()")
        document = json.loads(shown.page.evaluate("heard"))
    assert copied.startswith("shop (uWSGI 2.0")
    assert document["verdict"] in copied
    assert f"headroom     {factor(document['headroom']['factor'])}, then " in copied
    assert all(finding["title"] in copied and finding["change"] in copied for finding in document["findings"])
    assert re.search(rf"\d\d:\d\d:\d\d UTC  http://127\.0\.0\.1:{shop.port}/servers/shop$", copied.rstrip())
    assert "NOT CURRENT: Paused" in copied


def test_the_snapshot_over_plain_http(chromium, shop):
    with tab(chromium, shop.port, permissions=["clipboard-read"]) as shown:
        shown.page.add_init_script("Object.defineProperty(navigator.clipboard, 'writeText', { value: undefined })")
        shown.open("/")
        shown.page.get_by_role("button", name="Copy", exact=True).click()
        shown.page.get_by_role("button", name="Copied").wait_for()
        assert shown.page.evaluate("navigator.clipboard.readText()").startswith("shop (uWSGI 2.0")
        assert shown.page.query_selector("dialog") is None


def test_the_keyboard_is_enough(chromium, shop):
    """Tab reaches every control in the order of the page; each has a name and shows its focus."""
    with opened(chromium, shop.port) as shown:
        keys, names = shown.page.keyboard, []
        for _ in range(120):
            keys.press("Tab")
            name, outline, tag = shown.page.evaluate("""() => {
                const element = document.activeElement;
                const outlined = element.matches("input") ? element.nextElementSibling : element;
                const label = element.labels?.[0]?.textContent || element.getAttribute("aria-label");
                return [label || element.textContent, getComputedStyle(outlined).outlineStyle, element.tagName];
            }""")
            if tag == "BODY":
                break
            assert name.strip()
            assert outline != "none", name
            names.append(name)
            if name == "Pause":
                keys.press("Space")
                shown.becomes("paused")
                keys.press("Space")
                shown.becomes("up")
            if name == "5 m":
                keys.press("ArrowRight")
                shown.page.wait_for_url("**range=900**")
            if name == "Share":
                keys.press("Enter")
                sorted_by = shown.page.query_selector("table[aria-label=Workers] th[aria-sort=descending]")
                assert sorted_by.inner_text().startswith("Share")
        expected = [
            "uwsgi-headroom",
            "60 s",
            "Pause",
            "Copy",
            "Help",
            "What if",
            "Load",
            "5 m",
            "Marks",
            "Table: Workers",
            "Worker",
            "Share",
        ]
        names = [name.partition(",")[0] for name in names]  # other uWSGIs of this machine are not watched
        assert list(dict.fromkeys(name for name in names if name in expected)) == expected


@pytest.mark.parametrize(("width", "path"), [(320, "/"), (3840, "/?range=3600")])
def test_every_width(chromium, shop, width, path):
    """From a phone to 4K, nothing is wider than the window."""
    with opened(chromium, shop.port, path, width=width, height=640, color_scheme="dark") as shown:
        shown.drawn()
        assert shown.overflow() <= 0
        picture(shown, f"dark-{width}")


def test_sixty_four_workers(chromium):
    """A large server has a row for each worker, and the page is no wider than the window."""
    with (
        real_uwsgi.uwsgi("--processes", "64", "--threads", "16") as server,
        exporter("--stats", f"large={server.stats}") as running,
        tab(chromium, running.port, 1440, 900) as shown,
    ):
        shown.open("/")
        shown.until("document.querySelectorAll('table[aria-label=Workers] tbody tr').length === 64")
        shown.drawn()
        assert shown.overflow() <= 0
        picture(shown, "64-workers")
        assert shown.problems == []

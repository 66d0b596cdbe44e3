"""The page of a server whose requests wait for many things, on many routes, in a real browser: what is drawn, at any
width."""

import json
import re
import time

import msgspec
import pytest
from playwright.sync_api import Route as Intercepted

from tests.support.browser import Tab, tab
from tests.web.test_page_in_browser import picture
from uwsgi_headroom.analysis.wait_states import Backend, WaitFigures, WaitState
from uwsgi_headroom.documents.history import (
    ConcurrencyColumns,
    HistoryDocument,
    RouteHistory,
    ThreadColumns,
    WaitHistory,
)
from uwsgi_headroom.documents.subjects import Route
from uwsgi_headroom.record import STATES
from uwsgi_headroom.words.colours import contrast

pytestmark = pytest.mark.integration

SERVER = "threads_4x8_busy"
THREADS = 32
STEP = 2.0  # seconds
SLICES = 150
HOSTILE = """<img src=x onerror=alert(1)> "'&amp;"""
NAMES = (HOSTILE, "a-backend-with-a-name-that-is-very-long-indeed.example", *(f"backend{at}" for at in range(18)))
ROUTES = (f"GET /{HOSTILE}", f"POST /{'a-long-segment-' * 12}", *(f"GET /part{at}/{{id}}" for at in range(48)), "other")
EACH = 1.0  # threads in each state
NAMED = EACH / (len(NAMES) + 1)  # threads that wait for each named backend; the rest of `backend` is as large

# The pixels of a column of the first chart, by their colour as #rrggbb.
_COLOURS = """(share) => {
    const canvas = document.querySelector(".uplot canvas"), x = Math.round(canvas.width * share);
    const { data } = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height), count = {};
    for (let at = 0; at < data.length; at += 4) {
        const hex = "#" + [...data.slice(at, at + 3)].map((each) => each.toString(16).padStart(2, "0")).join("");
        if (data[at + 3] === 255) count[hex] = (count[hex] ?? 0) + 1;
    }
    return count;
}"""

# The colour of each label in the bar, and the colour behind it.
_LABELS = """() => [...document.querySelectorAll(".part")].map((part) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    const hex = (colour) => {
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const { data } = context.getImageData(0, 0, 1, 1);
        return "#" + [...data.slice(0, 3)].map((each) => each.toString(16).padStart(2, "0")).join("");
    };
    const label = getComputedStyle(part.lastChild);
    const behind = part.classList.contains("hatched") ? label : getComputedStyle(part);
    return [part.textContent, hex(label.color), hex(behind.backgroundColor)];
})"""


def answer(intercepted: Intercepted, threads: int) -> None:
    """Answers for the exporter: its own document, with every state and many backends; a history that is half known,
    with so many threads available."""
    url = intercepted.request.url
    if "/history?" in url:
        intercepted.fulfill(body=msgspec.json.encode(history(threads)))
        return
    document = json.loads(intercepted.fetch(url=url.replace("/events", "")).body())
    document["waits"] = msgspec.to_builtins(section())
    document["routes"] = msgspec.to_builtins(routes())
    for worker in document["workers"]:
        worker["lock_waiters"] = 0.25
    if "/events" in url:
        intercepted.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(document)}\n\n")
    else:
        intercepted.fulfill(json=document)


def section() -> WaitFigures:
    """Every state takes 10 ms of a request, the backends together 10 ms."""
    return WaitFigures(
        states=tuple(WaitState(state=state, threads=EACH, per_request=0.01) for state in STATES),
        backends=tuple(Backend(name=name, address="", threads=NAMED, per_request=NAMED / 100) for name in NAMES),
        total=len(STATES) * EACH,
        disagreement=0.0,
    )


def routes() -> tuple[Route, ...]:
    """As many routes as there can be, each with the same number of busy threads."""
    return tuple(
        Route(route=name, threads=0.1, share=1 / len(ROUTES), in_service=1, oldest_seconds=1.5) for name in ROUTES
    )


def history(threads: int) -> HistoryDocument:
    """The last five minutes; what threads wait for is known in the newer half of them."""
    until = time.time() // STEP * STEP
    known = SLICES // 2

    def column(value: float) -> list[float | None]:
        return [None] * (SLICES - known) + [value] * known

    return HistoryDocument(
        name=SERVER,
        step=STEP,
        since=until - SLICES * STEP,
        until=until,
        time=[until - (SLICES - 1 - at) * STEP for at in range(SLICES)],
        concurrency=ConcurrencyColumns(littles_law=[13.0] * SLICES, observed=[13.0] * SLICES),
        threads=ThreadColumns(configured=[threads] * SLICES, available=[threads] * SLICES),
        routes=RouteHistory(routes=ROUTES, threads=[column(0.1) for _ in ROUTES]),
        waits=WaitHistory(
            threads=[column(EACH) for _ in STATES], backend_names=NAMES, backends=[column(NAMED) for _ in NAMES]
        ),
    )


def opened(shown: Tab, threads: int = THREADS) -> Tab:
    path = re.compile(rf"/api/v2/servers/{SERVER}(/events|/history)?(\?|$)")
    shown.page.route(path, lambda route: answer(route, threads))
    shown.open("/?range=300")
    shown.drawn()
    return shown


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1440, "light")])
def test_many_states_backends_and_routes(chromium, port, width, scheme):
    """All are named as text in legends, lists and tables; nothing is wider than the window."""
    with tab(chromium, port, width=width, height=900, color_scheme=scheme) as shown:
        opened(shown)
        shown.until("document.querySelectorAll('.parts .part').length === 33")
        listed = shown.page.locator("section[aria-label^='Where the 130 ms go'] li").all_inner_texts()
        legend = shown.page.locator("section[aria-label='Load'] li").all_inner_texts()
        assert len(listed) == len(STATES) + len(NAMES)
        assert f"{HOSTILE} 0.5 ms (0.4 %)" in listed
        assert f"{HOSTILE} 0.05" in legend
        assert "sleep 1.00" in legend
        shown.until(f"document.querySelectorAll('table[aria-label=Routes] tbody tr').length === {len(ROUTES)}")
        table = shown.page.locator("table[aria-label=Routes] td:first-child").all_inner_texts()
        assert sorted(table) == sorted(ROUTES)
        busiest = shown.page.locator("section[aria-label='Busy threads by route over time'] li").all_inner_texts()
        assert "43 more routes 4.30" in busiest
        assert shown.page.query_selector("img") is None
        assert shown.overflow() <= 0
        picture(shown, f"waits-{width}")
        assert shown.problems == []


@pytest.mark.parametrize(("threads", "low", "high"), [(THREADS, 6, 12), (1000, 14, 22)])
def test_bands_are_as_tall_as_their_threads(chromium, port, threads, low, high):
    """Where waits are known, each band has its colour and height; before, the requests in service are one band."""
    with tab(chromium, port, width=1440, height=900, color_scheme="light") as shown:
        opened(shown, threads)
        shown.drawn()
        before, after = (shown.page.evaluate(_COLOURS, share) for share in (0.3, 0.8))
        colours = {state: band_colour(shown, f"wait-{state.replace('_', '-')}") for state in STATES}
        whole = band_colour(shown, "wait-unknown")
    states = [state for state in STATES if state not in {"unknown", "backend"}]  # hatched; in parts
    tall = {state: after.get(colours[state], 0) for state in states}
    assert max(tall.values()) - min(tall.values()) <= 2, tall
    assert low <= min(tall.values()) <= max(tall.values()) <= high, tall
    assert not {colours[state] for state in states} & before.keys()
    assert before[whole] >= 13 * low


def band_colour(shown: Tab, name: str) -> str:
    return str(shown.page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"))


def test_labels_on_the_bar(chromium, port):
    """Every label has a contrast of 4.5 to 1 to what is behind it (WCAG 2.2, 1.4.3)."""
    with tab(chromium, port, width=1440) as shown:
        opened(shown)
        shown.until("document.querySelectorAll('.parts .part').length === 33")
        for scheme in ("light", "dark"):
            shown.page.emulate_media(color_scheme=scheme)
            labels = shown.page.evaluate(_LABELS)
            assert [(text, ink, ground) for text, ink, ground in labels if contrast(ink, ground) < 4.5] == []
        shown.page.evaluate("document.querySelector('.pair').style.gridTemplateColumns = '1fr'")
        parts = shown.page.locator(".part").evaluate_all(
            "(all) => all.map((part) => [part.innerText, part.scrollWidth - part.clientWidth])"
        )
    assert any("10 ms" in text for text, _ in parts)
    assert any(not text for text, _ in parts)
    assert max(excess for _, excess in parts) <= 0

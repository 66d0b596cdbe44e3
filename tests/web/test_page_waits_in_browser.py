"""The page of a server whose requests wait for many things, on many routes, in a real browser: what is drawn, at any
width."""

import json
import re
import time

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import Route as Intercepted

from tests.support import predicted_settings
from tests.support.browser import Tab, browser, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed
from tests.web.test_page_in_browser import picture
from tests.web.test_page_parts_in_browser import part
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


HOUR, DAY = 3600, 86_400
FALL_BACK = 1_792_890_000
"""25 October 2026, 01:00 UTC: clocks in Berlin go from 03:00 back to 02:00."""
MIDNIGHT = FALL_BACK - 3 * HOUR
"""That day's midnight in Berlin."""
SHORT = ["5 m", "15 m", "1 h"]


@pytest.fixture(scope="module")
def page():
    """The page of a replayed server in Berlin, whose modules can be imported."""
    with (
        serving(replayed("threads_4x8_busy"), sampling=True) as port,
        browser() as chromium,
        tab(chromium, port, bypass_csp=True, timezone_id="Europe/Berlin") as shown,
    ):
        shown.open("/")
        shown.until("JSON.parse(heard)?.window")  # figures, which need two readings
        yield shown


def document(**changes: object) -> str:
    whole = {
        "time": [],
        "concurrency": {},
        "threads": {},
        "headroom": {},
        "sockets": [],
        "workers": [],
        "waits": {"states": [], "threads": [], "backend_names": [], "backends": []},
        "response_times": {"shares": [], "seconds": []},
        **changes,
    }
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("reach", "names"),
    [
        (None, SHORT),
        (0, SHORT),
        (HOUR, SHORT),
        (2 * HOUR, [*SHORT, "6 h"]),
        (6 * HOUR, [*SHORT, "6 h"]),
        (20 * HOUR, [*SHORT, "6 h", "1 d"]),
        (14 * DAY, [*SHORT, "6 h", "1 d", "7 d", "30 d"]),
        (731 * DAY, [*SHORT, "6 h", "1 d", "7 d", "30 d", "90 d", "1 y", "2 y"]),
    ],
)
def test_useful_ranges_are_offered(page, reach, names):
    """Those shorter than the history, and the first that covers it; without a file those up to an hour."""
    kept = "null" if reach is None else f"{{ since: {1e9 - reach} }}"
    server = f"{{ kept_history: {kept}, sampling: {{ history_seconds: 9 }}, time: 1e9 }}"
    assert part(page, "ranges.js", f"({{ offered }}) => offered({server}).map(({{ name }}) => name)") == names


@pytest.mark.parametrize(
    ("kept", "note"),
    [
        ("null", "Charts reach back one hour; with --history FILE, the exporter keeps up to two years."),
        ("{ since: null, problem: null }", "The history begins with the next minute."),
        ("{ since: null, problem: 'x.db: no space is left' }", "The history is not written: x.db: no space is left."),
        ("{ since: now - 7200, problem: null }", "(2 h)."),
        ("{ since: now - 7200, problem: 'x.db is damaged' }", "(2 h). The history is not written: x.db is damaged."),
    ],
)
def test_how_far_the_history_reaches(page, kept, note):
    script = f"""({{ about, Ranges }}) => {{
        const server = JSON.parse(heard), now = server.time, ranges = new Ranges(() => {{}});
        const changed = {{ ...server, kept_history: {kept} }};
        ranges.start(changed);
        return [about(changed), ranges.node.querySelector(".hint").textContent];
    }}"""
    sentence, beside = part(page, "ranges.js", script)
    assert note in sentence
    assert beside == (sentence if "not written" in note else "")


@pytest.mark.parametrize(
    ("time", "increment", "label"),
    [
        (MIDNIGHT, 2 * HOUR, "25 Oct"),
        (MIDNIGHT + HOUR, HOUR, "01:00"),
        (FALL_BACK, HOUR, "02:00"),
        (FALL_BACK + 90, 30, "02:01:30"),
        (MIDNIGHT + 25 * HOUR, DAY, "26 Oct"),
        (1_798_758_000, 31 * DAY, "2027"),
        (1_801_436_400, 31 * DAY, "Feb"),
    ],
)
def test_marks_of_a_time_axis(page, time, increment, label):
    """A mark names what begins there: a year, a month, a day, or else the time of day."""
    assert part(page, "moments.js", f"({{ tick }}) => tick({time}, {increment})") == label


@pytest.mark.parametrize(
    ("end", "step", "text"),
    [
        (MIDNIGHT, 900, "24 Oct 23:45 to 25 Oct 00:00 GMT+2"),
        (FALL_BACK, 1800, "25 Oct 02:30 GMT+2 to 02:00 GMT+1"),
        (FALL_BACK + HOUR, HOUR, "25 Oct 02:00 to 03:00 GMT+1"),
        (MIDNIGHT + 25 * HOUR, DAY, "25 Oct 01:00 GMT+2 to 26 Oct 00:00 GMT+1"),
        (MIDNIGHT + 20, 2, "25 Oct 00:00:20 CEST"),
        (MIDNIGHT - 730 * DAY, 2 * DAY, "23 Oct 2024 00:00 to 25 Oct 2024 00:00 GMT+2"),
    ],
)
def test_the_time_of_a_slice(page, end, step, text):
    """A slice of a minute or more is named by both ends, in the zone of each: an hour that occurs twice is clear."""
    now = MIDNIGHT + 26 * HOUR
    script = f"""({{ slice }}) => {{
        const {{ now }} = Date;
        Date.now = () => {now * 1000};
        const text = slice({end}, {step});
        Date.now = now;
        return text;
    }}"""
    shown = str(part(page, "moments.js", script))
    assert shown.replace("CEST", "GMT+2").replace("CET", "GMT+1") == text.replace("CEST", "GMT+2")


def test_a_gap_between_slices(page):
    """Slices of minutes end at multiples of their step, and a line breaks where the exporter was not running."""
    given = document(step=60, time=[60.2, 121.4, 345.1, 420.3], throughput=[1, 2, 3, 4])
    script = f"""({{ flatten, withGaps }}) => {{
        const columns = withGaps(flatten({given}), 60);
        return [columns.get("time"), columns.get("throughput")];
    }}"""
    assert part(page, "history.js", script) == [[60, 120, 180, 360, 420], [1, 2, None, 3, 4]]


FOLLOWED = """async ({ History }) => {
    const answers = %s, urls = [], { fetch } = globalThis;
    globalThis.fetch = async (url) => {
        urls.push(url.split("?")[1]);
        const { status = 200, ...document } = answers.shift();
        return { ok: status === 200, status, json: async () => document };
    };
    const history = new History("/nowhere"), steps = [], times = %s;
    await history.load({ seconds: 3600, points: 240 });
    for (const now of times) {
        await history.follow(now);
        steps.push([history.step, history.time.length, history.trouble]);
    }
    globalThis.fetch = fetch;
    return [urls, steps];
}"""


def test_the_exporter_chooses_the_step(page):
    """Later requests have the step of the document; after another one, the whole range is fetched again."""
    answers = f"[{document(step=60, time=[3540, 3600])}, {document(step=60, time=[3600, 3660])}]"
    urls, steps = part(page, "history.js", FOLLOWED % (answers, "[3601, 3665, 3667]"))
    assert urls == ["seconds=3600&points=240", "seconds=180&points=3"]
    assert steps == [[60, 2, None], [60, 2, None], [60, 3, None]]
    second = document(step=60, time=[3600, 3660])
    answers = f"[{document(step=15, time=[3585, 3600])}, {second}, {second}]"
    urls, steps = part(page, "history.js", FOLLOWED % (answers, "[3640, 3690]"))
    assert [url.split("&")[0] for url in urls] == ["seconds=3600", "seconds=60"]
    assert steps[-1][0] == 15  # after a pause, the next request is for the whole range
    _, steps = part(page, "history.js", FOLLOWED % ('[{ status: 503, error: "x.db is damaged" }]', "[3601]"))
    assert steps == [[0, 0, "x.db is damaged"]]


MARKED = """({ drawEvents }) => {
    const events = %s, places = [], tones = [];
    const context = new Proxy({}, {
        get: (target, name) => (name === "moveTo" ? (x) => places.push(x) : () => {}),
        set: (target, name, value) => (name === "strokeStyle" && tones.push(value), true),
    });
    drawEvents(context, events, [0, 1000], (time) => time, 0, 100);
    return [places.length / 2, tones.length];
}"""


@pytest.mark.parametrize(
    ("events", "marks"),
    [
        ("[{ time: 500, kind: 'reload' }]", 1),
        ("[{ time: 500, kind: 'reload' }, { time: 497, kind: 'worker_ended' }]", 1),
        ("[{ time: 500, kind: 'reload' }, { time: 400, kind: 'reload' }, { time: 2000, kind: 'reload' }]", 2),
        ("Array.from({ length: 1000 }, (_, at) => ({ time: 1000 - at, kind: 'worker_ended' }))", 32),
        ("[]", 0),
    ],
)
def test_marks_are_thinned(page, events, marks):
    """Events that are close together have one mark, and there are never more than 40."""
    shown = part(page, "marks.js", MARKED % events)
    assert shown == [marks, marks]


def test_the_worst_event_is_named(page):
    """And how many more there are at the pointer. Events of an earlier run with the same ids are kept."""
    script = """({ Timeline }) => {
        const timeline = new Timeline();
        const event = (time, kind) => ({ time, kind, title: `${kind} ${time}` });
        timeline.events = [event(9, "reload"), event(8, "server_down"), event(7, "server_down"), event(3, "server_up")];
        return [timeline.near(6, 10), timeline.near(2, 4), timeline.near(4, 6)];
    }"""
    assert part(page, "timeline.js", script) == ["server_down 8 (and 2 more)", "server_up 3", None]
    script = """({ Events }) => {
        const events = new Events("/nowhere"), now = Date.now() / 1000;
        const reload = (time, id) => ({ id, time, since: time, count: 1, kind: "reload", workers: [] });
        events.add([reload(now - 20, 1), reload(now - 9, 1), reload(now - 12, 2)]);
        return events.list().map((event) => Math.round(now - event.time));
    }"""
    assert part(page, "events.js", script) == [9, 12, 20]


MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def panel(chromium, port):
    """A page with the predictions of the whole grid; they were asked for once, for the exporter's own choice."""
    with tab(chromium, port, width=1280) as shown:
        (asked,) = opened_what_if(shown, predicted_settings.document())
        assert asked.endswith("/what-if")
        assert shown.page.locator(".settings [aria-pressed=true]").get_attribute("class") == "best"
        yield shown
        assert shown.problems == []


def opened_what_if(shown: Tab, answer: msgspec.Struct | None = None) -> list[str]:
    """Opens the panel; the exporter answers with this document, or else with its own. Returns the URLs asked for."""
    asked: list[str] = []

    def fulfill(route: Intercepted) -> None:
        asked.append(route.request.url)
        if answer is None:
            route.continue_()
        else:
            route.fulfill(body=msgspec.json.encode(answer))

    shown.page.route("**/what-if*", fulfill)
    shown.open("/")
    shown.page.get_by_role("heading", name="What if").click()
    shown.page.get_by_role("button", name="Predict again").wait_for()
    return asked


def cells(shown: Tab) -> dict[str, list[str]]:
    script = """[...document.querySelectorAll(".settings button")].map((each) => each.getAttribute("aria-label"))"""
    parts = [label.split(": at most ") for label in shown.page.evaluate(script)]
    return {setting: rest.split("; ")[2:] for setting, rest in parts}


def test_a_folded_panel_asks_nothing(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        asked: list[str] = []
        shown.page.on("request", lambda request: asked.append(request.url))
        shown.open("/")
        shown.page.evaluate("globalThis.first = heard")
        shown.until("heard !== first")
        assert any("/events" in url for url in asked)
        assert not any("what-if" in url for url in asked)


def test_the_grid(panel):
    """A cell says what is predicted, beside the present setting, and what stands out."""
    signs = cells(panel)
    assert signs["4x8"] == ["now", "below 1.5x"]
    assert signs["6x4"] == ["best"]
    assert signs["2x4"] == ["below peak"]
    assert signs["8x16"] == ["memory"]
    cell = panel.page.get_by_role("button", name="6x4: at most 480/s")
    assert cell.inner_text().replace(SPACE, " ").split("\n") == ["480/s +50 %", f"67 ms {MINUS}17 %", "★ best"]
    assert panel.page.get_by_role("rowheader", name="6 processes").count() == 1
    assert panel.page.get_by_role("columnheader", name="4 threads").count() == 1
    panel.page.get_by_role("button", name="8x16:").focus()
    panel.page.keyboard.press("Enter")
    detail = panel.text(".detail").replace(SPACE, " ")
    assert "8x16: 8 processes with 16 threads each, 128 in all" in detail
    assert "At most 640/s (+100 % compared with the present setting). First limit: all interpreters." in detail
    assert "4 more workers do not fit." in detail
    assert "Error of the model: The model has a response time of 69 ms, 8 % below the 75 ms observed." in detail
    table = panel.page.locator("table.figures")
    rows = [row.inner_text().split("\t") for row in table.locator("tr").all()]
    assert rows[0][1:] == ["1x (240/s)", "now", "1.5x (360/s)", "now"]
    assert ["Mean time, with the queue", "63 ms", "81 ms", "71 ms", "overload"] in rows
    assert any(row[0] == "Threads in use" for row in rows)
    panel.page.get_by_role("button", name="4x8:").click()
    assert "compared with the present" not in panel.text(".detail")
    tables = "[...document.querySelectorAll('.prediction table')]"
    for width in (360, 900, 1280):
        panel.page.set_viewport_size({"width": width, "height": 800})
        assert panel.overflow() <= 0
        cut = panel.page.evaluate(f"{tables}.map((each) => each.offsetWidth > each.parentNode.clientWidth)")
        assert cut == [False, False]


def test_a_peak_that_was_cut_off(chromium, port):
    """No setting is best and none has a time: more was asked for than was completed. Overloads remain."""
    with tab(chromium, port, width=1280) as shown:
        opened_what_if(shown, predicted_settings.cut_off())
        text = shown.text(".prediction").replace(SPACE, " ")
        assert "240/s were completed at today's peak, and more was asked for, so times are not known." in text
        assert "Which setting is best is not known" in text
        signs = cells(shown)
        assert "best" not in [sign for each in signs.values() for sign in each]
        assert signs["2x4"] == ["below peak"]
        cell = shown.page.get_by_role("button", name="6x4: at most 480/s, +50")
        assert cell.inner_text().replace(SPACE, " ").split("\n") == ["480/s +50 %", "time not known"]
        cell.click()
        assert "Mean time" not in shown.text(".detail")
        assert shown.problems == []


def test_no_setting_is_better_by_more_than_the_error(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        # At 1.5 times the peak, the present setting is overloaded: then any other is better. Here it is not.
        known = predicted_settings.document(error=0.9)
        calm = tuple(replace(each, loads=each.loads[:1]) for each in (*known.predictions,))
        opened_what_if(shown, replace(known, predictions=calm))
        shown.page.locator(".settings").wait_for()
        assert "No setting is better than 4x8" in shown.text(".prediction")
        assert "best" in cells(shown)["4x8"]


def test_a_refusal(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        asked = opened_what_if(shown)
        again = shown.page.get_by_role("button", name="Predict again")
        again.wait_for()
        said = shown.text("details .controls [role=status]")
        assert re.fullmatch(r"[A-Z].+\.", said)
        assert not said.startswith("The exporter")
        with shown.page.expect_response(lambda answer: "what-if" in answer.url):
            again.click()
        assert len(asked) == 2
        assert shown.page.locator(".settings").count() == 0
        assert shown.problems == []


def test_a_closed_panel_asks_no_more(chromium, port):
    """Closing the panel ends the request, and what comes later is not shown."""
    with tab(chromium, port, width=1280) as shown:
        held: list[Intercepted] = []

        def hold(route):
            held.append(route)

        shown.page.route("**/what-if*", hold)
        shown.open("/")
        heading = shown.page.get_by_role("heading", name="What if")
        with shown.page.expect_event("requestfailed", lambda request: "what-if" in request.url):
            heading.click()
            shown.page.get_by_text("Predicting").wait_for()
            heading.click()
        assert len(held) == 1

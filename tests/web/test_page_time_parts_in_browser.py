"""The page's modules about time by themselves in a real browser: ranges, dates, gaps, steps, marks."""

import json

import pytest

from tests.support.browser import browser, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed
from tests.web.test_page_parts_in_browser import part

pytestmark = pytest.mark.integration

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
    """A sentence says how far back the history reaches, why it is not written, or how to keep one."""
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
    assert part(page, "format.js", f"({{ tick }}) => tick({time}, {increment})") == label


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
    shown = str(part(page, "format.js", script))
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
    return [places.length, tones.length];
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
    shown = part(page, "canvas.js", MARKED % events)
    assert shown == [marks, marks]


def test_the_worst_event_is_named(page):
    """And how many more there are at the pointer. Events of an earlier run with the same ids are kept."""
    script = """({ Timeline }) => {
        const timeline = new Timeline();
        const event = (time, kind) => ({ time, kind, title: `${kind} ${time}` });
        timeline.events = [event(9, "reload"), event(8, "server_down"), event(7, "server_down"), event(3, "server_up")];
        return [timeline.near(6, 10), timeline.near(2, 4), timeline.near(4, 6)];
    }"""
    assert part(page, "ranges.js", script) == ["server_down 8 (and 2 more)", "server_up 3", None]
    script = """({ Events }) => {
        const events = new Events("/nowhere"), now = Date.now() / 1000;
        const reload = (time, id) => ({ id, time, since: time, count: 1, kind: "reload", workers: [] });
        events.add([reload(now - 20, 1), reload(now - 9, 1), reload(now - 12, 2)]);
        return events.list().map((event) => Math.round(now - event.time));
    }"""
    assert part(page, "events.js", script) == [9, 12, 20]

"""The page's figures about response times and the objective by themselves in a real browser."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from tests.web.test_page_parts_in_browser import part
from uwsgi_headroom.documents.response_times import Burn, Objective, Percentile, ResponseTimes

pytestmark = pytest.mark.integration

DASH = "\N{EN DASH}"
SPACE = "\N{NO-BREAK SPACE}"


def percentile(share: float, seconds: float | None, low: float, high: float, under: float | None = None) -> Percentile:
    return Percentile(share=share, seconds=seconds, low=low, high=high, under=under)


def response_times(*percentiles: Percentile, requests: int = 1000) -> str:
    return encode(ResponseTimes(requests=requests, interval=0.2, percentiles=percentiles))


def burn(rate: float | None, seconds: float = 3600.0, requests: int = 1000, lost: int = 0, waited: float = 0) -> Burn:
    """A window of an objective of 99 %."""
    share = None if rate is None else rate / 100
    slow = 0.0 if share is None else share * requests - lost - waited
    return Burn(seconds=seconds, requests=requests, slow=slow, lost=lost, waited=waited, share=share, rate=rate)


def objective(*windows: Burn, **changes: object) -> str:
    """An objective of 99 % within a second, as JSON."""
    plain = Objective(
        threshold=1.0,
        objective=0.99,
        windows=windows,
        level=None,
        unjudged=None,
        queue_wait=0.012,
        load_multiple=None,
        load_multiple_reached=None,
    )
    return encode(replace(plain, **changes))


def encode(section: object) -> str:
    return msgspec.json.encode(section).decode()


KEYS = """({ figures }) => {
    const panel = figures(), server = JSON.parse(heard);
    panel.now({ ...server, %s });
    return ["p50", "p90", "p95", "p99"].map((name) => {
        const figure = panel.node.querySelector(`[data-figure=${name}]`);
        return [figure.textContent, figure.nextSibling.textContent];
    });
}"""


def test_a_percentile_is_as_exact_as_samples_are(page):
    """Below what samples show there is no number."""
    known = response_times(
        percentile(0.5, None, 0.0, 0.16, under=0.16),
        percentile(0.9, None, 0.0, 0.24, under=0.16),
        percentile(0.95, 0.21, 0.0, 0.43),
        percentile(0.99, 0.9, 0.84, 1.22),
    )
    assert part(page, "keys.js", KEYS % f"response_times: {known}") == [
        ["under 160 ms", "too short for samples"],
        ["under 160 ms", "at most 240 ms"],
        ["210 ms", "at most 430 ms"],
        ["900 ms", "840 ms to 1.2 s"],
    ]
    known = response_times(percentile(0.95, None, 0.0, 0.37, under=0.37), percentile(0.99, 0.3, 0.21, 0.43))
    p95, p99 = part(page, "keys.js", KEYS % f"response_times: {known}")[2:]
    assert (p95[0], p99[0]) == ("under 370 ms", "210 to 430 ms")  # no estimate below a lower percentile's bound
    known = response_times(percentile(0.5, 0.44, 0.4, 0.48), percentile(0.9, 610.0, 600.0, float("inf")), requests=12)
    assert part(page, "keys.js", KEYS % f"response_times: {known}") == [
        ["440 ms", "400 to 480 ms"],
        ["10 min", "10 min or more"],
        [DASH, "needs 20 requests"],
        [DASH, "needs 100 requests"],
    ]


@pytest.mark.parametrize(
    ("document", "note"),
    [
        ("response_times: null, flow: { ...server.flow, requests: 0 }", "needs 100 requests"),
        ("response_times: null, flow: null", "not known"),
        ("response_times: null, flow: { ...server.flow, requests: 0 }, threads: { configured: null }", "not known"),
    ],
)
def test_without_percentiles_there_are_dashes(page, document, note):
    """The tiles stay, with a dash and the reason, so that nothing moves when figures come."""
    shown = part(page, "keys.js", KEYS % document)
    assert len(shown) == 4
    assert shown[3] == [DASH, note]


_HISTORY = """(columns) => ({
    time: [10, 12, 14], step: 2, span: [8, 14], range: { seconds: 6 },
    column: (name) => columns[name] ?? null,
})"""


@pytest.mark.parametrize(
    ("requests", "legend"),
    [
        (1, ["", "", "", "300 ms"]),
        (2, ["under 160 ms", "", "", "300 ms"]),
        (100, ["under 160 ms", "under 160 ms", "under 160 ms", "300 ms"]),
    ],
)
def test_percentiles_over_time(page, requests, legend):
    """The legend has each percentile, or the time below which it is; nothing with too few requests."""
    columns = {
        **{f"response_times.{share}": [None, None, None] for share in (0.5, 0.9, 0.95)},
        "response_times.0.99": [None, 0.2, 0.3],
        "response_times.finest": [0.16, 0.16, 0.16],
        "response_times.requests": [requests] * 3,
        "response_time": [0.05, 0.05, 0.05],
    }
    script = f"""({{ percentiles }}) => {{
        const chart = percentiles({{ events: [], near: () => null, point: () => {{}} }});
        const texts = (selector) => [...chart.node.querySelectorAll(selector)].map((each) => each.textContent);
        chart.past(({_HISTORY})({json.dumps(columns)}), {{ objective: null }});
        const without = chart.node.querySelector(".limit").hidden;
        chart.past(({_HISTORY})({json.dumps(columns)}), {{ objective: {{ threshold: 1.5 }} }});
        return [texts(".legend b"), texts(".limit"), without];
    }}"""
    assert part(page, "percentiles.js", script) == [[*legend, "50 ms", "160 ms"], ["objective: within 1.5 s"], True]


PANEL = """({ objective }, status = "ok") => {
    const panel = objective(), server = JSON.parse(heard);
    return [%s].map((objective) => {
        panel.now({ ...server, status, objective });
        if (panel.node.hidden) return null;
        const texts = (selector) => [...panel.node.querySelectorAll(selector)].map((each) => each.textContent);
        return [texts("h2"), texts(".judged"), texts("dd b"), texts("dd small")].flat();
    });
}"""


@pytest.mark.parametrize(
    ("known", "judged"),
    [
        (
            objective(burn(20.0), burn(15.0), level="fast"),
            "✖ CRITICAL The error budget burns fast: at least 14.4 times as fast as the objective permits, in both "
            "windows.",
        ),
        (
            objective(burn(7.0), burn(8.0), level="slow"),
            "▲ WARNING The error budget burns: at least 6 times as fast as the objective permits, in both windows.",
        ),
        (objective(burn(0.5), burn(1.5)), "i INFO More requests were bad than the objective permits in the last hour."),
        (
            objective(burn(1.5), burn(1.5)),
            "i INFO More requests were bad than the objective permits in the last 5 min and in the last hour.",
        ),
        (
            objective(burn(None, requests=12), burn(0.0)),
            "? NOT JUDGED Too few requests: 12 in the last 5 min; 100 are needed in each window.",
        ),
        (objective(burn(0.0)), "? NOT JUDGED Too few requests; 100 are needed in each window."),
        (
            objective(burn(30.0), burn(30.0), unjudged="not judged: the wait alone is 3.2 s, beyond the threshold"),
            "? NOT JUDGED The wait alone is 3.2 s, beyond the threshold.",
        ),
    ],
)
def test_the_state_of_the_objective(page, known, judged):
    """A sign, a word and a sentence say whether the objective is met, or why it is not judged."""
    shown = part(page, "objective.js", PANEL % known)
    assert shown[0][1] == judged


def test_the_panel_of_the_objective(page):
    """It comes with an objective, is as bad as the last five minutes are, and says what is not full yet."""
    known = f"{objective(burn(41.0), burn(3.0))}, {objective(burn(1.5), burn(9.0))}, {objective(burn(0.5), burn(9.0))}"
    shown = part(page, "objective.js", PANEL.replace('"ok"', '"warning"') % known)
    assert isinstance(shown, list)
    assert [each[1].split()[1] for each in shown] == ["CRITICAL", "WARNING", "INFO"]
    shown = part(page, "objective.js", PANEL % objective(burn(2.0, seconds=250.0), burn(None, 250.0, requests=64)))
    assert shown[0][2:4] == ["2.0", DASH]
    assert shown[0][5:7] == [
        f"4 min 10 s so far: 2{SPACE}% bad: 20 slow of 1,000",
        "4 min 10 s so far: 64 requests, 100 are needed",
    ]
    reason = {"unjudged": "not judged: the wait", "load_multiple": 1.6, "load_multiple_reached": True}
    shown = part(page, "objective.js", PANEL % objective(burn(2.0), burn(2.0), queue_wait=3.2, **reason))
    assert shown[0][2:] == [DASH, DASH, DASH, "not judged", "not judged", "not judged"]
    down = PANEL.replace("{ ...server,", '{ ...server, state: "down",') % objective(burn(0.0), burn(0.0))
    assert part(page, "objective.js", down) == [None]
    shown = part(page, "objective.js", PANEL % f"null, {objective(burn(0.5), burn(0.4, lost=2, waited=1))}, null")
    assert shown == [
        None,
        [
            f"Objective: 99{SPACE}% of requests within 1 s",
            "✓ OK The objective is met in both windows.",
            *["0.5", "0.4", DASH],
            f"0.5{SPACE}% bad: 5 slow of 1,000",
            f"0.4{SPACE}% bad: 1 slow, 1 waited, 2 lost of 1,000",
            "the last hour does not show it",
        ],
        None,
    ]


@pytest.mark.parametrize(
    ("reached", "figure", "sentence"),
    [
        (True, "1.6x", "p95 reaches 1 s at 1.6x today's load"),
        (False, ">1.6x", "p95 stays under 1 s up to 1.6x today's load (the most seen in the last hour)"),
    ],
)
def test_the_load_until_the_objective_is_missed(page, reached, figure, sentence):
    """The multiple of today's load, and whether that was seen."""
    known = objective(burn(0.5), burn(0.5), load_multiple=1.6, load_multiple_reached=reached)
    shown = part(page, "objective.js", PANEL % known)
    assert (shown[0][4], shown[0][7]) == (figure, sentence)


@pytest.mark.parametrize(
    ("threshold", "share", "goal"),
    [(0.25, 0.995, f"99.5{SPACE}% of requests within 250 ms"), (1.5, 0.5, f"50{SPACE}% of requests within 1.5 s")],
)
def test_an_objective_is_written_as_it_was_chosen(page, threshold, share, goal):
    """Neither share nor threshold is rounded."""
    known = objective(threshold=threshold, objective=share)
    assert part(page, "objective.js", f"({{ goal }}) => goal({known})") == goal


def test_the_snapshot_has_percentiles_and_the_objective(page):
    """Both have a line of text; without them there is none."""
    known = response_times(percentile(0.5, None, 0.0, 0.16, under=0.16), percentile(0.9, 0.44, 0.4, 0.48))
    sections = f"""{{
        response_times: {known},
        objective: {objective(burn(None, requests=12), burn(0.5))},
    }}"""
    script = f"""({{ text }}) => [{sections}, {{ response_times: null, objective: null }}].map((sections) =>
        text({{ ...JSON.parse(heard), ...sections }}, "/").split("\\n").filter((line) => /^(Resp|Obj)/.test(line)))"""
    assert part(page, "snapshot.js", script) == [
        [
            "Response times inside uWSGI, without the wait in the listen queue, estimated from samples: "
            "p50 under 160 ms (too short for samples), p90 440 ms (400 to 480 ms)",
            f"Objective 99{SPACE}% of requests within 1 s: NOT JUDGED. Too few requests: 12 in the last 5 min; 100 are "
            f"needed in each window. Burn rate 0.5 in the last hour.",
        ],
        [],
    ]

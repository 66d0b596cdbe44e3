"""The page's panels about wait states by themselves in a real browser: the bar, and the first chart over time."""

from __future__ import annotations

import json

import pytest

from tests.web.test_page_parts_in_browser import part
from tests.web.test_page_wait_parts_in_browser import DASH, history, waits
from tools.support.browser import Tab
from uwsgi_headroom.record import STATES

pytestmark = pytest.mark.integration

HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_bar_comes_and_goes(page: Tab) -> None:
    """The bar has its sum in the title and every part in the list; without known parts it is absent."""
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar();
        const show = (waits) => {{
            bar.now({{ waits }});
            const texts = (selector) => [...bar.node.querySelectorAll(selector)].map((each) => each.textContent);
            const widths = [...bar.node.querySelectorAll(".part")].map((each) => each.style.getPropertyValue("--part"));
            return bar.node.hidden ? null : [bar.node.ariaLabel, texts("h2"), texts("li"), texts(".part"), widths];
        }};
        return [
            show({waits({"cpu": 0.02, "backend": 0.06})}),
            show(null),
            show({waits({"cpu": None, "backend": None})}),
            show({waits({"cpu": 0.04, "backend": 1.16}, {HOSTILE: 1.16})}),
            bar.node.querySelector("img"),
        ];
    }}"""
    assert part(page, "request_bar.js", script) == [
        [
            "Where the 80 ms go",
            ["Where the 80 ms go"],
            ["on CPU 20 ms (25 %)", "waits for a backend 60 ms (75 %)"],
            ["CPU20 ms", "backend60 ms"],
            ["0.2500", "0.7500"],
        ],
        None,
        None,
        [
            "Where the 1.2 s go",
            ["Where the 1.2 s go"],
            ["on CPU 40 ms (3.3 %)", f"waits for {HOSTILE} 1.2 s (97 %)"],
            ["CPU40 ms", f"{HOSTILE}1.2 s"],
            ["0.0333", "0.9667"],
        ],
        None,
    ]


def test_the_chart_without_known_waits(page: Tab) -> None:
    """It shows the concurrency and what to grant; with known waits it shows the states; then again the concurrency."""
    states = {"cpu": [1, 2, 1], "backend": [2, 2, 3]}
    unknown = history({state: [None, None, None] for state in STATES})
    script = f"""({{ load }}) => {{
        const chart = load({{ events: [], near: () => null }});
        const show = (history, server) => {{
            chart.now(server);
            chart.past(history, server);
            const lines = [...chart.node.querySelectorAll(".legend li:not(.when, .limit)")];
            const reason = chart.node.querySelector(".chart + .hint");
            const text = reason.hidden ? null : reason.textContent;
            const label = chart.node.querySelector(".lines").ariaLabel.split(",")[0];
            return [chart.node.ariaLabel, chart.node.querySelector("h2").textContent, label,
                lines.map((line) => line.textContent), text];
        }};
        const refused = {{ waits: null, unknown: [{{ what: "waits", why: "grant it" }}] }};
        const known = {history(states, {HOSTILE: [0, 1, 1]})};
        return [show({unknown}, refused), show(known, {{ waits: {{}}, unknown: [] }}), show({unknown}, refused)];
    }}"""
    concurrency = [
        *["Concurrency"] * 3,
        ["observed 5.0", f"by Little's law {DASH}", f"threads available {DASH}", f"configured {DASH}"],
        "Not known what requests wait for: grant it.",
    ]
    by_state = [
        *["Load by wait state"] * 3,
        [
            "on CPU 1.00 (25 %)",
            f"waits for {HOSTILE} 1.00 (25 %)",
            "waits for a backend 2.00 (50 %)",
            "observed concurrency 5.0",
            f"threads available {DASH}",
            f"configured {DASH}",
        ],
        None,
    ]
    assert part(page, "stack.js", script) == [concurrency, by_state, concurrency]
    assert page.page.query_selector("img") is None


@pytest.mark.parametrize(("now", "title"), [("{}", "Load by wait state"), ("null", "Concurrency")])
def test_an_idle_server_has_no_bands(page: Tab, now: str, title: str) -> None:
    """If all states are 0 in the whole range, only lines are left; without known waits, those of the concurrency."""
    script = f"""({{ load }}) => {{
        const chart = load({{ events: [], near: () => null }});
        chart.past({history({})}, {{ waits: {now} }});
        return [chart.node.ariaLabel, chart.node.querySelectorAll(".swatch.area").length];
    }}"""
    assert part(page, "stack.js", script) == [title, 0]


def test_the_name_of_a_backend_leaves_room_for_its_time(page: Tab) -> None:
    """A long name is shortened on the bar; the time beside it stays in the segment."""
    seconds = waits({"cpu": 0.01, "backend": 0.03}, {"a-very-long-name-" * 20: 0.03})
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar();
        bar.now({{ waits: {seconds} }});
        document.querySelector("main").append(bar.node);
        const [, segment] = bar.node.querySelectorAll(".part");
        const [whole, name, time] = [segment, ...segment.children].map((each) => each.getBoundingClientRect());
        bar.node.remove();
        return [name.width > 50, time.width > 20, name.right < time.left, time.right < whole.right];
    }}"""
    assert part(page, "request_bar.js", script) == [True, True, True, True]


def test_stuck_requests_stand_beside_the_bar(page: Tab) -> None:
    """A line says how many threads hold them, as they are no part of the time; without any there is none."""
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar(), line = () => bar.node.querySelector(".stuck");
        return [0.5, 0.04, undefined].map((stuck) => {{
            bar.now({{ waits: {{ ...{waits({"cpu": 0.02})}, stuck }} }});
            return line().hidden ? null : line().textContent;
        }});
    }}"""
    assert part(page, "request_bar.js", script) == [
        "0.5 threads hold requests that are stuck, not counted here",
        None,
        None,
    ]


def test_what_requests_wait_for_outside_is_named(page: Tab) -> None:
    """A line below the bar, with addresses as text whatever they hold; without a name and an address there is none."""
    named = [
        ("backend", "postgres", "10.0.0.5:5432", 0.18),
        ("backend", HOSTILE, "/run/x", 0.021),
        ("dns", "DNS", "", 0.005),
    ]
    cases = [named, [("backend", "", "", 0.18)], [("backend", "", f"10.0.0.{place}:80", 0.01) for place in range(5)]]
    keys = ("state", "name", "address", "per_request")
    found = json.dumps([[dict(zip(keys, each, strict=True)) for each in case] for case in cases])
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar(), line = () => bar.node.querySelector(".outside");
        const texts = {found}.map((destinations) => {{
            bar.now({{ waits: {{ ...{waits({"cpu": 0.02})}, destinations }} }});
            return line().hidden ? null : line().textContent;
        }});
        return [...texts, bar.node.querySelector("img")];
    }}"""
    assert part(page, "request_bar.js", script) == [
        f"backend 201 ms: postgres at 10.0.0.5:5432 180 ms, {HOSTILE} at /run/x 21 ms; DNS 5.0 ms: DNS",
        None,
        "backend 50 ms: 10.0.0.0:80 10 ms, 10.0.0.1:80 10 ms, 10.0.0.2:80 10 ms, others 20 ms",
        None,
    ]

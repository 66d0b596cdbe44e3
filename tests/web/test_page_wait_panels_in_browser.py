"""The page's panels about wait states by themselves in a real browser: the bar, and the first chart over time."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import Tab
from tests.web.test_page_parts_in_browser import part
from tests.web.test_page_wait_parts_in_browser import history, waits
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
            ["CPU 20 ms (25 %)", "backend 60 ms (75 %)"],
            ["CPU20 ms", "backend60 ms"],
            ["0.2500", "0.7500"],
        ],
        None,
        None,
        [
            "Where the 1.2 s go",
            ["Where the 1.2 s go"],
            ["CPU 40 ms (3.3 %)", f"{HOSTILE} 1.2 s (97 %)"],
            ["CPU40 ms", f"{HOSTILE}1.2 s"],
            ["0.0333", "0.9667"],
        ],
        None,
    ]


def test_what_requests_do(page: Tab) -> None:
    """The first chart stacks what is known: states, else the requests in service, and above them those in the queues. A
    sentence says what to grant. What is configured is a line of its own only if it is not available."""
    nothing = [None, None, None]
    queue = {"sockets.a.mean_queue": [0, 2, 30], "sockets.b.mean_queue": nothing}
    threads = {"threads.available": [4, 4, 4], "threads.configured": [4, 4, 4]}
    unknown = history(dict.fromkeys(STATES, nothing), extra={**queue, **threads})
    states = {state: [None, 0, 0] for state in STATES} | {"cpu": [None, 2, 1], "backend": [None, 2, 3]}
    known = history(states, {HOSTILE: [None, 1, 1]}, extra={**threads, "threads.configured": [4, 4, 8]})
    script = f"""({{ load }}) => {{
        const ranges = document.createElement("p");
        const chart = load({{ events: [], near: () => null, point: () => {{}} }}, ranges, {{ lines: () => [] }});
        const show = (history, server) => {{
            chart.now(server);
            chart.past(history, server);
            const lines = [...chart.node.querySelectorAll(".legend li:not(.when, .limit)")];
            const reason = chart.node.querySelector(".chart + .hint");
            return [lines.map((line) => line.textContent), reason.hidden ? null : reason.textContent];
        }};
        const refused = {{ waits: null, unknown: [{{ what: "waits", why: "grant it" }}] }};
        return [show({unknown}, refused), show({known}, {{ waits: {{}}, unknown: [] }}), show({history({})}, refused)];
    }}"""
    why = "Not known what requests wait for: grant it."
    assert part(page, "stack.js", script) == [
        [["in service 5.00", "in the queue 30.0", "threads 4"], why],
        [["CPU 1.00", f"{HOSTILE} 1.00", "backend 2.00", "in service 0.00", "threads 4", "configured 8"], None],
        [["threads "], why],
    ]
    assert page.page.query_selector("img") is None


def test_a_click_on_the_legend_takes_a_line_out(page: Tab) -> None:
    """What is stacked above it moves down; another click brings it back."""
    known = history({"cpu": [1, 2, 3], "backend": [4, 4, 4]})
    script = f"""async ({{ load }}) => {{
        const timeline = {{ events: [], near: () => null, point: () => {{}} }};
        const chart = load(timeline, document.createElement("p"), {{ lines: () => [] }});
        document.querySelector("main").append(chart.node);
        chart.past({known}, {{}});
        while (!chart.node.querySelector("canvas")) await new Promise(requestAnimationFrame);
        const {"{"} plots {"}"} = uPlot.sync("time"), plot = plots.at(-1);
        const [button] = chart.node.querySelectorAll(".legend button");
        const tops = () => plot.data.slice(1, 3).map((values) => values.at(-1));
        const seen = [tops()];
        for (let click = 0; click < 2; click += 1) {{
            button.click();
            seen.push([...tops(), plot.series[2].show, button.ariaPressed]);
        }}
        chart.node.remove();
        return seen;
    }}"""
    assert part(page, "stack.js", script) == [[7, 3], [4, 3, False, "false"], [7, 3, True, "true"]]


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
    """A line says how many threads hold them, or others that last, as they are no part of the time; without any there
    is none."""
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar(), line = () => bar.node.querySelector(".stuck");
        return [[0.5, 3], [0.04, 0.9], [0, 14], [undefined, undefined]].map(([stuck, lasting]) => {{
            bar.now({{ waits: {{ ...{waits({"cpu": 0.02})}, stuck, lasting }} }});
            return line().hidden ? null : line().textContent;
        }});
    }}"""
    assert part(page, "request_bar.js", script) == [
        "0.5 threads hold requests that are stuck, not counted here",
        None,
        "14.0 threads hold requests that last, not counted here",
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

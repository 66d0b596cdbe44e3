"""The page's panels about routes by themselves in a real browser. A route is text from the clients of a server."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.support.browser import Tab
from tests.web.test_page_parts_in_browser import part
from uwsgi_headroom.documents.waits import Route

pytestmark = pytest.mark.integration

DASH = "\N{EN DASH}"
HOSTILE = "GET /<img src=x onerror=alert(1)>/\N{RIGHT-TO-LEFT OVERRIDE}gnp"
SHOWN = HOSTILE.replace("\u202e", r"\u202e")

ROUTES = (
    Route(route="POST /export", threads=6.1, share=0.61, in_service=6, oldest_seconds=14.0),
    Route(route=HOSTILE, threads=2.9, share=0.29, in_service=3, oldest_seconds=0.25),
    Route(route="constructor", threads=1.0, share=0.1, in_service=0, oldest_seconds=None),
)


def test_the_table_comes_and_goes(page: Tab) -> None:
    """Most busy threads come first, with a bar for the share; while routes are off there is no panel."""
    script = f"""({{ table }}) => {{
        const panel = table(), server = JSON.parse(heard);
        return [null, {msgspec.json.encode(ROUTES[::-1]).decode()}, [], null].map((routes) => {{
            panel.now({{ ...server, routes }});
            if (panel.node.hidden) return null;
            const rows = [...panel.node.querySelectorAll("tbody tr")].map((row) => [
                ...[...row.cells].map((cell) => cell.textContent), row.cells[2].style.getPropertyValue("--part")]);
            const none = panel.node.querySelector(".scroll .hint");
            return rows.length ? rows : none.textContent;
        }});
    }}"""
    assert part(page, "routes.js", script) == [
        None,
        [
            ["POST /export", "6.10", "61 %", "6", "14 s", "0.610"],
            [SHOWN, "2.90", "29 %", "3", "250 ms", "0.290"],
            ["constructor", "1.00", "10 %", "0", DASH, "0.100"],
        ],
        "No thread was busy.",
        None,
    ]
    assert page.page.query_selector("img") is None


def history(columns: dict[str, list[float | None]]) -> str:
    """A JavaScript expression for a history with these columns of routes."""
    named = {f"routes.{name}": values for name, values in columns.items()}
    return f"""((columns) => ({{
        time: [10, 12, 14], step: 2, span: [8, 14], range: {{ seconds: 6 }},
        column: (name) => columns[name] ?? null,
        names: (prefix) => Object.keys(columns).map((name) => name.slice(prefix.length)),
    }}))({json.dumps(named)})"""


def test_routes_over_time(page: Tab) -> None:
    """The legend names the routes of the range, most busy threads first. A route has no threads before it was seen, and
    none is known where all are unknown."""
    known = history({"GET /a": [None, 1.0, 1.0], HOSTILE: [None, None, 3.0], "GET /idle": [None, 0.0, 0.0]})
    script = f"""({{ bands, overTime }}) => {{
        const chart = overTime({{ events: [], near: () => null, point: () => {{}} }});
        const show = (history, routes) => {{
            chart.past(history, {{ routes }});
            const entries = [...chart.node.querySelectorAll(".legend li:not(.when, .limit)")];
            return chart.node.hidden ? null : entries.map((entry) => entry.textContent);
        }};
        return [
            show({history({})}, null),
            show({known}, []),
            chart.node.querySelector("[aria-label*=alert]")?.getAttribute("aria-label").includes({json.dumps(SHOWN)}),
            show({history({"GET /a": [None, None, None]})}, null),
            bands({known}).map((band) => band.values),
            chart.node.querySelector("img"),
        ];
    }}"""
    assert part(page, "routes.js", script) == [
        None,
        [f"{SHOWN} 3.00", "GET /a 1.00"],
        True,
        None,
        [[None, 0, 3], [None, 1, 1]],
        None,
    ]


def test_many_routes_over_time(page: Tab) -> None:
    """The routes with the fewest busy threads are one band, so that the stack is still all busy threads."""
    known = history({f"GET /{number}": [1.0 + number, 1.0, 0.0] for number in range(50)})
    script = f"""({{ bands }}) => {{
        const stack = bands({known});
        const sums = [0, 1, 2].map((at) => stack.reduce((sum, band) => sum + band.values[at], 0));
        return [stack.map((band) => band.name), sums, new Set(stack.map((band) => band.colour)).size];
    }}"""
    names = [*(f"GET /{number}" for number in range(49, 41, -1)), "42 more routes"]
    assert part(page, "routes.js", script) == [names, [50 * 51 / 2, 50, 0], 9]


def test_a_route_does_not_turn_its_figure_around(page: Tab) -> None:
    """A route with a sign for text from right to left leaves the figure behind it as it is."""
    script = f"""({{ Legend }}) => {{
        const legend = new Legend();
        legend.list([{{ name: {json.dumps(HOSTILE)}, colour: "blue" }}]);
        document.querySelector("main").append(legend.node);
        const [name, figure] = ["bdi", "b"].map((tag) => legend.node.querySelector(tag));
        legend.tell("", ["2.90"]);
        const behind = name.getBoundingClientRect().right <= figure.getBoundingClientRect().left;
        legend.node.remove();
        return behind;
    }}"""
    assert part(page, "legend.js", script) is True


@pytest.mark.parametrize(("routes", "lines"), [(ROUTES, 1), ((), 0), (None, 0)])
def test_the_snapshot_names_the_busiest_routes(page: Tab, routes: tuple[Route, ...] | None, lines: int) -> None:
    """It has the routes with most busy threads, as a share of the busy threads and not of the requests."""
    script = f"""({{ text }}) =>
        text({{ ...JSON.parse(heard), routes: {msgspec.json.encode(routes).decode()} }}, "/").split("\\n")
            .filter((line) => line.startsWith("Busy threads by route"))"""
    line = (
        f"Busy threads by route: POST /export 61 % (oldest request 14 s), {SHOWN} 29 % (oldest request 250 ms), "
        "constructor 10 %"
    )
    assert part(page, "snapshot.js", script) == [line] * lines

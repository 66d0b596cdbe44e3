"""The page's parts about what requests wait for, by state, route and line of code, by themselves in a real browser."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import pytest

from tests.web.test_page_parts_in_browser import part
from uwsgi_headroom.documents.subjects import Code, CodeLine, CodeState, Route
from uwsgi_headroom.record import STATES

pytestmark = pytest.mark.integration

DASH = "\N{EN DASH}"
Column = Sequence[float | None]


def history(
    states: Mapping[str, Column],
    backends: Mapping[str, Column] | None = None,
    extra: Mapping[str, Column] | None = None,
) -> str:
    """A JavaScript expression for a history with these mean threads; states that are not given are 0. extra: other
    columns by their names."""
    columns = {f"waits.states.{state}": states.get(state, [0.0, 0.0, 0.0]) for state in STATES}
    columns |= {f"waits.backends.{name}": threads for name, threads in (backends or {}).items()}
    columns |= {"concurrency.observed": [3.0, 4.0, 5.0], **(extra or {})}
    return f"history({json.dumps(columns)})"


def waits(states: Mapping[str, float | None], backends: Mapping[str, float] | None = None) -> str:
    """A document's section of waits, with these seconds of a mean request."""
    return json.dumps(
        {
            "states": [{"state": state, "threads": 1, "per_request": seconds} for state, seconds in states.items()],
            "backends": [{"name": name, "per_request": seconds} for name, seconds in (backends or {}).items()],
        }
    )


def test_the_stack_adds_up(page):
    """Each band begins where the one below ends; named backends are bands of their own."""
    known = history(
        {"cpu": [1, 2, 3], "backend": [4, 4, 4], "sleep": [0.5, 0, 0]}, {"redis": [1, 0, 4], "postgres": [2, 2, 0]}
    )
    script = f"""async ({{ bands }}) => {{
        const {{ heights }} = await import("/modules/charts.js"), stack = bands({known}), sums = heights(stack);
        return stack.map((band, at) => [band.name, band.values, sums[at]]);
    }}"""
    assert part(page, "waits.js", script) == [
        ["CPU", [1, 2, 3], [1, 2, 3]],
        ["postgres", [2, 2, 0], [3, 4, 3]],
        ["redis", [1, 0, 4], [4, 4, 7]],
        ["backend", [1, 2, 0], [5, 6, 7]],
        ["sleep", [0.5, 0, 0], [5.5, 6, 7]],
    ]
    states: dict[str, Column] = {state: [0, None, 0] for state in STATES}
    states |= {"cpu": [1, None, 3], "backend": [2, None, 2]}
    script = f"""async ({{ bands }}) =>
        (await import("/modules/charts.js")).heights(bands({history(states, {"redis": [None, None, 2]})}))"""
    assert part(page, "waits.js", script) == [[1, None, 3], [1, None, 5], [3, None, 5]]
    names = [f"b{number}" for number in range(3)]
    known = history({"backend": [1, 1, 1]}, {name: [0.33333, 0.33334, 0.33333] for name in names})
    shown = part(page, "waits.js", f"({{ bands }}) => bands({known}).map((band) => band.name)")
    assert shown == names


def test_every_state_and_twenty_backends(page):
    """All are in the stack, and no two neighbours have the same colour."""
    backends = {f"backend{number:02}": [0.1, 0.1, 0.1] for number in range(20)}
    known = history({state: [3, 3, 3] for state in STATES}, backends)
    script = f"""async ({{ bands }}) => {{
        const {{ heights }} = await import("/modules/charts.js"), stack = bands({known});
        return [stack.map((band) => band.colour), heights(stack).at(-1)[0]];
    }}"""
    shown = part(page, "waits.js", script)
    colours, height = shown
    assert len(colours) == len(STATES) + len(backends)
    assert all(one != other for one, other in pairwise(colours))
    assert height == pytest.approx(3 * len(STATES))


def test_the_parts_of_a_request(page):
    """They add up in the order of the stack, without those too small to write."""
    seconds = waits({"sleep": 0.02, "cpu": 0.01, "backend": 0.05, "dns": 0.000001}, {"redis": 0.03, "postgres": 0.015})
    script = f"""({{ parts }}) => parts({{ waits: {seconds} }}).map((part) => [part.name, part.seconds])"""
    shown = part(page, "waits.js", script)
    assert isinstance(shown, list)
    names = ["CPU", "postgres", "redis", "backend", "sleep"]
    assert [name for name, _ in shown] == names
    assert [seconds for _, seconds in shown] == pytest.approx([0.01, 0.015, 0.03, 0.005, 0.02])


def test_new_slices_are_appended(page):
    """New slices extend each band, also if waits become unknown, known again, and a backend is new."""
    script = """async ({ History }) => {
        const slice = (time, cpu, backends) => ({
            step: 2, time: [time], throughput: [0], response_time: [0], queue_wait: [0], concurrency: { observed: [1] },
            threads: {}, headroom: {}, sockets: [], workers: [], response_times: { shares: [], seconds: [] },
            waits: { states: ["cpu"], threads: [[cpu]], backend_names: Object.keys(backends),
                     backends: Object.values(backends).map((threads) => [threads]) },
        });
        const answers = [slice(2, 1, {}), slice(4, null, {}), slice(6, 2, { redis: 1 })];
        const { fetch } = globalThis;
        globalThis.fetch = async () => ({ ok: true, json: async () => answers.shift() });
        const history = new History("/nowhere");
        await history.load({ seconds: 300, points: 150 });
        await history.follow(5);
        await history.follow(7);
        globalThis.fetch = fetch;
        return [history.time, history.column("waits.states.cpu"), history.column("waits.backends.redis"),
                history.names("waits.backends.")];
    }"""
    assert part(page, "history.js", script) == [[2, 4, 6], [1, None, 2], [None, None, 1], ["redis"]]


def test_the_lock_wait_of_workers_is_a_column_only_where_it_is_known(page):
    script = """({ table }) => {
        const { workers, ...server } = JSON.parse(heard), part = table();
        const show = (values) => {
            const two = workers.slice(0, 2).map((worker, at) => ({ ...worker, lock_waiters: values[at] }));
            part.now({ ...server, workers: two });
            const head = [...part.node.querySelectorAll("th")].find((each) => each.textContent === "Lock wait");
            const cells = [...part.node.querySelectorAll("td[data-head='Lock wait']")];
            return [head.hidden, ...cells.map((cell) => (cell.hidden ? null : cell.textContent))];
        };
        return [show([null, null]), show([0.25, null]), show([null, null])];
    }"""
    unknown = [True, None, None]
    assert part(page, "workers.js", script) == [unknown, [False, "0.25", DASH], unknown]


HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_bar_comes_and_goes(page):
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar();
        const show = (waits) => {{
            bar.now({{ waits, lines: [] }});
            const widths = [...bar.node.querySelectorAll(".part")].map((each) => each.style.getPropertyValue("--part"));
            const all = ["h2", "li", ".part"].map((selector) => texts(bar.node, selector));
            return bar.node.hidden ? null : [bar.node.ariaLabel, ...all, widths];
        }};
        return [
            show({waits({"cpu": 0.02, "backend": 0.06})}),
            show(null),
            show({waits({"cpu": None, "backend": None})}),
            show({waits({"cpu": 0.04, "backend": 1.16}, {HOSTILE: 1.16})}),
            bar.node.querySelector("img"),
        ];
    }}"""
    assert part(page, "waits.js", script) == [
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


def test_what_requests_do(page):
    """The first chart stacks what is known: states, else the requests in service, and above them those in the queues. A
    sentence says what to grant. What is configured is a line of its own only if it is not available."""
    nothing = [None, None, None]
    queue = {"sockets.a.mean_queue": [0, 2, 30], "sockets.b.mean_queue": nothing}
    threads = {"threads.available": [4, 4, 4], "threads.configured": [4, 4, 4]}
    unknown = history(dict.fromkeys(STATES, nothing), extra={**queue, **threads})
    states = {state: [None, 0, 0] for state in STATES} | {"cpu": [None, 2, 1], "backend": [None, 2, 3]}
    known = history(states, {HOSTILE: [None, 1, 1]}, extra={**threads, "threads.configured": [4, 4, 8]})
    script = f"""({{ load }}) => {{
        const chart = load(timeline, document.createElement("p"), {{ lines: () => [] }});
        const show = (history, server) => {{
            chart.now(server);
            chart.past(history, server);
            const reason = chart.node.querySelector(".chart + .hint");
            return [texts(chart.node, ".legend li:not(.when, .limit)"), reason.hidden ? null : reason.textContent];
        }};
        const things = ["waits", "processes", "queue"];
        const lines = things.map((what) => ({{ code: "unknown", parts: [what, ": grant it"] }}));
        const servers = [{{ waits: null, lines }}, {{ waits: {{}}, lines: [] }}, {{ waits: {{}}, lines }}];
        return [{unknown}, {known}, {history({})}].map((history, at) => show(history, servers[at]));
    }}"""
    why = "Not known: waits: grant it."
    assert part(page, "waits.js", script) == [
        [["in service 5.00", "in the queue 30.0", "threads 4"], f"{why} Not known: processes: grant it."],
        [["CPU 1.00", f"{HOSTILE} 1.00", "backend 2.00", "in service 0.00", "threads 4", "configured 8"], None],
        [["threads "], why],
    ]
    assert page.page.query_selector("img") is None


def test_a_click_on_the_legend_takes_a_line_out(page):
    """What is stacked above it moves down; another click brings it back."""
    known = history({"cpu": [1, 2, 3], "backend": [4, 4, 4]})
    script = f"""async ({{ load }}) => {{
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
    assert part(page, "waits.js", script) == [[7, 3], [4, 3, False, "false"], [7, 3, True, "true"]]


def test_the_name_of_a_backend_leaves_room_for_its_time(page):
    seconds = waits({"cpu": 0.01, "backend": 0.03}, {"a-very-long-name-" * 20: 0.03})
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar();
        bar.now({{ waits: {seconds}, lines: [] }});
        document.querySelector("main").append(bar.node);
        const [, segment] = bar.node.querySelectorAll(".part");
        const [whole, name, time] = [segment, ...segment.children].map((each) => each.getBoundingClientRect());
        bar.node.remove();
        return [name.width > 50, time.width > 20, name.right < time.left, time.right < whole.right];
    }}"""
    assert part(page, "waits.js", script) == [True, True, True, True]


def test_what_stands_beside_the_bar(page):
    """Stuck requests, which are no part of the time, and what requests wait for outside: text whatever it holds."""
    lines = [
        {"code": "stuck", "parts": ["0.5 threads hold requests that are stuck"]},
        {"code": "outside", "parts": ["backend 201 ms: ", HOSTILE]},
    ]
    script = f"""({{ requestBar }}) => {{
        const bar = requestBar();
        return [{json.dumps(lines)}, []].map((lines) => {{
            bar.now({{ waits: {waits({"cpu": 0.02})}, lines }});
            return [".stuck", ".outside", "img"].map((name) => bar.node.querySelector(name)).map((node) =>
                !node || node.hidden ? null : node.textContent);
        }});
    }}"""
    assert part(page, "waits.js", script) == [
        ["0.5 threads hold requests that are stuck", f"backend 201 ms: {HOSTILE}", None],
        [None, None, None],
    ]


ROUTE = "GET /<img src=x onerror=alert(1)>/\N{RIGHT-TO-LEFT OVERRIDE}gnp"
ROUTE_SHOWN = ROUTE.replace("\u202e", r"\u202e")

ROUTES = (
    Route(route="POST /export", threads=6.1, share=0.61, in_service=6, oldest_seconds=14.0),
    Route(route=ROUTE, threads=2.9, share=0.29, in_service=3, oldest_seconds=0.25),
    Route(route="constructor", threads=1.0, share=0.1, in_service=0, oldest_seconds=None),
)


def test_the_table_comes_and_goes(page):
    """Most busy threads come first, with a bar for the share; while routes are off there is no panel."""
    script = f"""({{ routes }}) => {{
        const panel = routes(), server = JSON.parse(heard);
        return [null, {msgspec.json.encode(ROUTES[::-1]).decode()}, [], null].map((routes) => {{
            panel.now({{ ...server, routes }});
            if (panel.node.hidden) return null;
            const rows = [...panel.node.querySelectorAll("tbody tr")].map((row) => [
                ...texts(row, "td"), row.cells[2].style.getPropertyValue("--part")]);
            const none = panel.node.querySelector(".scroll .hint");
            return rows.length ? rows : none.textContent;
        }});
    }}"""
    assert part(page, "busy.js", script) == [
        None,
        [
            ["POST /export", "6.10", "61 %", "6", "14 s", "0.610"],
            [ROUTE_SHOWN, "2.90", "29 %", "3", "250 ms", "0.290"],
            ["constructor", "1.00", "10 %", "0", DASH, "0.100"],
        ],
        "No thread was busy.",
        None,
    ]
    assert page.page.query_selector("img") is None


def of_routes(columns: dict[str, list[float | None]]) -> str:
    """A JavaScript expression for a history with these columns of routes."""
    named = {f"routes.{name}": values for name, values in columns.items()}
    return f"history({json.dumps(named)})"


def test_routes_over_time(page):
    """The legend names the routes of the range, most busy threads first."""
    known = of_routes({"GET /a": [None, 1.0, 1.0], ROUTE: [None, None, 3.0], "GET /idle": [None, 0.0, 0.0]})
    script = f"""({{ bands, overTime }}) => {{
        const chart = overTime(timeline);
        const show = (history, routes) => {{
            chart.past(history, {{ routes }});
            return chart.node.hidden ? null : texts(chart.node, ".legend li:not(.when, .limit)");
        }};
        return [
            show({of_routes({})}, null),
            show({known}, []),
            chart.node.querySelector("[aria-label*=alert]")?.getAttribute("aria-label").includes({json.dumps(ROUTE_SHOWN)}),
            show({of_routes({"GET /a": [None, None, None]})}, null),
            bands({known}).map((band) => band.values),
            chart.node.querySelector("img"),
        ];
    }}"""
    assert part(page, "busy.js", script) == [
        None,
        [f"{ROUTE_SHOWN} 3.00", "GET /a 1.00"],
        True,
        None,
        [[None, 0, 3], [None, 1, 1]],
        None,
    ]


def test_many_routes_over_time(page):
    """The routes with the fewest busy threads are one band, so that the stack is still all busy threads."""
    known = of_routes({f"GET /{number}": [1.0 + number, 1.0, 0.0] for number in range(50)})
    script = f"""({{ bands }}) => {{
        const stack = bands({known});
        const sums = [0, 1, 2].map((at) => stack.reduce((sum, band) => sum + band.values[at], 0));
        return [stack.map((band) => band.name), sums, new Set(stack.map((band) => band.colour)).size];
    }}"""
    names = [*(f"GET /{number}" for number in range(49, 41, -1)), "42 more routes"]
    assert part(page, "busy.js", script) == [names, [50 * 51 / 2, 50, 0], 9]


def test_a_route_does_not_turn_its_figure_around(page):
    """A route with a sign for text from right to left leaves the figure behind it as it is."""
    script = f"""({{ Legend }}) => {{
        const legend = new Legend();
        legend.list([{{ name: {json.dumps(ROUTE)}, colour: "blue" }}]);
        document.querySelector("main").append(legend.node);
        const [name, figure] = ["bdi", "b"].map((tag) => legend.node.querySelector(tag));
        legend.tell("", ["2.90"]);
        const behind = name.getBoundingClientRect().right <= figure.getBoundingClientRect().left;
        legend.node.remove();
        return behind;
    }}"""
    assert part(page, "charts.js", script) is True


def line(
    function: str, share: float, *states: CodeState, callee: str = "", addresses: tuple[str, ...] = ()
) -> CodeLine:
    return CodeLine(
        function=function,
        file="/srv/shop/orders.py" if function else "",
        line=3 if function else 0,
        callee=callee,
        samples=100 * share,
        share=share,
        per_request=share * 0.1,
        states=states,
        addresses=addresses,
    )


CODE = Code(
    why=None,
    samples=300,
    threads=1200.0,
    lines=(
        line(
            HOSTILE,
            0.6,
            CodeState(state="backend", share=0.45),
            CodeState(state="cpu", share=0.15),
            callee="psycopg2 execute",
            addresses=("10.0.0.5:5432",),
        ),
        line("", 0.3, CodeState(state="cpu_wait", share=0.3)),
    ),
    unread=0.02,
    seconds=300.0,
)


def test_the_panel_comes_and_goes(page):
    """Each line has its time, its share and what its threads do; while code is off there is no panel."""
    script = f"""({{ code }}) => {{
        const panel = code(), server = JSON.parse(heard);
        const shown = [null, {msgspec.json.encode(CODE).decode()},
                {msgspec.json.encode(Code(why="no right")).decode()}].map((known) => {{
            panel.now({{ ...server, code: known }});
            if (panel.node.hidden) return null;
            const table = panel.node.querySelector(".scroll"), rest = panel.node.lastChild.textContent;
            const rows = [...table.querySelectorAll("tbody tr")];
            return [table.hidden ? null : rows.map((row) => texts(row, "td")), rest];
        }});
        return [...shown, panel.node.querySelector("img")];
    }}"""
    assert part(page, "busy.js", script) == [
        None,
        [
            [
                [f"{HOSTILE} (shop/orders.py:3), in psycopg2 execute", "60 ms", "60 %", "backend 10.0.0.5:5432, CPU"],
                ["outside of Python code", "30 ms", "30 %", "CPU wait"],
            ],
            "1,200 samples of busy threads in 5 min; 8.0 % in other lines; 2.0 % not readable",
        ],
        [None, "Not known: no right."],
        None,
    ]

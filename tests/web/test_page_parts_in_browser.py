"""Parts of the page by themselves in a real browser, for documents that are hard to provoke."""

from __future__ import annotations

import pytest

from tools.support.browser import Tab

pytestmark = pytest.mark.integration


_IMPORT = """async ([address, script]) =>
    await new Function("part", `return (${script})(part)`)(await import(address))"""


def part(page: Tab, module: str, script: str) -> object:
    """The result of a function on a module of the page. `heard` is the newest document, as JSON."""
    return page.page.evaluate(_IMPORT, [page.module(module), script])


def test_events_that_go_on_are_one(page: Tab) -> None:
    """A repeated event replaces its earlier entry, and a late response does not restore that."""
    assert part(
        page,
        "events.js",
        """({ Events }) => {
            const events = new Events("/nowhere"), now = Date.now() / 1000;
            const ended = (id, count, since = now - 9) =>
                ({ id, count, since, time: now, kind: "worker_ended", workers: [1] });
            const given = [[ended(3, 1)], [ended(3, 1)], [ended(5, 2), ended(4, 1, now)], [ended(3, 1)]];
            const grew = given.map((each) => events.add(each));
            return [grew, events.list().map((event) => [event.id, event.count])];
        }""",
    ) == [[True, False, True, False], [[5, 2], [4, 1]]]


def test_events_of_more_than_an_hour_ago_are_left_out(page: Tab) -> None:
    """A page that stays open for a day lists only the last hour."""
    script = """({ Events }) => {
        const events = new Events("/nowhere"), now = Date.now() / 1000;
        const reload = (time, id) => ({ id, time, since: time, count: 1, kind: "reload", workers: [] });
        events.add([now - 3700, now - 10].map(reload));
        return events.list().map((event) => event.id);
    }"""
    assert part(page, "events.js", script) == [1]


@pytest.mark.parametrize(
    ("headroom", "shown"),
    [
        ({"factor": 3.94, "first": "threads"}, ["3.9x", "headroom"]),
        ({"factor": 24.2, "first": "threads", "is_upper_bound": True}, ["24x", "headroom at most"]),
        ({"factor": None, "first": None, "far": ["threads", "cpu"]}, [">100x", "headroom"]),
        ({"factor": None, "first": None, "far": []}, ["?", "headroom not known"]),
    ],
)
def test_the_big_number_has_its_name(page: Tab, headroom: dict[str, object], shown: list[str]) -> None:
    """The headroom's name stands below it, with `at most` if CPU is not visible."""
    script = """({ Headline }) => {
        const headline = new Headline();
        headline.show({ ...JSON.parse(heard), state: "up", status: "ok", headroom: %s }, null);
        return [headline.factor.textContent, headline.unit.textContent];
    }"""
    text = str({"far": [], "is_upper_bound": False, **headroom}).replace("None", "null")
    assert part(page, "headline.js", script % text.replace("True", "true").replace("False", "false")) == shown


@pytest.mark.parametrize(
    ("state", "usable", "shown"),
    [
        ("up", "1.6", ", usable headroom 1.6x: then requests begin to wait"),
        ("up", "0.9", ", requests begin to wait"),
        ("up", "null", ""),
        ("down", "1.6", ""),
    ],
)
def test_usable_headroom_stands_beside_the_first_limit(page: Tab, state: str, usable: str, shown: str) -> None:
    """It says by how much load can grow until requests wait, where that is known."""
    script = """({ Headline }) => {
        const headline = new Headline();
        const headroom = { factor: 2.4, first: "threads", far: [], usable: %s };
        headline.show({ ...JSON.parse(heard), state: "%s", status: "ok", headroom }, null);
        return headline.usable.textContent;
    }"""
    assert part(page, "headline.js", script % (usable, state)) == shown


@pytest.mark.parametrize(
    ("state", "status", "seen"),
    [
        ("up", "ok", ["ok", None, False, "✓ OK"]),
        ("up", "critical", ["critical", "true", False, "✖ CRITICAL"]),
        ("down", "unknown", ["down", None, True, "✖ DOWN"]),
    ],
)
def test_the_headroom_steps_back(page: Tab, state: str, status: str, seen: list[object]) -> None:
    """The headroom is small if the verdict is about something else, and hidden if the server is down."""
    script = """({ Headline }) => {
        const headline = new Headline();
        headline.show({ ...JSON.parse(heard), state: "%s", status: "%s" }, null);
        const { status, aside = null } = headline.node.dataset;
        return [status, aside, headline.figure.hidden, headline.chip.textContent];
    }"""
    assert part(page, "headline.js", script % (state, status)) == seen


@pytest.mark.parametrize(
    ("waiting", "first", "tone"),
    [("none", "Throughput", None), ("noticed", "Queue wait", "warning"), ("severe", "Queue wait", "critical")],
)
def test_a_wait_that_hurts_comes_first(page: Tab, waiting: str, first: str, tone: str | None) -> None:
    """The queue wait moves back to its place when it is over."""
    script = """({ Keys }) => {
        const keys = new Keys(), server = JSON.parse(heard);
        const show = (waiting) => {
            keys.show({ ...server, flow: { ...server.flow, waiting } });
            const [node] = keys.node.children;
            return [node.querySelector("dt").textContent, node.dataset.tone ?? null];
        };
        return [show("%s"), show("none")];
    }"""
    assert part(page, "keys.js", script % waiting) == [[first, tone], ["Throughput", None]]


def test_what_users_wait(page: Tab) -> None:
    """Service, then the queue, then both; with the percentiles of single waits and the oldest one, if there are any."""
    script = """({ Keys }) => {
        const keys = new Keys(), server = JSON.parse(heard);
        const flow = { ...server.flow, response_time: 0.182, queue_wait: 0.508, total_time: 0.69 };
        const percentiles = [[0.5, null], [0.95, 1.2], [0.99, 2.0]].map(([share, seconds]) => ({ share, seconds }));
        const sockets = [{ ...server.sockets[0], oldest_wait: 3.1 }];
        const text = (key) => keys.parts.find((part) => part.key === key).tile.node.textContent;
        const show = (changes) => {
            keys.show({ ...server, flow, ...changes });
            return ["response_time", "queue_wait", "total_time"].map(text);
        };
        return [show({ queue_waits: { percentiles }, sockets }), show({ queue_waits: null })[1]];
    }"""
    assert part(page, "keys.js", script) == [
        [
            "Response time182 msmean, in service",
            "Queue wait508 msp95 1.2 s, p99 2.0 s, oldest now 3.1 s",
            "Users wait690 msin service + in the queue",
        ],
        "Queue wait508 msin the listen queue",
    ]


def test_order(page: Tab) -> None:
    """Numbers in names sort as numbers; unknown values come last in both directions."""
    script = """({ Table }) => {
        const name = { head: "Name", left: true, value: (row) => row.name, text: (row) => row.name ?? "-" };
        const table = new Table("T", [name], { key: (row) => row.name });
        const order = () => [...table.body.rows].map((row) => row.textContent);
        table.show(["w10", null, "w2", "w1"].map((name) => ({ name })));
        const up = order();
        table.heads[0].querySelector("button").click();
        return [up, order()];
    }"""
    assert part(page, "table.js", script) == [["w1", "w2", "w10", "-"], ["w10", "w2", "w1", "-"]]


def test_a_table_without_rows_says_so(page: Tab) -> None:
    """The table says `none` instead of showing a heading without rows."""
    script = """({ Table }) => {
        const table = new Table("T", [{ head: "Name", value: () => 0, text: () => "" }], { key: () => 0 });
        const shown = () => table.none.hidden ? "" : table.none.textContent;
        table.show([]);
        const empty = shown();
        table.show([{}]);
        return [empty, shown()];
    }"""
    assert part(page, "table.js", script) == ["none", ""]


@pytest.mark.parametrize(
    ("text", "stretch"),
    [
        ("100-160", {"seconds": 60, "points": 60, "from": 100, "until": 160}),
        ("0-3600", {"seconds": 3600, "points": 240, "from": 0, "until": 3600}),
        ("160-100", None),
        ("7-90007", {"seconds": 90300, "points": 301, "from": 0, "until": 90300}),
        ("0-63158401", None),
        ("a-b", None),
        ("", None),
    ],
)
def test_a_stretch_of_time_in_the_address(page: Tab, text: str, stretch: dict[str, int] | None) -> None:
    """A stretch has whole seconds and at most 240 slices, or, if these are minutes, at most 366; other texts are not a
    stretch."""
    assert part(page, "timeline.js", f"({{ parse }}) => parse('{text}')") == stretch


def test_since_when_a_finding_holds(page: Tab) -> None:
    """A finding shows how long it has held, and since when with the zone; nothing if that is unknown."""
    script = (
        """({ lasting }) => [lasting({ since: 1700000000 }, 1700000300), lasting({ since: null }, 9), lasting({}, 9)]"""
    )
    shown = part(page, "findings.js", script)
    assert isinstance(shown, list)
    assert shown[0].startswith("for 5 min, since ")
    assert "UTC" in shown[0]
    assert shown[1:] == ["", ""]


def test_the_hot_worker_is_marked_only_where_it_does_harm(page: Tab) -> None:
    """A finding that unevenness is harmless marks no worker."""
    script = """({ hottest }) => ["info", "warning"].map((severity) =>
        hottest({ balance: { hottest: 3 }, findings: [{ code: "uneven", severity }] }))"""
    assert part(page, "workers.js", script) == [None, 3]


def test_the_hot_worker_stands_out(page: Tab) -> None:
    """If a finding says that it does harm, the hot worker has a sign, not only a colour."""
    script = """({ table }) => {
        const server = JSON.parse(heard), part = table();
        const findings = [{ code: "unevenness_hurts", severity: "warning" }];
        part.now({ ...server, findings, balance: { ...server.balance, hottest: 2 } });
        document.body.append(part.node);
        const [hot, ...others] = part.node.querySelectorAll("tr.hot");
        const seen = [hot.cells[0].textContent, getComputedStyle(hot.cells[0], "::before").content, others.length];
        part.node.remove();
        return seen;
    }"""
    assert part(page, "workers.js", script) == ["2", '"▲ "', 0]


def test_a_finding_keeps_its_link(page: Tab) -> None:
    """Figures in a finding change every second, and the focus stays on its link."""
    script = """({ Findings }) => {
        const findings = new Findings(), window = {};
        const empty = { evidence: "", meaning: "", change: "" };
        const finding = { ...empty, code: "a", severity: "info", title: "1 of `x`", runbook: "/r" };
        findings.show({ findings: [finding], window, time: 1 });
        const link = findings.node.querySelector("a");
        findings.show({ findings: [{ ...finding, title: "2 of `x`", runbook: "javascript:1" }], window, time: 2 });
        const after = findings.node.querySelector("a");
        return [after === link, findings.node.querySelector("b").textContent, after.getAttribute("href")];
    }"""
    assert part(page, "findings.js", script) == [True, "2 of x", None]

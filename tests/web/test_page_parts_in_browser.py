"""Parts of the page by themselves in a real browser, for documents that are hard to provoke."""

import json

import pytest

from tests.support.browser import Tab

pytestmark = pytest.mark.integration

DASH = "\N{EN DASH}"

_IMPORT = """async ([address, script]) => {
    const texts = (node, selector) => [...node.querySelectorAll(selector)].map((each) => each.textContent);
    const timeline = { events: [], near: () => null, point: () => {} };
    const history = (columns) => ({
        time: [10, 12, 14], step: 2, span: [8, 14], range: { seconds: 6 },
        column: (name) => columns[name] ?? null,
        names: (prefix, suffix = "") => Object.keys(columns)
            .filter((name) => name.startsWith(prefix) && name.endsWith(suffix))
            .map((name) => name.slice(prefix.length, name.length - suffix.length)),
    });
    const given = { part: await import(address), texts, timeline, history };
    return await new Function(...Object.keys(given), `return (${script})(part)`)(...Object.values(given));
}"""


def part(page: Tab, module: str, script: str) -> object:
    """The result of a function on a module of the page. It can use `heard`, the newest document as JSON; `texts`, of
    the elements of a selector; a `timeline` without events; and `history`, which makes one of columns."""
    return page.page.evaluate(_IMPORT, [page.module(module), script])


def test_events_that_go_on_are_one(page):
    """A repeated event replaces its earlier entry, and a late response restores none. Only the last hour is listed."""
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
    script = """({ Events }) => {
        const events = new Events("/nowhere"), now = Date.now() / 1000;
        const reload = (time, id) => ({ id, time, since: time, count: 1, kind: "reload", workers: [] });
        events.add([now - 3700, now - 10].map(reload));
        return events.list().map((event) => event.id);
    }"""
    assert part(page, "events.js", script) == [1]


def line(code: str, *parts: str, label: str = "", tone: str | None = None) -> dict[str, object]:
    return {"code": code, "label": label or code.replace("_", " "), "parts": parts, "tone": tone, "rank": 0}


def finding(code: str, severity: str = "critical", **changes: object) -> dict[str, object]:
    plain = {
        "title": f"About {code}.",
        "evidence": f"Seen: {code}. More.",
        "meaning": "",
        "change": "",
        "runbook": None,
    }
    return {"code": code, "severity": severity, "harms": [], **plain, **changes}


BANNER = """({ Headline }) => {
    const copied = [], headline = new Headline(async (text) => copied.push(text), () => {}), server = JSON.parse(heard);
    const seen = (node) => (node.hidden ? null : node.textContent);
    return %s.map(([changes, silent]) => {
        headline.show({ ...server, time: 1e9, state: "up", status: "ok", ...changes }, null, silent);
        if (!headline.commands.hidden) headline.commands.click();
        return {
            status: headline.node.dataset.status, chip: headline.chip.textContent, since: headline.since.textContent,
            title: headline.verdict.textContent, said: seen(headline.said), act: seen(headline.act),
            headroom: headline.figure.hidden ? null : [headline.factor, headline.unit].map(seen),
            none: headline.figure.hasAttribute("data-none"), more: seen(headline.rest) && headline.more.textContent,
            runbook: headline.link.hidden ? null : headline.link.getAttribute("href"), copied: copied.pop() ?? null,
        };
    });
}"""


def banner(page: Tab, changes: dict[str, object], silent: float | None = None) -> dict[str, object]:
    """What the banner says of the newest document with these changes; its lines have the verdict and the act."""
    said = str(changes.get("verdict", "Well."))
    changes = {"lines": [line("verdict", said)], **changes}
    shown = part(page, "headline.js", BANNER % json.dumps([[changes, silent]]))
    assert isinstance(shown[0], dict)
    return shown[0]


def test_what_is_wrong_and_what_to_do(page):
    """The worst finding, since when, one sentence about what users feel, the first act and its promise."""
    worst = finding(
        "threads",
        since=1e9 - 240,
        harms=[{"code": "clients_refused", "severity": "critical", "title": "Refused.", "evidence": "41 of 40. More."}],
        change="Raise `threads` from 4 to 16: there are 48 at once. Then run `py-spy dump --pid 7`. Use `lazy-apps`.",
        settings={"threads": 16},
        serves=74.0,
        runbook="/runbooks/X?server=shop",
    )
    shown = banner(
        page,
        {
            "status": "critical",
            "lines": [
                line("verdict", "Clients are turned away: all `threads` are busy.", " Since 14:02:11 UTC (4 min)."),
                line("act", "Raise `threads` from 4 to 16", "; at least 74.0/s are served then"),
            ],
            "findings": [worst, finding("second", "warning"), finding("third", "info"), finding("fourth", "info")],
            "setup": {"options": {"threads": {"value": 4, "source": "shop.ini"}}},
        },
    )
    assert shown.pop("since") == "since 14:02:11 UTC (4 min)"
    assert shown.pop("headroom")
    assert shown == {
        "status": "critical",
        "chip": "✖ CRITICAL",
        "title": "Clients are turned away: all threads are busy.",
        "said": "41 of 40.",
        "act": "DORaise threads from 4 to 16; at least 74.0/s are served then",
        "none": False,
        "more": "Why, 1 more cause, 2 notes",
        "runbook": "/runbooks/X?server=shop",
        "copied": "# threads_4x8_busy: About threads.\nthreads = 16  # now 4, in shop.ini\npy-spy dump --pid 7\n",
    }


def test_a_deploy_made_it_worse(page):
    """The banner says what, beside any verdict; while it is not certain, it does not."""
    sentence = "Since the reload at 14:02 (10 min ago) a request takes 38 % longer."
    judged = {"status": "worse", "sentence": sentence, "is_over": False}
    shown = banner(page, {"verdict": "Headroom 4.4x.", "findings": [], "deploy": judged})
    assert (shown["said"], shown["act"]) == (sentence, "DORoll back, if that reload was a deploy")
    worst = finding("first", "warning", evidence="Full. More.", change="Raise it.")
    beside = {"status": "warning", "verdict": "Bad.", "findings": [worst], "deploy": judged}
    assert banner(page, beside)["said"] == f"Full. {sentence}"
    early = {**judged, "status": "early"}
    assert banner(page, {"verdict": "Headroom 4.4x.", "findings": [], "deploy": early})["said"] is None


def test_nothing_is_wrong(page):
    """The verdict, and that there is nothing to do; before there are figures, not even that. A link leads to a page."""
    calm = banner(page, {"verdict": "Headroom 4.4x.", "findings": [finding("note", "info", runbook="javascript:1")]})
    assert [calm[key] for key in ("chip", "title", "said", "act", "more", "runbook", "copied")] == [
        "✓ OK",
        "Headroom 4.4x.",
        None,
        "DONothing to change: no finding at today's load",
        "1 note",
        None,
        None,
    ]
    early = banner(page, {"status": "unknown", "verdict": "No figures yet.", "window": None, "findings": []})
    assert (early["chip"], early["act"], early["more"]) == ("? UNKNOWN", None, None)


def test_down(page):
    """Since when, why, what it means and what to do, and the last words of its log; no headroom, and no old finding."""
    shown = banner(
        page,
        {
            "state": "down",
            "status": "unknown",
            "address": "127.0.0.1:9191",
            "verdict": "Down: nobody listens.",
            "lines": [line("verdict", "nobody listens", " Since 14:02:11 UTC (5 min)."), line("act", "Start it")],
            "error": {
                "message": "nobody listens",
                "harm": "Clients get errors.",
                "change": "Start it. If not, `uwsgi-headroom discover`.",
                "runbook": "/r",
            },
            "read_at": 1e9 - 600,
            "events": [
                {"kind": "log_message", "time": 1e9 - 299, "title": "uWSGI's log: uWSGI ended."},
                {"kind": "log_message", "time": 1e9 - 301, "title": "uWSGI's log: no application was found."},
                {"kind": "server_down", "time": 1e9 - 300, "title": "Down."},
                {"kind": "log_message", "time": 1e9 - 900, "title": "uWSGI's log: uWSGI was reloaded."},
            ],
            "findings": [finding("old")],
        },
    )
    assert shown.pop("since") == "since 14:02:11 UTC (5 min)"
    assert shown == {
        "said": "Its stats are read at 127.0.0.1:9191. Clients get errors. "
        "Last words of its log: no application was found. uWSGI ended.",
        "status": "down",
        "chip": "✖ DOWN",
        "title": "Nobody listens.",
        "act": "DOStart it",
        "headroom": None,
        "none": shown["none"],
        "more": None,
        "runbook": "/r",
        "copied": "# threads_4x8_busy: Down: nobody listens.\nuwsgi-headroom discover\n",
    }


@pytest.mark.parametrize("state", ["up", "down"])
def test_the_exporter_is_gone(page, state):
    """The banner has no status of the server any more: it says for how long the exporter has been silent, and what was
    known then."""
    lines = [line("verdict", "gone" if state == "down" else "Headroom 4.4x.")]
    shown = banner(page, {"state": state, "lines": lines, "error": {"message": "gone"}}, silent=12.0)
    assert (shown["status"], shown["chip"], shown["headroom"]) == ("lost", "? NOT CURRENT", None)
    assert shown["title"] == "The exporter has not answered for 12 s: these figures are old."
    assert str(shown["said"]).endswith("it said: ✓ OK Headroom 4.4x." if state == "up" else "it said: ✖ DOWN Gone.")
    assert "exporter runs" in str(shown["act"])


@pytest.mark.parametrize(
    ("headroom", "parts", "shown", "none"),
    [
        ({"factor": 3.94}, ["3.9x", ", then threads run out"], ["3.9x", "headroom, then threads run out"], False),
        ({"factor": 24.2}, ["at most 24x"], ["≤ 24x", "headroom"], False),
        (
            {"factor": None, "far": ["cpu"]},
            ["over 100x", ": nearly idle"],
            ["over 100x", "headroom: nearly idle"],
            False,
        ),
        ({"factor": None, "other": {}}, ["not known", ": a limit"], ["?", "headroom: a limit"], False),
        ({"factor": None}, ["not known"], None, False),
        ({"factor": 1.14}, ["1.1x"], ["1.1x", "headroom"], True),
        ({"factor": 1.04}, ["1.0x"], ["no", "headroom left"], True),
        ({"factor": 1.5, "usable": 0.9}, ["1.5x"], ["no", "headroom left"], True),
        ({"factor": 3.2, "usable": 1.0, "status": "ok"}, ["3.2x"], ["3.2x", "headroom"], False),
        ({"factor": 3.2, "usable": 2.9}, ["3.2x"], ["2.9x", "headroom, until requests wait"], False),
    ],
)
def test_the_big_number(page, headroom, parts, shown, none):
    """The headroom as its line has it, or until requests wait; none, as no status makes it look like any."""
    status = headroom.pop("status", "warning")
    lines = [line("verdict", "Well."), line("headroom", *parts)]
    seen = banner(page, {"kind": "server", "status": status, "headroom": {"far": [], **headroom}, "lines": lines})
    assert (seen["headroom"], seen["none"]) == (shown, none)


KEYS = """({ Keys }) => {
    const keys = new Keys();
    return %s.map((lines) => {
        keys.show({ lines });
        return [...keys.node.children].map((tile) =>
            [...["dt", "b", "small"].map((tag) => tile.querySelector(tag).textContent), tile.dataset.tone ?? null]);
    });
}"""


def test_whether_users_are_hurt(page):
    """Four figures: of each line, the first part and the others; the name stays where there is no line."""
    hurt = [
        line("users_wait", "1.3 s", " = 1.1 s in the listen queue + 209 ms in service", tone="critical"),
        line("served", "37.1/s", "; 48 at once for 8 threads", "; 43.0/s turned away with retries", tone="critical"),
        line("response", "p95 480 ms", " (450 to 520)", ", p50 under 160 ms"),
        line("objective", "missed", ": 99 % within 1 s", tone="warning"),
        line("queue", "40 of 40", " (38.2 on average)", tone="critical"),
        line("queue", "0 of 40"),
    ]
    calm = [{**each, "tone": None} for each in hurt if each["code"] != "objective"]
    down = [line("served", "nothing", ": the server is down", "; 37.1/s before")]
    shown = part(page, "keys.js", KEYS % json.dumps([hurt, calm, down]))
    assert shown == [
        [
            ["Users wait", "1.3 s", "= 1.1 s in the listen queue + 209 ms in service", "critical"],
            ["Served", "37.1/s", "48 at once for 8 threads; 43.0/s turned away with retries", "critical"],
            ["Objective", "missed", "99 % within 1 s", "warning"],
            ["Queue", "40 of 40", "(38.2 on average)", "critical"],
        ],
        [
            ["Users wait", "1.3 s", "= 1.1 s in the listen queue + 209 ms in service", None],
            ["Served", "37.1/s", "48 at once for 8 threads; 43.0/s turned away with retries", None],
            ["Response", "p95 480 ms", "(450 to 520), p50 under 160 ms", None],
            ["Queue", "40 of 40", "(38.2 on average)", None],
        ],
        [
            ["Users wait", DASH, "", None],
            ["Served", "nothing", "the server is down; 37.1/s before", None],
            ["Response", DASH, "", None],
            ["Queue", DASH, "", None],
        ],
    ]


def test_the_panel_of_figures_has_every_other_line(page):
    """Lines that come and go take their tiles along."""
    script = """({ figures }) => {
        const panel = figures();
        return %s.map((lines) => (panel.now({ lines }), texts(panel.node, "dl > div")));
    }"""
    lines = [line("verdict", "Bad."), line("users_wait", "5 ms"), line("limits", "threads 1.3x", ", CPUs 15x")]
    more = [*lines, line("cpu", "1.40 of 2 idle", label="CPUs")]
    assert part(page, "keys.js", script % json.dumps([lines, more, lines])) == [
        ["Limitsthreads 1.3xCPUs 15x"],
        ["Limitsthreads 1.3xCPUs 15x", "CPUs1.40 of 2 idle"],
        ["Limitsthreads 1.3xCPUs 15x"],
    ]


def test_the_snapshot_has_every_line(page):
    """As `check` prints them, and each finding with its advice."""
    lines = [line("verdict", "Bad.", label="WARNING"), line("users_wait", "5 ms", " in service"), line("unknown", "x")]
    change = {"lines": lines, "findings": [finding("first", "warning", change="Raise it.")], "read_at": 0}
    script = f"""({{ text }}) => text({{ ...JSON.parse(heard), ...{json.dumps(change)} }}, "/url").split("\\n")"""
    shown = part(page, "keys.js", script)
    assert shown[1:] == [
        "WARNING      Bad.",
        "users wait   5 ms in service",
        "1. WARNING: About first. Seen: first. More.",
        "   -> Raise it.",
        "1970-01-01 00:00:00 UTC  /url",
        "",
    ]


def test_order_of_a_table(page):
    """Numbers in names sort as numbers; unknown values come last in both directions. Without rows it says so."""
    script = """({ Table }) => {
        const name = { head: "Name", left: true, value: (row) => row.name, text: (row) => row.name ?? "-" };
        const table = new Table("T", [name], { key: (row) => row.name });
        const order = () => texts(table.body, "tr");
        table.show(["w10", null, "w2", "w1"].map((name) => ({ name })));
        const up = order();
        table.heads[0].querySelector("button").click();
        return [up, order()];
    }"""
    assert part(page, "table.js", script) == [["w1", "w2", "w10", "-"], ["w10", "w2", "w1", "-"]]
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
def test_a_stretch_of_time_in_the_address(page, text, stretch):
    """A stretch has whole seconds and at most 240 slices, or, if these are minutes, at most 366."""
    assert part(page, "ranges.js", f"({{ parse }}) => parse('{text}')") == stretch


def test_a_finding_keeps_its_link(page):
    """Figures change each second, and the focus stays. It shows how long it has held, or nothing if that is unknown."""
    script = (
        """({ lasting }) => [lasting({ since: 1700000000 }, 1700000300), lasting({ since: null }, 9), lasting({}, 9)]"""
    )
    shown = part(page, "headline.js", script)
    assert shown[0].startswith("for 5 min, since ")
    assert "UTC" in shown[0]
    assert shown[1:] == ["", ""]
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
    assert part(page, "headline.js", script) == [True, "2 of x", None]


def test_the_hot_worker_stands_out_where_it_does_harm(page):
    """It has a sign, not only a colour; where unevenness is harmless, none has."""
    script = """({ hottest }) => ["info", "warning"].map((severity) =>
        hottest({ balance: { hottest: 3 }, findings: [{ code: "uneven", severity }] }))"""
    assert part(page, "workers.js", script) == [None, 3]
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


def test_workers_in_trouble_come_first(page):
    """Those that should serve and do not, then those with a stuck request, then the busiest."""
    script = """({ table }) => {
        const server = JSON.parse(heard), part = table();
        const one = (worker_id, changes) => ({ ...server.workers[0], worker_id, accepting: true, state: "busy",
            threads: 4, busy_threads: 1, concurrency: 1, interpreter_load: 0.1, oldest_request_age: 0.1, ...changes });
        part.now({ ...server, threads: { stuck_seconds: 30 }, workers: [
            one(1, {}), one(2, { interpreter_load: 0.9 }), one(3, { state: "cheap", accepting: false }),
            one(4, { oldest_request_age: 60 }), one(5, { state: "gone", accepting: false }),
            one(6, { concurrency: 4 })] });
        const order = () => texts(part.node, "tbody td:first-child").map(Number);
        const worst = order();
        part.node.querySelector("th button").click();
        return [worst, order()];
    }"""
    assert part(page, "workers.js", script) == [[5, 4, 6, 2, 1, 3], [6, 5, 4, 3, 2, 1]]


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
        const chart = percentiles(timeline), known = history({json.dumps(columns)});
        chart.past(known, {{ objective: null }});
        const without = chart.node.querySelector(".limit").hidden;
        chart.past(known, {{ objective: {{ threshold: 1.5 }} }});
        return [texts(chart.node, ".legend b"), texts(chart.node, ".limit"), without];
    }}"""
    assert part(page, "panels.js", script) == [[*legend, "50 ms", "160 ms"], ["objective: within 1.5 s"], True]

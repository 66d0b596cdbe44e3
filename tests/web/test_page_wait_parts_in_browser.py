"""The page's modules about wait states by themselves in a real browser: sums, names, reasons, columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from tests.support.browser import Tab
from tests.web.test_page_parts_in_browser import part
from uwsgi_headroom.record import STATES

pytestmark = pytest.mark.integration

DASH = "\N{EN DASH}"
Column = Sequence[float | None]

# A history of given columns, as the modules use it.
_HISTORY = """(columns) => ({
    time: [10, 12, 14], step: 2, span: [8, 14], range: { seconds: 6 },
    column: (name) => columns[name] ?? null,
    names: (prefix) => Object.keys(columns)
        .filter((name) => name.startsWith(prefix))
        .map((name) => name.slice(prefix.length)),
})"""


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
    return f"({_HISTORY})({json.dumps(columns)})"


def waits(states: Mapping[str, float | None], backends: Mapping[str, float] | None = None) -> str:
    """A document's section of waits, with these seconds of a mean request."""
    return json.dumps(
        {
            "states": [{"state": state, "threads": 1, "per_request": seconds} for state, seconds in states.items()],
            "backends": [{"name": name, "per_request": seconds} for name, seconds in (backends or {}).items()],
        }
    )


def test_the_stack_adds_up(page: Tab) -> None:
    """Each band begins where the one below ends; named backends are bands of their own, and the rest stays."""
    known = history(
        {"cpu": [1, 2, 3], "backend": [4, 4, 4], "sleep": [0.5, 0, 0]}, {"redis": [1, 0, 4], "postgres": [2, 2, 0]}
    )
    script = f"""({{ bands, heights }}) => {{
        const stack = bands({known}), sums = heights(stack);
        return stack.map((band, at) => [band.name, band.values, sums[at]]);
    }}"""
    assert part(page, "waits.js", script) == [
        ["CPU", [1, 2, 3], [1, 2, 3]],
        ["postgres", [2, 2, 0], [3, 4, 3]],
        ["redis", [1, 0, 4], [4, 4, 7]],
        ["backend", [1, 2, 0], [5, 6, 7]],
        ["sleep", [0.5, 0, 0], [5.5, 6, 7]],
    ]


def test_where_nothing_is_known_the_stack_is_empty(page: Tab) -> None:
    """A slice without known waits has no height, and does not change its neighbours."""
    states: dict[str, Column] = {state: [0, None, 0] for state in STATES}
    states |= {"cpu": [1, None, 3], "backend": [2, None, 2]}
    script = f"""({{ bands, heights }}) => heights(bands({history(states, {"redis": [None, None, 2]})}))"""
    assert part(page, "waits.js", script) == [[1, None, 3], [1, None, 5], [3, None, 5]]


def test_rounding_leaves_no_rest(page: Tab) -> None:
    """Backends that are together all of `backend` leave no band, although the history rounds each of them."""
    names = [f"b{number}" for number in range(3)]
    known = history({"backend": [1, 1, 1]}, {name: [0.33333, 0.33334, 0.33333] for name in names})
    shown = part(page, "waits.js", f"({{ bands }}) => bands({known}).map((band) => band.name)")
    assert shown == names


def test_every_state_and_twenty_backends(page: Tab) -> None:
    """All are in the stack, and no two neighbours have the same colour."""
    backends = {f"backend{number:02}": [0.1, 0.1, 0.1] for number in range(20)}
    known = history({state: [3, 3, 3] for state in STATES}, backends)
    script = f"""({{ bands, heights }}) => {{
        const stack = bands({known});
        return [stack.map((band) => band.colour), heights(stack).at(-1)[0]];
    }}"""
    shown = part(page, "waits.js", script)
    assert isinstance(shown, list)
    colours, height = shown
    assert len(colours) == len(STATES) + len(backends)
    assert all(one != other for one, other in pairwise(colours))
    assert height == pytest.approx(3 * len(STATES))


def test_the_parts_of_a_request(page: Tab) -> None:
    """Their sum is the whole request, in the order of the stack; parts too small to write are left out."""
    seconds = waits({"sleep": 0.02, "cpu": 0.01, "backend": 0.05, "dns": 0.000001}, {"redis": 0.03, "postgres": 0.015})
    script = f"""({{ parts }}) => parts({{ waits: {seconds} }}).map((part) => [part.name, part.seconds])"""
    shown = part(page, "waits.js", script)
    assert isinstance(shown, list)
    names = ["CPU", "postgres", "redis", "backend", "sleep"]
    assert [name for name, _ in shown] == names
    assert [seconds for _, seconds in shown] == pytest.approx([0.01, 0.015, 0.03, 0.005, 0.02])


@pytest.mark.parametrize(
    ("known", "unknown", "sentence"),
    [
        (True, [], ""),
        (False, [], ""),
        (False, [("waits", "grant A")], "Not known what requests wait for: grant A."),
        (False, [("processes", "grant B")], "Not known what requests wait for: grant B."),
        (False, [("waits", "grant A"), ("processes", "grant B")], "Not known what requests wait for: grant A."),
        (True, [("waits", "one"), ("waits", "two")], "Some of the time is unknown: one; two."),
        (True, [("residency", "off"), ("queue", "no")], ""),
    ],
)
def test_why_it_is_not_known(page: Tab, known: bool, unknown: list[tuple[str, str]], sentence: str) -> None:
    """The sentence says what to grant; without the processes, that is what they need."""
    document = json.dumps({"waits": {} if known else None, "unknown": [{"what": a, "why": b} for a, b in unknown]})
    assert part(page, "waits.js", f"({{ missing }}) => missing({document})") == sentence


def test_new_slices_are_appended(page: Tab) -> None:
    """New slices extend each band, also if waits become unknown, known again, and a backend is new."""
    script = """async ({ History }) => {
        const slice = (time, cpu, backends) => ({
            time: [time], throughput: [0], response_time: [0], queue_wait: [0], concurrency: { observed: [1] },
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


def test_the_lock_wait_of_workers_is_a_column_only_where_it_is_known(page: Tab) -> None:
    """One worker that is known is enough for the column; unknown workers have a dash there."""
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


def test_the_snapshot_says_where_the_time_goes(page: Tab) -> None:
    """The longest part comes first; without known parts there is no such line."""
    script = f"""({{ text }}) => [{waits({"cpu": 0.02, "backend": 0.06})}, null].map((waits) =>
        text({{ ...JSON.parse(heard), waits }}, "/").split("\\n").filter((line) => line.startsWith("Where")))"""
    assert part(page, "snapshot.js", script) == [["Where the 80 ms go: backend 60 ms, CPU 20 ms"], []]

"""States, texts and formats of every face."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.support.browser import browser, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed
from tools.environments import ROOT
from uwsgi_headroom import record
from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.findings.kind import SEVERITIES
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.analysis.what_if.predict import Resource
from uwsgi_headroom.documents import schema
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.history.events import KINDS
from uwsgi_headroom.report.review.recommendations import Judgement
from uwsgi_headroom.stats.server import STATES as EVERY_WORKER_STATE
from uwsgi_headroom.words import formats
from uwsgi_headroom.words.colours import BACKENDS, PALETTE, contrast, ink_on
from uwsgi_headroom.words.formats import figure, numbered, repeated
from uwsgi_headroom.words.states import (
    COLOURS,
    EVENTS,
    FAILURES,
    JUDGEMENTS,
    LIMITS,
    SERVER_STATES,
    STATUSES,
    WAITS,
    WORKERS,
)

GRAFANA = ("#ffffff", "#111217", "#181b1f")
"""The grounds of Grafana's panels, light and dark."""


def test_every_state_has_its_words():
    """A state that is added to the API is added to its table."""
    assert tuple(WAITS) == record.STATES
    assert set(LIMITS) == set(get_args(Limit))
    assert set(LIMITS) >= set(get_args(Resource))
    assert set(STATUSES) == {*get_args(Status), *SEVERITIES}
    assert set(SERVER_STATES) == {*get_args(schema.State), "paused", "lost"}
    assert set(WORKERS) == set(EVERY_WORKER_STATE)
    assert set(EVENTS) < set(KINDS)
    assert set(FAILURES) == set(REASONS)
    assert set(JUDGEMENTS) == set(get_args(Judgement))


def test_no_two_states_read_the_same():
    for words in (
        [state.does for state in WAITS.values()],
        [state.name for state in WAITS.values()],
        [state.short for state in WAITS.values()],
        [state.colour.light for state in WAITS.values()],
        [state.colour.dark for state in WAITS.values()],
        [limit.name for limit in LIMITS.values()],
        [limit.short for limit in LIMITS.values()],
        [limit.colour for limit in LIMITS.values()],
        [status.sign for status in STATUSES.values()],
        [state.name for state in WORKERS.values()],
        [state.narrow for state in WORKERS.values()],
    ):
        assert len(set(words)) == len(words)


def test_short_forms_fit_their_columns():
    """`check` has seven letters for the state of a worker, `top` five. One in reserve has no critical sign."""
    assert max(len(state.short) for state in WORKERS.values()) <= 7
    assert max(len(state.narrow) for state in WORKERS.values()) <= 5
    assert STATUSES["critical"].sign not in {WORKERS["cheap"].sign, WORKERS["never_spawned"].sign}


@pytest.mark.parametrize("ground", GRAFANA)
def test_a_dashboard_needs_one_colour_only(ground):
    """The light colours of states, named backends and limits have a contrast of 3 to 1 on both grounds of Grafana."""
    colours = [*(state.colour for state in WAITS.values()), *BACKENDS]
    colours += [COLOURS[limit.colour] for limit in LIMITS.values()]
    assert {
        colour.light: contrast(colour.light, ground) for colour in colours if contrast(colour.light, ground) < 3
    } == {}


def test_text_on_a_colour_is_legible():
    """With 4.5 to 1 on every part of a bar. Events, limits and judgements name colours that there are."""
    for colour in [*(state.colour for state in WAITS.values()), *BACKENDS, *PALETTE.values()]:
        for ground in (colour.light, colour.dark):
            assert contrast(ink_on(ground), ground) >= 4.5
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#123456", "#123456") == 1
    names = [*(entry.tone for entry in EVENTS.values()), *(entry.colour for entry in JUDGEMENTS.values())]
    assert set(names) <= set(PALETTE)
    assert {limit.colour for limit in LIMITS.values()} <= COLOURS.keys()


def find_lone_texts(source: str) -> list[int]:
    """The lines of strings that are statements. Docstrings are no such texts: they have three quotes."""
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant | ast.JoinedStr)
        and not lines[node.lineno - 1].lstrip().startswith(('"""', 'r"""'))
        and ast.unparse(node) != "..."
    ]


@pytest.mark.parametrize("folder", ["app", "dashboards", "exporter", "tests", "tools"])
def test_no_text_stands_alone(folder):
    """Ruff does not report it: the end of the text is lost without a message."""
    files = [path for path in Path(ROOT, folder).rglob("*.py") if ".venv" not in path.parts]
    assert files
    assert [f"{path}:{line}" for path in files for line in find_lone_texts(path.read_text())] == []


def test_a_lone_text_is_found():
    """Its first piece is the value, and the second one is lost."""
    assert find_lone_texts('def write():\n    """Docs."""\n    return "one, "\n    "two"\n') == [4]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "worker 3"),
        ([1, 2], "workers 1 and 2"),
        ([1, 2, 3], "workers 1, 2 and 3"),
        (range(1, 9), "workers 1, 2, 3, 4, 5, 6, 7 and 8"),
        (range(1, 10), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 1 more"),
        (range(1, 4097), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more"),
    ],
)
def test_a_list_of_workers_stays_short(numbers, text):
    """A list has at most eight workers, and the noun is in the plural if there are several."""
    assert numbered("worker", numbers) == text


@pytest.mark.parametrize(("count", "text"), [(1, "once"), (2, "2 times"), (0, "0 times")])
def test_how_often(count, text):
    assert repeated(count) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(62.41, 3, "62.4"), (12_583.0, 3, "12,600"), (12_583.0, 4, "12,580"), (60.0, 4, "60"), (999.96, 4, "1,000")],
)
def test_figures(value, digits, text):
    assert figure(value, digits) == text


VECTORS: dict[str, list[tuple[Any, str]]] = json.loads(Path(__file__).with_name("vectors.json").read_text())
"""Values with their texts, by the function of `words.formats`."""

IN_THE_BROWSER = {
    "byte_size": "bytes",
    "mean_count": "mean",
    "mean_threads": "meanThreads",
}
"""The functions of format.js that have another name."""

IN_PYTHON = {"fine_percent"}
"""Functions whose texts the exporter sends to the page."""


CASES = [(name, value, text) for name, pairs in VECTORS.items() for value, text in pairs]


@pytest.mark.parametrize(("name", "value", "text"), CASES)
def test_in_python(name, value, text):
    write: Callable[[Any], str] = getattr(formats, name)
    assert write(value) == text


@pytest.mark.integration
def test_in_a_browser():
    """The page writes every figure as Python does."""
    with (
        serving(replayed("threads_4x8_busy"), sampling=True) as port,
        browser() as chromium,
        tab(chromium, port, bypass_csp=True) as shown,
    ):
        shown.open("/")
        written = shown.page.evaluate(
            """async ([address, vectors]) => {
                const format = await import(address);
                return Object.entries(vectors).flatMap(([name, values]) => values.map((value) => format[name](value)));
            }""",
            [
                shown.module("format.js"),
                {
                    IN_THE_BROWSER.get(name, name): [value for value, _ in pairs]
                    for name, pairs in VECTORS.items()
                    if name not in IN_PYTHON
                },
            ],
        )
    asked = [case for case in CASES if case[0] not in IN_PYTHON]
    wrong = [(*case, page) for case, page in zip(asked, written, strict=True) if case[2] != page]
    assert wrong == []


@pytest.mark.parametrize(
    "seconds", [10**place * digit / 1000 for place in range(12) for digit in (1, 1.999, 5, 9.9996)]
)
def test_a_duration_is_short(seconds):
    """A number has at most three digits below a day, and its unit is the next one where rounding would write more:
    never `1000 ms` or `180 s`. A second unit stands beside one digit only."""
    number, unit, *smaller = formats.duration(seconds).split(" ")
    assert len(number.replace(".", "")) <= 3 or unit == "d"
    assert not smaller or (len(number) == 1 and len(smaller) == 2)
    assert unit not in {"ms", "s"} or float(number) < {"ms": 1000, "s": 120}[unit]
    assert len(formats.narrow_duration(min(seconds, 8.6e6))) <= 5


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(2.5, 0, "3"), (0.125, 2, "0.13"), (0.375, 2, "0.38"), (1.005, 2, "1.00"), (1e300, 1, f"{1e300:.1f}")],
)
def test_halves_are_rounded_up(value, decimals, text):
    """As browsers do it: the value as it is stored decides, and 1.005 is stored as less."""
    assert formats.fixed(value, decimals) == text

"""The same figure reads the same in Python and in a browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import browser, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed
from uwsgi_headroom.words import formats

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

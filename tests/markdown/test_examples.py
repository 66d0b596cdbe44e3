"""The commands that docs/start.md shows print what stands there, on real uWSGIs, with other figures."""

import re

import pytest

from tools.examples import DOCUMENT, EXAMPLES, form, run_all, run_example

pytestmark = pytest.mark.integration

TRIES = 2


@pytest.fixture(scope="module")
def printed():
    """What each prints now; they run at the same time."""
    return run_all()


def test_every_block_is_an_example():
    """No output in the document was typed: each stands between the marks of an example that is run."""
    text = DOCUMENT.read_text()
    marked = re.findall(r"^<!-- example (\S+) -->\n```console\n(.*?)```\n<!-- /example \1 -->$", text, re.M | re.S)
    assert [name for name, _ in marked] == [example.name for example in EXAMPLES]
    assert text.count("```console") == len(marked)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_it_prints_what_the_document_shows(example, printed):
    """The same words in the same order. If they changed: `.venv/bin/python -m tools.examples` writes them anew."""
    section = DOCUMENT.read_text().partition(f"<!-- example {example.name} -->")[2].partition("<!-- /")[0]
    command, _, shown = section.partition("```console\n")[2].rpartition("```")[0].partition("\n")
    assert command == f"$ {example.shown}"
    now = printed[example.name]
    for _ in range(TRIES):
        if form(now) == form(shown):
            return
        now = run_example(example)  # alone: on a busy machine, too few samples may have shown what requests wait for
    assert form(now) == form(shown)


def test_forms():
    """Figures, bars and line breaks do not count; words do."""
    first = "time   1,249 ms per request: 204 ms postgres,\n   under 3.5 s lock; 8x4 >100x 83 % ███▉ 32.7/s"
    second = "time   2.1 s per request: 1 ms postgres, under 9 ms lock; 16x2 1.0x\n   7 % █ 9/s"
    assert form(first) == form(second)
    assert form("1.0 of 4 threads") != form("1.0 of 4 lock")

"""Frozen windows are judged as on the day on which they were captured, or otherwise for a reason that is written."""

import json
from itertools import chain
from typing import Any

from tests.frozen import documents
from tests.frozen.form import decode, encode
from tests.frozen.judgement import DIFFERENCES, WINDOWS, decode_given, differs, find_different, read_lines
from tests.frozen.pages import PAGES, find_examples, render
from tests.support.windows import the_example
from tools.scenarios.rows import ROWS
from tools.scenarios.run import plan
from uwsgi_headroom.history.window import Window

MOST_SHOWN = 20

LONGEST_ACT, LONGEST_LABEL = 100, 200


def test_every_window_is_judged_as_before():
    """Rows, severities, workers, harms, causes in their order, headroom, usable headroom and advised numbers are the
    same. A window that stands for a test has the test's sentence as `why`."""
    different = find_different()
    why = {line["name"]: line.get("why", "") for line in read_lines(WINDOWS)}
    shown = [
        f"{name}: {why[name]}\n"
        + "\n".join(f"  {part}: {was[part]} -> {now[part]}" for part in was if differs(was[part], now[part]))
        for name, (now, was) in list(different.items())[:MOST_SHOWN]
    ]
    text = "\n".join(shown)
    assert not different, f"""
{text}
{len(different)} windows are judged otherwise. If that is wanted: python -m tests.frozen accept "the reason"
"""


def test_rows_say_what_their_pages_show():
    """`python -m tests.frozen pages` writes them: read the difference as an operator at night would."""
    pages = {path.name: path.read_text() for path in PAGES.iterdir()}
    assert render() == pages, "python -m tests.frozen pages"


def test_documents_are_as_before():
    """What the API says about a dozen windows; `python -m tests.frozen documents` writes it: read what is different."""
    different = {}
    for line in read_lines(documents.DOCUMENTS):
        was, now = line["document"], documents.build(line["name"])
        parts = {part: (was.get(part), now.get(part)) for part in was | now if differs(was.get(part), now.get(part))}
        different |= {line["name"]: parts} if parts else {}
    text = "\n".join(
        f"{name}: {part}\n  {was}\n  {now}" for name, parts in different.items() for part, (was, now) in parts.items()
    )
    assert not different, text


def test_acts_are_short():
    """What a person reads at once has at most 100 characters, and what /metrics shows 200 bytes."""
    for name, finding in chain.from_iterable(find_examples().values()):
        assert len(finding.public.act) <= LONGEST_ACT, (name, finding.public.act)
        assert max(len(text.encode()) for text in finding.public) <= LONGEST_LABEL, (name, finding.public)


def test_expected_differences_have_reasons():
    """Each has a sentence, and differs from what was frozen."""
    frozen = {line["name"]: line["judged"] for line in read_lines(WINDOWS)}
    for line in read_lines(DIFFERENCES):
        assert len(line["reason"].split()) >= 4, line["reason"]
        assert line["judged"]
        assert line["judged"].keys() <= frozen.keys()


def test_every_scenario_and_twin_is_there():
    """One without a window was added since: `python -m tests.frozen.capture scenarios FOLDER` captures it."""
    names = [line["name"] for line in read_lines(WINDOWS)]
    assert len(set(names)) == len(names)
    rows = [each.row for each in plan(ROWS, 1)]
    assert not {row.name for row in rows if row.expected.outcome != "unknown" and not row.server.bare} - set(names)
    assert sum(name.startswith("hostile: ") for name in names) > 10


def test_windows_show_every_finding_that_scenarios_expect():
    """Each code that a scenario expects is found in a window, or is a harm that a cause explains."""
    found = [finding for line in read_lines(WINDOWS) for finding in line["judged"]["findings"]]
    codes = {code for each in found for code in (each["code"], *(harm for harm, _ in each.get("harms", ())))}
    assert {code for row in ROWS if not row.server.bare for code in row.expected.first} <= codes


def test_forms_are_read_back():
    """Records of all three kinds, keys that are no texts, infinity, lists of zeros and what has its default."""
    for line in list(read_lines(WINDOWS))[::5]:
        given = decode_given({name: each for name, each in line["given"].items() if name != "backends"})
        again = {name: encode(each) for name, each in given.items()}
        assert decode_given(json.loads(json.dumps(again))) == given, line["name"]


def test_a_form_outlives_its_fields():
    """A field that no longer exists is ignored, and one that is missing has its default or is empty."""
    form: dict[str, Any] = encode(the_example())
    assert decode(Window, form | {"gone": {"also": 1}}) == decode(Window, form)
    empty = decode(Window, {})
    assert (empty.workers, empty.queue_seconds, empty.reloads, empty.cpu) == ((), {}, 0, None)

"""Sentences are filled with facts."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.words.template import Fact, Private, fill, names_in


@pytest.mark.parametrize(
    ("template", "facts", "text"),
    [
        ("{n:request} {n:is|are} lost.", {"n": 1}, "1 request is lost."),
        ("{n:request} {n:is|are} lost.", {"n": 1200}, "1,200 requests are lost."),
        ("{ids:Worker} {ids:is|are} down.", {"ids": [2]}, "Worker 2 is down."),
        ("{ids:Worker} {ids:is|are} down.", {"ids": (2, 3)}, "Workers 2 and 3 are down."),
        (
            "{part:percent}, {time:duration}, {size:bytes}",
            {"part": 0.5, "time": 2.0, "size": 800},
            "50 %, 2.0 s, 800 B",
        ),
        ("`listen` is {n:plain}, not {n}", {"n": 1000}, "`listen` is 1000, not 1,000"),
        ("It waits[why?  because of {why}].", {"why": "a lock"}, "It waits because of a lock."),
        ("It waits[why?  because of {why}].", {"why": None}, "It waits."),
        ("It waits[why?  because of {why}].", {"why": ""}, "It waits."),
        ("[n? {n} wait]", {"n": 0}, "0 wait"),
        ("[is_idle? Idle.]", {"is_idle": False}, ""),
        ("`[uwsgi]` in {name}", {"name": "{not a fact}"}, "`[uwsgi]` in {not a fact}"),
    ],
)
def test_a_sentence(template: str, facts: dict[str, Fact], text: str) -> None:
    """Each form; a fact's own text is taken as it is."""
    assert fill(template, facts) == text
    assert names_in(template) == facts.keys()


@pytest.mark.parametrize("template", ["{n", "n}", "{}", "[a? [b? c]]", "{n:{m}}"])
def test_no_sentence(template: str) -> None:
    """Parts are not nested, and a brace begins a fact."""
    with pytest.raises(ValueError, match=r".+"):
        names_in(template)


ROW = Kind(
    code="stuck",
    role="harm",
    severity="warning",
    title="Worker {id} is stuck.",
    evidence="It is in `{place}`[wait? ; {wait}].",
    act="Run `py-spy dump --pid {pid}`.",
    then="Set timeouts.",
)


def test_a_finding_of_a_row() -> None:
    """Who may only scrape reads no path and no PID. A block can leave out how long requests wait."""
    found = ROW.found(
        {"id": 3, "wait": "requests wait 2.0 s"},
        place=Private("shop/a.py", "a file"),
        pid=Private("77", "PID"),
        worker_id=3,
    )
    assert (found.code, found.severity, found.worker_id, found.kind) == ("stuck", "warning", 3, ROW)
    assert found.evidence == "It is in `shop/a.py`; requests wait 2.0 s."
    assert (found.wait, found.without_wait) == ("requests wait 2.0 s", "It is in `shop/a.py`.")
    assert found.change == "Run `py-spy dump --pid 77`. Set timeouts."
    assert found.public.evidence == "It is in `a file`; requests wait 2.0 s."
    assert found.public.act == "Run `py-spy dump --pid PID`."


def test_facts_are_those_of_the_row() -> None:
    """One too many, or too few, is an error of the rule."""
    with pytest.raises(TypeError, match=r"stuck: .'wait'"):
        ROW.found(id=3, place="a", pid=7)
    with pytest.raises(TypeError, match=r"stuck: .'more'"):
        ROW.found(id=3, place="a", pid=7, wait="", more=1)

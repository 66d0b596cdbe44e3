"""Results are compared with expectations: outcome, first finding, words and first limit."""

from __future__ import annotations

from typing import Any

from tools.scenarios.judge import differences, read_document
from tools.scenarios.scenario import Expected, Load, Scenario, Server
from tools.scenarios.table import ROWS, find_rows
from tools.scenarios.variations import vary


def document(*findings: tuple[str, str], **limits: float) -> dict[str, Any]:
    """The JSON document of a check with these findings (code, severity)."""
    return {
        "verdict": "A sentence.",
        "status": "ok",
        "findings": [
            {"code": code, "severity": severity, "title": code, "evidence": "", "meaning": "", "change": "Raise it."}
            for code, severity in findings
        ],
        "headroom": {"by_limit": limits, "first": min(limits, key=lambda limit: limits[limit], default=None)},
    }


def compare(expected: Expected, *findings: tuple[str, str], **limits: float) -> list[str]:
    """The differences between a document and the expectation."""
    row = Scenario("row", Server(), expected)
    return list(differences(row, read_document(document(*findings, **limits), 0, row)))


def test_as_expected() -> None:
    """There is no difference if outcome, finding, words and limit are as expected."""
    expected = Expected("warning", ("saturation",), words=("raise",), not_words=("lower",), limits=("threads",))
    assert compare(expected, ("saturation", "warning"), threads=1.1) == []


def test_every_difference_is_named() -> None:
    """Outcome, first finding, missing and forbidden words, and the limit are named one by one."""
    expected = Expected("ok", also=("reloaded",), words=("lower",), not_words=("raise",), limits=("threads",))
    assert compare(expected, ("saturation", "warning"), interpreters=1.1, threads=2.0) == [
        "warning, not ok",
        "first finding saturation, not none",
        "no finding reloaded",
        "does not say 'lower'",
        "advises 'raise'",
        "first limit interpreters, not threads",
    ]


def test_a_finding_that_stands_twice_is_a_difference() -> None:
    """A finding that occurs twice is reported once as a difference."""
    saturation = ("saturation", "warning")
    assert compare(Expected("warning", ("saturation",)), saturation, saturation) == ["says saturation twice"]


def test_other_programs_of_the_machine_count_only_where_expected() -> None:
    """A finding about neighbours, and the CPU limit, are left out of rows that are not about them."""
    finding = ("cpu_used_by_others", "warning")
    assert compare(Expected("ok", limits=("threads",)), finding, cpu=1.0, threads=2.0) == []
    assert compare(Expected("warning", ("cpu_used_by_others",), limits=("cpu",)), finding, cpu=1.0, threads=2.0) == []


def test_a_variation_is_the_same_for_the_same_seed() -> None:
    """Variations are reproducible, differ from one another, and stay within the factors."""
    row = Scenario("row", Server(10, 10), Expected("ok"), (Load(part=0.5, io_ms=100),))
    assert vary(row, 1, seed=1) == vary(row, 1, seed=1) != vary(row, 2, seed=1)
    load = vary(row, 1, seed=1).loads[0]
    assert 0.4 <= load.part <= 0.6
    assert 80 <= load.io_ms <= 120


def test_rows_are_found_by_a_part_of_their_name() -> None:
    """A text selects all rows whose name contains it; without a text, the whole table of over 40 rows is selected."""
    assert [row.name for row in find_rows(["KILL -9 of the master"])] == ["kill -9 of the master"]
    assert len(find_rows([])) == len(ROWS) >= 40

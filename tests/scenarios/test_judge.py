"""What the judge of scenarios accepts, how it is checked, and the table of rows with twins and variations."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tools.scenarios.__main__ import full_text
from tools.scenarios.checking import BEGUN, Seen, Terminal, differences, read_document
from tools.scenarios.rows import ROWS, find_rows, find_twin
from tools.scenarios.run import VARIATIONS, Result, count, plan, render_marks, vary
from tools.scenarios.scenario import Expected, Scenario, Server, Twin


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


def test_as_expected():
    """Other programs count only where they are expected. A finding that stands twice is a difference."""
    expected = Expected("warning", ("saturation",), words=("raise",), not_words=("lower",), limits=("threads",))
    assert compare(expected, ("saturation", "warning"), threads=1.1) == []
    saturation = ("saturation", "warning")
    assert compare(Expected("warning", ("saturation",)), saturation, saturation) == ["says saturation twice"]
    finding = ("cpu_used_by_others", "warning")
    assert compare(Expected("ok", limits=("threads",)), finding, cpu=1.0, threads=2.0) == []
    assert compare(Expected("warning", ("cpu_used_by_others",), limits=("cpu",)), finding, cpu=1.0, threads=2.0) == []


def test_every_difference_is_named():
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


def test_a_variation_keeps_the_kind_of_server_and_the_share_of_the_load():
    """One thread stays one and several stay several; rates follow size and service time; events stay in the check."""
    for row in ROWS:
        for seed in range(20):
            varied = vary(row, seed)
            assert (varied.server.processes == 1) == (row.server.processes == 1)
            assert (varied.server.threads > 1) == (row.server.threads > 1)
            assert varied.server == row.server or row.resized
            assert row.seconds <= varied.seconds <= 1.2 * row.seconds + 0.1
            for before, after in zip(row.loads, varied.loads, strict=True):
                assert after.part == before.part
                if before.rate and 0 < before.io_ms <= 5000:
                    share = before.rate * before.io_ms / row.server.capacity
                    assert after.rate * after.io_ms / varied.server.capacity == pytest.approx(share)


def test_a_variation_is_the_same_for_the_same_seed():
    """Another seed gives other arrivals and other service times."""
    row = ROWS[0]
    assert vary(row, 1) == vary(row, 1)
    first, second = vary(row, 1).loads[0], vary(row, 2).loads[0]
    assert first.seed != second.seed
    assert first.io_ms != second.io_ms


def test_rows_and_their_texts():
    row = replace(ROWS[0], why="Because.")
    assert "Not run: no root" in full_text(Result(row, None, skipped="no root"))
    text = full_text(Result(row, Seen("unknown", 3, verdict="Cannot be read."), ("unknown, not ok",)))
    assert "Because." in text
    assert "Not as expected: unknown, not ok" in text
    assert "    Cannot be read." in text
    assert [row.name for row in find_rows(["KILL -9 of the master"])] == ["kill -9 of the master"]
    assert len(find_rows([])) == len(ROWS) >= 40


def test_all_that_is_written_is_read():
    terminal = Terminal()
    program = "print('x' * 200_000 + 'watching for 2 s more', end='')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=terminal.fd)
    terminal.start()
    assert process.wait(60) == 0
    terminal.close()
    assert len(terminal.text) == 200_000 + len("watching for 2 s more")
    assert BEGUN in terminal.text


def test_each_sick_row_has_a_healthy_twin():
    for row in ROWS:
        twin = find_twin(row)
        assert (twin is None) == (row.expected.outcome == "ok"), row.name
        if twin:
            assert twin.expected.outcome == "ok"
            assert twin.server != row.server or (twin.loads, twin.events, twin.burners) != (
                row.loads,
                row.events,
                row.burners,
            )


def test_the_table_counts_rows_twins_and_variations():
    """A row that is not as expected, and one that cannot run, are counted apart."""
    sick = next(row for row in ROWS if isinstance(row.twin, Twin) and not row.twin.name)
    absent = replace(ROWS[0], name="1x1 at 40 %", skip=lambda: "no such server")
    lines = plan([sick, absent], seed=3)
    runs = [run for line in lines for run in (line.row, *line.variations)]
    seen = Seen("ok", 0)
    results = {run.name: Result(run, seen) for run in runs}
    results |= {run.name: Result(run, None, skipped="no such server") for run in runs if run.skip()}
    results[sick.name] = Result(sick, seen, ("ok, not critical",))
    text = list(render_marks(lines, results))
    assert len(lines) == 3
    assert text[0].split() == [*sick.name.split(), "✗", *"✓" * VARIATIONS]
    assert text[2].split() == [*absent.name.split(), *"-" * (1 + VARIATIONS)]
    assert "Rows: 0 of 1 as expected, 1 not; 0 not run." in text
    assert f"Their variations: {VARIATIONS} of {VARIATIONS} as expected, 0 not; 0 not run." in text
    assert text[-1] == "Not run: no such server."
    assert count(list(results.values())).startswith("5 of 6 as expected")

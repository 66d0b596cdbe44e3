"""Each sick row has a healthy twin, each complaint its rows, and one table shows them with their variations."""

from dataclasses import replace

from tools.scenarios.checking import Seen
from tools.scenarios.rows import ROWS, find_twin
from tools.scenarios.run import VARIATIONS, Result, count, plan, render_marks
from tools.scenarios.scenario import Twin


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

"""The quick scenarios: `check` reaches the expected verdict on a real uWSGI in each of these situations."""

from dataclasses import replace

import pytest

from tests.support.other_namespaces import as_root
from tools.scenarios.rows import ROWS
from tools.scenarios.run import run_all, run_row
from tools.scenarios.scenario import OUTCOMES

QUICK = [row for row in ROWS if row.quick]
SECONDS = 10.0
BESIDE = 6

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def results():
    """The results of all quick scenarios, run in parallel: one after the other they would take minutes."""
    rows = [replace(row, seconds=min(row.seconds, SECONDS)) for row in QUICK]
    return {result.row.name: result for result in run_all(rows, run_row, lambda _: None, BESIDE)}


@pytest.mark.parametrize("name", [pytest.param(row.name, marks=[as_root] if row.as_nobody else []) for row in QUICK])
def test_is_judged_as_expected(name, results):
    """Verdict, first finding and advice are those of an expert; on a busy machine, a warning may become critical."""
    result = results[name]
    assert result.seen, result.skipped
    expected, outcome = result.row.expected.outcome, result.seen.outcome
    different = [text for text in result.different if not (expected == "warning" and text.startswith("critical,"))]
    assert not different, (result.seen.verdict, result.seen.findings, result.seen.tally)
    assert OUTCOMES.index(outcome) >= OUTCOMES.index(expected)
    assert result.seen.exit_status >= OUTCOMES.index(expected)


def test_there_are_a_dozen():
    """They cover load, queues, workers that end, reloads, exceptions, and what requests wait for."""
    codes = {code for row in QUICK for code in (*row.expected.first, *row.expected.also)}
    assert 12 <= len(QUICK) <= 14
    assert {"saturation", "clients_refused", "harakiri", "requests_lost", "exceptions", "reloaded"} <= codes
    assert {"accept_blocked", "connection_shared", "output_blocked", "waits_for_backend"} <= codes

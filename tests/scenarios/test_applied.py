"""The advice is followed on a real uWSGI under the same load: the harm ends, and the promise is kept."""

import pytest

from tools.scenarios.apply import BESIDE, ROWS, follow, set_options
from tools.scenarios.run import run_all
from tools.scenarios.scenario import Server

QUICK = [row for row in ROWS if row.quick]


@pytest.fixture(scope="module")
def results():
    """The results of the quick rows, run in parallel."""
    return {result.row.scenario.name: result for result in run_all(QUICK, follow, lambda _: None, BESIDE)}


@pytest.mark.integration
@pytest.mark.parametrize("name", [row.scenario.name for row in QUICK])
def test_the_advice_ends_the_harm(name, results):
    """Two steps at most end the harm."""
    result = results[name]
    if any("do not change `threads` or `processes`" in finding["change"] for finding in result.after.grave):
        pytest.skip("this user may not see what threads wait for, so nothing is advised")
    assert result.steps, result.after
    assert not [text for text in result.missed if text.startswith("still")], (result.steps, result.after)


def test_there_are_three():
    """A busy server, one whose requests wait, one whose workers end too early. `make scenarios-apply` runs all rows."""
    assert len(QUICK) == 3


def test_options_are_set_as_advised():
    """An option that is set already gets the new value, another is added."""
    server = Server(2, 1, ("--max-requests", "5"))
    changed = set_options(server, {"processes": 4, "max-requests": 1000, "listen": 200})
    assert changed == Server(4, 1, ("--max-requests", "1000", "--listen", "200"))

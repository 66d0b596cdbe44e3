"""The table of the trial says what harmed, and what did not come true."""

from __future__ import annotations

import pytest

from tools.stats_trial import __main__ as table
from tools.stats_trial.__main__ import Row
from tools.stats_trial.trial import Phase

GOOD = Phase(serves=True, failed=0, away=1.1, kept=True, exporter=True, other=False, exact=True)
DOWN = Phase(serves=False, failed=900, away=30.0, kept=True, notes=("bind(): Permission denied",))
STOPPED = Phase(serves=True, failed=90, away=3.2, kept=True, exporter=True, other=False, exact=True)
ACTS = {"follow": GOOD, "reload": GOOD, "restart": STOPPED, "reboot": GOOD}
STEPS = "shop: no stats server (master 1)\n\n  1. Reload uWSGI:\n\n    systemctl reload shop\n"
RESTART = STEPS.replace("Reload uWSGI", "Stop and start uWSGI when that suits you; do not reload it")


def row(printed: str = STEPS, **acts: Phase) -> Row:
    """A row of a set-up, with other phases than those without a fault."""
    return Row("trixie", "a unit", [printed], {**ACTS, **acts})


def changed(**fields: bool | int) -> Phase:
    """A phase with a fault."""
    return Phase(**{**{name: getattr(GOOD, name) for name in GOOD.__dataclass_fields__}, **fields})


def test_requests_that_fail_in_a_stop_and_start_are_no_harm() -> None:
    """They fail with any lines; in a reload none may."""
    assert row().verdict == "good"
    assert row(follow=changed(failed=1)).verdict == "HARM"
    assert row(RESTART, follow=changed(failed=80)).verdict == "good"


@pytest.mark.parametrize("act", ["follow", "reload", "restart", "reboot"])
def test_an_application_that_is_down_or_changed_is_harmed(act: str) -> None:
    """After whichever act."""
    assert row(**{act: DOWN}).verdict == "HARM"
    assert row(**{act: changed(kept=False)}).verdict == "HARM"


@pytest.mark.parametrize("fault", [{"exporter": False}, {"other": True}, {"exact": False}])
def test_stats_that_are_not_as_promised_are_faults(fault: dict[str, bool]) -> None:
    """The exporter reads them, exactly, and nobody else does."""
    assert row(reboot=changed(**fault)).verdict == "FAULTS"


def test_without_lines_nothing_is_followed() -> None:
    """It is another thing if there were lines, and no stats in the end."""
    assert Row("trixie", "a unit", ["shop: no stats server (x)"], {"follow": GOOD}).verdict == "no lines"
    assert Row("trixie", "a unit", [STEPS], {"follow": GOOD}).verdict == "NO STATS"


def test_the_table_has_a_row_for_a_set_up() -> None:
    """With what the lines of `discover` did."""
    (line,) = [line for line in table.render([row(reload=DOWN)]).splitlines() if line.startswith("| a unit")]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[2:7] == ["1 line", "0 failed, 1.1 s", "DOWN", "90 failed, 3.2 s", "0 failed, 1.1 s"]
    assert cells[-1] == "HARM"

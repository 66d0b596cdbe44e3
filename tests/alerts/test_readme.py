"""The README of the alerts says what the rules say."""

from __future__ import annotations

from tests.alerts import table

AGAIN = "`python3 -m tests.alerts.table` writes it anew"


def test_every_alert_is_in_the_readme() -> None:
    """With its severity, what it means and how long that lasts before it fires."""
    assert table.told("alerts") == table.alerts(), AGAIN


def test_every_knob_is_in_the_readme() -> None:
    """With its value and the reason to change it."""
    assert table.told("knobs") == table.knobs(), AGAIN

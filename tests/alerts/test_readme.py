"""The README of the alerts says what the rules say."""

from __future__ import annotations

from tools import alert_tables

AGAIN = "`python3 -m tools.alert_tables` writes it anew"


def test_every_alert_is_in_the_readme() -> None:
    """With its severity, what it means and how long that lasts before it fires."""
    assert alert_tables.sentence_of("alerts") == alert_tables.alerts(), AGAIN


def test_every_knob_is_in_the_readme() -> None:
    """With its value and the reason to change it."""
    assert alert_tables.sentence_of("knobs") == alert_tables.knobs(), AGAIN

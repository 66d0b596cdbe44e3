"""Findings about an emperor: vassals that it throttles because they fail to start."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.record import EmperorRecord, ThrottledVassal
from uwsgi_headroom.words.formats import counted, duration

MOST_NAMES = 3
"""The most throttled vassals that a sentence lists; the page lists all of them."""


def find(record: EmperorRecord) -> Iterator[Finding]:
    """The findings about an emperor."""
    throttled = record.throttled
    if not throttled:
        return
    more = len(throttled) - MOST_NAMES
    yield Finding(
        code="vassals_throttled",
        severity="warning",
        title=f"{counted(len(throttled), 'vassal')} of the emperor fail{'s' if len(throttled) == 1 else ''} to start.",
        evidence="; ".join(map(_describe, throttled[:MOST_NAMES])) + (f"; and {more} more." if more > 0 else "."),
        meaning="The application of a throttled vassal is down: the emperor waits longer before each attempt to start "
        f"it. {counted(record.vassals, 'vassal')} {'runs' if record.vassals == 1 else 'run'}.",
        change="See the emperor's log for why a vassal ends at its start, and correct that. The emperor starts the "
        "vassal at its next attempt.",
    )


def _describe(vassal: ThrottledVassal) -> str:
    waits = "" if vassal.seconds is None else f" waits {duration(vassal.seconds)}"
    attempts = "" if not vassal.attempts else f" after {counted(vassal.attempts, 'attempt')}"
    return f"{vassal.name}{waits}{attempts}"

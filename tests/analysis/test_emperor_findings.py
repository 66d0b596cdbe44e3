"""Findings about an emperor."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.findings import collect_emperor_findings
from uwsgi_headroom.analysis.findings.kind import RUNBOOKS
from uwsgi_headroom.analysis.findings.parts import VASSALS_THROTTLED
from uwsgi_headroom.reading import describe_emperor
from uwsgi_headroom.record import EmperorRecord
from uwsgi_headroom.stats.raw import Blacklisted, EmperorSnapshot, Vassal


def emperor(*throttled: Blacklisted, vassals: int = 2) -> EmperorRecord:
    running = tuple(Vassal(name=f"v{number}.ini", pid=number + 10) for number in range(vassals))
    return describe_emperor(EmperorSnapshot(version="2.0.31", pid=9, vassals=running, blacklist=throttled))


def test_an_emperor_without_throttled_vassals_has_no_findings() -> None:
    """There is no finding, whatever vassals the emperor runs."""
    assert collect_emperor_findings(emperor()) == []
    assert collect_emperor_findings(emperor(vassals=0)) == []


def test_a_throttled_vassal_is_a_warning() -> None:
    """The finding names the vassal, and how long the emperor waits; there is a runbook."""
    (finding,) = collect_emperor_findings(emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3)))
    assert (finding.kind, finding.severity) == (VASSALS_THROTTLED, "warning")
    assert finding.evidence.endswith("start shop.ini, for 12 s at most.")
    assert RUNBOOKS[finding.code] == "UwsgiVassalThrottled"


@pytest.mark.parametrize(("count", "end"), [(3, "a, b and c."), (5, "a, b, c and 2 more.")])
def test_only_some_of_many_throttled_vassals_are_listed(count: int, end: str) -> None:
    """The sentence lists the first three, without figures that uWSGI omits; the document lists all of them."""
    (finding,) = collect_emperor_findings(emperor(*(Blacklisted(name=name) for name in "abcde"[:count]), vassals=1))
    assert finding.title.startswith(f"{count} vassals")
    assert finding.evidence.endswith(end)

"""Findings about an emperor."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.findings import collect_emperor_findings
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS
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
    """The finding names the vassal, its wait, the consequence and the remedy; there is a runbook."""
    (finding,) = collect_emperor_findings(emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3)))
    assert (finding.code, finding.severity) == ("vassals_throttled", "warning")
    assert finding.title == "1 vassal of the emperor fails to start."
    assert (
        finding.evidence
        == "The emperor waits before it tries again to start these vassals: shop.ini, for 12 s (after 3 attempts)."
    )
    assert "2 other vassals are running." in finding.meaning
    assert finding.change.startswith("Check the emperor's log")
    assert RUNBOOKS[finding.code] == "UwsgiVassalThrottled"


@pytest.mark.parametrize(("count", "end"), [(3, "c."), (5, "c; and 2 more.")])
def test_only_some_of_many_throttled_vassals_are_listed(count: int, end: str) -> None:
    """The sentence lists the first three, without figures that uWSGI omits; the document lists all of them."""
    (finding,) = collect_emperor_findings(emperor(*(Blacklisted(name=name) for name in "abcde"[:count]), vassals=1))
    assert finding.title == f"{count} vassals of the emperor fail to start."
    assert finding.evidence == f"The emperor waits before it tries again to start these vassals: a; b; {end}"
    assert "1 other vassal is running." in finding.meaning

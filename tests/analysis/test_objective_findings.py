"""What a missed objective says: how bad it is, what was missed, and what to do about that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings.kind import Finding, first_act
from uwsgi_headroom.analysis.findings.objective import BURNS, find
from uwsgi_headroom.analysis.objective import judge_objective
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.response_times.totals import SlowRequests

SLO = Slo(1.0, 0.99)


def found(windows: Iterable[SlowRequests], harakiris: int = 0) -> list[Finding]:
    server = describe_server(Server().read(1000.0))
    assert server
    figures = compute_figures(replace(window(60, worker(1, 100)), harakiris=harakiris), server)
    return list(find(replace(figures, objective=judge_objective(SLO, list(windows), 0.2))))


def both(slower: float = 0.0, lost: int = 0, waited: float = 0.0, refused: int = 0) -> list[SlowRequests]:
    """The same share of bad requests in five minutes and in an hour; these are numbers of a thousand."""
    return [SlowRequests(seconds, 1000 - lost - refused, slower, lost, waited, refused) for seconds in (300.0, 3600.0)]


@pytest.mark.parametrize(
    ("slow", "severity"), [(10, None), (11, "info"), (59, "info"), (60, "warning"), (143, "warning"), (144, "critical")]
)
def test_how_bad_it_is(slow: int, severity: str | None) -> None:
    """From a burn rate of 6 on it is a warning, from 14.4 on critical."""
    assert [finding.severity for finding in found(both(slow))] == ([severity] if severity else [])


def test_a_young_history_warns() -> None:
    """Before it began nothing counts as burnt, so it is not critical yet; a burn rate of 6 is a warning as ever."""
    (finding,) = found([SlowRequests(100.0, 1000, 68.0, 0)] * 2)
    assert (finding.kind, finding.severity) == (BURNS, "warning")
    assert "burn rate 6.8" in finding.evidence


@pytest.mark.parametrize(
    ("missed", "share", "advice"),
    [
        (both(slower=200), "20 %", "threads, interpreters, CPU"),
        (both(waited=900), "90 %", "the finding about the listen queue"),
        (both(lost=61), "6.1 %", "uWSGI's log"),
        (both(refused=500), "50 %", "the full listen queue"),
        (both(slower=100, lost=90), "19 %", "threads, interpreters, CPU"),
        (both(slower=2, lost=90), "9.2 %", "uWSGI's log"),
    ],
)
def test_the_advice_follows_what_was_missed(missed: list[SlowRequests], share: str, advice: str) -> None:
    """It names what most of the misses were."""
    (finding,) = found(missed)
    assert share in finding.evidence
    assert advice in first_act(finding.change)


def test_lost_to_harakiri() -> None:
    """The advice is not about slow requests when harakiri ended all of them."""
    (finding,) = found(both(lost=61), harakiris=3)
    assert "`harakiri` killed 3 workers" in finding.change
    assert "61 were lost" in finding.evidence

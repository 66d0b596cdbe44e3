"""Simulated server-days: healthy ones page nobody, sick ones do, and the simulation serves as queueing theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tools.bench.days import course, findings, healthy, pages
from tools.bench.days.__main__ import Verdicts, join, report, summary
from tools.bench.days.healthy import mean_wait, part_slower
from tools.bench.days.queueing import serve

SEEDS = range(2001, 2013)
"""Other seeds than those of the bench."""

REQUESTS = 40_000
"""Requests of a day that are simulated one by one: less than in the bench, to be quick."""


@pytest.fixture(scope="module")
def days() -> list[course.Course]:
    """Twelve healthy days."""
    return [course.run(healthy.draw(seed), REQUESTS) for seed in SEEDS]


def quiet(seed: int = 1, **changes: object) -> healthy.Day:
    """A day of a small server without any event."""
    plain = replace(
        healthy.draw(seed),
        processes=2,
        threads=1,
        peak=1.0,
        service=0.5,
        sigma=0.6,
        computing=0.2,
        cpus=2,
        keen=False,
        threshold=0.0,
        max_requests=0,
        bursts=(),
        job=None,
        neighbours=(),
        away=(),
    )
    return replace(plain, **changes)


@pytest.mark.slow
def test_healthy_days_page_nobody(days: list[course.Course]) -> None:
    """No rule that pages fires, and no finding holds long enough. It is CRITICAL only while users wait for seconds or
    are refused."""
    said = [episode for day in days for episode in findings.judge_day(day)]
    assert {each.severity for each in said} == {"warning", "critical"}, "bursts fill queues on some of these days"
    assert not [each for each in said if each.severity == "critical" and not each.hurt.explains_critical]
    stretches = [stretch for day in days for stretch in pages.find_stretches(day)]
    assert len(stretches) >= len(days) / 2
    assert pages.find_pages(stretches) == []
    assert pages.judged_pages([said for day in days for said in findings.judge_day(day)]) == []


@pytest.mark.slow
def test_a_sick_day_pages_and_is_critical() -> None:
    """A server that gets more than it can serve for two hours has pages, a CRITICAL finding, and users who were
    hurt."""
    overload = healthy.Spell(50_000.0, 57_200.0, 8.0)
    sick = course.run(quiet(bursts=(overload,)), 400_000)
    assert sick.simulated.all()
    found = pages.judged_pages(findings.judge_day(sick))
    assert {page.alert for page in found} & {"queue_wait", "saturation", "clients_refused", "interpreter_bound"}
    assert all(page.hurt.is_felt for page in found)
    critical = [each for each in findings.judge_day(sick) if each.severity == "critical"]
    assert max(each.end - each.start for each in critical) > 3600
    assert all(each.hurt.explains_critical for each in critical)


def test_a_restart_that_hangs_pages() -> None:
    """A server that is away for ten minutes is down."""
    hangs = healthy.Away(36_000.0, 36_600.0, "restart")
    found = pages.find_pages(list(pages.find_stretches(course.run(quiet(away=(hangs,))))))
    assert "UwsgiDown" in {page.alert for page in found}


@pytest.mark.parametrize(("processes", "rate"), [(1, 1.0), (2, 3.0), (4, 6.0)])
def test_the_simulation_waits_as_theory_says(processes: int, rate: float) -> None:
    """The mean wait at a steady load is that of the formula, which is exact for one thread."""
    day = quiet(processes=processes, computing=0.0)
    chance = np.random.default_rng(7)
    arrivals = np.cumsum(chance.exponential(1 / rate, 200_000))
    service = healthy.service_times(day, chance, len(arrivals))
    served = serve(day, arrivals, np.zeros(len(service)), service, chance)
    measured = float((served.starts - served.arrivals).mean())
    theory = float(mean_wait(np.array(rate), processes, day.service, day.sigma))
    assert measured == pytest.approx(theory, rel=0.1)
    slower = float((served.ends - served.starts > 1.0).mean())
    assert slower == pytest.approx(part_slower(1.0, day.service, day.sigma), rel=0.1)


def test_what_is_away_serves_nothing() -> None:
    """A restart refuses requests and starts none; a worker that is recycled takes none meanwhile."""
    away = (healthy.Away(100.0, 130.0, "recycled", 0), healthy.Away(200.0, 210.0, "restart"))
    day = quiet(away=away, peak=1.0)
    chance = np.random.default_rng(3)
    arrivals = np.arange(50.0, 300.0, 0.5)
    times = np.full(len(arrivals), 0.3)
    served = serve(day, arrivals, 0.1 * times, 0.9 * times, chance)
    assert served.refused.tolist() == np.arange(200.0, 210.0, 0.5).tolist()
    assert not ((served.starts >= 200) & (served.starts < 210)).any()
    own = served.starts[served.workers == 0]
    assert not ((own > 100.3) & (own < 130)).any()


def test_days_are_healthy_by_their_rule() -> None:
    """The usual load of the busiest hour makes nobody wait noticeably, and nothing lasts longer than it may."""
    for seed in range(60):
        day = healthy.draw(seed)
        seconds, multiple = healthy.NOTICED
        wait = float(mean_wait(np.array(day.peak), day.capacity, day.service, day.sigma))
        assert wait <= max(seconds, multiple * day.service)
        assert day.peak * day.service * day.computing <= healthy.INTERPRETER * day.processes * 1.001
        assert all(burst.end - burst.start <= 60 for burst in day.bursts)
        assert all(away.end - away.start <= 8 for away in day.away)
        assert day == healthy.draw(seed)


def test_the_report_has_pages_and_misses() -> None:
    """Pages and CRITICAL findings without harm are listed one by one."""
    day, none = healthy.draw(1), course.Hurt(0.0, 0, 0, 0.0)
    miss = findings.Episode(1, "queue_wait", "critical", "Requests wait.", "1 s.", 3600.0, 3660.0, none)
    right = replace(miss, hurt=course.Hurt(0.1, 50, 0, 0.1))
    page = pages.Page(1, "UwsgiDown", 0.0, 3600.0, 4, none)
    part = Verdicts([day], [miss, right], [page])
    whole = join([part, replace(part, days=[healthy.draw(2)], episodes=[], pages=[])])
    assert whole.unexplained == [miss]
    assert summary(whole).startswith("2 server-days (seeds 1 to 2): 1 pages on 1 days; 1 CRITICAL findings on 1 days")
    text = report(whole)
    assert "| UwsgiDown | 1 |" in text
    assert "01:00, 60 s | `queue_wait` | Requests wait. 1 s. | 0% (0) |" in text

"""What benchmarks conclude from figures."""

import json
import math
import random
import socket
import threading
from dataclasses import asdict, replace

import numpy as np
import pytest

from tools.bench import hostile, model
from tools.bench.accuracy.generator import Record, Truth, ask, mean_level
from tools.bench.accuracy.judge import RULES
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.bench.clients import Answer, Answers, Kind, Plan, read_plan
from tools.bench.days import course, findings, healthy
from tools.bench.days.__main__ import Verdicts, join, summary
from tools.bench.days.__main__ import report as report_days
from tools.bench.days.course import serve
from tools.bench.days.healthy import mean_wait, part_slower
from tools.bench.hostile import DOCUMENTS, SITUATIONS, Decoding, Figures
from tools.bench.hostile_crowds import QUIET, Crowd
from tools.bench.model import LOADS, OBSERVED, WORKLOADS, Row
from tools.bench.ramp import (
    AROUND,
    GROUPS,
    IGNORED_SECONDS,
    Case,
    Predicted,
    Result,
    Step,
    count_steps,
    find_crossing,
    make_kind,
    report,
)
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.analysis.what_if.predict import PredictedLoad, PredictedSetting
from uwsgi_headroom.config.defaults import SIZE_CAP

TRUTH = model.Truth(throughput=100.0, service=0.1, total=0.1, other_programs=0.25)


def _row(load: float | None, most: float, time: float | None) -> Row:
    at = PredictedLoad(
        load=1.0,
        throughput=50.0,
        sustained=time is not None,
        response_time=time,
        queue_wait=None if time is None else 0.0,
        total_time=time,
        threads=0.5,
        interpreters=0.5,
        cpu=0.5,
        lock=0.0,
    )
    predicted = PredictedSetting(
        setting="8x4",
        processes=8,
        threads=4,
        is_observed=False,
        most_throughput=most,
        limit="threads",
        loads=(at,),
        memory=None,
        fits=None,
        memory_sentence=None,
    )
    return Row("mix", Setting(8, 4), load, TRUTH, predicted)


def test_misses_of_the_model_are_marked_and_counted():
    rows = [_row(None, 114.0, 0.1), _row(None, 116.0, 0.1), _row(0.5, 100.0, 0.13), _row(0.8, 1.0, None)]
    lines = model.report(rows).splitlines()[2:]
    assert "114.0 → 100.0 (+14%) |" in lines[0]
    assert "116.0 → 100.0 (+16% ✗)" in lines[1]
    assert "| mix | 8x4 | 50% | 0.25 |  | 130.0 → 100.0 (+30% ✗) | 130.0 → 100.0 (+30% ✗) |" in lines[2]
    assert lines[3].count("unknown → 100.0 ✗") == 2
    assert "1 of 6 predictions are within" in lines[-1]


def test_tables_of_benchmarks():
    """Eight settings are predicted from one, no gauge has two rules, no document is larger than it accepts."""
    mix = WORKLOADS[0]
    assert len(set(mix.settings) - {OBSERVED}) == 8
    assert sum(kind.weight for kind in mix.kinds) == 1
    assert LOADS == (0.5, 0.8)
    names = [(rule.gauge, rule.fixed) for rule in RULES]
    assert len(names) == len(set(names))
    for name, make in DOCUMENTS.items():
        assert len(make()) <= SIZE_CAP, name


def test_requests_and_scrapes():
    """Requests vary around their mean; growth is over the time between two readings."""
    kind, chance = Kind(1, "/mixed?cpu_ms={cpu}&io_ms={io}", cpu=10, io=100, spread=0.5), random.Random(1)
    for _ in range(20):
        path, seconds = kind.draw(chance)
        cpu, io = (float(part.partition("=")[2]) for part in path.partition("?")[2].split("&"))
        assert 5 <= cpu <= 15
        assert abs(io - 1e3 * seconds) < 0.001
        assert abs(io - 10 * cpu) < 0.02
    span = Span(scrape(100.0, 10, 20, 3.5), scrape(111.0, 40, 20, 13.5))
    assert span.seconds == 10.0
    assert span.growth("uwsgi_worker_requests_total") == 30
    assert span.by_worker("uwsgi_worker_requests_total") == {1: 30, 2: 0}
    scrapes = [scrape(100.2, 0, 0, 3.5), scrape(110.01, 0, 0, 13.5)]
    assert window(Span(*scrapes), scrapes) == pytest.approx((100.01, 110.01))


TEXT = """\
# HELP uwsgi_worker_requests_total Requests.
# TYPE uwsgi_worker_requests_total counter
uwsgi_worker_requests_total{{server="bench",worker_id="1"}} {first}
uwsgi_worker_requests_total{{server="bench",worker_id="2"}} {second}
uwsgi_exporter_observed_seconds_total{{server="bench"}} {observed}
uwsgi_exporter_sample_gap_seconds_total{{server="bench"}} 0.5
"""


def scrape(received: float, first: int, second: int, observed: float) -> Scrape:
    return Scrape(received, TEXT.format(first=first, second=second, observed=observed))


S = 1_000_000_000


def record(connected: float, enter: float, leave: float, end: float, worker: int = 1) -> Record:
    times = [round(seconds * S) for seconds in (connected, connected, enter, leave, leave, end)]
    return Record(*[*times, worker])


def test_the_truth_about_requests():
    """Parts within the window count, and overlaps add up."""
    intervals = [(0, 4 * S), (3 * S, 5 * S), (9 * S, 30 * S), (20 * S, 21 * S)]
    assert mean_level(intervals, (2, 12)) == pytest.approx((2 + 2 + 3) / 10)
    truth = Truth((record(0, 2, 5, 6), record(1, 5, 6, 6.5, worker=2)))
    assert truth.in_application((0, 10)) == pytest.approx(0.4)
    assert truth.in_client((0, 10)) == pytest.approx(1.15)
    assert truth.wait((0, 10)) == pytest.approx(3)
    assert truth.client_time((0, 10)) == pytest.approx(5.75)
    assert truth.counts() == {1: 1, 2: 1}
    truth = Truth((record(0, 0, 30, 30),))
    assert truth.completed((0, 20)) == 0
    assert truth.in_application((0, 20)) == 1
    assert truth.completed((20, 40)) == pytest.approx(1.5)


def test_an_answer_of_somebody_else_is_no_completion():
    """A response that is not from the application raises an error, and counts as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\nok\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="not a response"):
            ask(listener.getsockname(), "/")
        thread.join()


WELL = Figures(samples=5.0, scrapes=(0.1, 0.3, 0.2), cpu=0.02, resident=50_000_000, lag=0.01, series=100)
CALM = Crowd(samples=5.0, scrapes=(0.1, 0.3, 0.2), answers=2_000.0, refused=0.0, resident=50_000_000)
QUIET_4X8, ASKED = ("4x8", "", QUIET), ("4x8", "ask", "/")
QUICK = Decoding(size=1_000_000, outcome="server", cpu=(0.01, 0.02, 0.03))


def test_every_target_can_be_missed():
    """Figures within all targets have no miss."""
    text = hostile.report(dict.fromkeys(SITUATIONS, WELL), {"a document": QUICK}, {QUIET_4X8: CALM, ASKED: CALM})
    assert "| beside both | 5.00 | 0.200 | 0.300 | 100 | 2.0% | 50 | 0.010 |" in text
    assert "| 4x8 | ask | / | 5.00 | 0.200 | 0.300 | 2,000 | 0 | 50 |" in text
    assert "| a document | 1.00 | server | 20.0 | 30.0 |" in text
    assert "Misses: none." in text
    poor = Figures(samples=2.4, scrapes=(11.0,), cpu=1.0, resident=1, lag=None, series=0)
    busy = Crowd(samples=4.4, scrapes=(0.1, 0.6), answers=9.0, refused=1.0, resident=1)
    slow = Decoding(size=1, outcome="server", cpu=(0.06,))
    text = hostile.report({"alone": WELL, "beside both": poor}, {"a document": slow}, {QUIET_4X8: CALM, ASKED: busy})
    assert [line for line in text.splitlines() if line.startswith("* ")] == [
        "* beside both: 2.40 samples a second, less than half of the rate alone",
        "* beside both: 1 of 1 scrapes were not answered within 10 s",
        "* a document: decoding took 60 ms, more than 50 ms",
        "* 4x8, ask, /: 88% of the samples",
        "* 4x8, ask, /: a scrape took 0.60 s",
    ]


CASE = Case("sleeping", 4, 1, (make_kind("sleep", 0.1),), 12.0)
PREDICTED = Predicted(12.0, 1000, 40.0, "threads", 26.0, "threads")


def _step(rate: float, wait: float, *, answers: int = 0, own: float = 0.1) -> Step:
    return Step(rate, 60.0, answers=answers, requests=100, waited=100 * wait, own=100 * own)


def _mm1(rate: float) -> Step:
    """A server of one thread that serves 10 requests a second: it reaches a quarter of 0.1 s at 2 a second."""
    return _step(rate, 0.1 * rate / 10 / (1 - rate / 10))


def test_the_crossing_is_between_the_steps():
    """A straight line through the logarithms finds where M/M/1 crosses the threshold."""
    steps = [_mm1(2.0 * part) for part in AROUND]
    assert find_crossing(steps) == pytest.approx(2.0, rel=0.01)
    assert find_crossing([_step(1.0, 0.02), _step(2.0, 0.02)]) is None
    assert find_crossing([_step(1.0, 0.001), _step(2.0, 0.0011)]) is None
    assert find_crossing([]) is None


def test_misses_are_marked_and_counted():
    steps = tuple(_step(rate, 0.025 * (rate / 24) ** 3) for rate in (20.0, 24.0, 28.0))
    good = Result(CASE, PREDICTED, (*steps, _step(46.0, 1.0, answers=2460)))
    limit = Result(CASE, PREDICTED, (*steps, _step(46.0, 1.0, answers=1800)))
    unknown = Result(CASE, Predicted(12.0, 1000, None, "", None, ""), good.steps)
    flat = Result(CASE, PREDICTED, (*[_step(rate, 0.01) for rate in (20.0, 24.0)], good.steps[-1]))
    rows = report([good, limit, unknown, flat]).splitlines()[2:]
    assert "| sleeping | 4x1 | 12.0 | 26.0 → 24.0 (+8%) | threads | 40.0 → 41.0 (-2%) | threads |" in rows[0]
    assert "40.0 → 30.0 (+33% ✗)" in rows[1]
    assert rows[2].count("unknown → ") == 2
    assert "26.0 → unknown ✗" in rows[3]
    assert "4 of 8 predictions" in rows[-1]


def test_a_plan_is_of_a_moderate_load():
    plan = Plan((("/run/a", 0.8), (8000, 0.2)), CASE.kinds, ((10.0, 60.0), (20.0, math.inf)), pause=0.5, seed=3)
    assert read_plan(json.dumps(asdict(plan))) == plan
    for case in (case for group in GROUPS for case in group):
        (first, *_), threads = case.kinds, case.processes * case.threads / len(case.shares)
        most = threads / case.mean
        if first.path.startswith("/cpu"):
            most = min(2, case.processes) / case.mean
        elif first.path.startswith("/lock"):
            most = case.processes / (first.weight * first.io / 1e3)
        assert 0.2 <= case.rate * case.shares[0] / most <= 0.4, (case.name, case.setting)


def test_a_request_counts_in_the_step_that_it_began_in_and_an_answer_where_it_ended():
    """The start of a step does not count, nor do requests of another socket."""
    plan = Plan((("a", 0.8), ("b", 0.2)), CASE.kinds, ((10.0, 60.0), (20.0, 60.0)))
    counted = 100.0 + IGNORED_SECONDS
    answers = [
        Answer(place, 0.5, began, left + 0.1, str(left))
        for place, began, left in (
            (0, 100.0, 101.0),
            (0, counted, counted + 1),
            (1, counted, counted + 1),
            (0, 159.0, 160.0 + IGNORED_SECONDS),
        )
    ]
    first, second = count_steps(plan, Answers(100.0, answers, 0))
    assert first == Step(8.0, 60.0 - IGNORED_SECONDS, answers=1, requests=2, waited=0.5 + 8.5, own=1.0)
    assert second == Step(16.0, 60.0 - IGNORED_SECONDS, answers=1, requests=0)


SEEDS = range(2001, 2013)
"""Other seeds than those of the bench."""

REQUESTS = 40_000
"""Requests of a day that are simulated one by one: less than in the bench, to be quick."""


@pytest.fixture(scope="module")
def days():
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
def test_healthy_days_page_nobody(days):
    """No rule that pages fires, and no finding holds long enough."""
    said = [episode for day in days for episode in findings.judge_day(day)]
    assert {each.severity for each in said} == {"warning", "critical"}, "bursts fill queues on some of these days"
    assert not [each for each in said if each.severity == "critical" and not each.hurt.explains_critical]
    stretches = [stretch for day in days for stretch in findings.find_stretches(day)]
    assert len(stretches) >= len(days) / 2
    assert findings.find_pages(stretches) == []
    assert findings.judged_pages([said for day in days for said in findings.judge_day(day)]) == []


@pytest.mark.slow
def test_a_sick_day_pages_and_is_critical():
    """A server that gets more than it can serve for two hours has pages, a CRITICAL finding, and users who were
    hurt."""
    overload = healthy.Spell(50_000.0, 57_200.0, 8.0)
    sick = course.run(quiet(bursts=(overload,)), 400_000)
    assert sick.simulated.all()
    found = findings.judged_pages(findings.judge_day(sick))
    assert {page.alert for page in found} & {"queue_wait", "saturation", "clients_refused", "interpreter_bound"}
    assert all(page.hurt.is_felt for page in found)
    critical = [each for each in findings.judge_day(sick) if each.severity == "critical"]
    assert max(each.end - each.start for each in critical) > 3600
    assert all(each.hurt.explains_critical for each in critical)


def test_what_is_away_serves_nothing():
    hangs = healthy.Away(36_000.0, 36_600.0, "restart")
    found = findings.find_pages(list(findings.find_stretches(course.run(quiet(away=(hangs,))))))
    assert "UwsgiDown" in {page.alert for page in found}
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


@pytest.mark.parametrize(("processes", "rate"), [(1, 1.0), (2, 3.0), (4, 6.0)])
def test_the_simulation_waits_as_theory_says(processes, rate):
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


def test_healthy_days_and_their_report():
    for seed in range(60):
        day = healthy.draw(seed)
        seconds, multiple = healthy.NOTICED
        wait = float(mean_wait(np.array(day.peak), day.capacity, day.service, day.sigma))
        assert wait <= max(seconds, multiple * day.service)
        assert day.peak * day.service * day.computing <= healthy.INTERPRETER * day.processes * 1.001
        assert all(burst.end - burst.start <= 60 for burst in day.bursts)
        assert all(away.end - away.start <= 8 for away in day.away)
        assert day == healthy.draw(seed)
    day, none = healthy.draw(1), course.Hurt(0.0, 0, 0, 0.0)
    miss = findings.Episode(1, "queue_wait", "critical", "Requests wait.", "1 s.", 3600.0, 3660.0, none)
    right = replace(miss, hurt=course.Hurt(0.1, 50, 0, 0.1))
    page = findings.Page(1, "UwsgiDown", 0.0, 3600.0, 4, none)
    part = Verdicts([day], [miss, right], [page])
    whole = join([part, replace(part, days=[healthy.draw(2)], episodes=[], pages=[])])
    assert whole.unexplained == [miss]
    assert summary(whole).startswith("2 server-days (seeds 1 to 2): 1 pages on 1 days; 1 CRITICAL findings on 1 days")
    text = report_days(whole)
    assert "| UwsgiDown | 1 |" in text
    assert "01:00, 60 s | `queue_wait` | Requests wait. 1 s. | 0% (0) |" in text

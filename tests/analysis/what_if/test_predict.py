"""Predictions from one observed setting: against simulated servers whose demands are known, and for bad input."""

from functools import lru_cache
from math import inf, nan
from statistics import fmean

import pytest
from msgspec.structs import replace

from tests.analysis.request_simulation import Outcome, Simulation, System, Work, exponential_factors
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import compute_balance, compute_workers
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import (
    MOST_IN_ALL,
    CannotPredictError,
    Measured,
    Observed,
    Setting,
    SettingError,
    choose_settings,
    find_uneven_shares,
    parse_setting,
    parse_settings,
)
from uwsgi_headroom.analysis.what_if.predict import WhatIf, calibrate, predict_settings
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.record import Memory

FACTORS = tuple(1 + 0.8 * (number / 100 - 1) for number in range(201))
WORK = Work(locked=0.012, unlocked=0.0, waiting=0.12, factors=FACTORS)
OBSERVED = Setting(4, 4)
SEED = 7


def _system(setting: Setting) -> System:
    return System(processes=setting.processes, threads=setting.threads, cpus=2)


@lru_cache
def _real(work: Work, setting: Setting, rate: float | None) -> Outcome:
    """What a server with this work does; rate: None for the most."""
    return Simulation(_system(setting), work, SEED).run(8000, rate, warm_up=2000)


def _observed(outcome: Outcome) -> Observed:
    return Observed(
        throughput=outcome.throughput,
        response_time=fmean(outcome.service),
        p95=percentile(sorted(outcome.service), 0.95),
        concurrency=outcome.busy,
        requests=8000,
    )


@lru_cache
def _measured(
    work: Work = WORK, setting: Setting = OBSERVED, rate: float | None = 60.0, *, waits: bool = True
) -> Measured:
    """What the exporter would measure of such a server."""
    outcome = _real(work, setting, rate)
    lock = outcome.lock_waiters / outcome.throughput
    cpu = work.locked + work.unlocked
    return Measured(
        setting=setting,
        cpus=2.0,
        window=_observed(outcome),
        cpu_per_request=cpu,
        waits={
            "cpu": cpu,
            "backend": work.waiting,
            "interpreter_lock": lock,
            "cpu_wait": max(0.0, fmean(outcome.service) - cpu - work.waiting - lock),
        }
        if waits
        else None,
    )


PLAIN = Measured(
    setting=Setting(2, 2), cpus=2.0, window=Observed(throughput=5.0, response_time=0.1), cpu_per_request=0.01
)


def _predict(measured: Measured, *settings: Setting, load: float = 1.0) -> WhatIf:
    return predict_settings(measured, settings, loads=(load,))


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("setting", [Setting(1, 16), Setting(8, 1)])
def test_a_server_with_known_demands(setting, *, waits):
    """Throughput and times of another setting are those of the same server in that setting."""
    measured = _measured(waits=waits)
    most = _real(WORK, setting, None).throughput
    load = 0.7 * most / measured.window.throughput
    (prediction,) = _predict(measured, setting, load=load).predictions
    truth = _real(WORK, setting, load * measured.window.throughput)
    (at,) = prediction.loads
    assert prediction.most_throughput == pytest.approx(most, rel=0.05)
    assert at.sustained
    assert at.response_time == pytest.approx(fmean(truth.service), rel=0.06)
    assert at.total_time == pytest.approx(fmean(truth.total), rel=0.10)
    assert at.threads == pytest.approx(truth.busy / setting.in_all, rel=0.08)


@pytest.mark.parametrize(("rate", "throughput_error"), [(60.0, None), (None, 0)])
def test_today_is_checked_against_the_observation(rate, throughput_error):
    """With wait states, the response time of the observed setting is a prediction as well, and its error is given. If
    all threads were busy, the observed throughput was the most."""
    check = _predict(_measured(rate=rate), Setting(8, 2)).check
    assert check.response_time_error == pytest.approx(0, abs=0.05)
    assert check.throughput_error == (throughput_error if throughput_error is None else pytest.approx(0, abs=0.05))


def test_a_fitted_model_claims_no_error():
    """Without wait states the response time is fitted, so agreement proves nothing; a peak was not fitted."""
    measured = _measured(waits=False)
    result = _predict(measured, Setting(8, 2))
    errors = result.check.response_time_error, result.check.throughput_error
    assert (result.demands_measured, *errors) == (False, None, None)
    peak = replace(measured.window, throughput=90.0, response_time=0.2, p95=0.3)
    check = _predict(replace(measured, peak=peak), Setting(8, 2)).check
    truth = fmean(_real(WORK, Setting(4, 4), 90.0).service)
    assert (check.throughput, check.response_time) == (90.0, 0.2)
    assert check.response_time_error == pytest.approx(truth / 0.2 - 1, abs=0.1)


@pytest.mark.parametrize("locked", [0.01, 0.02])
def test_the_part_under_the_lock_is_measured(locked):
    """The observed wait for the lock says how much of the 40 ms of CPU time a request spends under it, to a tenth."""
    work = Work(locked=locked, unlocked=0.04 - locked, waiting=0.02, factors=exponential_factors())
    measured = _measured(work, Setting(1, 8), 40.0)
    model = calibrate(measured).model
    assert model.computing == pytest.approx(locked, abs=0.004)
    assert model.computing + model.unlocked == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("setting", "limit", "most"),
    [
        (Setting(1, 1), "threads", 1 / 0.132),
        (Setting(2, 2), "threads", 4 / 0.132),
        (Setting(1, 64), "interpreters", 1 / 0.012),
        (Setting(64, 1), "cpu", 2 / 0.012),
        (Setting(64, 64), "cpu", 2 / 0.012),
    ],
)
def test_what_limits_a_setting(setting, limit, most):
    """One worker is limited by its interpreter, many by the CPUs, and few threads by themselves. No times are given
    where the queue would grow without end, and no figure is infinite."""
    (prediction,) = _predict(_measured(), setting, load=1.2).predictions
    (at,) = prediction.loads
    assert (prediction.limit, prediction.most_throughput) == (limit, pytest.approx(most, rel=0.1))
    assert at.sustained == (most > 1.2 * 60)
    assert at.sustained or (at.response_time, at.queue_wait, at.total_time) == (None, None, None)


@pytest.mark.parametrize(
    ("available", "exact", "processes", "fits", "words"),
    [
        (10**9, True, 8, True, None),
        (3 * 10**8, True, 8, False, "8x1: 4 more workers of 100 MB do not fit into the 300 MB available."),
        (3 * 10**8, False, 8, None, "8x1: 4 more workers of at most 100 MB may not fit into the 300 MB available."),
        (0, True, 4, True, None),
    ],
)
def test_memory(available, processes, fits, words, *, exact):
    """More workers must fit into the available memory; with an upper bound for one, they may fit all the same."""
    memory = Memory(10**8, "uss" if exact else "anonymous", 4 * 10**8, available, "host")
    measured = replace(_measured(), memory=memory)
    (prediction,) = _predict(measured, Setting(processes, 1)).predictions
    assert (prediction.memory, prediction.fits) == (processes * 1e8, fits)
    assert prediction.memory_sentence == words


def test_cheaper():
    """The check is made with the workers that were up, the prediction with all of the setting."""
    measured = replace(_measured(), setting=Setting(16, 4), workers_up=4.2, cheaper=True)
    result = _predict(measured, Setting(16, 4))
    assert abs(result.check.response_time_error or 1) < 0.05
    assert result.today.most_throughput > 1.2 * _real(WORK, Setting(4, 4), None).throughput
    assert any("Cheaper mode" in caution for caution in result.cautions)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"window": Observed(throughput=0.0, response_time=None)}, "No request"),
        ({"window": Observed(throughput=nan, response_time=0.1)}, "No request"),
        ({"window": Observed(throughput=1.0, response_time=None)}, "response time"),
        ({"window": Observed(throughput=1.0, response_time=nan)}, "response time"),
        ({"cpu_per_request": None}, "CPU time"),
        ({"cpu_per_request": nan}, "CPU time"),
        ({"cpus": 0.0}, "CPU time"),
    ],
)
def test_refused(change, why):
    """Without what a request needs, there is a reason instead of a figure."""
    with pytest.raises(CannotPredictError, match=why):
        predict_settings(replace(PLAIN, **change), [Setting(1, 1)])


@pytest.mark.parametrize(
    "change",
    [
        {"waits": {"cpu": nan}},
        {"waits": {}},
        {"waits": {"interpreter_lock": 0.1}, "cpu_per_request": 0.0},
        {"workers_up": nan, "others": nan},
        {"cpu_per_request": 50.0},
        {"cpu_per_request": 0.0, "others": 8.0},
        {"others": inf, "others_follow": True},
        {"window": Observed(throughput=1e6, response_time=100.0, p95=1e6)},
        {"window": Observed(throughput=5.0, response_time=0.1, p95=nan)},
        {"window": Observed(throughput=1e-9, response_time=1e-9, p95=0.0)},
        {"setting": Setting(1, 1)},
    ],
)
def test_strange_measurements_give_finite_figures(change):
    """Whatever was measured, a prediction is positive and finite, and ends."""
    result = predict_settings(replace(PLAIN, **change), [Setting(4, 1)])
    for prediction in (result.today, *result.predictions):
        assert 0 < prediction.most_throughput < inf
        for at in prediction.loads:
            assert all(0 <= use <= 1 for use in (at.threads, at.interpreters, at.cpu, at.lock))
            assert at.response_time is None or 0 < at.response_time < inf


@pytest.mark.parametrize(
    ("waits", "sentence"),
    [
        ({"cpu": 0.01, "backend": 0.09}, "wait for backends for 90 % of their time"),
        ({"cpu": 0.01, "lock": 0.09}, "wait for a lock of the application for 90 % of their time"),
        ({"cpu": 0.01, "interpreter_lock": 0.09}, "something holds the lock without computing"),
        (None, "What requests wait for is not measured"),
    ],
)
def test_what_the_model_cannot_know(waits, sentence):
    """A saturated backend, a lock of the application, a lock held without computing: the words say so."""
    measured = replace(PLAIN, setting=Setting(2, 1), waits=waits, mapped=True, shares=(0.7, 0.3))
    measured = replace(measured, window=Observed(throughput=2.0, response_time=0.1, requests=60))
    cautions = predict_settings(measured, [Setting(2, 4)], loads=(1.0, 5.0)).cautions
    always = "several threads", "`map-socket`", "One worker takes 70 % ", "Only 60 requests", "up to 10 requests/s"
    for said in (sentence, *always):
        assert any(said in caution for caution in cautions), said
    is_held = any("for the interpreter lock" in caution for caution in cautions)
    assert is_held == ("interpreter_lock" in (waits or {}))  # nothing is said to hold a lock that nobody waits for


@pytest.mark.parametrize("other_programs", [0.001, 0.01, 0.04, 0.2])
def test_other_programs_that_grow_with_the_requests(other_programs):
    """The most throughput uses up the CPUs together with them, also if they take more than the server itself."""
    window = Observed(throughput=1.0, response_time=0.03, concurrency=0.03)
    measured = replace(PLAIN, setting=Setting(4, 8), window=window, cpu_per_request=0.02)
    measured = replace(measured, waits={"cpu": 0.02, "backend": 0.01}, others=other_programs, others_follow=True)
    today = _predict(measured).today
    assert today.most_throughput == pytest.approx(2.0 / (0.02 + other_programs), rel=0.06)
    assert today.limit == "cpu"


def test_other_programs_that_use_all_cpus():
    """They leave a part of the CPUs to others: the threads are the limit, and more of them serve more."""
    measured = replace(PLAIN, cpu_per_request=0.0005, waits={"cpu": 0.0005, "backend": 0.0995}, others=2.0)
    found = _predict(measured, Setting(4, 2))
    more = found.predictions[0]
    assert (found.today.limit, more.limit) == ("threads", "threads")
    assert more.most_throughput == pytest.approx(2 * found.today.most_throughput, rel=0.05)


def test_requests_without_cpu_time():
    """The kernel counts CPU time in ticks, so a short measurement of requests that only wait may have none."""
    window = Observed(throughput=80.0, response_time=0.1, concurrency=8.0)
    waits = {"sleep": 0.1, "interpreter_lock": 0.0}
    measured = replace(PLAIN, setting=Setting(4, 2), window=window, cpu_per_request=0.0, waits=waits)
    (found,) = _predict(measured, Setting(1, 16)).predictions
    assert found.most_throughput == pytest.approx(160, rel=0.05)
    assert found.limit == "threads"


SERIAL = Work(locked=0.001, unlocked=0.0, waiting=0.008, serial=0.048, factors=exponential_factors())


def _locked(*, shared: bool = False) -> Measured:
    """What the exporter measures of a server whose requests hold a lock of the application for 48 ms."""
    setting, load = Setting(4, 8), 0.5
    work = replace(SERIAL, serial_is_shared=shared)
    locks = 1 if shared else setting.processes
    limit = locks / work.serial
    outcome = _real(work, setting, load * limit)
    service = fmean(outcome.service)
    return Measured(
        setting=setting,
        cpus=2.0,
        window=_observed(outcome),
        cpu_per_request=work.locked,
        waits={"cpu": work.locked, "sleep": 0.056, "lock": max(0.0, service - 0.056 - work.locked)},
        lock=LockFigures("file" if shared else "worker", 0.048, load, load, limit, limit, limit),
    )


def test_a_lock_of_each_process():
    """More threads serve nothing more, more processes do in proportion, and single threads do best."""
    found = _predict(_locked(), Setting(4, 16), Setting(8, 4), Setting(32, 1))
    most = {each.setting: each.most_throughput for each in found.predictions}
    assert most["4x16"] == pytest.approx(4 / 0.048, rel=0.03)
    assert most["8x4"] == pytest.approx(8 / 0.048, rel=0.06)
    assert most["32x1"] == pytest.approx(32 / 0.057, rel=0.03)
    assert [each.limit for each in found.predictions] == ["lock", "lock", "threads"]
    assert found.check.response_time_error == pytest.approx(0, abs=0.1)
    assert any("only more processes" in caution for caution in found.cautions)
    assert not any("this wait stays the same" in caution for caution in found.cautions)


def test_a_lock_that_all_processes_share():
    """Neither threads nor processes serve more."""
    found = _predict(_locked(shared=True), Setting(4, 16), Setting(8, 4), Setting(32, 1))
    assert [each.most_throughput for each in found.predictions] == pytest.approx([1 / 0.048] * 3, rel=0.03)
    assert {each.limit for each in found.predictions} == {"lock"}
    assert any("neither threads nor processes" in caution for caution in found.cautions)


def test_a_lock_of_which_less_is_known():
    """A file's lock is known without the right to see threads: what the response time leaves is waiting. A limit that
    may not be read has a range."""
    shared, measured = replace(_locked(shared=True), waits=None), _locked()
    found = _predict(shared, Setting(8, 4))
    assert found.predictions[0].most_throughput == pytest.approx(1 / 0.048, rel=0.05)
    ranged = replace(measured, lock=replace(measured.lock, least_limit=76.0, most_limit=95.0))
    assert any("between 76 and 95" in text for text in _predict(ranged).cautions)


EVEN = replace(
    PLAIN,
    setting=Setting(4, 8),
    cpus=4.0,
    window=Observed(throughput=50.0, response_time=0.26, concurrency=13.0),
    cpu_per_request=0.04,
    waits={"backend": 0.18, "cpu": 0.04, "interpreter_lock": 0.04},
)


def test_the_present_setting_has_its_shares():
    """It is slower than with even workers; another setting is the same, and a sentence says which is which."""
    even, uneven = (_predict(replace(EVEN, shares=shares), Setting(8, 4)) for shares in ((), (0.55, 0.15, 0.15, 0.15)))
    assert uneven.today.loads[0].response_time > 1.03 * even.today.loads[0].response_time
    others = [found.predictions[0].loads[0].response_time for found in (even, uneven)]
    assert others[1] == pytest.approx(others[0], rel=0.03)
    said = [any("One worker takes" in sentence for sentence in found.cautions) for found in (even, uneven)]
    assert said == [False, True]


@pytest.mark.parametrize(
    ("requests", "up", "shares"),
    [
        ((4300, 1900, 1900, 1900), 60.0, (0.43, 0.19, 0.19, 0.19)),
        ((2530, 2490, 2490, 2490), 60.0, ()),
        ((10, 0, 0, 0), 60.0, (1.0, 0.0, 0.0, 0.0)),
        ((500, 4000, 4000), 10.0, ()),
    ],
)
def test_only_shares_beyond_chance_count(requests, up, shares):
    """Differences that chance explains are none, and those of cheaper mode, with a worker that was up in part."""
    of = window(60.0, worker(1, requests[0], up=up), *(worker(n, count) for n, count in enumerate(requests[1:], 2)))
    figures = compute_workers(of)
    assert find_uneven_shares(compute_balance(of, figures), figures) == pytest.approx(shares)


CUT_OFF = Observed(throughput=40.0, response_time=0.2, concurrency=8.0, offered_at_least=48.9, requests=2400)
CALM = Observed(throughput=20.0, response_time=0.2, concurrency=4.0, requests=1200)


def _sleeping(window: Observed, peak: Observed | None = None) -> Measured:
    """2x4 with requests that sleep 200 ms."""
    sleeps = replace(PLAIN, setting=Setting(2, 4), cpu_per_request=0.0, waits={"sleep": 0.2})
    return replace(sleeps, window=window, peak=peak)


@pytest.mark.parametrize(("window", "peak"), [(CUT_OFF, None), (CUT_OFF, CALM), (CALM, CUT_OFF), (CALM, None)])
def test_no_time_is_promised_at_a_load_that_was_cut_off(window, peak):
    """A full queue, or busy threads with a queue, cut demand off. Whether the window was full or the peak: the most
    throughput is all that is known."""
    is_floor = CUT_OFF in (window, peak)
    result = predict_settings(_sleeping(window, peak), [Setting(2, 8)])
    (prediction,) = result.predictions
    assert prediction.most_throughput == pytest.approx(80, rel=0.02)
    for at in prediction.loads:
        times = (at.response_time, at.queue_wait) if is_floor else ()
        assert (at.sustained, *times) == (True, *[None for _ in times])
        assert at.total_time == (None if is_floor else pytest.approx(0.2, rel=0.05))
    assert any("at least 49 requests at once" in caution for caution in result.cautions) == is_floor
    assert result.peak_is_floor is is_floor


def test_a_floor_of_unknown_size_has_no_number():
    """A queue was full, but the busy threads are not known. The present setting does not serve what it was offered."""
    result = predict_settings(_sleeping(replace(CUT_OFF, offered_at_least=0.0)), [Setting(2, 8)])
    assert "a listen queue was full. So it is not known" in result.cautions[0]
    assert [at.sustained for at in result.today.loads] == [False, False]


@pytest.mark.parametrize(
    ("text", "setting"), [("8x4", Setting(8, 4)), (" 1X16 ", Setting(1, 16)), ("64x64", Setting(64, 64))]
)
def test_a_setting_is_read(text, setting):
    """Processes come first, then threads per process."""
    assert parse_setting(text) == parse_setting(str(setting)) == setting


REFUSED = ["", "8", "8x", "x4", "0x1", "1x0", "-1x4", "4x-1", "1e9x1", "1000000000x1", "9" * 5000 + "x1", "8x4x2"]
REFUSED += [
    "8 x 4",
    "\uff11x\uff11",
    "8\u00d74",
    "1025x1",
    "1x1025",
    "128x64",
    "nanxnan",
    "1.5x2",
    "8x4\n9x9",
    "\x1b[1mx1",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_setting_is_refused(text):
    """Anything else is refused in one short sentence."""
    with pytest.raises(SettingError) as refused:
        parse_setting(text)
    assert len(str(refused.value)) < 160


def test_several_settings():
    """Each is predicted once, in the order of the request, and at most twelve."""
    twelve = ["8x4", "4x8", "8X4", *(f"{number}x1" for number in range(1, 10))]
    assert parse_settings(twelve)[:3] == (Setting(8, 4), Setting(4, 8), Setting(1, 1))
    with pytest.raises(SettingError, match="at most 12"):
        parse_settings([*twelve, "1x2"])


@pytest.mark.parametrize("observed", ["1x1", "4x8", "8x1", "1x64", "64x64", "1024x1", "1x1024", "3x5"])
def test_the_grid(observed):
    """The grid has the observed setting, smaller and larger ones, and none twice."""
    setting = parse_setting(observed)
    chosen = choose_settings(setting, cpus=8)
    assert setting in chosen
    assert list(chosen) == sorted(set(chosen))
    assert 3 <= len(chosen) <= 12
    assert all(min(each.processes, each.threads) >= 1 and each.in_all <= MOST_IN_ALL for each in chosen)
    # Somebody with 4x8 asks for 8x4.
    assert observed != "4x8" or {Setting(8, 4), Setting(2, 16), Setting(8, 8), Setting(4, 16)} <= set(chosen)

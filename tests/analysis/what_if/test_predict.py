"""Predictions from one observed setting: against simulated servers whose demands are known, and bad input."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, nan
from statistics import fmean

import pytest

from tests.analysis.request_simulation import Outcome, Simulation, System, Work, exponential_factors
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured, Observed, Setting
from uwsgi_headroom.analysis.what_if.predict import WhatIf, calibrate, predict_settings, propose
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.record import State

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


def _predict(measured: Measured, *settings: Setting, load: float = 1.0) -> WhatIf:
    return predict_settings(measured, settings, loads=(load,))


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("setting", [Setting(1, 16), Setting(8, 1)])
def test_a_server_with_known_demands(setting: Setting, *, waits: bool) -> None:
    """Throughput and times of another setting are those of the same server in that setting."""
    measured = _measured(waits=waits)
    most = _real(WORK, setting, None).throughput
    load = 0.7 * most / measured.window.throughput
    (prediction,) = _predict(measured, setting, load=load).predictions
    truth = _real(WORK, setting, load * measured.window.throughput)
    (at,) = prediction.at
    assert prediction.most_throughput == pytest.approx(most, rel=0.05)
    assert at.sustained
    assert at.response_time == pytest.approx(fmean(truth.service), rel=0.06)
    assert at.total_time == pytest.approx(fmean(truth.total), rel=0.10)
    assert at.threads == pytest.approx(truth.busy / setting.in_all, rel=0.08)


def test_today_is_checked_against_the_observation() -> None:
    """With wait states, the response time of the observed setting is a prediction as well, and its error is given."""
    check = _predict(_measured(), Setting(8, 2)).check
    assert check.response_time_error is not None
    assert abs(check.response_time_error) < 0.05


def test_a_fitted_model_claims_no_error() -> None:
    """Without wait states the response time is fitted, so agreement proves nothing; a peak was not fitted."""
    measured = _measured(waits=False)
    result = _predict(measured, Setting(8, 2))
    assert (result.demands_measured, result.check.response_time_error, result.check.throughput_error) == (
        False,
        None,
        None,
    )
    peak = replace(measured.window, throughput=90.0, response_time=0.2, p95=0.3)
    check = _predict(replace(measured, peak=peak), Setting(8, 2)).check
    truth = fmean(_real(WORK, Setting(4, 4), 90.0).service)
    assert check.observed == peak
    assert check.response_time_error == pytest.approx(truth / 0.2 - 1, abs=0.1)


def test_a_saturated_observation_checks_the_throughput() -> None:
    """If all threads were busy, the observed throughput was the most."""
    measured = _measured(rate=None)
    assert measured.window.concurrency == pytest.approx(16, rel=0.01)
    check = _predict(measured, Setting(8, 2)).check
    assert check.throughput_error == pytest.approx(0, abs=0.05)
    assert check.response_time_error == pytest.approx(0, abs=0.05)


def test_computing_outside_the_lock_is_found() -> None:
    """If threads wait little for the lock although they compute a lot, another number of threads helps as well as of
    processes."""
    work = Work(locked=0.01, unlocked=0.03, waiting=0.02)
    measured = _measured(work, Setting(1, 8), 40.0)
    (prediction,) = _predict(measured, Setting(1, 16)).predictions
    assert prediction.most_throughput == pytest.approx(2 / 0.04, rel=0.1)
    locked = _predict(replace(measured, waits=None, cpu_per_request=0.04), Setting(1, 16)).predictions[0]
    assert locked.most_throughput < 0.85 * prediction.most_throughput


@pytest.mark.parametrize("locked", [0.01, 0.02])
def test_the_part_under_the_lock_is_measured(locked: float) -> None:
    """The observed wait for the lock says how much of the 40 ms of CPU time a request spends under it, to a tenth."""
    work = Work(locked=locked, unlocked=0.04 - locked, waiting=0.02, factors=exponential_factors())
    measured = _measured(work, Setting(1, 8), 40.0)
    model = calibrate(measured).model
    assert model.computing == pytest.approx(locked, abs=0.004)
    assert model.computing + model.unlocked == pytest.approx(0.04)


def test_a_load_beyond_the_most_throughput() -> None:
    """No times are given where the queue would grow without end, and no figure is infinite."""
    (prediction,) = _predict(_measured(), Setting(1, 1), load=1.5).predictions
    (at,) = prediction.at
    assert (at.sustained, at.response_time, at.queue_wait, at.total_time) == (False, None, None, None)
    assert at.threads == pytest.approx(1)
    assert prediction.most_throughput == pytest.approx(1 / 0.132, rel=0.1)
    assert prediction.limit == "threads"


def test_what_limits_a_setting() -> None:
    """One worker is limited by its interpreter, many by the CPUs, and few threads by themselves."""
    settings = Setting(1, 64), Setting(64, 1), Setting(2, 2)
    assert [each.limit for each in _predict(_measured(), *settings).predictions] == ["interpreters", "cpu", "threads"]


def test_the_largest_setting() -> None:
    """64x64 is predicted: the CPUs limit it."""
    (prediction,) = _predict(_measured(), Setting(64, 64)).predictions
    assert prediction.most_throughput == pytest.approx(2 / 0.012, rel=0.05)
    assert prediction.at[0].sustained


@pytest.mark.parametrize(
    ("available", "exact", "processes", "fits"),
    [(1e9, True, 8, True), (3e8, True, 8, False), (3e8, False, 8, None), (0.0, True, 4, True), (None, True, 8, None)],
)
def test_memory(available: float | None, processes: int, fits: bool | None, *, exact: bool) -> None:
    """More workers must fit into the available memory; with an upper bound for one, they may fit all the same."""
    measured = replace(_measured(), memory_per_worker=1e8, memory_available=available, memory_is_exact=exact)
    (prediction,) = _predict(measured, Setting(processes, 1)).predictions
    assert (prediction.memory, prediction.fits) == (processes * 1e8, fits)


def test_cheaper() -> None:
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
def test_refused(change: dict[str, object], why: str) -> None:
    """Without what a request needs, there is a reason instead of a figure."""
    measured = Measured(
        setting=Setting(2, 2), cpus=2.0, window=Observed(throughput=1.0, response_time=0.1), cpu_per_request=0.01
    )
    with pytest.raises(CannotPredictError, match=why):
        predict_settings(replace(measured, **change), [Setting(1, 1)])  # type: ignore[arg-type]


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
def test_strange_measurements_give_finite_figures(change: dict[str, object]) -> None:
    """Whatever was measured, a prediction is positive and finite, and ends."""
    measured = Measured(
        setting=Setting(2, 2), cpus=2.0, window=Observed(throughput=5.0, response_time=0.1), cpu_per_request=0.01
    )
    result = predict_settings(replace(measured, **change), [Setting(4, 1)])  # type: ignore[arg-type]
    for prediction in (result.today, *result.predictions):
        assert 0 < prediction.most_throughput < inf
        for at in prediction.at:
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
def test_what_the_model_cannot_know(waits: dict[str, float] | None, sentence: str) -> None:
    """A saturated backend, a lock of the application, a lock that is held without computing: the words say so."""
    measured = Measured(
        setting=Setting(2, 1),
        cpus=2.0,
        window=Observed(throughput=2.0, response_time=0.1, requests=60),
        cpu_per_request=0.01,
        waits=waits,  # type: ignore[arg-type]
    )
    measured = replace(measured, mapped=True, shares=(0.7, 0.3))
    cautions = predict_settings(measured, [Setting(2, 4)], loads=(1.0, 5.0)).cautions
    assert any(sentence in caution for caution in cautions)
    assert any("safe to run in several threads" in caution for caution in cautions)
    assert any("`map-socket`" in caution for caution in cautions)
    assert any("One worker takes 70 % of the requests." in caution for caution in cautions)
    assert any("Only 60 requests" in caution for caution in cautions)
    assert any("up to 10 requests/s" in caution for caution in cautions)


def test_no_wait_for_the_lock_is_no_caution() -> None:
    """If no request was seen waiting for the interpreter lock, nothing is said to hold it."""
    window = Observed(throughput=2.0, response_time=0.1, requests=60)
    waits: dict[State, float] = {"cpu": 0.01, "backend": 0.09}
    measured = Measured(setting=Setting(2, 1), cpus=2.0, window=window, cpu_per_request=0.01, waits=waits)
    cautions = predict_settings(measured, [Setting(2, 4)], loads=(1.0,)).cautions
    assert not any("interpreter lock" in caution for caution in cautions)


@pytest.mark.parametrize("other_programs", [0.001, 0.01, 0.04, 0.2])
def test_other_programs_that_grow_with_the_requests(other_programs: float) -> None:
    """The most throughput uses up the CPUs together with them, also if they take more than the server itself."""
    measured = Measured(
        setting=Setting(4, 8),
        cpus=2.0,
        window=Observed(throughput=1.0, response_time=0.03, concurrency=0.03),
        cpu_per_request=0.02,
        waits={"cpu": 0.02, "backend": 0.01},
        others=other_programs,
        others_follow=True,
    )
    today = _predict(measured).today
    assert today.most_throughput == pytest.approx(2.0 / (0.02 + other_programs), rel=0.06)
    assert today.limit == "cpu"


def test_requests_without_cpu_time() -> None:
    """The kernel counts CPU time in ticks, so a short measurement of requests that only wait may have none."""
    window = Observed(throughput=80.0, response_time=0.1, concurrency=8.0)
    measured = Measured(
        setting=Setting(4, 2),
        cpus=2.0,
        window=window,
        cpu_per_request=0.0,
        waits={"sleep": 0.1, "interpreter_lock": 0.0},
    )
    (found,) = predict_settings(measured, [Setting(1, 16)], loads=(1.0,)).predictions
    assert found.most_throughput == pytest.approx(160, rel=0.05)
    assert found.limit == "threads"


def test_the_most_promising_settings_come_first() -> None:
    """Of the settings that serve more than today's peak, those with the shortest time, then with fewer threads."""
    measured = replace(_measured(), memory_per_worker=1e8, memory_available=4.5e8)
    found = propose(measured)
    assert len(found) == 5
    assert all(each.setting != OBSERVED and each.fits for each in found)
    times = [each.at[0].total_time for each in found if each.at[0].total_time is not None]
    assert times[0] < 1.05 * min(times)
    assert not any(each.at[0].sustained for each in found[len(times) :])


def test_without_a_load_the_most_throughput_counts() -> None:
    """Clients that repeat their request without a pause ask for as much as there is."""
    most = [each.most_throughput for each in propose(_measured(), 3, None)]
    assert most[0] > 0.97 * max(most)
    cut_off = replace(_measured(), window=replace(_measured().window, offered_at_least=30.0))
    assert propose(cut_off, 3)[0].most_throughput > 0.97 * max(most)


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


def test_a_lock_of_each_process() -> None:
    """More threads serve nothing more, more processes do in proportion, and single threads do best."""
    found = _predict(_locked(), Setting(4, 16), Setting(8, 4), Setting(32, 1))
    most = {str(each.setting): each.most_throughput for each in found.predictions}
    assert most["4x16"] == pytest.approx(4 / 0.048, rel=0.03)
    assert most["8x4"] == pytest.approx(8 / 0.048, rel=0.06)
    assert most["32x1"] == pytest.approx(32 / 0.057, rel=0.03)
    assert [each.limit for each in found.predictions] == ["lock", "lock", "threads"]
    assert found.check.response_time_error == pytest.approx(0, abs=0.1)
    assert any("only more processes" in caution for caution in found.cautions)
    assert not any("this wait stays the same" in caution for caution in found.cautions)


def test_a_lock_that_all_processes_share() -> None:
    """Neither threads nor processes serve more."""
    found = _predict(_locked(shared=True), Setting(4, 16), Setting(8, 4), Setting(32, 1))
    assert [each.most_throughput for each in found.predictions] == pytest.approx([1 / 0.048] * 3, rel=0.03)
    assert {each.limit for each in found.predictions} == {"lock"}
    assert any("neither threads nor processes" in caution for caution in found.cautions)


def test_a_lock_without_wait_states() -> None:
    """A file's lock is known without the right to see threads: what the response time leaves is waiting."""
    found = _predict(replace(_locked(shared=True), waits=None), Setting(8, 4))
    assert found.predictions[0].most_throughput == pytest.approx(1 / 0.048, rel=0.05)


def test_a_range_is_said() -> None:
    """A limit that may not be read has a range."""
    measured = _locked()
    assert measured.lock
    lock = replace(measured.lock, least_limit=76.0, most_limit=95.0)
    assert any("between 76 and 95" in text for text in _predict(replace(measured, lock=lock)).cautions)

"""The search finds a setting that is not worse than the best by more than the noise, with few runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests.tune.simulated import Server
from uwsgi_headroom.analysis.what_if import Setting, parse_setting
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.loads.load_tools import Load
from uwsgi_headroom.tune.recommendation import recommend
from uwsgi_headroom.tune.search.candidates import Predicted, predict_scores
from uwsgi_headroom.tune.search.evidence import CannotTuneError, Evidence, Limits, Task
from uwsgi_headroom.tune.search.search import choose_smallest, search

TRIED_BY_HAND = [parse_setting(text) for text in ("4x8", "4x1", "8x1", "8x4", "1x16", "2x8")]
MOST_RUNS = 12
"""Half of the runs of these settings, with and without thunder-lock, twice each."""


def present(text: str) -> Variant:
    return Variant(parse_setting(text))


def ask_truth(server: Server, _setting: Setting, _outcome: Outcome, settings: Sequence[Setting]) -> Predicted:
    """A model that is never wrong, and takes no time."""
    return Predicted({setting: server.throughput(Variant(setting)) for setting in settings})


def tune(
    server: Server, start: str, *, most_runs: int = MOST_RUNS, real_model: bool = False, limits: Limits | None = None
) -> tuple[Variant, Evidence]:
    evidence = Evidence(limits or Limits())
    task = Task(present=present(start), load=server.load, cpus=server.cpus, most_runs=most_runs)
    predict = partial(predict_scores, load=server.load, cpus=server.cpus) if real_model else partial(ask_truth, server)
    return search(task, server.run, predict, evidence), evidence


def best_by_hand(server: Server) -> float:
    return max(
        server.throughput(Variant(setting, thunder_lock=lock)) for setting in TRIED_BY_HAND for lock in (False, True)
    )


@pytest.mark.parametrize(
    ("server", "start"),
    [
        (Server(cpu=0.03, waiting=0.1, noise=0.02), "4x1"),
        (Server(cpu=0.002, waiting=0.2, noise=0.02), "4x1"),
    ],
    ids=["mixed", "waiting"],
)
def test_with_the_what_if_model(server: Server, start: str) -> None:
    """From one run, the model leads to a setting as good as the best that was tried by hand."""
    found, evidence = tune(server, start, real_model=True)
    assert server.throughput(found) > 0.95 * best_by_hand(server)
    assert server.throughput(found) > 1.2 * server.throughput(present(start))
    assert len(evidence.runs) <= MOST_RUNS


def test_where_the_interpreter_binds() -> None:
    """One process cannot use two CPUs, whatever its threads."""
    server = Server(cpu=0.02, waiting=0.0, noise=0.02)
    found, evidence = tune(server, "1x16")
    assert server.throughput(found) > 0.95 * best_by_hand(server)
    assert found.setting.in_all <= 8
    assert "1x16 was not run again: it was 5" in " ".join(evidence.decisions)


@pytest.mark.parametrize("seed", range(40))
def test_with_noise(seed: int) -> None:
    """With runs that differ by 4 %, and rounds by 10 %, it stays within the noise and within the runs."""
    server = Server(cpu=0.03, waiting=0.1, noise=0.04, drift=0.1, seed=seed)
    found, evidence = tune(server, "4x1")
    assert server.throughput(found) > 0.9 * best_by_hand(server)
    assert len(evidence.runs) <= MOST_RUNS


def test_the_runs_and_the_result_are_the_same_each_time() -> None:
    """The same outcomes lead to the same runs, sentences and result."""

    def once() -> tuple[Variant, list[str], list[tuple[str, int]]]:
        server = Server(cpu=0.03, waiting=0.1, noise=0.04, drift=0.1)
        found, evidence = tune(server, "4x8")
        return found, evidence.decisions, server.runs

    assert once() == once()


def test_the_smallest_of_equals() -> None:
    """Without noise, 4x8 is no better than 4x4 under sixteen clients, so half of the threads are enough."""
    found, evidence = tune(Server(cpu=0.02, waiting=0.12), "4x8")
    assert found.setting.in_all <= 16
    assert any("inside the noise, so the smallest is taken" in sentence for sentence in evidence.decisions)


@pytest.mark.parametrize(("each", "expected"), [(30e6, "4x4"), (1e6, "6x2")])
def test_more_memory_for_nothing(each: float, expected: str) -> None:
    """6x2 is as fast as 4x8 with fewer threads. Its processes must not take clearly more memory in exchange."""
    found, evidence = tune(Server(cpu=0.03, waiting=0.1, each=each), "4x8")
    assert found.name == expected
    said = any("whose memory is at most 10 % more than that of 4x8: 4x4." in text for text in evidence.decisions)
    assert said == (expected == "4x4")


def test_a_middle_one_is_not_called_the_best() -> None:
    """The smallest is 6 % behind, the middle one 1 %: the sentence says which was taken, and why."""
    evidence = Evidence()
    for text, rate in (("8x2", 100.0), ("4x3", 99.0), ("4x2", 94.0)):
        outcome = Server(cpu=0.03, waiting=0.1).run(present(text), 0)
        answers = replace(outcome.answers, answered=round(10 * rate)) if outcome.answers else None
        evidence.add(present(text), 0, replace(outcome, answers=answers))
    chosen = choose_smallest([present("8x2"), present("4x3"), present("4x2")], present("8x2"), evidence)
    assert chosen == present("4x3")
    assert evidence.decisions[-1].endswith("so the smallest of those that were at most 3 % behind is taken: 4x3.")


@pytest.mark.parametrize(("each", "expected"), [(30e6, "4x1"), (0.0, "8x1")])
def test_a_gain_that_may_be_noise_is_not_worth_memory(each: float, expected: str) -> None:
    """4x1 was left out after the first round, as 43 % behind. Later rounds differ so much that this may be noise."""
    evidence, server = Evidence(), Server(cpu=0.03, waiting=0.1, each=each)
    rates = {"4x1": (100,), "8x1": (175, 80, 180), "4x2": (174, 190, 75)}
    for text, rounds in rates.items():
        for number, rate in enumerate(rounds):
            outcome = server.run(present(text), number)
            assert outcome.answers
            evidence.add(
                present(text), number, replace(outcome, answers=replace(outcome.answers, answered=round(10 * rate)))
            )
    assert choose_smallest([present("8x1")], present("4x1"), evidence) == present(expected)
    said = "8x1 is not taken instead of 4x1: it took 86 % more memory, and was 75 % better, inside the noise"
    assert any(said in sentence for sentence in evidence.decisions) == (expected == "4x1")


@pytest.mark.parametrize(("rates", "words"), [((28, None), " in the round that both had (1"), ((28, 28), " (1")])
def test_the_speeds_are_those_that_were_compared(rates: tuple[float | None, ...], words: str) -> None:
    """A slow present setting is run once, so the sentence gives other figures than the table: it says why."""
    evidence, server = Evidence(), Server(cpu=0.03, waiting=0.1)
    for text, rounds in {"4x1": rates, "2x8": (60, 63)}.items():
        for number, rate in enumerate(rounds):
            outcome = server.run(present(text), number)
            if rate and outcome.answers:
                answers = replace(outcome.answers, answered=round(10 * rate))
                evidence.add(present(text), number, replace(outcome, answers=answers))
    found = recommend(present("2x8"), evidence, server.load, 2.0, has_ini=False, off=())
    assert f"28 requests/s{words}" in found.reasons[0]


def test_scarce_runs_go_to_the_best_and_the_present() -> None:
    """Four variants and three runs that are left: the present one and the best are compared again all the same."""
    server = Server(cpu=0.03, waiting=0.1, uneven=1.3, noise=0.04, seed=2)
    _, evidence = tune(server, "4x8", most_runs=12)
    said = [sentence for sentence in evidence.decisions if "not run again: only" in sentence]
    assert said == ["8x2 was not run again: only 3 runs were left."]
    again = {name for name, number in server.runs if number == 1}
    assert len(again) == 3
    assert {"4x8", max(("4x4", "8x2", "16x1", "6x2"), key=lambda name: evidence.score(present(name)))} <= again


def test_the_best_setting_is_kept() -> None:
    """A server that is as good as it gets is left alone."""
    found, _ = tune(Server(cpu=0.02, waiting=0.0), "4x1")
    assert found == present("4x1")


def test_memory_that_is_known_to_be_too_much_is_not_run() -> None:
    """With room for four processes, none of the variants has many more, and the result fits."""
    server = Server(cpu=0.03, waiting=0.1, each=100e6)
    found, evidence = tune(server, "4x1", limits=Limits(memory=450e6))
    assert max(variant.setting.processes for variant in evidence.variants) <= 4
    assert evidence.memory()[found.setting] <= 450e6
    assert any("were left out: by the memory of 4x1" in sentence for sentence in evidence.decisions)


def test_memory_below_one_worker() -> None:
    """One process is run before tune says that not even that fits."""
    server = Server(cpu=0.03, waiting=0.1, each=100e6)
    with pytest.raises(CannotTuneError, match="One worker needs about 120 MB, and 50 MB are allowed"):
        tune(server, "4x1", limits=Limits(memory=50e6))
    assert server.runs == [("4x1", 0), ("1x1", 0)]


def test_a_p99_that_some_meet() -> None:
    """The present setting is too slow; the result is within the limit."""
    server = Server(cpu=0.03, waiting=0.1)
    found, evidence = tune(server, "4x1", limits=Limits(p99=0.8))
    assert evidence.fault(present("4x1")) == "its p99 was 1.6 s, and 800 ms are allowed"
    assert evidence.fault(found) is None


def test_a_p99_that_nothing_meets() -> None:
    """Each setting is named with its p99."""
    with pytest.raises(
        CannotTuneError, match=r"No setting that was run is within the limits\. 4x1: its p99 was 1\.6 s"
    ):
        tune(Server(cpu=0.03, waiting=0.1), "4x1", limits=Limits(p99=0.001))


def test_a_setting_that_does_not_run_is_out() -> None:
    """The others go on, and a sentence has the reason."""
    server = Server(cpu=0.03, waiting=0.1)
    first, _ = tune(server, "4x1")
    failing = Server(cpu=0.03, waiting=0.1, failing=frozenset({first.setting}))
    found, evidence = tune(failing, "4x1")
    assert found.setting != first.setting
    assert f"{first.name} is out: it did not run: It dies at once." in evidence.decisions


def test_an_application_that_does_not_run() -> None:
    """Then there is nothing to compare."""
    with pytest.raises(CannotTuneError, match="4x1 did not run: It dies at once"):
        tune(Server(cpu=0.03, waiting=0.1, failing=frozenset({Setting(4, 1)})), "4x1")


def test_without_a_prediction() -> None:
    """Settings are chosen by rule, and a sentence says why."""
    server, evidence = Server(cpu=0.03, waiting=0.1), Evidence()
    task = Task(present=present("4x1"), load=server.load, cpus=2, most_runs=MOST_RUNS)
    found = search(task, server.run, lambda *_: Predicted({}, "No CPU time is known."), evidence)
    assert "The settings are chosen by rule, without a prediction: No CPU time is known." in evidence.decisions
    assert server.throughput(found) >= server.throughput(present("4x1"))


@pytest.mark.parametrize("most_runs", [4, 5, 6, 8, 20])
def test_the_number_of_runs(most_runs: int) -> None:
    """It is never exceeded, and there is always a result."""
    found, evidence = tune(Server(cpu=0.03, waiting=0.1, uneven=1.3), "4x8", most_runs=most_runs)
    assert len(evidence.runs) <= most_runs
    assert found in evidence.variants


@pytest.mark.parametrize(("gain", "adopted"), [(1.2, True), (0.9, False), (1.0, False)])
def test_thunder_lock_is_tried_where_workers_are_uneven(gain: float, adopted: bool) -> None:
    """It is kept only if it is better beyond the noise."""
    server = Server(cpu=0.03, waiting=0.1, uneven=1.3, thunder_lock=gain / 1.3)
    found, evidence = tune(server, "4x8")
    assert found.thunder_lock == adopted
    assert [variant for variant in evidence.variants if variant.thunder_lock]


def test_an_option_that_cannot_matter_takes_no_run() -> None:
    """Even workers, one process, a queue that is never full: a sentence each."""
    _, evidence = tune(Server(cpu=0.03, waiting=0.1), "4x1")
    said = [sentence for sentence in evidence.decisions if "was not tried" in sentence]
    assert [sentence.split()[0] for sentence in said] == ["thunder-lock", "reuse-port", "cheaper", "listen"]
    assert all(not variant.options for variant in evidence.variants)


@pytest.mark.parametrize(
    ("start", "clients", "expected"),
    [
        (Variant(Setting(2, 1), thunder_lock=True), 16, "2x1 is "),
        (Variant(Setting(2, 1), cheaper=1), 16, "2x1 is "),
        (Variant(Setting(2, 1), listen=8), 40, "2x1 listen=64 is "),
    ],
)
def test_each_option_is_changed_alone(start: Variant, clients: int, expected: str) -> None:
    """An option that is on is tried without, and a queue that is too short is tried longer."""
    server, evidence = Server(cpu=0.02, waiting=0.0, clients=clients), Evidence()
    task = Task(present=start, load=server.load, cpus=2, most_runs=20)
    search(task, server.run, lambda _setting, _outcome, settings: Predicted({settings[0]: 1.0}), evidence)
    assert any(sentence.startswith(expected) for sentence in evidence.decisions)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (Load(clients=8), "requested, and the load."),
        (Load(rate=1000), "requested, and whether 1000 requests/s are more than 4x1 can answer."),
    ],
)
def test_most_requests_fail(load: Load, expected: str) -> None:
    """The sentence names what to check: a rate may simply be too high."""
    server = Server(cpu=0.03, waiting=0.1)

    def measure(variant: Variant, number: int) -> Outcome:
        outcome = server.run(variant, number)
        assert outcome.answers
        return replace(outcome, answers=replace(outcome.answers, answered=100, errors={"timeout": 900}))

    task = Task(present=present("4x1"), load=load, cpus=2, most_runs=MOST_RUNS)
    with pytest.raises(CannotTuneError) as raised:
        search(task, measure, partial(ask_truth, server), Evidence())
    assert str(raised.value).endswith(expected)


def test_a_rate_is_judged_by_the_response_time() -> None:
    """A setting that does not answer all of it is out."""
    server, evidence = Server(cpu=0.03, waiting=0.1), Evidence(Limits(rate=50))

    task = Task(present=present("4x1"), load=Load(rate=50), cpus=2, most_runs=MOST_RUNS)
    found = search(task, server.run, partial(ask_truth, server), evidence)
    assert evidence.fault(present("4x1")) == "it answered 30.8 of 50 requests/s"
    assert server.throughput(found) > 50

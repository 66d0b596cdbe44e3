"""The search finds a setting that is not worse than the best by more than the noise, with few runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from tests.tune.simulated import Server
from uwsgi_headroom.analysis.what_if import Setting, parse_setting
from uwsgi_headroom.tune.evidence import Evidence
from uwsgi_headroom.tune.limits import Limits
from uwsgi_headroom.tune.outcome import Outcome
from uwsgi_headroom.tune.prediction import Predicted, predict_scores
from uwsgi_headroom.tune.search import CannotTuneError, Task, search
from uwsgi_headroom.tune.variant import Variant

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
        (Server(cpu=0.02, waiting=0.0, noise=0.02), "1x16"),
        (Server(cpu=0.002, waiting=0.2, noise=0.02), "4x1"),
    ],
    ids=["mixed", "interpreter", "waiting"],
)
def test_with_the_what_if_model(server: Server, start: str) -> None:
    """From one run, the model leads to a setting as good as the best that was tried by hand."""
    found, evidence = tune(server, start, real_model=True)
    assert server.throughput(found) > 0.95 * best_by_hand(server)
    assert server.throughput(found) > 1.2 * server.throughput(present(start))
    assert len(evidence.runs) <= MOST_RUNS


@pytest.mark.parametrize("seed", range(40))
def test_with_noise(seed: int) -> None:
    """With runs that differ by 4 %, and rounds by 10 %, it stays within the noise and within the runs."""
    server = Server(cpu=0.03, waiting=0.1, noise=0.04, drift=0.1, seed=seed)
    found, evidence = tune(server, "4x1")
    assert server.throughput(found) > 0.9 * best_by_hand(server)
    assert len(evidence.runs) <= MOST_RUNS

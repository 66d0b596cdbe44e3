"""The bench of predictions: what counts as a miss, and the requests of its clients."""

from __future__ import annotations

import random

from tools.bench.clients import Kind
from tools.bench.model import LOADS, OBSERVED, WORKLOADS, Row, Truth, report
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.analysis.what_if.predict import AtLoad, Prediction

TRUTH = Truth(throughput=100.0, service=0.1, total=0.1, other_programs=0.25)


def _row(load: float | None, most: float, time: float | None) -> Row:
    at = AtLoad(
        load=1.0,
        throughput=50.0,
        sustained=time is not None,
        response_time=time,
        queue_wait=None if time is None else 0.0,
        threads=0.5,
        interpreters=0.5,
        cpu=0.5,
        lock=0.0,
    )
    predicted = Prediction(
        setting=Setting(8, 4), most_throughput=most, limit="threads", at=(at,), memory=None, fits=None
    )
    return Row("mix", Setting(8, 4), load, TRUTH, predicted)


def test_misses_are_marked_and_counted() -> None:
    """A prediction beyond the tolerance is a miss, and so is a load that the model takes for too much."""
    rows = [
        _row(None, 114.0, 0.1),
        _row(None, 116.0, 0.1),
        _row(0.5, 100.0, 0.13),
        _row(0.8, 1.0, None),
    ]
    lines = report(rows).splitlines()[2:]
    assert "114.0 → 100.0 (+14%) |" in lines[0]
    assert "116.0 → 100.0 (+16% ✗)" in lines[1]
    assert "| mix | 8x4 | 50% | 0.25 |  | 130.0 → 100.0 (+30% ✗) | 130.0 → 100.0 (+30% ✗) |" in lines[2]
    assert lines[3].count("unknown → 100.0 ✗") == 2
    assert "1 of 6 predictions are within" in lines[-1]


def test_eight_settings_from_one() -> None:
    """One setting is observed, and eight others are predicted for the same requests."""
    mix = WORKLOADS[0]
    assert len(set(mix.settings) - {OBSERVED}) == 8
    assert sum(kind.weight for kind in mix.kinds) == 1
    assert LOADS == (0.5, 0.8)


def test_requests_vary_around_their_mean() -> None:
    """The CPU time and the wait of a request vary together."""
    kind, chance = Kind(1, "/mixed?cpu_ms={cpu}&io_ms={io}", cpu=10, io=100, spread=0.5), random.Random(1)
    for _ in range(20):
        path, seconds = kind.draw(chance)
        cpu, io = (float(part.partition("=")[2]) for part in path.partition("?")[2].split("&"))
        assert 5 <= cpu <= 15
        assert abs(io - 1e3 * seconds) < 0.001
        assert abs(io - 10 * cpu) < 0.02

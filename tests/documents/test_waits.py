"""The document about what requests spend their time on."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.documents.waits import build_waits
from uwsgi_headroom.record import Waits

FIGURES = WaitFigures(
    threads={"cpu": 1.0, "sleep": 0.5, "backend": 4.0},
    backends={"redis": 1.0, "postgres": 3.0},
    per_request={"cpu": 0.1, "sleep": 0.05, "backend": 0.4},
    backends_per_request={"redis": 0.1, "postgres": 0.3},
    total=5.5,
    disagreement=0.25,
)


def test_most_threads_come_first() -> None:
    """States and backends are sorted by their threads; a backend has its address."""
    waits = build_waits(FIGURES, Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"}))
    assert [(row.state, row.threads, row.per_request) for row in waits.states] == [
        ("backend", 4, 0.4),
        ("cpu", 1, 0.1),
        ("sleep", 0.5, 0.05),
    ]
    assert [(row.name, row.address, row.per_request) for row in waits.backends] == [
        ("postgres", "10.0.0.5:5432", 0.3),
        ("redis", "*:6379", 0.1),
    ]
    assert (waits.total, waits.disagreement) == (5.5, 0.25)


@pytest.mark.parametrize("now", [None, Waits(off="not permitted any more")])
def test_unknown_at_the_end(now: Waits | None) -> None:
    """Without addresses, the names and figures remain; without requests, times per request are null."""
    figures = replace(FIGURES, per_request=None, backends_per_request=None)
    document = msgspec.to_builtins(build_waits(figures, now))
    assert {row["per_request"] for row in [*document["states"], *document["backends"]]} == {None}
    assert {row["address"] for row in document["backends"]} == {""}


def test_nothing_in_service() -> None:
    """An idle server has no states, and no threads."""
    idle = WaitFigures({}, {}, {}, {}, 0.0, 0.0)
    waits = build_waits(idle, Waits())
    assert (waits.states, waits.backends, waits.total) == ((), (), 0)

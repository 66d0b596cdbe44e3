"""A server whose state changes with every read logs only a few lines a minute."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from tools.support.clock import MovableClock
from uwsgi_headroom.source import File
from uwsgi_headroom.watch.reader import LINES, SECONDS, LogLimit, Reader


def read_in_turn(path: Path, bodies: list[str], reads: int, seconds: float) -> None:
    """Read a file whose contents alternate, so many times and so many seconds apart."""
    hands = MovableClock()
    reader = Reader("shop", File(str(path)), clock=hands.clock)

    async def read() -> None:
        for number in range(reads):
            path.write_text(bodies[number % len(bodies)])  # noqa: ASYNC240  # nothing else runs
            await reader.read()
            hands.move(seconds)

    asyncio.run(read())


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([json.dumps({"pid": pid, "workers": []}) for pid in (2**22 + 5, 2**22 + 6)], id="pids"),
        pytest.param(["x", "{}"], id="two failures"),
        pytest.param(["x", '{"workers":[]}'], id="up and down"),
    ],
)
def test_what_changes_with_every_read(bodies: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two alternating states, five times a second for a minute, log a handful of lines."""
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", bodies, reads=299, seconds=0.2)
    assert 1 <= len(caplog.records) <= LINES


def test_what_was_left_out_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next line reports how many were left out before it."""
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", ["x", "{}"], reads=20, seconds=5.0)
    left_out = [record.fields.get("left_out") for record in caplog.records]  # type: ignore[attr-defined]
    assert left_out[:LINES] == [None] * LINES
    assert left_out[LINES] == 60 / 5 - LINES
    assert len(left_out) < 20


def test_slow_changes_are_all_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A change every half minute is always logged."""
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", ["x", "{}"], reads=40, seconds=30.0)
    assert len(caplog.records) == 40


def test_limit_is_over_any_minute() -> None:
    """A line is allowed again once the fifth line before it is a minute old."""
    limit = LogLimit()
    assert [limit.allows(at) for at in range(LINES + 1)] == [True] * LINES + [False]
    assert not limit.allows(SECONDS - 0.1)
    assert limit.allows(SECONDS)
    assert not limit.allows(SECONDS + 0.5)
    assert limit.allows(SECONDS + 1)
    assert limit.take_left_out() == {"left_out": 3}
    assert limit.take_left_out() == {}

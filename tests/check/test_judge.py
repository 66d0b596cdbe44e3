"""What a check makes of a server that changes meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.captured_documents import document
from tests.support.clock import MovableClock
from uwsgi_headroom.check.judge import check
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.source import File
from uwsgi_headroom.watch.watch import Watch


def test_a_server_that_becomes_an_emperor_cannot_be_judged(tmp_path: Path) -> None:
    """Another kind of stats server at the same address ends the check with a sentence."""
    path = tmp_path / "stats.json"
    path.write_bytes(document("minified"))
    hands = MovableClock()

    def replace(_left: float) -> None:
        path.write_bytes(document("emperor"))
        hands.move(1.0)

    with pytest.raises(StatsError, match="stats server of a uWSGI emperor"):
        asyncio.run(check(Watch("shop", File(str(path)), clock=hands.clock), 0.05, replace))

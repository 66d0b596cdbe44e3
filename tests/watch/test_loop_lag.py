"""The lag of the event loop: the largest of the last seconds."""

from __future__ import annotations

import asyncio
import time

from tools.support.clock import MovableClock
from uwsgi_headroom.watch.pace import REMEMBERED_SECONDS, LoopLag


def test_the_largest_counts() -> None:
    """Of several lags the largest is reported; without any lag, 0."""
    lag = LoopLag(MovableClock().clock.monotonic)
    assert lag.largest == 0
    for seconds in (0.01, 0.5, 0.02):
        lag.note(seconds)
    assert lag.largest == 0.5


def test_it_is_forgotten() -> None:
    """A lag is remembered for one period at least, and for two at most."""
    hands = MovableClock()
    lag = LoopLag(hands.clock.monotonic)
    lag.note(0.5)
    hands.move(REMEMBERED_SECONDS)
    lag.note(0.1)
    assert lag.largest == 0.5
    hands.move(REMEMBERED_SECONDS)
    assert lag.largest == 0.1
    hands.move(10 * REMEMBERED_SECONDS)
    assert lag.largest == 0


def test_a_loop_that_is_blocked() -> None:
    """A sleep that ends too late has a lag of the difference."""

    async def run() -> float:
        lag = LoopLag(time.monotonic)
        sleeping = asyncio.create_task(lag.sleep(0.01))
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - this is what is measured
        await sleeping
        return lag.largest

    assert asyncio.run(run()) >= 0.18

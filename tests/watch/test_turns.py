"""Turns of a long computation, beside tasks that need the event loop."""

import asyncio
import gc
import threading
import time
from typing import Any

import pytest

from tests.support.simulated_server import MovableClock
from tests.watch.sampling import until
from uwsgi_headroom.watch import turns as module
from uwsgi_headroom.watch.turns import GivenUpError, ThreadTurns, Turns, run_in_thread


def share_of(hands: MovableClock, step: float, others: float) -> tuple[float, float]:
    """The share of a computation in steps (seconds) beside others that use so much of a turn; their longest wait."""
    used = longest = waited = 0.0

    async def other() -> None:
        nonlocal longest, waited
        while True:
            longest, waited = max(longest, waited), 0.0
            hands.move(others)
            await asyncio.sleep(0)

    async def run() -> float:
        nonlocal used, waited
        task = asyncio.create_task(other())
        began, turns = hands.clock.monotonic(), Turns(hands.clock.monotonic)
        for _ in range(2000):
            hands.move(step)
            used, waited = used + step, waited + step
            await turns.pause_if_due()
        task.cancel()
        return hands.clock.monotonic() - began

    elapsed = asyncio.run(run())
    return used / elapsed, longest


@pytest.mark.parametrize("others", [0.02, 0.05])
def test_half_of_the_time_beside_much_work(others):
    share, longest = share_of(MovableClock(), 0.001, others)
    assert share == pytest.approx(0.5, abs=0.03)
    assert longest <= others + 0.0011


def test_others_wait_for_a_short_turn():
    """Others that have little to do wait for the shortest turn; no turn is longer than the longest."""
    assert share_of(MovableClock(), 0.001, 0.0001)[1] <= module.SHORTEST_SECONDS + 0.0011
    assert share_of(MovableClock(), 0.001, 10.0)[1] <= module.LONGEST_SECONDS + 0.0011


async def test_a_cancelled_thread_has_ended_when_its_task_ends():
    """So nothing runs beside what was cancelled before it, even if that cannot pause."""
    running, most, calls = 0, 0, 0
    lock = threading.Lock()

    def work(_turns: ThreadTurns) -> None:
        nonlocal running, most, calls
        with lock:
            running, most, calls = running + 1, max(most, running + 1), calls + 1
        time.sleep(0.05)
        with lock:
            running -= 1

    for _ in range(5):
        before = calls
        task = asyncio.create_task(run_in_thread(work))
        await until(lambda before=before: calls > before)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert running == 0
    assert (most, calls) == (1, 5)


async def test_a_cancelled_thread_ends_at_its_next_pause():
    """asyncio reports no exception of it: nobody waits for its result."""
    begun, ended, reported = threading.Event(), threading.Event(), list[dict[str, Any]]()

    def work(turns: ThreadTurns) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.001)
                turns.pause_if_due()
        except GivenUpError:
            ended.set()
            raise

    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    task = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.wait_for(asyncio.wait({task}), 60)
    assert ended.is_set()
    del task
    gc.collect()  # asyncio reports an exception when nothing refers to its task any more
    assert reported == []

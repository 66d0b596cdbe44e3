"""Questions that are not answered in time are left alone."""

import threading

import pytest

from tools.support.clock import MovableClock
from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel.procfs import PAUSE_SECONDS, Patience


def test_an_answer() -> None:
    """An answer and an error reach the caller; the next question may follow at once."""
    patience = Patience()
    assert [patience.ask(lambda number=number: number) for number in range(100)] == list(range(100))  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        patience.ask(lambda: 1 // 0)


def test_no_answer() -> None:
    """Without an answer one thread is left, however often the question is repeated; it ends when the answer comes."""
    hands = MovableClock()
    patience, answered, before = Patience(hands.clock.monotonic), threading.Event(), threading.active_count()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            patience.ask(answered.wait, seconds=0.01)
        hands.move(PAUSE_SECONDS)
    assert threading.active_count() == before + 1
    answered.set()
    wait_until(lambda: threading.active_count() == before)
    assert patience.ask(lambda: "again") == "again"


def test_a_slow_answer() -> None:
    """After an answer that came too late, nothing is asked for a minute."""
    hands = MovableClock()
    patience, answered, before = Patience(hands.clock.monotonic), threading.Event(), threading.active_count()
    with pytest.raises(TimeoutError):
        patience.ask(answered.wait, seconds=0.01)
    answered.set()
    wait_until(lambda: threading.active_count() == before)
    with pytest.raises(TimeoutError):
        patience.ask(int)
    hands.move(PAUSE_SECONDS)
    assert patience.ask(int) == 0

"""Ctrl-C ends the process at once while modules load, and is what it was before once they are there."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import pytest

from uwsgi_headroom import interrupts


@pytest.fixture(autouse=True)
def _the_handler_of_the_tests_stays() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_pythons_own_handler_steps_aside() -> None:
    """It comes back when the block ends, an error in it included."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ModuleNotFoundError), interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        raise ModuleNotFoundError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda _signal, _frame: None])
def test_another_handler_stays(handler: Callable[..., object] | signal.Handlers) -> None:
    """Whatever else handles or ignores SIGINT goes on doing so."""
    signal.signal(signal.SIGINT, handler)
    with interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) == handler

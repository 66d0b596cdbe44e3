"""Ctrl-C ends the process at once while modules load; afterwards the earlier handler is back."""

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
    """Python's handler is restored when the block ends, even by an error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ModuleNotFoundError), interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        raise ModuleNotFoundError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda _signal, _frame: None])
def test_another_handler_stays(handler: Callable[..., object] | signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) == handler

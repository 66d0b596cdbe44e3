"""Limited waits, and Ctrl-C."""

import asyncio
import contextlib
import signal

import pytest

from uwsgi_headroom import interrupts
from uwsgi_headroom.clock import within


async def after(seconds, result):
    await asyncio.sleep(seconds)
    if isinstance(result, Exception):
        raise result
    return result


def test_a_result_an_error_and_a_timeout():
    """They are those of the work; after the time, the work has ended, too."""
    assert asyncio.run(within(60, after(0, "done"))) == "done"
    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(within(60, after(0, ValueError("wrong"))))
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(within(0.01, work()))
    assert ended == [True]


@pytest.mark.parametrize("turns", range(8))
def test_a_cancellation_at_any_moment_is_kept(turns):
    """Also if the work ends in the same turn of the loop, as that of clients without a pause does."""

    async def scenario():
        ready = asyncio.Event()

        async def client():
            await within(60, ready.wait())
            await asyncio.sleep(60)

        task = asyncio.ensure_future(client())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ready.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=30)
        return task.cancelled()

    assert asyncio.run(scenario())


@pytest.fixture(autouse=True)
def _the_handler_of_the_tests_stays():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_pythons_own_handler_steps_aside():
    """Python's handler is restored when the block ends, even by an error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ModuleNotFoundError), interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        raise ModuleNotFoundError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda _signal, _frame: None])
def test_another_handler_stays(handler):
    signal.signal(signal.SIGINT, handler)
    with interrupts.ending_the_process():
        assert signal.getsignal(signal.SIGINT) == handler
    assert signal.getsignal(signal.SIGINT) == handler

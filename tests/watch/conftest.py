"""Runs tests that are coroutines, each in an event loop of its own."""

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine for five minutes at most; with `LEAVES_NO_TASK` in its module, its tasks must have ended."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None

    async def run() -> None:
        names = set(inspect.signature(test).parameters) - {"self"}
        await asyncio.wait_for(test(**{name: pyfuncitem.funcargs[name] for name in names}), 300)
        if getattr(pyfuncitem.module, "LEAVES_NO_TASK", False):
            await asyncio.sleep(0.05)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    return True

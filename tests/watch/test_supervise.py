"""A background task that ends is logged, counted and restarted."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from uwsgi_headroom.watch import tasks as module
from uwsgi_headroom.watch.tasks import supervise


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_SECONDS", (0.001, 0.002))


@pytest.mark.parametrize("fault", [ZeroDivisionError("broken"), None])
def test_work_that_ends_begins_again(fault: Exception | None, caplog: pytest.LogCaptureFixture) -> None:
    """A task restarts whether it failed or returned."""
    caplog.set_level(logging.INFO)
    restarts: Counter[str] = Counter()
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 4:
            await asyncio.Event().wait()
        if fault:
            raise fault

    async def run() -> None:
        supervised = asyncio.create_task(supervise("sample", work, restarts))
        while begun < 4:  # noqa: ASYNC110 - the work has no event
            await asyncio.sleep(0.001)
        supervised.cancel()
        await asyncio.wait({supervised})
        assert supervised.cancelled()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert restarts == {"sample": 3}
    assert [bool(record.exc_info and record.exc_info[1]) for record in caplog.records] == [fault is not None] * 3

"""A coroutine is cancelled once at every place where it waits."""

import asyncio

import pytest

from tests.support.cancellation import cancelled_everywhere


def test_each_place_is_cancelled_once():
    """Before the first step, at each await, and then not at all; `check` comes after each."""
    ended: list[str] = []

    async def work() -> None:
        place = "begun"
        try:
            await asyncio.sleep(0)
            place = "slept"
            await asyncio.sleep(0.001)
            place = "done"
        finally:
            ended.append(place)

    async def check() -> None:
        ended.append("checked")

    assert asyncio.run(cancelled_everywhere(work, check)) == 2
    assert ended == ["checked", "begun", "checked", "slept", "checked", "done", "checked"]


def test_one_that_takes_no_notice_is_still_tried_everywhere():
    """A coroutine that continues after a cancellation is cancelled at its later places as well."""
    caught: list[int] = []

    async def work() -> None:
        for place in (1, 2):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                caught.append(place)

    assert asyncio.run(cancelled_everywhere(work)) == 2
    assert caught == [1, 2]


def test_what_it_raises_is_raised():
    """An error of the coroutine is raised, not taken for its end."""

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise KeyError("x") from None

    with pytest.raises(KeyError):
        asyncio.run(cancelled_everywhere(work))

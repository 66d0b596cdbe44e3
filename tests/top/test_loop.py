"""The loop of a screen: wherever it is cancelled, the terminal is as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator

import pytest

from tests.support.cancellation import cancelled_everywhere
from tests.support.driven_top import LEFT
from tests.top.test_poll import FakeFeed
from uwsgi_headroom.top import loop
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.terminal.terminal import Capabilities


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal that standard input and output are, until the block ends; yields where its keys are typed."""
    keyboard, screen = pty.openpty()
    with (
        open(screen, "rb", buffering=0) as source,
        os.fdopen(os.dup(screen), "w", encoding="utf-8") as target,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", source)
        patched.setattr(sys, "stdout", target)
        yield keyboard
    os.close(keyboard)


def test_cancelled_anywhere_the_terminal_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modes and its screen are restored, whichever await is cancelled; the last run ends by the key q."""
    runs = 0
    written = bytearray()
    with terminal(monkeypatch) as keyboard:
        modes = termios.tcgetattr(keyboard)
        os.set_blocking(keyboard, False)

        def receive() -> None:
            with contextlib.suppress(BlockingIOError):
                written.extend(os.read(keyboard, 65536))

        def run() -> object:
            os.write(keyboard, b"q")
            return loop.run([FakeFeed("shop")], Navigation(), Capabilities(addressable=True, colour=True))

        async def check() -> None:
            nonlocal runs
            runs += 1
            assert termios.tcgetattr(keyboard) == modes
            if runs > 1:  # the first was cancelled before its first step
                # The kernel echoes the key when it comes to it, on a busy machine behind all that is written.
                await asyncio.wait_for(_until(lambda: written.removesuffix(b"q").endswith(LEFT)), 20)
                assert b"\x1b[?1049h" in written
            written.clear()
            termios.tcflush(keyboard, termios.TCIOFLUSH)
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)

        async def cancel_everywhere() -> int:
            # A terminal takes what is written at once: one that nobody reads is full after a few screens.
            asyncio.get_running_loop().add_reader(keyboard, receive)
            return await cancelled_everywhere(run, check)  # type: ignore[arg-type]

        places = asyncio.run(cancel_everywhere())
    assert runs == places + 2


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the kernel hands over what was written when it has time
        await asyncio.sleep(0.001)

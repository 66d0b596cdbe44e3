"""Ctrl-Z without harm: a process that is stopped in the middle of a read holds up uWSGI's master for as long."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable


def between_reads(pause: Callable[[], Awaitable[None]], resume: Callable[[], None]) -> None:
    """From now on SIGTSTP stops this process only after `pause`, and `resume` comes when it goes on.

    To be called in a running event loop. Whoever started us with SIGTSTP ignored is obeyed.
    """
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        return
    loop = asyncio.get_running_loop()
    under_way: set[asyncio.Task[None]] = set()

    async def stop() -> None:
        await pause()
        loop.remove_signal_handler(signal.SIGTSTP)
        # Not SIGSTOP: of a process that no shell could wake up again (`ssh -t host uwsgi-headroom top`), the kernel
        # drops this one.
        signal.raise_signal(signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, begin)
        resume()

    def begin() -> None:
        if not under_way:
            task = loop.create_task(stop(), name="suspend")
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    loop.add_signal_handler(signal.SIGTSTP, begin)

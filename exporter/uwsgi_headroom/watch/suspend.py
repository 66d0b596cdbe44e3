"""Suspends safely on Ctrl-Z: a process stopped in the middle of a read would block uWSGI's master while stopped.

Stands alone because it needs no watch: every program with a terminal that reads servers installs it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable


def between_reads(pause: Callable[[], Awaitable[None]], resume: Callable[[], None]) -> None:
    """Have SIGTSTP stop this process only after `pause`, and call `resume` when the process continues.

    Call this in a running event loop. If SIGTSTP was ignored at start, it stays ignored.
    """
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        return
    loop = asyncio.get_running_loop()
    under_way: set[asyncio.Task[None]] = set()

    async def stop() -> None:
        await pause()
        loop.remove_signal_handler(signal.SIGTSTP)
        # Not SIGSTOP: the kernel discards SIGTSTP for a process that no shell could continue
        # (`ssh -t host uwsgi-headroom top`).
        signal.raise_signal(signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, begin)
        resume()

    def begin() -> None:
        if not under_way:
            task = loop.create_task(stop(), name="suspend")
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    loop.add_signal_handler(signal.SIGTSTP, begin)

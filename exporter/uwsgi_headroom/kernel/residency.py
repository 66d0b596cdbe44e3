"""Where the threads of a process ran: for each, the CPU time it has used and the CPU it last ran on.

The kernel does not keep CPU time by thread and CPU. What a thread used since the last look is put down to the CPU it is
on now: exact for a pinned thread, and good on average for one that moves less often than it is looked at.
"""

from __future__ import annotations

import os
from contextlib import suppress

from uwsgi_headroom.kernel import procfs

_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _PROCESSOR = 11, 12, 36  # fields 14, 15 and 39 of proc(5), counted behind the command's name

Threads = dict[int, tuple[int, float]]
"""By thread id: the CPU it last ran on, and the CPU seconds it has used since it began."""


def read_threads(pid: int) -> Threads:
    """Every thread of a process; none where it is gone."""
    by_thread: Threads = {}
    folder = f"/proc/{pid}/task"
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(folder):
            with suppress(OSError):  # this thread has, the others have not
                fields = procfs.read_stat_fields(f"{folder}/{thread}/stat")
                seconds = (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS
                by_thread[int(thread)] = int(fields[_PROCESSOR]), seconds
    return by_thread

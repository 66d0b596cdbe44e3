"""Reads the CPU time of each thread of a process, and the CPU on which the thread last ran.

The kernel does not count CPU time per thread and CPU. The exporter attributes a thread's CPU time since the last
reading to the CPU on which the thread last ran. That is exact for a pinned thread, and accurate on average for a thread
that moves less often than the exporter reads it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from uwsgi_headroom.kernel import procfs

_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _PROCESSOR = 11, 12, 36  # fields 14, 15 and 39 of proc(5); 0 is the field after the name

Threads = dict[int, tuple[int, float]]
"""The CPU on which each thread last ran, and the thread's CPU seconds since its start, by thread id."""


def read_threads(pid: int) -> Threads:
    """Read every thread of a process. Returns an empty dict if the process has ended."""
    by_thread: Threads = {}
    folder = f"/proc/{pid}/task"
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(folder):
            with suppress(OSError):  # this thread has ended
                fields = procfs.read_stat_fields(f"{folder}/{thread}/stat")
                seconds = (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS
                by_thread[int(thread)] = int(fields[_PROCESSOR]), seconds
    return by_thread

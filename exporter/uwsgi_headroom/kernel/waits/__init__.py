"""Reads what the request threads of a server wait for, from the kernel and from outside of the processes.

Linux shows for each thread the system call that it is blocked in, with its arguments (`/proc/PID/task/TID/syscall`).
With the process's descriptors and memory map, that tells the interpreter lock from a database, and both from an idle
thread. Reading stops no thread, but needs the right to trace the process; without it `Waits.off` says what to grant.
"""

from uwsgi_headroom.kernel.waits.worker_threads import GRANT, WaitSetting

__all__ = ["GRANT", "WaitSetting"]

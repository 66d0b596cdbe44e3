"""What the figures are compared with: counts of the clients, and the kernel's own account, both read on the host."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import psutil

from app.load import Load, Tally, started

_LISTENING = "0A"


def make_requests(load: Load, address: tuple[str, int]) -> Tally:
    """Makes the requests of a load that limits their number, waits for every answer, and returns the counts."""
    tally = Tally()

    async def run() -> None:
        await asyncio.gather(*started([(load, address)], tally))

    asyncio.run(run())
    return tally


@contextlib.contextmanager
def waiting_requests(count: int, path: str, address: tuple[str, int], answer_seconds: float) -> Iterator[None]:
    """Holds `count` requests during the block, then waits until each is answered: the last after `answer_seconds`."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(address, 10))
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            connection.settimeout(answer_seconds)
            connections.append(connection)
        yield
        for connection in connections:
            while connection.recv(65536):
                pass


def cpu_seconds(master_pid: int) -> float:
    """Returns the CPU time of a master's workers, whose PID is that of the host."""
    times = [worker.cpu_times() for worker in psutil.Process(master_pid).children()]
    return sum(used.user + used.system for used in times)


def queue_length(pid: int, port: int) -> int:
    """Returns how many connections wait at a listening TCP port in the network namespace of a process."""
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in list(lines)[1:]:
                _, local, _, state, queues, *_ = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return int(queues.partition(":")[2], 16)
    raise LookupError(f"nothing listens on port {port}")


def wait_for(ready: Callable[[], object], seconds: float, what: str) -> None:
    """Waits until `ready` returns something true. Raises `TimeoutError` after `seconds`."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.2)

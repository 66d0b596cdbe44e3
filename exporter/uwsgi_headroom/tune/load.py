"""The one load client of the project. It needs the standard library only: the demo uses it before anything is
installed."""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from uwsgi_headroom.clock import within

Address = str | tuple[str, int]  # path of a UNIX socket, or host and port
RETRY = 0.05  # seconds after which a client asks again when it got no answer
REDIRECT, FAILED = 300, 500  # the lowest status of each
_RESET = struct.pack("ii", 1, 0)  # struct linger
_NO_CONNECTION = (errno.ECONNREFUSED, errno.EAGAIN, errno.ENOENT, errno.EADDRNOTAVAIL, errno.EMFILE)
_STEP = math.log(1.02)  # times are counted in steps of 2 %


@dataclass(slots=True)
class Tally:
    """What clients saw. Times in seconds."""

    answered: int = 0  # with a status below 500
    total: float = 0.0
    longest: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)  # `refused` (no connection), `timeout`, `status 503`, ...
    unsuccessful: Counter[int] = field(default_factory=Counter)  # the status of those answered with 300 or more
    seconds: float = 0.0
    _times: Counter[int] = field(default_factory=Counter)

    def add(self, seconds: float, answer: int | str) -> bool:
        """Count a request by its status, or by why it has none. Returns whether it was answered."""
        if isinstance(answer, str) or answer >= FAILED:
            self.errors[answer if isinstance(answer, str) else f"status {answer}"] += 1
            return False
        if answer >= REDIRECT:
            self.unsuccessful[answer] += 1
        self.answered += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)
        self._times[round(math.log(max(seconds, 1e-6)) / _STEP)] += 1
        return True

    @property
    def mean(self) -> float:
        return self.total / self.answered if self.answered else 0.0

    @property
    def throughput(self) -> float:
        return self.answered / self.seconds if self.seconds else 0.0

    @property
    def failed_part(self) -> float:
        """The part of the requests that failed, 0 to 1."""
        return self.errors.total() / max(1, self.errors.total() + self.answered)

    def percentile(self, share: float) -> float:
        """The time that this share of the answers took at most, to 1 %; 0 without an answer."""
        steps = sorted(self._times)
        places = zip(steps, itertools.accumulate(map(self._times.__getitem__, steps)), strict=True)
        return next((math.exp(step * _STEP) for step, count in places if count >= share * self.answered), 0.0)


def connect(address: Address) -> socket.socket:
    """Begin to connect, without blocking. Raises OSError where the server takes no connection."""
    sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    sock.setblocking(False)
    try:
        sock.connect(address)
    except OSError as error:  # a UNIX socket with a full queue says EAGAIN, as web servers see it
        if error.errno != errno.EINPROGRESS:
            sock.close()
            raise
    return sock


async def ask(address: Address, target: str, patience: float | None = None, late: float = 0.0) -> int | str:
    """Make a request on a connection of its own. Returns the status, or why there is none. patience: seconds until the
    client leaves; late: until it reads."""
    try:
        with connect(address) as sock:
            asked = _exchange(sock, target, late)
            return await (within(patience, asked) if patience else asked)
    except asyncio.TimeoutError:
        return "timeout"
    except (ValueError, IndexError):
        return "no HTTP"
    except OSError as error:
        return "refused" if error.errno in _NO_CONNECTION else os.strerror(error.errno or 0).lower()


async def _exchange(sock: socket.socket, target: str, late: float) -> int:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    if late:
        await asyncio.sleep(late)
    head = received = await loop.sock_recv(sock, 1 << 16)
    while received:
        received = await loop.sock_recv(sock, 1 << 16)
    if not head:
        raise ConnectionResetError(errno.ECONNRESET, "no response")
    if sock.family == socket.AF_INET:  # neither end stays in TIME_WAIT, of which the kernel's tables hold only so many
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return int(head.split(None, 2)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A closed loop: clients that repeat their requests without a pause. warm_up: seconds that do not count."""

    paths: tuple[str, ...] = ("/",)
    clients: int = 1
    warm_up: float = 2.0
    seconds: float = 10.0


async def measure(load: Load, address: Address, begun: Callable[[], object], check: Callable[[], object]) -> Tally:
    """Apply a load, and count the answers that end in the measured time. begun: called when that time begins. check:
    called a few times a second; an exception ends the load."""
    tallies = [Tally()]  # the last one counts
    targets = itertools.cycle(load.paths)

    async def repeat() -> None:
        while True:
            start = time.monotonic()
            answer: int | str = "no answer"
            try:
                answer = await ask(address, next(targets))
            finally:  # at the end of the load, too: then if there was no answer for all of the measured time
                seconds = time.monotonic() - start
                is_over = answer != "no answer" or seconds > load.seconds
                is_answered = is_over and tallies[-1].add(seconds, answer)
            if not is_answered:
                await asyncio.sleep(RETRY)

    tasks = [asyncio.ensure_future(repeat()) for _ in range(load.clients)]
    try:
        await _wait(load.warm_up, tasks, check)
        tallies.append(Tally())
        begun()
        start = time.monotonic()
        await _wait(load.seconds, tasks, check)
        tallies[-1].seconds = time.monotonic() - start
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tallies[-1]


async def _wait(seconds: float, tasks: Sequence[asyncio.Task[None]], check: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        await asyncio.wait(tasks, timeout=min(0.2, left))
        check()

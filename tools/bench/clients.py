"""Clients of a server, in a process of their own: at random and never waiting for each other, or one after the other.

`python3 -m tools.bench.clients PLAN`, which is JSON, makes requests until the last step or its input has ended, and
prints when it began, the answers, and how many requests had none, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tools.environments import ROOT

CPUS = "0,1"
"""What is measured, its clients and the exporter share these."""

NICE = -5
"""What is measured and its clients come before other programs of the machine; takes root."""

MOST_IN_FLIGHT = 1000
ANSWER_SECONDS = 10.0
"""How long the clients wait for the last answers after the last step."""

CHUNK = 64 << 10


@dataclass(frozen=True)
class Kind:
    """Requests of one kind. weight: share of the requests. path: `{cpu}` and `{io}` are replaced by milliseconds that
    are drawn from `cpu` and `io` times 1 - spread to 1 + spread (None: from an exponential distribution), and `{s}` by
    `{io}` in seconds."""

    weight: float
    path: str
    cpu: float = 0.0
    io: float = 0.0
    spread: float | None = 0.0

    def draw(self, chance: random.Random) -> tuple[str, float]:
        """The path and query of one request, and the seconds that it waits."""
        factor = chance.expovariate(1) if self.spread is None else 1 + self.spread * chance.uniform(-1, 1)
        io = self.io * factor
        return self.path.format(cpu=round(self.cpu * factor, 3), io=round(io, 3), s=round(io / 1e3, 6)), io / 1e3


@dataclass(frozen=True)
class Plan:
    """sockets: the path of a UNIX socket or a port of loopback, and its share of the requests. steps: arrivals a second
    for so many seconds, one step after the other; without steps, `clients` send one request after the other, with
    exponential pauses of `pause` seconds, and read answers in chunks with `slow` seconds in between."""

    sockets: tuple[tuple[str | int, float], ...]
    kinds: tuple[Kind, ...]
    steps: tuple[tuple[float, float], ...] = ()
    clients: int = 0
    pause: float = 0.0
    slow: float = 0.0
    seed: int = 1


@dataclass(frozen=True)
class Answer:
    """place: of its socket; own: seconds that the request waits; began, ended: monotonic seconds, from connect(2) to
    the end of the answer; body: its start."""

    place: int
    own: float
    began: float
    ended: float
    body: str


@dataclass(frozen=True)
class Answers:
    """What clients saw. began: of the first step, in monotonic seconds; failed: requests without an answer."""

    began: float
    answers: Sequence[Answer]
    failed: int


class _Clients:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._shares = [share for _, share in plan.sockets]
        self._weights = [kind.weight for kind in plan.kinds]
        self.began = time.monotonic()
        self.answers: list[Answer] = []
        self.failed = 0

    async def run(self) -> None:
        if self._plan.steps:
            await self._arrive()
        else:
            await asyncio.gather(*(self._repeat() for _ in range(self._plan.clients)))

    async def _arrive(self) -> None:
        tasks = set[asyncio.Task[None]]()
        end = due = self.began
        for rate, seconds in self._plan.steps:
            due, end = end, end + seconds
            while (due := due + self._chance.expovariate(rate)) < end:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if len(tasks) >= MOST_IN_FLIGHT:
                    self.failed += 1
                    continue
                task = asyncio.create_task(self._ask())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_SECONDS)

    async def _repeat(self) -> None:
        while True:
            await self._ask()
            if self._plan.pause:
                await asyncio.sleep(random.expovariate(1 / self._plan.pause))

    async def _ask(self) -> None:
        (place,) = self._chance.choices(range(len(self._shares)), self._shares)
        (kind,) = self._chance.choices(self._plan.kinds, self._weights)
        path, own = kind.draw(self._chance)
        began = time.monotonic()
        try:
            answer = await self._receive(self._plan.sockets[place][0], path)
        except OSError:
            answer = b""
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            self.failed += 1
            await asyncio.sleep(0.05)
            return
        body = answer.partition(b"\r\n\r\n")[2][:64].decode("latin-1")
        self.answers.append(Answer(place, own, began, time.monotonic(), body))

    async def _receive(self, address: str | int, path: str) -> bytes:
        """Makes one request; returns the start of the answer."""
        if isinstance(address, int):
            reader, writer = await asyncio.open_connection("127.0.0.1", address, limit=CHUNK)
        else:
            reader, writer = await asyncio.open_unix_connection(address, limit=CHUNK)
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while chunk := await reader.read(CHUNK):
            answer = answer if len(answer) > CHUNK else answer + chunk
            if self._plan.slow:
                await asyncio.sleep(self._plan.slow)
        writer.close()
        return answer


def prefix() -> list[str]:
    """The words before a command that come before other programs."""
    nice = ["nice", "-n", str(NICE)] if os.geteuid() == 0 else []
    return ["taskset", "-c", CPUS, *nice]


@contextlib.contextmanager
def running(plan: Plan, before: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the clients of a plan until the block ends. before: the words before their command."""
    command = [*before, sys.executable, "-m", "tools.bench.clients", json.dumps(asdict(plan))]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(clients: subprocess.Popen[bytes], *, wait: bool = False) -> Answers:
    """What the clients saw. wait: until the last step has ended, instead of ending now."""
    assert clients.stdout
    output = clients.stdout.read() if wait else clients.communicate(timeout=20)[0]
    began, answers, failed = json.loads(output)
    return Answers(began, [Answer(*answer) for answer in answers], failed)


def read_plan(text: str) -> Plan:
    fields = json.loads(text)
    sockets, steps = (tuple((first, second) for first, second in fields.pop(name)) for name in ("sockets", "steps"))
    return Plan(sockets, tuple(Kind(**kind) for kind in fields.pop("kinds")), steps, **fields)


async def _run(plan: Plan) -> _Clients:
    clients = _Clients(plan)
    running = asyncio.create_task(clients.run())
    standard_input = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(standard_input), sys.stdin)
    ended = asyncio.create_task(standard_input.read())
    await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    ended.cancel()
    return clients


if __name__ == "__main__":
    made = asyncio.run(_run(read_plan(sys.argv[1])))
    answers = [[each.place, each.own, each.began, each.ended, each.body] for each in made.answers]
    print(json.dumps([made.began, answers, made.failed]))

"""Clients for the model's bench: arrivals at random (Poisson), or clients that repeat their request at once.

`python3 -m tools.bench.model.clients SOCKET JSON` makes requests until standard input ends, then prints the times from
connecting to the end of the response as JSON, each with its start.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass

MOST_IN_FLIGHT = 1000


@dataclass(frozen=True)
class Kind:
    """Requests of one kind. weight: share of the requests. path: `{cpu}` and `{io}` are replaced by milliseconds that
    are drawn from `cpu` and `io` times 1 - spread to 1 + spread."""

    weight: float
    path: str
    cpu: float = 0.0
    io: float = 0.0
    spread: float = 0.0

    def target(self, chance: random.Random) -> str:
        """The path and query of one request."""
        factor = 1 + self.spread * chance.uniform(-1, 1)
        return self.path.format(
            cpu=round(self.cpu * factor, 3), io=round(self.io * factor, 3), s=self.io * factor / 1e3
        )


@dataclass(frozen=True)
class Plan:
    """rate: arrivals per second, or 0 for `clients` that repeat their requests without a pause."""

    kinds: tuple[Kind, ...]
    rate: float = 0.0
    clients: int = 0
    seed: int = 1

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class Clients:
    """All clients of a plan. done: start (monotonic) and duration of each answered request; failed: without answer."""

    def __init__(self, path: str, plan: Plan) -> None:
        self._path, self._plan = path, plan
        self._chance = random.Random(plan.seed)
        self._weights = [kind.weight for kind in plan.kinds]
        self.done: list[tuple[float, float]] = []
        self.failed = 0

    async def run(self) -> None:
        if not self._plan.rate:
            await asyncio.gather(*(self._repeat() for _ in range(self._plan.clients)))
        tasks = set[asyncio.Task[None]]()
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self._chance.expovariate(self._plan.rate)
            await asyncio.sleep(max(0.0, due - loop.time()))
            if len(tasks) >= MOST_IN_FLIGHT:
                self.failed += 1
                continue
            task = asyncio.create_task(self._ask())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _repeat(self) -> None:
        while True:
            await self._ask()

    async def _ask(self) -> None:
        (kind,) = self._chance.choices(self._plan.kinds, self._weights)
        start = time.monotonic()
        try:
            reader, writer = await asyncio.open_unix_connection(self._path)
            writer.write(f"GET {kind.target(self._chance)} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = await reader.read(-1)
            writer.close()
        except OSError:
            answer = b""
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            self.failed += 1
            await asyncio.sleep(0.05)
            return
        self.done.append((start, time.monotonic() - start))


async def _run(path: str, plan: Plan) -> Clients:
    clients = Clients(path, plan)
    running = asyncio.create_task(clients.run())
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    return clients


if __name__ == "__main__":
    fields = json.loads(sys.argv[2])
    made = asyncio.run(_run(sys.argv[1], Plan(**fields | {"kinds": tuple(Kind(**kind) for kind in fields["kinds"])})))
    print(json.dumps({"done": made.done, "failed": made.failed}))

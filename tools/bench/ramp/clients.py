"""Clients that come at random, at a rate that rises step by step, and never wait for each other.

`python3 -m tools.bench.ramp.clients JSON` runs all steps of one server and prints a list of `Step`, one for each step
and socket, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from tools.bench.ramp.cases import Kind

MOST_IN_FLIGHT = 800
ANSWER_SECONDS = 10.0
"""How long the clients wait for the last answers."""


@dataclass(frozen=True)
class Ramp:
    """Steps of a load. sockets: path and share of the requests of each; steps: requests per second and seconds; ignored
    is the start of each step, in seconds."""

    sockets: tuple[tuple[str, float], ...]
    kinds: tuple[Kind, ...]
    steps: tuple[tuple[float, float], ...]
    ignored: float
    seed: int = 1

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Step:
    """What one socket's requests of a step have met. rate: that were asked for, per second; served: answers per second;
    waited, own: sums of seconds over `requests`, of waiting for anything, and of what the requests asked for;
    queued: the part of waited before the application began."""

    rate: float
    seconds: float
    answers: int = 0
    requests: int = 0
    waited: float = 0.0
    queued: float = 0.0
    own: float = 0.0
    failed: int = 0

    @property
    def served(self) -> float:
        return self.answers / self.seconds


@dataclass
class Clients:
    """The clients of one server."""

    ramp: Ramp
    counted: list[tuple[float, float, list[Step]]] = field(default_factory=list)
    """Start and end of what is counted, and a step for each socket."""

    async def run(self) -> list[Step]:
        chance = random.Random(self.ramp.seed)
        tasks = set[asyncio.Task[None]]()
        due = time.monotonic()
        for rate, seconds in self.ramp.steps:
            end, counted = due + seconds, due + self.ramp.ignored
            rows = [Step(rate * share, end - counted) for _, share in self.ramp.sockets]
            self.counted.append((counted, end, rows))
            while (due := due + chance.expovariate(rate)) < end:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                (place,) = chance.choices(range(len(rows)), [share for _, share in self.ramp.sockets])
                (kind,) = chance.choices(self.ramp.kinds, [kind.weight for kind in self.ramp.kinds])
                if len(tasks) >= MOST_IN_FLIGHT:
                    rows[place].failed += 1
                    continue
                task = asyncio.create_task(self._ask(place, kind.name, chance.expovariate(1 / kind.seconds)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            due = end
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
        return [step for _, _, rows in self.counted for step in rows]

    async def _ask(self, place: int, kind: str, seconds: float) -> None:
        began = time.monotonic()
        try:
            reader, writer = await asyncio.open_unix_connection(self.ramp.sockets[place][0])
            writer.write(f"GET /{kind}/{seconds:.6f} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            body = (await reader.read(-1)).partition(b"\r\n\r\n")[2]
            writer.close()
            start, end = map(float, body.split())
        except (OSError, ValueError):
            if step := self._find(place, began):
                step.failed += 1
            return
        if step := self._find(place, began):
            step.requests += 1
            step.queued += start - began
            step.waited += end - began - seconds
            step.own += seconds
        if step := self._find(place, end):
            step.answers += 1

    def _find(self, place: int, at: float) -> Step | None:
        """The step in whose counted part a time is."""
        return next((rows[place] for start, end, rows in self.counted if start <= at < end), None)


def read_ramp(text: str) -> Ramp:
    """The ramp of `Ramp.as_json`."""
    fields = json.loads(text)
    return Ramp(
        sockets=tuple((path, share) for path, share in fields["sockets"]),
        kinds=tuple(Kind(**kind) for kind in fields["kinds"]),
        steps=tuple((rate, seconds) for rate, seconds in fields["steps"]),
        ignored=fields["ignored"],
        seed=fields["seed"],
    )


def main(arguments: Sequence[str]) -> None:
    steps = asyncio.run(Clients(read_ramp(arguments[0])).run())
    print(json.dumps([asdict(step) for step in steps]))


if __name__ == "__main__":
    main(sys.argv[1:])

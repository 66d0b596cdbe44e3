"""Runs the load of a scenario in a separate process, and collects the results of its clients.

`python3 -m tools.scenarios.loads JSON` makes requests until its standard input ends, then prints its tally.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

from app.load import Load, Tally, as_json, from_json, started
from tools.environments import ROOT
from uwsgi_headroom.tune.load import Address


async def run(loads: Sequence[tuple[Load, Address]]) -> Tally:
    tally = Tally()
    tasks = started(loads, tally)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiting = threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True)
    waiting.start()
    await ended.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


class Running:
    """A running load. tally: empty until the load has ended."""

    def __init__(self) -> None:
        self.tally: dict[str, float] = {}


@contextlib.contextmanager
def running(loads: Sequence[tuple[Load, Address]]) -> Iterator[Running]:
    load = Running()
    if not loads:
        yield load
        return
    command = [sys.executable, "-m", "tools.scenarios.loads", as_json(loads)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield load
        output, _ = process.communicate(timeout=20)
        load.tally = json.loads(output)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    print(json.dumps(asyncio.run(run(from_json(sys.argv[1]))).summary()))


if __name__ == "__main__":
    main()

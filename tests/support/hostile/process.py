"""Runs all cases in a separate process: `python3 -m tests.support.hostile.process FOLDER`.

It writes the addresses of the cases as one line of JSON when all of them exist, and ends when its standard input ends.
"""

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.hostile.cases import CASES
from tests.support.hostile.servers import Site
from tools.environments import ROOT


@contextlib.contextmanager
def hostile_servers() -> Iterator[list[dict[str, object]]]:
    """Runs all cases until the block ends; yields them as the `servers` of a configuration file."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, folder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin
        assert process.stdout
        try:
            addresses = json.loads(process.stdout.readline())
            yield [{"name": case.name, "stats": addresses[case.name], **case.settings} for case in CASES]
        finally:
            process.stdin.close()
            process.stdout.close()
            assert process.wait(60) == 0, "the hostile servers failed"


async def _run(folder: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a busy machine leaves many connections half closed
    with contextlib.ExitStack() as closing:
        sites = {case.name: Site(folder / str(number), closing) for number, case in enumerate(CASES)}
        print(json.dumps({case.name: case.place(sites[case.name]) for case in CASES}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        tasks = {task for site in sites.values() for task in site.tasks}
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        faults = [error for error in ended if isinstance(error, Exception)]
        if faults:
            raise faults[0]


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))

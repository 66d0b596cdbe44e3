"""A real uWSGI that comes before other programs, and the figures of a window of it, as `check` computes them."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support import real_uwsgi
from tools.bench.clients import prefix
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.check.watching import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.fleet import Fleet


@contextlib.contextmanager
def serving(processes: int, threads: int, *options: str) -> Iterator[real_uwsgi.Uwsgi]:
    """Runs uWSGI with these options, until the block ends, which begins when all workers accept requests."""
    command = ["--master", "--enable-threads", "--need-app", "--processes", str(processes), "--listen", "1000"]
    command += ["--threads", str(threads)] if threads > 1 else []
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        binary = real_uwsgi.wrapped(Path(directory), real_uwsgi.uwsgi_binary(), " ".join(prefix()))
        with real_uwsgi.bare(*command, "--stats", "{directory}/stats", *options, binary=binary) as server:
            real_uwsgi.wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
            yield server


async def watch(stats: Sequence[str], seconds: float, *, read_locks: bool = False) -> list[Figures]:
    """The figures of the next seconds of each server, by the path of its stats socket."""
    configs = [ServerConfig(name=f"bench{place}", pattern=path, address=Unix(path)) for place, path in enumerate(stats)]
    fleet = Fleet(configs, Settings(windows=(seconds,), read_locks=read_locks))
    fleet.refresh()
    watches = {str(watch.address): watch for watch in fleet.watches()}
    ordered = [watches[str(Unix(path))] for path in stats]
    await asyncio.gather(*(judge(watch, fleet.clock, seconds) for watch in ordered))
    return [watch.figures(watch.reading, (seconds,))[0] for watch in ordered if watch.reading]

"""This project's own figures of a uWSGI over the measured time: the same sampling code as the exporter, in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from uwsgi_headroom.check.judge import judge
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents import schema
from uwsgi_headroom.source import Unix
from uwsgi_headroom.tune.experiment.outcome import Observed
from uwsgi_headroom.watch.fleet import Fleet

CHECK_SECONDS = 0.2
"""How often the processes of a run are checked while it is measured."""


def observe(name: str, stats: Path | None, seconds: float, check: Callable[[], None]) -> Observed | None:
    """Sample a uWSGI for `seconds`; return its figures, None if they are unknown. Without `stats`, only wait.

    check: called all the time; an exception that it raises ends the wait.
    """
    return asyncio.run(_observe(name, stats, seconds, check))


async def _observe(name: str, stats: Path | None, seconds: float, check: Callable[[], None]) -> Observed | None:
    if stats is None:
        await _wait(asyncio.create_task(asyncio.sleep(seconds)), check)
        return None
    fleet = Fleet(
        [ServerConfig(name=name, pattern=str(stats), address=Unix(str(stats)))],
        Settings(windows=(seconds,), cpu_residency=True),
    )
    try:
        (watch,) = fleet.watches()
        judging = asyncio.create_task(judge(watch, fleet.clock, seconds))
        await _wait(judging, check)
        return summarise(judging.result())
    finally:
        await fleet.close()


async def _wait(
    task: asyncio.Task[object] | asyncio.Task[None] | asyncio.Task[schema.Server], check: Callable[[], None]
) -> None:
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=CHECK_SECONDS)
            check()
    finally:
        task.cancel()


def summarise(server: schema.Server) -> Observed | None:
    """Return what an outcome keeps of a server's document; None if the document has no figures."""
    flow, balance, waits, headroom = server.flow, server.balance, server.waits, server.headroom
    if flow is None or flow.throughput is None:
        return None
    loads = [worker.interpreter_load for worker in server.workers if worker.interpreter_load is not None]
    concurrency = flow.observed if flow.observed is not None else flow.littles_law
    return Observed(
        throughput=flow.throughput,
        response_time=flow.response_time,
        concurrency=concurrency or 0.0,
        shares={worker.worker_id: worker.share for worker in server.workers if worker.share is not None},
        hot_ratio=balance.hot_ratio if balance else None,
        cost=balance.cost if balance else None,
        interpreter_load=max(loads, default=None),
        interpreter_waits={
            worker.worker_id: worker.lock_waiters for worker in server.workers if worker.lock_waiters is not None
        },
        waits={state.state: state.threads for state in waits.states} if waits else {},
        residency={worker.worker_id: worker.residency for worker in server.workers if worker.residency},
        headroom=headroom.factor if headroom else None,
        limit=headroom.first if headroom else None,
        verdict=server.verdict,
    )

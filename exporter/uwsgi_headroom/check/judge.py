"""Watches a server for a while and judges it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.slots import name_slots
from uwsgi_headroom.analysis.verdict import Status, verdict_sentence, worst_status
from uwsgi_headroom.check.exit_status import UNKNOWN
from uwsgi_headroom.errors import ReadError, StatsError
from uwsgi_headroom.history.window import ROW_SECONDS
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.watch import Watch

_STOPPED_SECONDS = 5.0
_EXIT_STATUS: dict[Status, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNKNOWN}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found."""

    watch: Watch
    reading: Reading
    figures: Figures
    findings: list[Finding]

    @property
    def status(self) -> Status:
        """How the server is, in a word."""
        return worst_status(self.findings)

    @property
    def sentence(self) -> str:
        """How the server is, in a sentence."""
        return verdict_sentence(self.figures.headroom, self.findings, name_slots(self.reading))

    @property
    def exit_status(self) -> int:
        """What the command ends with."""
        return _EXIT_STATUS[self.status]


async def check(watch: Watch, seconds: float, progress: Callable[[float], None] = lambda _left: None) -> Verdict:
    """Watch a server for `seconds` and judge it. `progress` is called about once a second with the seconds left.

    Stopped meanwhile (Ctrl-Z), it begins anew: no figure is over a time in which nobody looked. Cancelled early, it
    judges what it has seen: cancelled once more, without the last read. Raises ReadError where there is nothing to
    judge, and asyncio.CancelledError if it is cancelled before the first reading.
    """
    await _read(watch)
    sampling = asyncio.create_task(watch.sample(), name="sampling")
    try:
        await _watch(watch, sampling, seconds, progress)
    finally:
        sampling.cancel()
    last, snapshot = await _read_last(watch)
    window = watch.history.window(seconds)
    if window is None:
        raise ReadError("timeout", "it was watched for too short a time: two readings, a second apart, are needed")
    figures = compute_figures(window, snapshot, last.host.cpus, watch.neighbours.others_follow)
    return Verdict(watch, last, figures, collect_findings(figures, last))


async def _watch(watch: Watch, sampling: asyncio.Task[None], seconds: float, progress: Callable[[float], None]) -> None:
    """Wait for `seconds` while the server is sampled, or until cancelled. Raises ReadError if sampling ends."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        while (now := loop.time()) < end:
            progress(end - now)
            await asyncio.wait({sampling}, timeout=min(ROW_SECONDS, end - now))
            if sampling.done():
                raise ReadError("internal", f"sampling ended ({type(sampling.exception()).__name__}): please report it")
            if loop.time() > now + _STOPPED_SECONDS:
                end = loop.time() + seconds
    except asyncio.CancelledError:
        return


async def _read_last(watch: Watch) -> tuple[Reading, Snapshot]:
    """Read the server, or take what was read last if cancelled meanwhile. Raises ReadError as `_read` does."""
    try:
        return await _read(watch)
    except asyncio.CancelledError:
        return _readable(watch.reader.outcome)


async def _read(watch: Watch) -> tuple[Reading, Snapshot]:
    """Read the server and return its document too. Raises ReadError where there is nothing to judge."""
    return _readable(await watch.reader.read())


def _readable(outcome: Reading | ReadError | None) -> tuple[Reading, Snapshot]:
    if outcome is None:
        raise ReadError("timeout", "interrupted before the first reading")
    if isinstance(outcome, ReadError):
        raise outcome
    snapshot = outcome.snapshot
    if not isinstance(snapshot, Snapshot):
        raise StatsError("not_uwsgi", f"this is the stats server of a uWSGI {snapshot.kind}; give a server's own")
    return outcome, snapshot

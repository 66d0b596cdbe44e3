"""Watches a server for a while and judges it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.verdict import Status, verdict_sentence, worst_status
from uwsgi_headroom.errors import ReadError, StatsError
from uwsgi_headroom.history.window import ROW_SECONDS
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.watch import Watch

UNREADABLE = 3
_STOPPED_SECONDS = 5.0
_EXIT_STATUS: dict[Status, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNREADABLE}


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
        return verdict_sentence(self.figures.headroom, self.findings)

    @property
    def exit_status(self) -> int:
        """What the command ends with."""
        return _EXIT_STATUS[self.status]


async def check(watch: Watch, seconds: float, progress: Callable[[float], None] = lambda _left: None) -> Verdict:
    """Watch a server for `seconds` and judge it. `progress` is called about once a second with the seconds left.

    Stopped meanwhile (Ctrl-Z), it begins anew: no figure is over a time in which nobody looked. Cancelled early, it
    judges what it has seen. Raises ReadError where there is nothing to judge.
    """
    loop = asyncio.get_running_loop()
    await _read(watch)
    sampling = asyncio.create_task(watch.sample())
    end = loop.time() + seconds
    with contextlib.suppress(asyncio.CancelledError):
        while (now := loop.time()) < end:
            progress(end - now)
            await asyncio.sleep(min(ROW_SECONDS, end - now))
            if loop.time() > now + _STOPPED_SECONDS:
                end = loop.time() + seconds
    sampling.cancel()
    last, snapshot = await _read(watch)
    window = watch.history.window(seconds)
    if window is None:
        raise ReadError("timeout", "it was watched for too short a time: two readings, a second apart, are needed")
    figures = compute_figures(window, snapshot, last.host.cpus)
    return Verdict(watch, last, figures, collect_findings(figures, last))


async def _read(watch: Watch) -> tuple[Reading, Snapshot]:
    """Read the server and return its document too. Raises ReadError where there is nothing to judge."""
    outcome = await watch.reader.read()
    if isinstance(outcome, ReadError):
        raise outcome
    snapshot = outcome.snapshot
    if not isinstance(snapshot, Snapshot):
        raise StatsError("not_uwsgi", f"this is the stats server of a uWSGI {snapshot.kind}; give a server's own")
    return outcome, snapshot

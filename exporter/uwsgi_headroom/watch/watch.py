"""Watches one server: turns its readings into totals, a history and a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import (
    DEFAULT_SAMPLES_PER_SECOND,
    SIZE_CAP,
    STUCK_SECONDS,
    TIMEOUT_SECONDS,
)
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.route_hour import RouteHour
from uwsgi_headroom.history.totals import copy_totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.journal.recorder import Recorder
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.source import Address
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.store.record import Levels
from uwsgi_headroom.watch.cpu_budget import CpuBudget
from uwsgi_headroom.watch.judge import Judge
from uwsgi_headroom.watch.loop_lag import LoopLag
from uwsgi_headroom.watch.minutes import MinuteCutter, find_levels
from uwsgi_headroom.watch.neighbour_slices import NeighbourSlices
from uwsgi_headroom.watch.objective_watch import ObjectiveWatch
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import Pace, sample
from uwsgi_headroom.watch.reader import Reader
from uwsgi_headroom.watch.route_namer import RouteNamer

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter

FRESH_SECONDS = 5.0
"""How long a server counts as up after a successful read, in seconds: in normal operation uWSGI's master is silent for
1 to 3 s, while it ends a worker or reloads."""

_FRESH_INTERVALS = 3
"""A server also counts as up for this many intervals, if that is longer."""

_GONE: frozenset[Reason] = frozenset({"refused", "not_found"})
"""Reasons that prove that nothing listens there."""

State = Literal["up", "stale", "down"]
"""up: read a moment ago; down: cannot be read, `Watch.error` says why; stale: not read for a while, for no known
reason."""


class Watch:
    """A server's reader, pace, totals, history and journal. Only `sample` reads, on its own timer; beside it, `judge`
    judges for the journal.

    `reading` is the last successful one, None before the first; `reader.outcome` is the result of the last attempt;
    `writer` writes the history that lasts, None without one; `stuck_seconds` is the age from which on a request counts
    as stuck.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, passed by keyword
        self,
        name: str,
        address: Address,
        *,
        timeout: float = TIMEOUT_SECONDS,
        size_cap: int = SIZE_CAP,
        samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND,
        slo: Slo | None = None,
        stuck_seconds: float = STUCK_SECONDS,
        host: Host | None = None,
        routes: RouteNamer | None = None,
        clock: Clock | None = None,
        lag: LoopLag | None = None,
        writer: HistoryWriter | None = None,
        budget: CpuBudget | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._clock = clock or Clock()
        self.reader = Reader(
            name,
            address,
            timeout=timeout,
            size_cap=size_cap,
            clock=self._clock,
            host=host,
            routes=routes,
            on_outcome=self._record,
            **({"on_cpu": budget.note} if budget else {}),
        )
        self.pace = Pace(samples_per_second, budget=budget)
        self.slo = slo
        self.stuck_seconds = stuck_seconds
        self.integrals = Integrals((slo.threshold,) if slo else ())
        self._objective = ObjectiveWatch(slo, self.integrals.response_times.history) if slo else None
        self.history = History()
        self.routes = RouteHour()
        self.neighbours = NeighbourSlices()
        self.recorder = Recorder()
        self.writer = writer
        self._minutes = (
            MinuteCutter(name, writer, self.integrals, self.routes, self.recorder.journal) if writer else None
        )
        self._outcome_at = float("-inf")
        self.reading: Reading | None = None
        self._lag = lag or LoopLag(self._clock.monotonic)
        self.judge = Judge(self, self._clock.monotonic, **({"on_cpu": budget.note} if budget else {}))

    async def sample(self) -> None:
        """Read the server on its own timer, and judge it beside that, until cancelled."""
        judging = asyncio.create_task(self.judge.run(), name=f"judge {self.name}")
        try:
            await sample(self.reader, self.pace, self._lag)
        finally:
            judging.cancel()

    @property
    def state(self) -> State:
        """Whether the server is up now."""
        outcome = self.reader.outcome
        failed = isinstance(outcome, ReadError)
        if isinstance(outcome, ReadError) and outcome.reason in _GONE:
            return "down"
        if self._is_fresh(self._clock.monotonic()):
            return "up"
        return "down" if failed else "stale"

    def _is_fresh(self, now: float) -> bool:
        fresh_seconds = max(FRESH_SECONDS, _FRESH_INTERVALS * self.pace.interval)
        return self.reading is not None and now - self.reading.at <= fresh_seconds

    @property
    def error(self) -> ReadError | None:
        """Why the server is down; None while it is not."""
        outcome = self.reader.outcome
        return outcome if isinstance(outcome, ReadError) and self.state == "down" else None

    def observe(self, windows: Sequence[float]) -> Observation:
        """Return the current observation, with figures of these windows (in seconds). Does no I/O.

        An internal error becomes a failed observation.
        """
        if self.reading is None or self.state != "up":
            return self.failed_observation(self.error or ReadError("timeout", "not read for a while"))
        try:
            figures = self.figures(self.reading, windows)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not affect others
            return self.failed_observation(self.reader.fault(error))
        return self._observation(self.reading, figures)

    def failed_observation(self, error: ReadError) -> Observation:
        """Return the observation of a server that failed with this error."""
        return self._observation(error, [])

    def _observation(self, outcome: Reading | ReadError, figures: list[Figures]) -> Observation:
        return Observation(
            name=self.name,
            address=str(self.address),
            outcome=outcome,
            read_errors=self.reader.errors,
            totals=copy_totals(self.integrals.totals),
            pace=self.pace,
            figures=figures,
            others_follow=self.neighbours.others_follow,
            events=dict(self.recorder.journal.counts),
            slo=self.slo,
            stuck_seconds=self.stuck_seconds,
        )

    def figures(self, reading: Reading, windows: Sequence[float]) -> list[Figures]:
        """Compute the figures of each window (seconds) with two rows of history; none for an emperor or a router."""
        server = describe_server(reading)
        if server is None:
            return []
        windows_known = (self.history.window(seconds) for seconds in windows)
        others_follow = self.neighbours.others_follow
        every = [
            compute_figures(
                window,
                server,
                others_follow,
                self.response_times(window),
                self.routes.of(window),
                self.stuck_seconds,
            )
            for window in windows_known
            if window
        ]
        if not self._objective:
            return every
        return [
            replace(
                figures,
                objective=self._objective.judge(
                    figures.flow, self.pace.interval, threads_known=figures.configured is not None
                ),
            )
            for figures in every
        ]

    def response_times(self, window: Window) -> ResponseTimeWindow | None:
        """Return the requests by response time in a window."""
        return self.integrals.response_times.history.window(window.until - window.seconds, window.until)

    def _record(self, at: float, outcome: Reading | ReadError) -> None:
        self._outcome_at = at
        if isinstance(outcome, ReadError):
            self.integrals.miss(at)
        else:
            self.reading = outcome
            if isinstance(outcome.snapshot, Snapshot):
                self.integrals.add(outcome, self.pace.longest_step)
                self.history.add(outcome.at, self.integrals.totals)
                self.routes.add(outcome.at, self.integrals.totals.routes)
                self.neighbours.update(self.history)
        try:
            self._keep_journal(at, outcome)
            if self._minutes:
                self._minutes.note(at, self._clock.epoch(), self._levels)
        except Exception as error:  # noqa: BLE001 - an error in the journal must not lose a sample
            self.reader.fault(error)

    def finish_minute(self) -> None:
        """Pass what there is of the present minute to the history that lasts: this server is no longer watched."""
        if self._minutes and self.reading:
            self._minutes.finish(self._outcome_at, self._clock.epoch(), self._levels)

    def _levels(self) -> Levels:
        return find_levels(self.reading, self.neighbours.others_follow, self.slo)

    def _keep_journal(self, at: float, outcome: Reading | ReadError) -> None:
        self.recorder.begin(outcome.time if isinstance(outcome, Reading) else self._clock.epoch())
        if isinstance(outcome, ReadError):
            if outcome.reason in _GONE or not self._is_fresh(at):
                self.recorder.down(self._clock.epoch(), outcome)
            return
        self.recorder.read(outcome, self.integrals.totals)

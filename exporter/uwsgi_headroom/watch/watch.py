"""Watches one server: turns its readings into totals, a history and a journal.

Beside `Watch` stand the parts that compute something from the history now and then, rather than at each sample:

* `Judge` judges the server every few seconds for its journal, in a task of its own: an error there loses no sample.
* `NeighbourSlices` judges whether CPU use by others follows the server's requests, from one-minute slices.
* `BackendWatch` keeps slices of a few seconds that show whether a backend is saturated.
* `CodeWatch` (a module of its own) looks at the lines of code of the busy threads, if that is on.
* `ObjectiveWatch` judges a service level objective, once for each batch of response times.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec

from uwsgi_headroom.analysis import backends
from uwsgi_headroom.analysis.backends import BackendSlices
from uwsgi_headroom.analysis.capacity import SLICE_SECONDS, extract_pair, follow_requests
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import BURN_WINDOWS, ObjectiveFigures, find_load_limit, judge_objective
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.analysis.worker_states import name_slots
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import (
    DEFAULT_SAMPLES_PER_SECOND,
    DEFAULT_WINDOWS,
    HISTORY_SECONDS,
    SIZE_CAP,
    STUCK_SECONDS,
    TIMEOUT_SECONDS,
)
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.destinations import DestinationHour
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.route_time import RouteHour
from uwsgi_headroom.history.totals import copy_totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.journal.recorder import JUDGE_SECONDS, Recorder
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import LogRecord, Outage, ServerRecord
from uwsgi_headroom.response_times.queue_waits import count_all
from uwsgi_headroom.response_times.totals import BatchHistory, ResponseTimeWindow, SlowRequests
from uwsgi_headroom.source import Address, Http, Tcp
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.store.record import Levels
from uwsgi_headroom.uwsgi_log.log import Batch, UwsgiLog
from uwsgi_headroom.watch.code_watch import CodeSetting, CodeWatch
from uwsgi_headroom.watch.holding import HeldFindings
from uwsgi_headroom.watch.minutes import MinuteCutter, find_levels
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import GONE, CpuBudget, LoopLag, Pace, sample
from uwsgi_headroom.watch.reader import Reader, RouteNamer

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter

FRESH_SECONDS = 5.0
"""How long a server counts as up after a successful read, in seconds: in normal operation uWSGI's master is silent for
1 to 3 s, while it ends a worker or reloads."""

_FRESH_INTERVALS = 3
"""A server also counts as up for this many intervals, if that is longer."""

State = Literal["up", "stale", "down"]
"""up: read a moment ago; down: cannot be read, `Watch.error` says why; stale: not read for a while, for no known
reason."""


class Watch:
    """A server's reader, pace, totals, history and journal. Only `sample` reads, on its own timer; beside it, `judge`
    judges for the journal, and `code` looks at the lines of code. A `LogReader` reads its log, if it has one.

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
        log: str = "",
        code: CodeSetting | None = None,
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
        self.integrals = Integrals((slo.threshold,), slo.threshold) if slo else Integrals()
        self._objective = ObjectiveWatch(slo, self.integrals.response_times.history) if slo else None
        self.history = History()
        self.routes = RouteHour()
        self.destinations = DestinationHour()
        self.neighbours = NeighbourSlices()
        self.backends = BackendWatch()
        self.recorder = Recorder()
        self.writer = writer
        self._minutes = (
            MinuteCutter(name, writer, self.integrals, self.routes, self.recorder.journal) if writer else None
        )
        self.log: UwsgiLog | None = None
        self.set_log(log)
        self._outcome_at = float("-inf")
        self._failing_since: float | None = None
        self._is_down = False
        self._outage: tuple[float, Outage] | None = None  # with the monotonic time of its end
        self.holds_findings = True
        self._held: dict[float, HeldFindings] = {}  # by the length of the window
        self.reading: Reading | None = None
        self._lag = lag or LoopLag(self._clock.monotonic)
        self.judge = Judge(self, self._clock.monotonic, **({"on_cpu": budget.note} if budget else {}))
        self._budget = budget
        self._is_sampled = False
        self._looking: asyncio.Task[NoReturn] | None = None
        self.code: CodeWatch | None = None
        self.set_code(code)

    def set_log(self, path: str) -> None:
        """Read uWSGI's log at this path from here on; "" for none."""
        if path == (self.log.path if self.log else ""):
            return
        self.log = UwsgiLog(path, reads_over_tcp=isinstance(self.address, Tcp | Http)) if path else None

    def set_code(self, setting: CodeSetting | None) -> None:
        """Look at the server's code in this way from here on; None: do not."""
        if setting == (self.code.setting if self.code else None):
            return
        self.code = CodeWatch(self, setting, self._clock.monotonic, self._budget) if setting else None
        if self._looking:
            self._looking.cancel()
        self._looking = self._begin_looking() if self._is_sampled else None

    def take_log(self, batch: Batch) -> None:
        """Take what was read of the log, and add it to the journal."""
        if self.log:
            self.log.take(batch, self._clock.monotonic(), partial(self.recorder.add_log_message, self._clock.epoch()))

    async def sample(self) -> None:
        """Read the server on its own timer, and judge it and look at its code beside that, until cancelled."""
        judging = asyncio.create_task(self.judge.run(), name=f"judge {self.name}")
        self._is_sampled = True
        self._looking = self._begin_looking()
        try:
            await sample(self.reader, self.pace, self._lag)
        finally:
            self._is_sampled = False
            judging.cancel()
            if self._looking:
                self._looking.cancel()

    def _begin_looking(self) -> asyncio.Task[NoReturn] | None:
        return asyncio.create_task(self.code.run(), name=f"look at {self.name}") if self.code else None

    @property
    def state(self) -> State:
        """Whether the server is up now."""
        outcome = self.reader.outcome
        failed = isinstance(outcome, ReadError)
        if isinstance(outcome, ReadError) and outcome.reason in GONE:
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
            log=self.log.totals if self.log else None,
            code=self.code.history.totals.copy() if self.code else None,
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
                self._with_log(server, reading, window),
                others_follow,
                self.response_times(window),
                self.routes.of(window),
                self.stuck_seconds,
                self.outage_within(window),
                self.backends.slices,
                destinations=self.destinations.of(window),
                queue_waits=self.queue_waits(window),
                code=self.code.history.of(window.until - window.seconds, window.until) if self.code else None,
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

    def _with_log(self, server: ServerRecord, reading: Reading, window: Window) -> ServerRecord:
        """Add what the log said in a window, or how to read it."""
        if self.log:
            log = self.log.record(window.until - window.seconds, window.until)
        elif path := reading.host.setup.log_path if reading.host.setup else "":
            log = LogRecord(off="it is not configured", turn_on=f"--log {shlex.quote(f'{self.name}={path}')}")
        else:
            return server
        return msgspec.structs.replace(server, log=log)

    def judged(self, figures: Figures, reading: Reading) -> list[Finding]:
        """Return the findings about a window that ends with this reading, and those that were seen a moment before,
        unless this watch judges only once (`holds_findings`)."""
        if not self.holds_findings:
            return collect_findings(figures)
        held = self._held.setdefault(figures.window.asked, HeldFindings())
        return held.hold(figures, collect_findings(figures), reading.at, reading.time)

    def outage_within(self, window: Window) -> Outage | None:
        """Return the last outage, if it ended in the time that was asked for."""
        if self._outage is None or self._outage[0] < window.until - window.asked:
            return None
        return self._outage[1]

    def seconds_up(self, now: float) -> float:
        """Return how long it is since the last outage; infinite without one."""
        return now - self._outage[0] if self._outage else float("inf")

    def response_times(self, window: Window) -> ResponseTimeWindow | None:
        """Return the requests by response time in a window."""
        return self.integrals.response_times.history.window(window.until - window.seconds, window.until)

    def queue_waits(self, window: Window) -> ResponseTimeWindow | None:
        """Return the requests of a window by how long they waited in a listen queue; None if none was seen waiting."""
        requests = sum([worker.requests for worker in window.workers])
        history = self.integrals.response_times.wait_history
        return count_all(history, window.until - window.seconds, window.until, requests)

    def _record(self, at: float, outcome: Reading | ReadError) -> None:
        if isinstance(outcome, Reading) and outcome.partial:
            self.integrals.add_partial(outcome)
            return
        self._outcome_at = at
        if isinstance(outcome, ReadError):
            self.integrals.miss(at)
            self._note_failure(at, outcome)
        else:
            before, self.reading = self.reading, outcome
            if isinstance(outcome.snapshot, Snapshot):
                self.integrals.add(outcome, self.pace.longest_step)
                self.history.add(outcome.at, self.integrals.totals)
                self._note_success(before, outcome)
                self.routes.add(outcome.at, self.integrals.totals.routes)
                self.destinations.add(outcome, self.pace.longest_step)
                self.neighbours.update(self.history)
                if self.integrals.totals.waits:
                    self.backends.update(self.history)
        try:
            if self.log and not isinstance(outcome, ReadError):
                self.log.note(outcome)
            self._keep_journal(at, outcome)
            if self._minutes:
                self._minutes.note(at, self._clock.epoch(), self._levels)
        except Exception as error:  # noqa: BLE001 - an error in the journal must not lose a sample
            self.reader.fault(error)

    def _note_failure(self, at: float, error: ReadError) -> None:
        if self._failing_since is None:
            self._failing_since = at
        self._is_down |= error.reason in GONE or not self._is_fresh(at)

    def _note_success(self, before: Reading | None, reading: Reading) -> None:
        """Note the end of an outage. While its stats server alone could not be read, as during a reload, the same
        master has gone on."""
        since, was_down = self._failing_since, self._is_down
        self._failing_since, self._is_down = None, False
        if before is None or since is None or not was_down or reading.has_same_master(before):
            return
        self._outage = reading.at, Outage(max(0.0, reading.at - since), reading.time)
        self.history.end_outage(reading.at)

    def finish_minute(self) -> None:
        """Pass what there is of the present minute to the history that lasts: this server is no longer watched."""
        if self._minutes and self.reading:
            self._minutes.finish(self._outcome_at, self._clock.epoch(), self._levels)

    def _levels(self) -> Levels:
        return find_levels(self.reading, self.neighbours.others_follow, self.slo)

    def _keep_journal(self, at: float, outcome: Reading | ReadError) -> None:
        self.recorder.begin(outcome.time if isinstance(outcome, Reading) else self._clock.epoch())
        if isinstance(outcome, ReadError):
            if outcome.reason in GONE or not self._is_fresh(at):
                self.recorder.down(self._clock.epoch(), outcome)
            return
        self.recorder.read(outcome, self.integrals.totals)


_LEAST_SECONDS = 10.0
"""Least history, in seconds, before a server is judged for its journal."""

_SAMPLES = 10
"""New samples after which a server is judged again, where they are more than half a second apart."""

_MOST_CPU = 0.001
"""Largest share of a CPU that judging one server may take."""

_LOOK_SECONDS = 1.0
"""Pause while a judgement is due but there is nothing new to judge."""


class Judge:
    """Judges the readings of a watch for its journal: every JUDGE_SECONDS, or less often if that takes long or the
    samples are far apart. on_cpu is called with the CPU seconds that each judgement took."""

    def __init__(
        self, watch: Watch, monotonic: Callable[[], float], on_cpu: Callable[[float], None] = lambda _seconds: None
    ) -> None:
        self._watch = watch
        self._monotonic = monotonic
        self._on_cpu = on_cpu
        self._due_at = self._judged_at = float("-inf")

    async def run(self) -> NoReturn:
        """Judge the server whenever it is due, until cancelled."""
        while True:
            self.judge_if_due()
            await asyncio.sleep(max(_LOOK_SECONDS, self._due_at - self._monotonic()))

    def judge_if_due(self) -> None:
        """Judge the last reading if that is due, unless it was judged before or the server is not up. An internal error
        is noted as the server's fault."""
        watch, now = self._watch, self._monotonic()
        reading = watch.reading
        if now < self._due_at or watch.history.seconds < _LEAST_SECONDS:
            return
        if watch.seconds_up(now) < _LEAST_SECONDS:
            return
        if reading is None or reading.at <= self._judged_at or watch.state != "up":
            return
        self._judged_at = reading.at
        began = time.thread_time()
        try:
            self._judge(reading)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not end its judging
            watch.reader.fault(error)
        spent = time.thread_time() - began
        self._on_cpu(spent)
        self._due_at = now + max(JUDGE_SECONDS, _SAMPLES * watch.pace.interval, spent / _MOST_CPU)

    def _judge(self, reading: Reading) -> None:
        for figures in self._watch.figures(reading, DEFAULT_WINDOWS[:1]):
            findings = self._watch.judged(figures, reading)
            sentence = verdict_sentence(figures.headroom, findings, name_slots(figures.server), figures.usable)
            self._watch.recorder.verdicts.judge(reading.time, worst_status(findings), sentence, findings)


class NeighbourSlices:
    """Takes each slice from a history once, when the slice is over. others_follow: None while unknown."""

    def __init__(self) -> None:
        self.others_follow: bool | None = None
        self._pairs: deque[tuple[float, float]] = deque(maxlen=int(HISTORY_SECONDS / SLICE_SECONDS))
        self._new = _NewSlices(SLICE_SECONDS)

    def update(self, history: History) -> None:
        """Take the slices that have ended since the last call. Call this after each sample."""
        if windows := self._new.take(history):
            self._pairs.extend(filter(None, map(extract_pair, windows)))
            self.others_follow = follow_requests(self._pairs)


class BackendWatch:
    """Takes each slice from a history once, when the slice is over."""

    def __init__(self) -> None:
        self.slices = BackendSlices()
        self._new = _NewSlices(backends.SLICE_SECONDS)

    def update(self, history: History) -> None:
        """Take the slices that have ended since the last call. Call this after each sample."""
        for window in self._new.take(history):
            self.slices.add(window)


class _NewSlices:
    """Returns each slice of a history once. seconds: the length of a slice."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._newest: object = None
        self._until = float("-inf")

    def take(self, history: History) -> list[Window]:
        """The slices that have ended since the last call."""
        newest = history.newest_slice(self._seconds)
        if newest == self._newest:
            return []
        self._newest = newest
        windows = list(history.slices(self._seconds, self._until, float("inf")))
        if windows:
            self._until = windows[-1].until
        return windows


_MINUTE = 60.0


class ObjectiveWatch:
    """The objective of one server."""

    def __init__(self, slo: Slo, history: BatchHistory) -> None:
        self._slo = slo
        self._history = history
        self._ended = 0.0
        self._windows: list[SlowRequests] = []
        self._minutes_ended = 0.0
        self._minutes: list[SlowRequests] = []

    def judge(self, flow: Flow, interval: float, *, threads_known: bool) -> ObjectiveFigures:
        """Judge the objective as of the last batch. flow: of the present window. interval: seconds between two samples.
        threads_known: whether uWSGI lists its threads."""
        if not threads_known:
            return ObjectiveFigures(
                self._slo, (), "not judged: uWSGI runs with stats-no-cores, which hides the threads"
            )
        ended = self._history.ended
        if ended != self._ended:
            self._ended = ended
            self._windows = self._list([(ended - seconds, ended) for seconds in BURN_WINDOWS])
        if not self._windows:
            return ObjectiveFigures(self._slo, (), "not judged yet")
        if ended - self._minutes_ended >= _MINUTE:
            self._minutes_ended = ended
            ends = [ended - _MINUTE * number for number in range(int(HISTORY_SECONDS / _MINUTE))]
            self._minutes = self._list([(end - _MINUTE, end) for end in ends])
        load_limit = find_load_limit(self._minutes, flow.throughput)
        return judge_objective(self._slo, self._windows, interval, load_limit)

    def _list(self, times: Sequence[tuple[float, float]]) -> list[SlowRequests]:
        windows = (self._history.slow_requests(start, until) for start, until in times)
        return [window for window in windows if window]

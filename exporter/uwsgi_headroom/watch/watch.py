"""Watches one server: turns its readings into totals, a history and a journal."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn

from msgspec.structs import replace

from uwsgi_headroom import source
from uwsgi_headroom.analysis import backends
from uwsgi_headroom.analysis.backends import BackendSlices
from uwsgi_headroom.analysis.deploys.explanation import Side
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_emperor_findings, collect_findings, correct_headroom
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.analysis.routes import compute_routes
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND, JOURNAL, SIZE_CAP, STUCK_SECONDS, TIMEOUT_SECONDS
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import BlindError, NoSocketError, NotStartedError, ReadError, StillRunsError
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.named_hours import DestinationHour, RouteHour
from uwsgi_headroom.history.response_times.queue_waits import count_all
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.totals import copy_totals
from uwsgi_headroom.history.window import CodeWindow, Window
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.reading import Reading, describe_emperor, describe_server
from uwsgi_headroom.record import UNKNOWN, LogRecord, Outage, ServerRecord
from uwsgi_headroom.source import Address, ProcessOfApp
from uwsgi_headroom.stats import EmperorSnapshot, Snapshot
from uwsgi_headroom.store.record import Levels
from uwsgi_headroom.uwsgi_log.log import LogBatch, UwsgiLog
from uwsgi_headroom.uwsgi_log.messages import advise, describe
from uwsgi_headroom.watch import judging
from uwsgi_headroom.watch.code_watch import CodeSetting, CodeWatch
from uwsgi_headroom.watch.deploy_watch import DeployWatch
from uwsgi_headroom.watch.kept_history import MinuteCutter, find_levels
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import GAP_SECONDS, CpuBudget, LoopLag, Pace, Sampler
from uwsgi_headroom.watch.reader import GONE, Reader, RouteNamer, WorkerPlaces
from uwsgi_headroom.watch.recorder import Recorder
from uwsgi_headroom.watch.silence import SILENT, SilentServer, Work

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter

FRESH_SECONDS = 5.0
"""How long a server counts as up after a successful read, in seconds: uWSGI's master is normally silent for 1 to 3 s
while it ends a worker or reloads."""

_FRESH_INTERVALS = 3
"""A server also counts as up for this many intervals, if that is longer."""

_EQUAL_SECONDS = 1.0
"""The longest time that readings of a server at rest wait to be added."""

State = Literal["up", "stale", "down"]
"""up: read a moment ago; down: cannot be read, `Watch.error` says why; stale: not read for a while, for no known
reason."""


QUIET_SECONDS, QUIET_BEFORE = 120.0, 600.0
"""Without a request for so long, the rate of the time before, as long at least, is looked at."""


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
        room: source.Room | None = None,
        places: WorkerPlaces | None = None,
        log: str = "",
        code: CodeSetting | None = None,
        make_other: Callable[[ProcessOfApp], tuple[Watch, Work]] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._clock = clock or Clock()
        self.pace = Pace(samples_per_second, budget=budget)
        self.reader = Reader(
            name,
            address,
            timeout=timeout,
            size_cap=size_cap,
            clock=self._clock,
            host=host,
            routes=routes,
            on_outcome=self._record,
            room=room,
            places=places,
            on_cpu=self.pace.note_cpu,
        )
        self.slo = slo
        self.stuck_seconds = stuck_seconds
        self._integrals = Integrals(slo.threshold if slo else None)
        self._objective = judging.ObjectiveWatch(slo, self._integrals.response_times.history) if slo else None
        self._history = History()
        self._equal: list[Reading] = []  # equal readings, not added yet
        self.routes = RouteHour()
        self.destinations = DestinationHour()
        self.other_programs = judging.OtherPrograms()
        self.limits = judging.LimitHour()
        self.backends = BackendSlices()
        self._backend_slices = judging.NewSlices(backends.SLICE_SECONDS)
        self.recorder = Recorder()
        self.deploys = DeployWatch(self.recorder.journal, self._explain_last, self._code_of, is_restored=writer is None)
        self.writer = writer
        parts = self._integrals, self.routes, self.recorder.journal
        self._minutes = MinuteCutter(name, writer, *parts) if writer else None
        self.log: UwsgiLog | None = None
        self.set_log(log)
        self.finds_log = False
        self._outcome_at = float("-inf")
        self._failing_since: float | None = None
        self._is_down = False
        self._outage: tuple[float, Outage | None] = float("-inf"), None  # with the monotonic time of its end
        self.holds_findings = True
        self.reading: Reading | None = None
        self._lag = lag or LoopLag(self._clock.monotonic)
        self.judge = judging.Judge(self._find_judgeable, self._judge, self.reader, self.pace, self._clock)
        self._is_sampled = False
        self._looking: asyncio.Task[NoReturn] | None = None
        self.code: CodeWatch | None = None
        self.set_code(code)
        self._make_other = make_other
        self._served = 0, float("inf")  # requests, and when their number grew last
        self._empty_at: deque[float] = deque(maxlen=1000)  # of empty stats
        self.silent: SilentServer | None = None  # the same in the watch of the kernel's figures

    def set_log(self, path: str) -> None:
        """Read uWSGI's log at this path from here on; "" for none."""
        if self.log is None or self.log.path != path:
            self.log = UwsgiLog(path) if path else None

    def _find_log(self, reading: Reading) -> None:
        """Read the log that can be seen, if it is a file. One deleted, or in a container, has no path here."""
        pid, setup = reading.host.master_pid, reading.host.setup
        if not pid or setup in (None, UNKNOWN) or setup.log_path.startswith(JOURNAL):
            return
        path = f"/proc/{pid}/fd/2"
        with suppress(OSError):
            if setup.log_path or re.match("/(?!dev/)", os.readlink(path)):
                self.log = UwsgiLog(setup.log_path or path, pid)

    def set_code(self, setting: CodeSetting | None) -> None:
        """Look at the server's code in this way from here on; None: do not."""
        if self.code and self.code.setting == setting:
            return
        parts = self.reader, self.pace, lambda: self.state == "up"
        self.code = CodeWatch(*parts, setting, self._clock.monotonic) if setting else None
        self._end_looking()
        self._begin_looking()

    def take_log(self, batch: LogBatch) -> None:
        if self.log:
            self.log.take(batch, self._clock.monotonic(), partial(self.recorder.add_log_message, self._clock.epoch()))

    def explain_error(self, error: ReadError) -> ReadError:
        """The error; where nothing listens, with what uWSGI's log says of the last start."""
        is_gone = error.reason in GONE and not isinstance(error, StillRunsError | NoSocketError)
        if is_gone and self.log and (start := self.log.explain_start(self._clock.monotonic())):
            return NotStartedError(error.reason, f"uWSGI's log says that {describe(start)}", advise(start))
        return error

    @property
    def integrals(self) -> Integrals:
        self._add_equal()
        return self._integrals

    @property
    def history(self) -> History:
        self._add_equal()
        return self._history

    async def sample(self) -> None:
        """Read the server on its own timer, and judge it and look at its code beside that, until cancelled."""
        self._is_sampled = True
        self._begin_looking()
        try:
            await Sampler(self.reader, self.pace, self._lag, self.judge.judge_if_due).run()
        finally:
            self._is_sampled = False
            self._end_looking()
            self._end_silence()

    def _begin_looking(self) -> None:
        if self.code and self._is_sampled:
            self._looking = asyncio.create_task(self.code.run(), name=f"look at {self.name}")

    def _end_looking(self) -> None:
        if self._looking:
            self._looking.cancel()
        self._looking = None

    @property
    def state(self) -> State:
        error = self.reader.error
        if self._is_fresh(self._clock.monotonic()) and (error is None or error.reason not in GONE):
            return "up"
        return "down" if error else "stale"

    def _is_fresh(self, now: float) -> bool:
        fresh_seconds = max(FRESH_SECONDS, _FRESH_INTERVALS * self.pace.interval)
        return self.reading is not None and now - self.reading.at <= fresh_seconds

    @property
    def error(self) -> ReadError | None:
        """Why the server is down; None while it is not."""
        error = self.reader.error if self.state == "down" else None
        return error and self.explain_error(error)

    @property
    def shown(self) -> Watch:
        """The watch whose figures people see: while the stats do not answer but requests are served, the kernel's."""
        return self.silent.watch if self.silent and self.silent.is_serving else self

    def observe(self, windows: Sequence[float]) -> Observation:
        """The current observation, with figures of these windows (in seconds). Does no I/O.

        An internal error becomes a failed observation.
        """
        if self.shown is not self:
            return replace(
                self.shown.observe(windows),
                address=str(self.address),
                read_errors=self.reader.errors,
                totals=copy_totals(self.integrals.totals),
                pace=self.pace,
                events=dict(self.recorder.journal.counts),
                down_since=self.recorder.down_since,
                log=self.log and self.log.totals,
                is_silent=True,
            )
        if self.reading is None or self.state != "up":
            return self.failed_observation(self.error or ReadError("timeout", "not read for a while"))
        try:
            figures = self.figures(self.reading, windows)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not affect others
            return self.failed_observation(self.reader.fault(error))
        return self._observation(self.reading, figures)

    def failed_observation(self, error: ReadError) -> Observation:
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
            others_follow=self.other_programs.others_follow,
            events=dict(self.recorder.journal.counts),
            slo=self.slo,
            stuck_seconds=self.stuck_seconds,
            log=self.log.totals if self.log else None,
            code=self.code.history.totals.copy() if self.code else None,
            verdict=self.recorder.verdicts.current,
            alerts=self.recorder.hold.alerts(self._clock.monotonic()),
            judged_at=self.recorder.hold.judged_at,
            loaded_at=self.recorder.loaded_at,
            down_since=self.recorder.down_since,
            deploy_worse=self.deploys.find_worse(self._clock.monotonic()),
        )

    def figures(self, reading: Reading, windows: Sequence[float]) -> list[Figures]:
        """The figures of each window (seconds) with two rows of history; none for an emperor or a router."""
        server = describe_server(reading)
        if server is None:
            return []
        return [self._figures(server, reading, window) for window in map(self.history.window, windows) if window]

    def know(self, server: ServerRecord, reading: Reading, window: Window) -> Known:
        """Return what the judge is given of a window that ends with this reading. server: the reading, described."""
        times = self.response_times(window)
        empty = GAP_SECONDS * sum(window.start <= at <= window.until for at in self._empty_at)
        server = replace(server, silence=self.silent and self.silent.record, empty_seconds=empty)
        return Known(
            window,
            self._with_log(server, reading, window),
            self.other_programs.others_follow,
            times,
            self.routes.of(window),
            self.stuck_seconds,
            self.outage_within(window),
            self.backends,
            self.destinations.of(window),
            self._queue_waits(window, times),
            self._code_of(window),
            self._find_quiet(window.until),
        )

    def _find_quiet(self, now: float) -> tuple[float, float] | None:
        """For how long no request has come, and the rate in the time before, at least as long."""
        idle = now - self._served[1]
        before = idle >= QUIET_SECONDS and self.history.window(max(idle, QUIET_BEFORE), self._served[1])
        return (idle, sum([each.requests for each in before.workers]) / before.seconds) if before else None

    def _figures(self, server: ServerRecord, reading: Reading, window: Window) -> Figures:
        figures = correct_headroom(compute_figures(self.know(server, reading, window)))
        if not self._objective:
            return figures
        is_known = figures.configured is not None
        return replace(
            figures, objective=self._objective.judge(figures.flow, self.pace.interval, threads_known=is_known)
        )

    def _code_of(self, window: Window) -> CodeWindow | None:
        return self.code.history.of(window.start, window.until) if self.code else None

    def _with_log(self, server: ServerRecord, reading: Reading, window: Window) -> ServerRecord:
        """Add what the log said in a window, or how to read it."""
        if self.log:
            log = self.log.record(window.start, window.until)
        elif (path := reading.host.setup.log_path if reading.host.setup else "") and not self.silent:
            log = LogRecord(off="it is not configured", turn_on=f"--uwsgi-log {shlex.quote(f'{self.name}={path}')}")
        else:
            return server
        return replace(server, log=log)

    def judged(self, figures: Figures, reading: Reading) -> list[Finding]:
        """Return the findings about a window that ends with this reading. Of the window that alerts are about, those
        that were seen a moment before as well, unless this watch judges only once (`holds_findings`)."""
        found = collect_findings(figures)
        if not self.holds_findings or figures.window.asked != judging.JUDGED_WINDOW:
            return found
        return self.recorder.hold.show(found, reading.at, reading.time, is_whole=judging.is_whole(figures.window))

    def _find_judgeable(self) -> Reading | None:
        """The last reading, if the server is up, and was for long enough."""
        reading, up_seconds = self.reading, self._clock.monotonic() - self._outage[0]
        if reading is None or self.state != "up" or up_seconds < judging.LEAST_SECONDS:
            return None
        if isinstance(reading.snapshot, Snapshot) and self._history.seconds < judging.LEAST_SECONDS:
            return None
        return reading

    def judge_emperor(self, reading: Reading) -> list[Finding]:
        """Return the findings about an emperor, none about others."""
        if not isinstance(reading.snapshot, EmperorSnapshot):
            return []
        if not self.log:
            return collect_emperor_findings(describe_emperor(reading.snapshot))
        said = self.log.record(reading.at - judging.JUDGED_WINDOW, reading.at).messages.get("vassal_refused")
        start = self.log.explain_start(reading.at)
        return collect_emperor_findings(describe_emperor(reading.snapshot, said.place if said else "", start))

    def _judge(self, reading: Reading) -> None:
        for figures in self.figures(reading, (judging.JUDGED_WINDOW,)):
            self.limits.note(reading.at, figures.headroom.limited_by)
            judging.judge_reading(self.recorder, reading, figures)
        if not isinstance(reading.snapshot, Snapshot):
            self.recorder.hold.look(self.judge_emperor(reading), reading.at, reading.time, is_whole=True)
        self.deploys.judge_if_due(reading.at, reading.time)

    def explain(self, window: Window) -> Side:
        times = compute_percentiles(self.response_times(window), compute_flow(window).response_time)
        return Side(window, times, compute_routes(self.routes.of(window)), self._code_of(window))

    def _explain_last(self, seconds: float) -> Side | None:
        """What explains the last seconds, but for the code, with their headroom."""
        reading, window = self.reading, self.history.window(seconds)
        if not (reading and window and (server := describe_server(reading))):
            return None
        figures = self._figures(server, reading, window)
        room = figures.headroom
        return Side(window, figures.response_times, figures.routes, None, room.factor, room.usable)

    def outage_within(self, window: Window) -> Outage | None:
        ended, outage = self._outage
        return outage if ended >= window.until - window.asked else None

    def response_times(self, window: Window) -> ResponseTimeWindow | None:
        return self.integrals.response_times.history.window(window.start, window.until)

    def _queue_waits(self, window: Window, known: ResponseTimeWindow | None) -> ResponseTimeWindow | None:
        """Return the requests of a window by how long they waited in a listen queue; None if none was seen waiting.
        Like response times, they are those of the batches that have ended: of later ones, no wait is known yet."""
        requests = sum([worker.requests for worker in window.workers])
        timed = requests - sum([worker.static_requests for worker in window.workers])
        if known and timed > 0:
            requests = round(requests * min(1.0, known.requests / timed))
        history = self.integrals.response_times.wait_history
        return count_all(history, window.start, window.until, requests)

    def _follow_silence(self, at: float, outcome: Reading | ReadError) -> None:
        """Watch by the kernel as well while the stats do not answer, but the master that served them runs."""
        reading, make = self.reading, self._make_other
        may_be_server = reading is None or isinstance(reading.snapshot, Snapshot)
        blind = outcome.pid if isinstance(outcome, BlindError) else None
        if self.silent and self.silent.watch is self:
            self.silent.note(outcome)
        elif (
            isinstance(outcome, Reading)
            or outcome.reason not in SILENT
            or not (pid := blind or self.reader.find_master())
        ):
            self._end_silence()
        elif self.silent:
            self.silent.error = outcome
        elif make and may_be_server and self._is_sampled and not self._is_fresh(at):
            other, sampling = make(ProcessOfApp(pid))
            since = reading.time if reading else self._clock.epoch()
            self.silent = other.silent = SilentServer(other, sampling, pid, since, outcome)

    async def find_silent(self, error: ReadError) -> Watch | None:
        """Make the watch by the kernel of a server whose stats did not answer at the first read; None if that may not
        be. Its owner has to sample it."""
        make = self.reading is None and error.reason in SILENT and self._make_other
        if not make or not (pid := await self.reader.find_silent()):
            return None
        other, _ = make(ProcessOfApp(pid))
        other.silent = SilentServer(other, None, pid, self._clock.epoch(), error)
        return other

    def _end_silence(self) -> None:
        if self.silent and self.silent.watch is not self:
            self.silent.end()
            self.silent = None

    def _record(self, at: float, outcome: Reading | ReadError) -> None:
        self._follow_silence(at, outcome)
        if isinstance(outcome, Reading) and self._is_equal(outcome):
            self._equal.append(outcome)
            self._outcome_at, self.reading = at, outcome
            return
        self._add_equal()
        self._take(at, outcome)

    def _is_equal(self, reading: Reading) -> bool:
        """Whether nothing has changed since the reading before, no request was in service or in a queue, and that was a
        moment ago: several such readings are added in one step."""
        before = self.reading
        return (
            before is not None
            and reading.snapshot is before.snapshot
            and reading.host is before.host
            and not reading.partial
            and self._failing_since is None
            and self._integrals.is_at_rest
            and reading.at - (self._equal[0] if self._equal else before).at < _EQUAL_SECONDS
        )

    def _add_equal(self) -> None:
        """Add the readings that equal the one before them: the last one, for all of them."""
        if self._equal:
            last, number, self._equal = self._equal[-1], len(self._equal), []
            try:
                self._take(last.at, last, number)
            except Exception as error:  # noqa: BLE001 - a scrape must not fail
                self.reader.fault(error)

    def _take(self, at: float, outcome: Reading | ReadError, samples: int = 1) -> None:
        if isinstance(outcome, Reading) and outcome.partial:
            self._integrals.add_partial(outcome)
            return
        self._outcome_at = at
        if isinstance(outcome, BlindError):
            self._empty_at.append(at)
        if isinstance(outcome, ReadError):
            self._integrals.miss(at)
            if self._failing_since is None:
                self._failing_since = at
            self._is_down |= outcome.reason in GONE or not self._is_fresh(at)
        else:
            before, self.reading = self.reading, outcome
            if isinstance(outcome.snapshot, Snapshot):
                self._add(at, before, outcome, samples)
        try:
            if self.finds_log and not self.log and isinstance(outcome, Reading):
                self._find_log(outcome)
            if self.log and isinstance(outcome, Reading):
                self.log.note(outcome)
            self._keep_journal(at, outcome)
            if self._minutes:
                self._minutes.note(at, self._clock.epoch(), self._levels)
        except Exception as error:  # noqa: BLE001 - an error in the journal must not lose a sample
            self.reader.fault(error)

    def _add(self, at: float, before: Reading | None, reading: Reading, samples: int) -> None:
        self._integrals.add(reading, self.pace.longest_step, samples)
        totals = self._integrals.totals
        self._history.add(reading.at, totals)
        self._note_success(before, reading)
        if (requests := sum([worker.requests for worker in totals.workers])) != self._served[0]:
            self._served = requests, at
        self.routes.add(reading.at, totals.routes)
        self.destinations.add(reading, self.pace.longest_step)
        self.other_programs.update(self._history)
        for window in self._backend_slices.take(self._history) if totals.waits else ():
            self.backends.add(window)

    def _note_success(self, before: Reading | None, reading: Reading) -> None:
        """Note the end of an outage. While only its stats could not be read, as during a reload, the same master has
        gone on. With `die-on-idle`, uWSGI has no master until the next request."""
        since, was_down = self._failing_since, self._is_down
        self._failing_since, self._is_down = None, False
        if before is None or since is None or not was_down or reading.has_same_master(before):
            return
        if before.host.setup and before.host.setup.options.die_on_idle:
            return
        self._outage = reading.at, Outage(max(0.0, reading.at - since), reading.time)
        self._history.end_outage(reading.at)

    def finish_minute(self) -> None:
        """Pass what there is of the present minute to the history that lasts: this server is no longer watched."""
        self._add_equal()
        if self._minutes and self.reading:
            self._minutes.finish(self._outcome_at, self._clock.epoch(), self._levels)

    def _levels(self) -> Levels:
        limited_by = self.limits.at(self._outcome_at)
        return find_levels(self.reading, self.other_programs.others_follow, self.slo, limited_by)

    def _keep_journal(self, at: float, outcome: Reading | ReadError) -> None:
        if isinstance(outcome, Reading):
            self.recorder.begin(outcome.time)
            totals = self._integrals.totals
            self.recorder.read(outcome, totals)
            if totals.is_counted:
                self.deploys.note(outcome.at, totals)
            return
        self.recorder.begin(self._clock.epoch())
        if outcome.reason in GONE or not self._is_fresh(at):
            self.recorder.down(self._clock.epoch(), outcome)

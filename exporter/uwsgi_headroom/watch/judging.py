"""Computes from the history of a watch what is needed now and then, rather than at each sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from uwsgi_headroom.analysis.capacity import SLICE_SECONDS, extract_pair, follow_requests
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import BURN_WINDOWS, NOT_YET, Objective, find_load_limit, judge_objective
from uwsgi_headroom.analysis.verdict import say_verdict, worst_status
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_WINDOWS, HISTORY_SECONDS
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.response_times.totals import BatchHistory, SlowRequests
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.pace import Pace
from uwsgi_headroom.watch.reader import Reader
from uwsgi_headroom.watch.recorder import JUDGE_SECONDS, Recorder

JUDGED_WINDOW = DEFAULT_WINDOWS[0]
"""Seconds of the window that alerts and journal are about, whatever other windows people look at."""

LEAST_SECONDS = 10.0
"""Least history, in seconds, before a server is judged."""

_SAMPLES = 10
"""New samples after which a server is judged again, where they are more than half a second apart."""

_MOST_CPU = 0.001
"""Largest share of a CPU that judging one server may take."""

_MOST_PAUSE = 60.0
"""Longest pause in seconds between two judgements for this reason: alerts say so of a server that is not judged."""

LEAST_COVERED = 0.9
"""The part of a window that must be known: what is judged from less, is not held."""


class Judge:
    """Judges the readings of a server for alerts and its journal, after a sample: every JUDGE_SECONDS, or less often if
    that takes long or the samples are far apart. find_reading: returns the last reading, if it may be judged; judge:
    judges it."""

    def __init__(
        self,
        find_reading: Callable[[], Reading | None],
        judge: Callable[[Reading], None],
        reader: Reader,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._find_reading, self._judge = find_reading, judge
        self._reader, self._pace, self._clock = reader, pace, clock
        self._due_at = self._judged_at = float("-inf")

    def judge_if_due(self) -> None:
        """Judge the last reading if that is due, unless it was judged before. An internal error is noted as the
        server's fault."""
        now = self._clock.monotonic()
        if now < self._due_at:
            return
        reading = self._find_reading()
        if reading is None or reading.at <= self._judged_at:
            return
        self._judged_at = reading.at
        began = self._clock.cpu()
        try:
            self._judge(reading)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not end its judging
            self._reader.fault(error)
        spent = self._clock.cpu() - began
        self._pace.note_cpu(spent)
        self._due_at = now + max(JUDGE_SECONDS, _SAMPLES * self._pace.interval, min(_MOST_PAUSE, spent / _MOST_CPU))


def judge_reading(recorder: Recorder, reading: Reading, figures: Figures) -> None:
    """Judge a reading by its figures of JUDGED_WINDOW."""
    found = collect_findings(figures)
    findings = recorder.hold.look(found, reading.at, reading.time, is_whole=is_whole(figures.window))
    seen = recorder.hold.since(findings[0].code) if findings else None
    recorder.verdicts.judge(reading.time, worst_status(findings), say_verdict(figures, findings), findings, seen)


def is_whole(window: Window) -> bool:
    """Whether enough of a window is known to hold what is found in it."""
    return window.observed_seconds >= LEAST_COVERED * window.asked


class LimitHour:
    """What limited the server before its resources, as judged in the last hour (`limited_by`)."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, str | None]] = deque()  # monotonic time, and what from then on

    def note(self, at: float, code: str | None) -> None:
        """Note a judgement at a monotonic time."""
        if not self._changes or self._changes[-1][1] != code:
            self._changes.append((at, code))
        while len(self._changes) > 1 and self._changes[1][0] < at - HISTORY_SECONDS:
            self._changes.popleft()

    def at(self, time: float) -> str | None:
        """What the last judgement until then says; None also without one."""
        return next((code for since, code in reversed(self._changes) if since <= time), None)


class OtherPrograms:
    """Whether the CPU use by others follows the server's requests, by slices of a minute; None while unknown."""

    def __init__(self) -> None:
        self.others_follow: bool | None = None
        self._pairs: deque[tuple[float, float]] = deque(maxlen=int(HISTORY_SECONDS / SLICE_SECONDS))
        self._new = NewSlices(SLICE_SECONDS)

    def update(self, history: History) -> None:
        """Take the slices that have ended since the last call. Call this after each sample."""
        if windows := self._new.take(history):
            self._pairs.extend(filter(None, map(extract_pair, windows)))
            self.others_follow = follow_requests(self._pairs)


class NewSlices:
    """Takes each slice from a history once, when the slice is over. seconds: the length of a slice."""

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
    """Judges a service level objective, once for each batch of response times."""

    def __init__(self, slo: Slo, history: BatchHistory) -> None:
        self._slo = slo
        self._history = history
        self._ended = 0.0
        self._windows: list[SlowRequests] = []
        self._minutes_ended = 0.0
        self._minutes: list[SlowRequests] = []

    def judge(self, flow: Flow, interval: float, *, threads_known: bool) -> Objective:
        """Judge the objective as of the last batch. flow: of the present window. interval: seconds between two samples.
        threads_known: whether uWSGI lists its threads."""
        slo, ended = self._slo, self._history.ended
        if ended != self._ended:
            self._ended = ended
            self._windows = self._list([(ended - seconds, ended) for seconds in BURN_WINDOWS])
        if not threads_known or not self._windows:
            why = NOT_YET if threads_known else "not judged: uWSGI runs with stats-no-cores, which hides the threads"
            return Objective(threshold=slo.threshold, objective=slo.objective, unjudged=why, queue_wait=flow.queue_wait)
        if ended - self._minutes_ended >= _MINUTE:
            self._minutes_ended = ended
            ends = [ended - _MINUTE * number for number in range(int(HISTORY_SECONDS / _MINUTE))]
            self._minutes = self._list([(end - _MINUTE, end) for end in ends])
        load_limit = find_load_limit(self._minutes, flow.throughput)
        return judge_objective(slo, self._windows, interval, load_limit, flow.queue_wait)

    def _list(self, times: Sequence[tuple[float, float]]) -> list[SlowRequests]:
        windows = (self._history.slow_requests(start, until) for start, until in times)
        return [window for window in windows if window]

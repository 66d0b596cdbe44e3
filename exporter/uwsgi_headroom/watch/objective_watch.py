"""Keeps what judging a service level objective needs from the last hour, and computes it once per batch."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import BURN_WINDOWS, ObjectiveFigures, find_load_limit, judge_objective
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.response_times.totals import BatchHistory, SlowRequests

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
        return judge_objective(self._slo, self._windows, interval, flow.queue_wait, load_limit)

    def _list(self, times: Sequence[tuple[float, float]]) -> list[SlowRequests]:
        windows = (self._history.slow_requests(self._slo.threshold, start, until) for start, until in times)
        return [window for window in windows if window]

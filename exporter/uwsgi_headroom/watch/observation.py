"""The state of one server for a scrape: the input of all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, get_args

from msgspec import Struct, field

from uwsgi_headroom.analysis.deploys.judgement import Subject
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Held
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.history.code_time import CodeTotals
from uwsgi_headroom.history.events import Kind
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.uwsgi_log.log import LogTotals
from uwsgi_headroom.watch.pace import Pace
from uwsgi_headroom.watch.recorder import NO_VERDICT, Verdict


class HistoryHealth(Struct, frozen=True):
    """The health of the history file. is_written: whether the last attempt succeeded; size: bytes in use; dropped:
    minutes of servers that could not be written."""

    is_written: bool
    size: int
    dropped: int


class LastReload(Struct, frozen=True):
    """The last reload of the configuration; the start counts as the first. is_successful: whether it was applied;
    succeeded_at: when a reload was last applied, in seconds since the epoch."""

    is_successful: bool
    succeeded_at: float


class Pattern(Struct, frozen=True):
    """A pattern of the configuration. found: sockets that match and are watched; expected: how many servers there
    should be; missing: expected servers whose socket is not there, each of which is in the list, and down; left_out:
    sockets that match and are not watched, because there are too many."""

    pattern: str
    found: int = 0
    expected: int = 0
    missing: int = 0
    left_out: int = 0


NotWatchedReason = Literal["rights", "not_configured", "unreadable", "limit"]
NOT_WATCHED: tuple[NotWatchedReason, ...] = get_args(NotWatchedReason)


class NotWatched(Struct, frozen=True):
    """uWSGIs of its machine that are not watched, for one reason. number: of them; names: of 20 at most, with their
    PIDs; why: the reason in words; act: the command or the change that has them watched."""

    reason: NotWatchedReason
    number: int
    names: tuple[str, ...]
    why: str
    act: str


class ExporterHealth(Struct, frozen=True):
    """The health of the exporter itself. loop_lag: recent lag of its event loop, in seconds; restarts: number of
    restarts of each background task; history: None without a history file; reload: None if nothing serves; patterns: of
    the configuration, in its order; not_watched: None before the first look, and where nothing looks for servers."""

    loop_lag: float = 0.0
    restarts: Mapping[str, int] = field(default_factory=dict)
    history: HistoryHealth | None = None
    reload: LastReload | None = None
    patterns: Sequence[Pattern] = ()
    not_watched: Sequence[NotWatched] | None = None


WELL = ExporterHealth()
"""No lag, no restarts."""


class Observation(Struct, frozen=True, dict=True):
    """The last observation of a server. outcome: a reading, or the error of the last read; figures: of each window with
    history, longest last; others_follow: whether CPU use by others grows with the requests, None if unknown; events:
    their number by kind; slo: its objective, None if it has none; stuck_seconds: from which age on a request counts as
    stuck; log: the counters of its log, None if it is not configured; code: those of its code, None while it is off;
    verdict: the present one; loaded_at, down_since: as in `Recorder`; is_silent: whether the stats do not answer, and
    the reading is of the kernel; is_optional: whether it was found, and no unit has to run it, or it starts on demand;
    alerts: its problems, and whether each is a page; judged_at: when it was last judged (epoch seconds);
    deploy_worse: what became worse with the last reload, None if there was none in the last day."""

    name: str
    address: str
    outcome: Reading | ReadError
    read_errors: Mapping[Reason, int]
    totals: Totals
    pace: Pace
    figures: Sequence[Figures]
    others_follow: bool | None = None
    events: Mapping[Kind, int] = field(default_factory=dict)
    slo: Slo | None = None
    stuck_seconds: float = STUCK_SECONDS
    log: LogTotals | None = None
    code: CodeTotals | None = None
    verdict: Verdict = NO_VERDICT
    alerts: Sequence[Held] = ()
    judged_at: float | None = None
    loaded_at: float | None = None
    down_since: float | None = None
    is_silent: bool = False
    is_optional: bool = False
    deploy_worse: Mapping[Subject, bool] | None = None

    @property
    def reading(self) -> Reading | None:
        return self.outcome if isinstance(self.outcome, Reading) else None

    @cached_property
    def server(self) -> ServerRecord | None:
        """The reading's record; None without one, and for an emperor or a router."""
        if self.figures:
            return self.figures[0].server
        return describe_server(self.reading)

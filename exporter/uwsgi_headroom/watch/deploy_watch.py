"""Follows the deploys of one server: keeps batches of it, and judges those after a reload by those before.

A batch is a second and more. Those of the last BEFORE_SECONDS are kept as numbers of four bytes, 24 bytes a batch; of a
deploy, those before it and those of the hour after it. What an exporter did not see, its history file has by the minute
(`DeployWatch.restore`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from statistics import fmean
from time import localtime, strftime
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.analysis.deploys import explanation
from uwsgi_headroom.analysis.deploys.judgement import LEAST_AFTER, SUBJECTS, Batch, Judgement, Sides, Subject, judge
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.analysis.routes import compute_routes
from uwsgi_headroom.history.counts import WorkerCounts, sum_if_all_known
from uwsgi_headroom.history.events import Event, Journal
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.history.window import CodeWindow, Window
from uwsgi_headroom.store.record import Record, merge_records


def make_batch(window: Window) -> Batch | None:
    """The batch of a window; None if the server was not read for most of it, or was reloaded in it."""
    if window.reloads or window.observed_seconds < window.seconds / 2:
        return None
    grown = [worker.resident_growth for worker in window.workers if not worker.respawns]
    return _sum(window.seconds, window.workers, window.exceptions, _mean(grown))


def _sum(seconds: float, workers: Sequence[WorkerCounts], exceptions: int, grown: float | None = None) -> Batch:
    return Batch(
        seconds=seconds,
        requests=float(sum([worker.requests - worker.static_requests for worker in workers])),
        time=sum_if_all_known([worker.running_time for worker in workers]),
        cpu=sum_if_all_known([worker.cpu_seconds for worker in workers]),
        errors=float(exceptions + sum([(worker.write_errors or 0) + worker.lost for worker in workers])),
        grown=grown,
    )


def _mean(numbers: Sequence[int | None]) -> float | None:
    """The mean of those that are known; None without any."""
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None


def explain_records(records: Sequence[Record]) -> explanation.Side | None:
    """What explains records, oldest first; None without any."""
    if not records:
        return None
    record = merge_records(records)
    times = compute_percentiles(record.response_times, compute_flow(record.window).response_time)
    return explanation.Side(record.window, times, compute_routes(record.routes))


BEFORE_SECONDS = 1200.0
"""The time before a deploy that it is judged by."""

AFTER_SECONDS = 3600.0
"""How long a deploy is judged."""

BATCH_SECONDS = 1.0
_LONGEST_SECONDS = 5.0
"""A batch that is longer has a gap in it, and is left out."""

_START_SECONDS, _START_REQUESTS, _LONGEST_START = 60.0, 100, 300.0
"""The start after a reload stands apart: so many seconds, and until so many requests were served or _LONGEST_START
has passed."""

SETTLED_SECONDS = 600.0
"""A reload that follows another one sooner is judged by what was before the first of them."""

STALE_SECONDS = 1800.0
"""What ended longer before a reload is none of its sides: the load of another hour differs."""

MINUTES_BEFORE = 2400.0
"""The time before a deploy that a history file is read for: 20 minutes are too few batches of a minute."""

_USUAL_MINUTES = 20
"""Records of the history file that explain a side."""

LOOK_SECONDS, LATER_LOOK_SECONDS = 15.0, 60.0
"""Seconds between two judgements (6 ms each), in the first SETTLED_SECONDS after a deploy and later."""

KNOWN_SECONDS = 86_400.0
"""How long what became worse is a metric."""

_WIDTH = 6
"""Numbers of a batch."""

_MOST_CHAIN = 600.0
"""The longest time in which workers were replaced one after another that is left out."""


class Batches:
    """Batches of one server, oldest first."""

    def __init__(self) -> None:
        self._numbers = array("f")

    def add(self, batch: Batch) -> None:
        self._numbers.extend(nan if value is None else value for value in batch)

    def keep(self, number: int) -> None:
        """Drop all but about the last so many batches, a hundred at a time."""
        if len(self) > number + 100:
            del self._numbers[: 100 * _WIDTH]

    def drop_last(self, seconds: float) -> None:
        """Drop the batches of the last so many seconds."""
        while seconds > 0 and self._numbers:
            seconds -= self._numbers[-_WIDTH]
            del self._numbers[-_WIDTH:]

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self._numbers), _WIDTH):
            yield Batch._make([None if isnan(value) else value for value in self._numbers[start : start + _WIDTH]])


class Start:
    """The start after a deploy, until whose end nothing counts. ended_at: the second of it; None until then."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._requests = 0.0
        self.ended_at: float | None = None

    def is_over(self, batch: Batch, until: float) -> bool:
        """Whether a batch that ends at the second `until` is after the start. Call this with each batch in turn."""
        if self.ended_at is not None:
            return True
        self._requests += batch.requests
        age = until - self._began
        if age >= _LONGEST_START or (age >= _START_SECONDS and self._requests >= _START_REQUESTS):
            self.ended_at = until
        return False


class WatchedDeploy(Struct):
    """A deploy that is judged, or was.

    time, first: of the last reload, and of the first of several (epoch seconds). at: when it began, in monotonic
    seconds. before: the batches before the first one, which ended at before_until (monotonic); after: those since the
    start had ended. explains_before, explains_after: what explains these. start: that of the last reload. reported: the
    last status that the journal has. is_over: whether an hour has passed, and it is judged no more.
    """

    time: float
    first: float
    at: float
    reloads: int
    before: Batches
    before_until: float
    explains_before: explanation.Side | None
    start: Start
    after: Batches = field(default_factory=Batches)
    judgement: Judgement = field(default_factory=lambda: Judgement("early"))
    parts: tuple[explanation.DeployPart, ...] = ()
    routes: tuple[explanation.DeployPart, ...] = ()
    explains_after: explanation.Side | None = None
    reported: str = ""
    is_over: bool = False

    @property
    def name(self) -> str:
        """How it is called, such as `the reload at 14:02`."""
        reload = "the reload" if self.reloads == 1 else f"the last of {self.reloads} reloads"
        return f"{reload} at {strftime('%H:%M', localtime(self.time))}"

    def describe(self, ago: float | None) -> str:
        """What it changed, as a sentence or two. ago: seconds since then, None where its time stands beside it."""
        text = explanation.describe(self.judgement, self.name, ago, self.parts)
        return text + explanation.describe_room(self.judgement, self.explains_before, self.explains_after)


class DeployWatch:
    """The deploys of one server. `latest` is the last one; None before the first. explain: returns what explains the
    last seconds, but for the code; find_code: the code of a window, which is too large to be kept for a deploy that may
    come. is_restored: whether there is nothing to `restore`; until then, nothing is noted. known_reloads: how many of
    the journal are no news."""

    def __init__(
        self,
        journal: Journal,
        explain: Callable[[float], explanation.Side | None],
        find_code: Callable[[Window], CodeWindow | None],
        *,
        is_restored: bool = True,
    ) -> None:
        self._journal, self._explain_last, self._find_code = journal, explain, find_code
        self._batches = Batches()
        self._added_at = float("-inf")
        self._began: _Mark | None = None
        self.known_reloads = 0
        self._usual: explanation.Side | None = None
        self._restored: explanation.Side | None = None
        self._due_at = float("-inf")
        self.is_restored = is_restored
        self.latest: WatchedDeploy | None = None

    def note(self, at: float, totals: Totals) -> None:
        """Note a reading at the monotonic time `at`, which the totals and the journal include."""
        if not totals.workers or not self.is_restored:
            return
        if self._journal.counts["reload"] != self.known_reloads:
            self.known_reloads = self._journal.counts["reload"]
            if event := self._journal.latest_of("reload"):
                self._begin(at, event)
        before, workers = self._began, totals.workers
        seconds = at - before.sums.seconds if before else BATCH_SECONDS
        if seconds < BATCH_SECONDS:
            return
        sums = _sum(at, workers, sum([worker.exceptions for worker in workers]))
        self._began = _Mark(sums, tuple([(worker.respawns, worker.resident_bytes) for worker in workers]))
        if before and seconds <= _LONGEST_SECONDS and (batch := self._began.batch_since(before)):
            self._add(at, batch)

    def restore(
        self, now: float, offset: float, records: Sequence[Record], reloads: Sequence[Event], *, reported: bool
    ) -> None:
        """Take what a history file has: records of minutes, and reloads. now: monotonic seconds; offset: from these to
        epoch seconds; reported: whether the journal has a judgement of the last reload."""
        usual: list[Record] = []
        both: list[Record | Event] = [*records, *reloads]
        for each in sorted(both, key=lambda each: each.time if isinstance(each, Event) else each.until):
            if isinstance(each, Event):
                self._restored, usual = explain_records(usual), []
                self._begin(each.time - offset, each)
            elif (batch := make_batch(each.window)) and self._add(each.until - offset, batch):
                usual = [*usual, each][-_USUAL_MINUTES:]
        self._restored = explain_records(usual)
        if deploy := self.latest:
            self._judge(deploy)
            if reported:
                deploy.reported = deploy.judgement.status
            if now - deploy.at > AFTER_SECONDS and deploy.judgement.status in ("early", "unknown"):
                self.latest = None

    def _begin(self, at: float, event: Event) -> None:
        """Begin to judge a reload. Workers that were replaced in turn are neither before nor after it."""
        latest = self.latest
        if latest and at - latest.at < SETTLED_SECONDS and at - latest.before_until <= STALE_SECONDS:
            first, reloads = latest.first, latest.reloads + 1
            before, until, explains = latest.before, latest.before_until, latest.explains_before
        else:
            self._batches.drop_last(min(_MOST_CHAIN, event.time - event.since))
            first, reloads = event.time, 1
            before, until, explains = self._batches, self._added_at, self._explain()
            if not before or at - until > STALE_SECONDS:
                before, explains = Batches(), None
        self.latest = WatchedDeploy(event.time, first, at, reloads, before, until, explains, Start(at))
        self.latest.judgement = judge(Sides(list(before)), Sides(()))
        self._batches, self._began, self._usual, self._restored, self._due_at = Batches(), None, None, None, at

    def _explain(self) -> explanation.Side | None:
        """What explains the time until now: what was seen, or what was restored while that is longer."""
        if self._usual and (self._restored is None or self._usual.window.seconds >= LEAST_AFTER):
            return replace(self._usual, code=self._find_code(self._usual.window))
        return self._restored

    def _add(self, at: float, batch: Batch) -> bool:
        """Add a batch that ends at `at`; whether it counts, because it is not of a start."""
        deploy = self.latest
        if deploy and not deploy.start.is_over(batch, at):
            return False
        if at - self._added_at > STALE_SECONDS:
            self._batches = Batches()
        self._batches.add(batch)
        self._batches.keep(int(BEFORE_SECONDS / BATCH_SECONDS))
        self._added_at = at
        if deploy and at - deploy.at <= AFTER_SECONDS:
            deploy.after.add(batch)
        return True

    def judge_if_due(self, at: float, time: float) -> None:
        """Judge the latest deploy, at the monotonic time `at` of the last reading (`time` in epoch seconds), unless
        that was done a moment ago or an hour has passed. Adds to the journal what is certain for the first time."""
        if at < self._due_at:
            return
        deploy = self.latest
        is_new = deploy is not None and at - deploy.at < SETTLED_SECONDS
        self._due_at = at + (LOOK_SECONDS if is_new else LATER_LOOK_SECONDS)
        began = deploy.start.ended_at if deploy else at - BEFORE_SECONDS
        if began is not None:
            self._usual = self._explain_last(min(BEFORE_SECONDS, at - began))
        if deploy is None:
            return
        if at - deploy.at > AFTER_SECONDS:
            deploy.is_over, deploy.before, deploy.after = True, Batches(), Batches()
            return
        self._judge(deploy)
        status = deploy.judgement.status
        if status in ("worse", "better", "same") and deploy.reported not in (status, "worse"):
            deploy.reported = status
            self._journal.add(time, "deploy_judged", deploy.describe(None))

    def _judge(self, deploy: WatchedDeploy) -> None:
        expected, then = 1.0, deploy.explains_before
        if deploy.start.ended_at is not None and (explains := self._explain()):
            deploy.explains_after = explains
            if then:
                expected = explanation.expect_time(then.window, explains.window)
                deploy.parts = explanation.list_parts(then, explains)
                deploy.routes = explanation.list_routes(then, explains)
        before, after = Sides(list(deploy.before)), Sides(list(deploy.after))
        deploy.judgement = judge(before, after, expected, overloaded=then is not None and then.is_full)

    def find_worse(self, now: float) -> Mapping[Subject, bool] | None:
        """For each quantity, whether it became worse with the last deploy; None without one in the last day. now:
        monotonic seconds."""
        deploy = self.latest
        if deploy is None or now - deploy.at > KNOWN_SECONDS:
            return None
        worse = {change.subject for change in deploy.judgement.worse}
        return {subject: subject in worse for subject in SUBJECTS}


class _Mark(NamedTuple):
    """Where the totals were at the end of a batch: their sums, with the monotonic time as seconds, and for each worker
    how often it was spawned anew, and its memory in bytes."""

    sums: Batch
    workers: tuple[tuple[int, int | None], ...]

    def batch_since(self, before: _Mark) -> Batch | None:
        """The batch since another mark; None if the number of workers has changed, or a sum has fallen."""
        if len(self.workers) != len(before.workers) or self.sums.requests < before.sums.requests:
            return None
        grown = [
            now - then
            for (respawns, now), (earlier, then) in zip(self.workers, before.workers, strict=True)
            if respawns == earlier and now and then
        ]
        sums = [
            None if now is None or then is None else max(0.0, now - then)
            for now, then in zip(self.sums, before.sums, strict=True)
        ]
        return Batch._make(sums)._replace(grown=_mean(grown))

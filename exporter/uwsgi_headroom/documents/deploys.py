"""What a deploy changed: the section of a server's document, and the document that compares any two times."""

from __future__ import annotations

from pathlib import Path
from time import localtime, strftime
from typing import Any

from msgspec import Struct

from uwsgi_headroom.analysis.deploys.explanation import (
    DeployPart,
    Side,
    describe,
    describe_usual,
    expect_time,
    list_parts,
    list_routes,
)
from uwsgi_headroom.analysis.deploys.judgement import (
    DAYS,
    Batch,
    DeployChange,
    Judgement,
    Sides,
    Status,
    find_usual,
    is_usual,
    judge,
)
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.percentiles import find_percentile
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.store.record import RunningMerge
from uwsgi_headroom.watch.deploy_watch import AFTER_SECONDS, Start, explain_records, make_batch
from uwsgi_headroom.watch.turns import HISTORY_TURN_SECONDS, ThreadTurns, Turns, run_in_thread
from uwsgi_headroom.watch.watch import Watch

_MOST_PARTS = 8

LONGEST_COMPARED = 30 * 86_400.0
"""Seconds, the most on a side of a comparison."""


class DeploySide(Struct, frozen=True, kw_only=True):
    """Figures of one side, which are not judged themselves. p95: seconds, null if it is not known; queue_wait: seconds,
    null where the listen queue is not measured. throughput: requests a second. headroom, usable: the factors by which
    the load could grow until a limit, and until requests wait; null if they are not known, and in a comparison around a
    moment."""

    requests: int
    seconds: float
    throughput: float | None = None
    p95: float | None = None
    queue_wait: float | None = None
    headroom: float | None = None
    usable: float | None = None


class Deploy(Struct, frozen=True, kw_only=True):
    """What a reload, a restart or any other moment changed.

    time: of the last of `reloads` reloads, and first: of the first one (epoch seconds); reloads is 0 for a comparison
    around another moment. status: worse, better, same (the time and the CPU time of a request surely grew by less than
    the fraction `bound`), early (about `needed` requests after it are needed in all), unknown (`sentence` says why).
    expected: the factor by which the load alone changes the time of a request. is_over: whether an hour has passed,
    after which it is judged no more. parts, routes: in the order of their change, the largest first.
    """

    time: float
    first: float
    reloads: int
    status: Status
    sentence: str
    before: DeploySide
    after: DeploySide
    changes: tuple[DeployChange, ...]
    bound: float | None
    needed: int | None
    expected: float
    is_over: bool
    parts: tuple[DeployPart, ...]
    routes: tuple[DeployPart, ...]


def build_deploy(watch: Watch, now: float) -> Deploy | None:
    """Build the section about the last deploy; None if the exporter saw none. now: epoch seconds."""
    deploy = watch.deploys.latest
    if deploy is None:
        return None
    return _build(
        deploy.judgement,
        (deploy.explains_before, deploy.explains_after),
        deploy,
        sentence=deploy.describe(now - deploy.time),
        parts=tuple(deploy.parts[:_MOST_PARTS]),
        routes=tuple(deploy.routes[:_MOST_PARTS]),
    )


def _build(judgement: Judgement, sides: tuple[Side | None, Side | None], *sources: object, **others: Any) -> Deploy:
    before, after = (
        _build_side(side, judgement.requests[place], judgement.seconds[place]) for place, side in enumerate(sides)
    )
    return copy_fields(Deploy, judgement, *sources, before=before, after=after, **others)


def _build_side(side: Side | None, requests: int, seconds: float) -> DeploySide:
    if side is None:
        return DeploySide(requests=requests, seconds=seconds)
    flow, p95 = compute_flow(side.window), find_percentile(side.response_times, 0.95)
    return copy_fields(DeploySide, flow, side, requests=requests, seconds=seconds, p95=p95.seconds if p95 else None)


class ComparedTimes(Struct, frozen=True):
    """What is compared: `before` seconds before a moment (epoch seconds), and `after` seconds after it."""

    around: float
    before: float
    after: float


class Usual(Struct, frozen=True, kw_only=True):
    """Seconds of a mean request at the same hour of other days. mean: over these days; low, high: of the fastest and
    the slowest day. explains: whether the time before the change was unusual for this hour, and the time after it is
    usual."""

    days: int
    mean: float
    low: float
    high: float
    explains: bool
    sentence: str


class ComparisonDocument(Struct, frozen=True, kw_only=True):
    """Two periods of a server, compared. name: of the server. time: of the document. usual: null without a history file
    that has enough days."""

    name: str
    time: float
    deploy: Deploy
    usual: Usual | None = None


async def compare_last(watch: Watch, clock: Clock) -> ComparisonDocument | None:
    """What the last deploy changed, as a comparison; None if the exporter saw none."""
    now, latest = clock.epoch(), watch.deploys.latest
    deploy = build_deploy(watch, now)
    if deploy is None or latest is None:
        return None
    usual = await _find_usual(watch, now, deploy.time, min(now, deploy.time + AFTER_SECONDS), latest.judgement)
    return ComparisonDocument(name=watch.name, time=now, deploy=deploy, usual=usual)


async def compare_times(watch: Watch, clock: Clock, times: ComparedTimes) -> ComparisonDocument:
    """Compare the time before a moment with that after it, from the hour in memory, or from the history file if that
    alone reaches back. The start after the moment stands apart. Raises HistoryFileError."""
    now = clock.epoch()
    end = min(now, times.around + times.after)
    if watch.writer is None or times.around - times.before >= now - watch.history.seconds - 1:
        sides = await _read_memory(watch, now - clock.monotonic(), times, end)
    else:
        sides = await _read_file(watch.writer.path, watch.name, now, times, end)
    (before, explains_before), (after, explains_after) = sides
    expected, overloaded = 1.0, False
    parts: tuple[DeployPart, ...] = ()
    routes: tuple[DeployPart, ...] = ()
    if explains_before and explains_after:
        expected = expect_time(explains_before.window, explains_after.window)
        parts, routes = list_parts(explains_before, explains_after), list_routes(explains_before, explains_after)
        overloaded = explains_before.is_full
    judgement = judge(Sides(before), Sides(after), expected, overloaded=overloaded)
    deploy = _build(
        judgement,
        (explains_before, explains_after),
        time=times.around,
        first=times.around,
        reloads=0,
        sentence=describe(judgement, strftime("%H:%M", localtime(times.around)), now - times.around, parts),
        is_over=end < now,
        parts=parts[:_MOST_PARTS],
        routes=routes[:_MOST_PARTS],
    )
    usual = await _find_usual(watch, now, times.around, end, judgement)
    return ComparisonDocument(name=watch.name, time=now, deploy=deploy, usual=usual)


_SHORTEST_HOUR, _LONGEST_HOUR = 900.0, 7200.0
"""Of a shorter time, other days have few requests; a longer one is no hour of a day."""


async def _find_usual(watch: Watch, now: float, since: float, until: float, judgement: Judgement) -> Usual | None:
    """What is usual between two times (epoch seconds), from minutes; None if the history file has too little of
    other days, or cannot be read."""
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3

    writer = watch.writer
    if writer is None or not 0 < until - since <= _LONGEST_HOUR:
        return None
    end = max(until, since + _SHORTEST_HOUR)

    def read(turns: ThreadTurns) -> list[list[Batch]]:
        days: list[list[Batch]] = []
        with HistoryFile(writer.path, now) as file:
            for back in [day * 86_400.0 for day in range(1, DAYS + 1)]:
                days.append([])
                for record in file.records(watch.name, since - back, end - back, _MINUTES_SECONDS):
                    if batch := make_batch(record.window):
                        days[-1].append(batch)
                    turns.pause_if_due()
        return days

    try:
        usual = find_usual(await run_in_thread(read))
    except HistoryFileError:
        return None
    if usual is None:
        return None
    return copy_fields(Usual, usual, explains=is_usual(usual, judgement), sentence=describe_usual(usual, judgement))


_Side = tuple[list[Batch], Side | None]


async def _read_memory(watch: Watch, offset: float, times: ComparedTimes, end: float) -> tuple[_Side, _Side]:
    """Both sides from the hour in memory. offset: from its times to epoch seconds."""
    around, history = times.around - offset, watch.history
    turns = Turns(longest=HISTORY_TURN_SECONDS)
    before: list[Batch] = []
    after: list[Batch] = []
    start = Start(around)
    for window in history.slices(1.0, around - times.before, end - offset):
        began = window.until - window.seconds
        batch = make_batch(window)
        if window.until <= around and batch:
            before.append(batch)
        elif began >= around and batch and start.is_over(batch, window.until):
            after.append(batch)
        await turns.pause_if_due()
    seen_before = history.window(times.before, around)
    started = start.ended_at
    seen_after = history.window(end - offset - started, end - offset) if started is not None else None
    one, other = (watch.explain(window) if window else None for window in (seen_before, seen_after))
    return (before, one), (after, other)


_MINUTES_SECONDS, _QUARTERS_SECONDS = 60, 900
_MOST_MINUTES = 86_400.0
"""The longest time that is read minute by minute; a longer one, by quarters of an hour."""


async def _read_file(path: Path, name: str, now: float, times: ComparedTimes, end: float) -> tuple[_Side, _Side]:
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3

    def read(turns: ThreadTurns) -> tuple[_Side, _Side]:
        before: list[Batch] = []
        after: list[Batch] = []
        merged_before, merged_after = RunningMerge(), RunningMerge()
        start = Start(times.around)
        with HistoryFile(path, now) as file:
            tier = _MINUTES_SECONDS if max(times.before, end - times.around) <= _MOST_MINUTES else _QUARTERS_SECONDS
            for record in file.records(name, times.around - times.before, times.around, tier):
                merged_before.add(record)
                if batch := make_batch(record.window):
                    before.append(batch)
                turns.pause_if_due()
            for record in file.records(name, times.around, end, tier):
                batch = make_batch(record.window)
                is_after = record.until - record.window.seconds >= times.around
                if is_after and batch and start.is_over(batch, record.until):
                    merged_after.add(record)
                    after.append(batch)
                turns.pause_if_due()
        return (before, explain_records(merged_before.records)), (after, explain_records(merged_after.records))

    return await run_in_thread(read)

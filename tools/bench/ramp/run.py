"""Runs a group of servers side by side: predicts each from a window, then raises its load around the predictions."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support import real_uwsgi
from tools.bench.clients import Answers, Plan, finish, prefix, running
from tools.bench.ramp.cases import Case
from tools.bench.window import serving, watch
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.usable import Usable

APP = Path(__file__).with_name("app.py")

AROUND = (0.75, 0.92, 1.08, 1.25)
"""The steps, as multiples of the load at which requests are predicted to wait."""

OVERLOAD, OVERLOAD_SECONDS = 1.15, 40.0
"""The last step, as a multiple of the predicted limit, and its length."""

IGNORED_SECONDS = 8.0
"""The start of each step, in which the queue gets used to the new load."""

WARM_UP_SECONDS = 3.0
LEAST_REQUESTS = 1000
"""A window that a prediction is made from has this many requests, whatever its case's rate."""


@dataclass(frozen=True)
class Step:
    """What the requests of a step have met, without those of its start. rate: that were asked for, per second; answers:
    whose application ended in the step; waited, own: sums of seconds over the `requests` that began in it, of waiting
    for anything, and of what the requests asked for."""

    rate: float
    seconds: float
    answers: int = 0
    requests: int = 0
    waited: float = 0.0
    own: float = 0.0

    @property
    def served(self) -> float:
        return self.answers / self.seconds


@dataclass(frozen=True)
class Predicted:
    """What the window of a case gave. rate: requests per second of the socket that is judged; requests: of the window;
    limit, waiting: requests per second; None if unknown. by: the limits that come first."""

    rate: float
    requests: int
    limit: float | None
    limit_by: str
    waiting: float | None
    waiting_by: str


@dataclass(frozen=True)
class Result:
    """A case: predicted, and each step of the socket that is judged; the last one is the overload."""

    case: Case
    predicted: Predicted
    steps: tuple[Step, ...]
    others: float
    """CPUs that programs used during the steps that are no part of the bench."""


def run(cases: Sequence[Case], step_seconds: float) -> list[Result]:
    """Run a group of cases."""
    seconds = max(LEAST_REQUESTS / (case.rate * case.shares[0]) for case in cases)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_server(case)) for case in cases]
        with contextlib.ExitStack() as moderate:
            for case, server in zip(cases, servers, strict=True):
                steps = [(case.rate, WARM_UP_SECONDS + seconds + 60)]
                moderate.enter_context(running(make_plan(case, server, steps, seed=1), prefix()))
            time.sleep(WARM_UP_SECONDS)
            figures = asyncio.run(watch([server.stats for server in servers], seconds, read_locks=True))
        predicted = [_describe(case, each) for case, each in zip(cases, figures, strict=True)]
        began, before, own = time.monotonic(), _busy_seconds(), _tree_seconds(server.pid for server in servers)
        plans = [
            make_plan(case, server, _steps(case, each, step_seconds), seed=2)
            for case, server, each in zip(cases, servers, predicted, strict=True)
        ]
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        with contextlib.ExitStack() as raised:
            loads = [raised.enter_context(running(plan, prefix())) for plan in plans]
            met = [count_steps(plan, finish(load, wait=True)) for plan, load in zip(plans, loads, strict=True)]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = _tree_seconds(server.pid for server in servers) - own
        own += after.ru_utime + after.ru_stime - clients.ru_utime - clients.ru_stime
        others = max(0.0, (_busy_seconds() - before - own) / (time.monotonic() - began))
        return [Result(case, each, of, others) for case, each, of in zip(cases, predicted, met, strict=True)]


def _busy_seconds() -> float:
    """The CPU seconds of the machine that were not idle."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _tree_seconds(pids: Iterable[int]) -> float:
    """The CPU seconds of these processes and their children."""
    trees = [psutil.Process(pid) for pid in pids]
    every = [process.cpu_times() for tree in trees for process in (tree, *tree.children(recursive=True))]
    return sum(times.user + times.system for times in every)


def _steps(case: Case, predicted: Predicted, seconds: float) -> list[tuple[float, float]]:
    whole = 1 / case.shares[0]
    waiting = predicted.waiting or predicted.rate
    steps = [(whole * part * waiting, seconds + IGNORED_SECONDS) for part in AROUND]
    overload = OVERLOAD * (predicted.limit or 2 * predicted.rate)
    return [*steps, (whole * overload, OVERLOAD_SECONDS)]


def _describe(case: Case, figures: Figures) -> Predicted:
    flow, room, usable = figures.flow, figures.headroom, figures.usable
    rate = (flow.throughput or 0.0) * case.shares[0]
    ceiling = room.by_limit[room.ceiling] if room.ceiling else None
    return Predicted(
        rate=rate,
        requests=flow.requests,
        limit=None if ceiling is None else ceiling * rate,
        limit_by=room.ceiling or "",
        waiting=_waiting(usable, rate),
        waiting_by=usable.first if usable else "",
    )


def _waiting(usable: Usable | None, rate: float) -> float | None:
    return None if usable is None else usable.factor * rate


def _server(case: Case) -> contextlib.AbstractContextManager[real_uwsgi.Uwsgi]:
    options = ["--wsgi-file", str(APP), "--disable-logging"]
    for place, _ in enumerate(case.shares):
        options += ["--http-socket", f"{{directory}}/web{place}"]
        options += ["--map-socket", f"{place}:{place + 1}"] if len(case.shares) > 1 else []
    return serving(case.processes, case.threads, *options)


def make_plan(case: Case, server: real_uwsgi.Uwsgi, steps: Sequence[tuple[float, float]], seed: int) -> Plan:
    sockets = tuple((str(server.directory / f"web{place}"), share) for place, share in enumerate(case.shares))
    return Plan(sockets, case.kinds, tuple(steps), seed=seed)


def count_steps(plan: Plan, seen: Answers) -> tuple[Step, ...]:
    """The steps of the socket that is judged, the first one."""
    answers = [(each.began, float(each.body), each.own) for each in seen.answers if each.place == 0]
    steps, end = [], seen.began
    for rate, seconds in plan.steps:
        start, end = end + IGNORED_SECONDS, end + seconds
        asked = [(began, left, own) for began, left, own in answers if start <= began < end]
        steps.append(
            Step(
                rate * plan.sockets[0][1],
                end - start,
                answers=sum(start <= left < end for _, left, _ in answers),
                requests=len(asked),
                waited=sum(left - began - own for began, left, own in asked),
                own=sum(own for _, _, own in asked),
            )
        )
    return tuple(steps)

"""Predicts from a moderate load when requests wait and what a server serves at most, then raises the load to see.

`python3 -m tools.bench.ramp` takes about 25 minutes. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from tests.support import real_uwsgi
from tools.bench import table
from tools.bench.clients import Answers, Kind, Plan, finish, prefix, running
from tools.bench.exporters import serving, watch
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import noticed_wait

LIMIT, WAITING, HOT = 0.10, 0.15, 0.20
"""Tolerances as parts of what was measured: of the limit, of the load at which requests wait, and of that load for a
worker that is hotter than the others."""


@dataclass(frozen=True)
class Case:
    """A server under random arrivals. rate: requests per second while it is predicted from, at 20 to 40 % of its limit.
    shares: of the sockets, if each worker has one of its own; else of the only socket. tolerance: of the waiting
    point."""

    name: str
    processes: int
    threads: int
    kinds: tuple[Kind, ...]
    rate: float
    shares: tuple[float, ...] = (1.0,)
    tolerance: float = WAITING

    @property
    def setting(self) -> str:
        return f"{self.processes}x{self.threads}"

    @property
    def mean(self) -> float:
        """The mean seconds that a request takes if it waits for nothing."""
        return sum(kind.weight * kind.io for kind in self.kinds) / 1e3


def make_kind(name: str, seconds: float, weight: float = 1.0) -> Kind:
    """Requests of a kind of the application, with a mean of an exponential distribution."""
    return Kind(weight, f"/{name}/{{s}}", io=1e3 * seconds, spread=None)


def _sleeping(seconds: float) -> tuple[Kind, ...]:
    return (make_kind("sleep", seconds),)


_LOCKING = (make_kind("lock", 0.08, 0.6), make_kind("sleep", 0.02, 0.4))
_COMPUTING = (make_kind("cpu", 0.02),)

GROUPS = (
    (
        Case("sleeping", 1, 1, _sleeping(0.05), 5.0),
        Case("sleeping", 4, 1, _sleeping(0.1), 12.0),
        Case("sleeping", 2, 4, _sleeping(0.1), 24.0),
        Case("sleeping", 4, 8, _sleeping(0.2), 48.0),
        Case("sleeping", 8, 8, _sleeping(0.4), 48.0),
        Case("lock-bound", 4, 8, _LOCKING, 33.0),
        Case("one hot worker", 2, 4, _sleeping(0.1), 16.0, shares=(0.8, 0.2), tolerance=HOT),
    ),
    (Case("computing", 1, 1, _COMPUTING, 15.0),),
    (Case("computing", 4, 1, _COMPUTING, 30.0),),
    (Case("computing", 2, 4, _COMPUTING, 30.0),),
)
"""Servers that run side by side: those that sleep leave the CPUs to each other. Two of the machine's CPUs are the limit
of more workers that compute than two, so there is no 4x8 or 8x8 of these."""


APP = Path(__file__).with_name("ramp_app.py")

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


def run(cases: Sequence[Case], step_seconds: float) -> list[Result]:
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
        plans = [
            make_plan(case, server, _steps(case, each, step_seconds), seed=2)
            for case, server, each in zip(cases, servers, predicted, strict=True)
        ]
        with contextlib.ExitStack() as raised:
            loads = [raised.enter_context(running(plan, prefix())) for plan in plans]
            met = [count_steps(plan, finish(load, wait=True)) for plan, load in zip(plans, loads, strict=True)]
        return [Result(case, each, of) for case, each, of in zip(cases, predicted, met, strict=True)]


def _steps(case: Case, predicted: Predicted, seconds: float) -> list[tuple[float, float]]:
    whole = 1 / case.shares[0]
    waiting = predicted.waiting or predicted.rate
    steps = [(whole * part * waiting, seconds + IGNORED_SECONDS) for part in AROUND]
    overload = OVERLOAD * (predicted.limit or 2 * predicted.rate)
    return [*steps, (whole * overload, OVERLOAD_SECONDS)]


def _describe(case: Case, figures: Figures) -> Predicted:
    flow, room = figures.flow, figures.headroom
    rate = (flow.throughput or 0.0) * case.shares[0]
    ceiling = room.by_limit[room.ceiling] if room.ceiling else None
    return Predicted(
        rate=rate,
        requests=flow.requests,
        limit=None if ceiling is None else ceiling * rate,
        limit_by=room.ceiling or "",
        waiting=None if room.usable is None else room.usable * rate,
        waiting_by=room.usable_first or "",
    )


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


HEAD = (
    "requests | server | predicted from, requests/s | waits from, requests/s | by | most, requests/s | by | "
    "mean wait of the steps, ms (requests/s)"
)


def find_crossing(steps: Sequence[Step]) -> float | None:
    """The rate at which the mean wait reaches the threshold, by a straight line through the logarithms of all steps;
    None if the wait does not grow, or if the line reaches the threshold at less than half of the lowest rate, or more
    than twice the highest one."""
    points = [
        (log(step.rate), log(max(_LEAST_WAIT, step.waited / step.requests) / _threshold(step)))
        for step in steps
        if step.requests
    ]
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    if slope <= 0:
        return None
    found = exp(mean_x - mean_y / slope)
    rates = [step.rate for step in steps]
    return found if min(rates) / 2 <= found <= 2 * max(rates) else None


_LEAST_WAIT = 1e-4


def _threshold(step: Step) -> float:
    return noticed_wait(step.own / step.requests)


def report(results: Sequence[Result]) -> str:
    rows = [_row(result) for result in results]
    return f"{table.render_table(HEAD, rows)}\n\n{table.count_right(rows)}"


def _row(result: Result) -> str:
    case, predicted, (*steps, overload) = result.case, result.predicted, result.steps
    waits = ", ".join(f"{1e3 * step.waited / step.requests:.0f} ({step.rate:.1f})" for step in steps if step.requests)
    return " | ".join(
        [
            case.name,
            case.setting,
            f"{predicted.rate:.1f}",
            table.compare(predicted.waiting, find_crossing(steps), case.tolerance),
            predicted.waiting_by.replace("_", " "),
            table.compare(predicted.limit, overload.served, LIMIT),
            predicted.limit_by.replace("_", " "),
            waits,
        ]
    )


def main() -> None:
    options = table.parse_options("ramp", __doc__, 60)
    results: list[Result] = []
    for group in GROUPS:
        if cases := [case for case in group if options.only in f"{case.name} {case.setting}"]:
            results += run(cases, options.seconds)
            print(report(results), flush=True)
    print(
        f"Tolerances: {LIMIT:.0%} for the most, {WAITING:.0%} for waits, {HOT:.0%} of a hot worker. {table.machine()}"
    )


if __name__ == "__main__":
    main()

"""Deploys with and without a change, simulated and real, and counts what is judged of them.

`python3 -m tools.bench.deploys` takes about 5 minutes of one CPU, and each round of real ones (`--real`) 24 minutes.
The exit status is 1 if a promise of docs/deploys.md is not kept by the simulated ones.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tools.bench import deploys_real as real
from tools.bench import table
from tools.bench.deploys_real import Fault
from uwsgi_headroom.analysis.deploys.judgement import Batch, Judgement, Sides, Subject, judge
from uwsgi_headroom.watch.deploy_watch import LATER_LOOK_SECONDS, LOOK_SECONDS, Start

MOST_FALSE = 1 / 200
LEAST_POWER = 0.9
MINUTES_BEFORE = 2400
"""Seconds that an exporter takes of its history file."""


def draw_server(random: np.random.Generator) -> Server:
    """A server as there are: 1 to 30 requests a second, some steady, some not."""
    errs = float(random.choice([0.0, 0.001, 0.01]))
    return Server(
        rate=float(np.exp(random.uniform(0, np.log(30)))),
        variation=float(random.choice([0.5, 1.0, 2.0])),
        drift=float(random.choice([0.0, random.uniform(0.05, 0.2)])),
        drift_seconds=float(random.uniform(5, 30)),
        bursts=float(random.choice([1.0, random.uniform(1, 3)])),
        slow=float(random.choice([0.0, 0.05])),
        errors=errs,
        error_bursts=bool(random.random() < 0.5),
        fills=float(random.uniform(0, 30e6)),
    )


def draw_unchanged(random: np.random.Generator) -> Deploy:
    return Deploy(draw_server(random), int(random.uniform(900, 1800)), 1800)


def draw_minutes(random: np.random.Generator) -> Deploy:
    """As `draw_unchanged`, and what was before it is in the history file of an exporter that was restarted."""
    return Deploy(draw_server(random), MINUTES_BEFORE, 1800, step=60)


def draw_day(random: np.random.Generator) -> Deploy:
    """As `draw_unchanged`, in the morning or evening of a day with a backend whose speed wanders."""
    server = draw_server(random)
    changes = {"trend": float(random.uniform(-0.3, 0.3)), "wander": float(random.uniform(0, 0.1))}
    return Deploy(Server(**{**vars(server), **changes}), int(random.uniform(900, 1800)), 1800)


SIZES: dict[Fault, tuple[float, ...]] = {
    "cpu": (0.05, 0.1, 0.2, 0.5),
    "backend": (0.05, 0.1, 0.2, 0.5),
    "lock": (0.05, 0.1, 0.2, 0.5),
    "memory": (2e6 / 60, 10e6 / 60),
    "exceptions": (0.005, 0.02, 0.05),
    "mix": (0.2,),
}
SHOWS_IN: dict[Fault, Subject] = {
    "cpu": "cpu",
    "backend": "time",
    "lock": "time",
    "memory": "memory",
    "exceptions": "errors",
    "mix": "time",
}


def draw_changed(random: np.random.Generator, fault: Fault, size: float) -> Deploy:
    return Deploy(draw_server(random), int(random.uniform(900, 1800)), 1800, fault, size)


def draw_promised(_random: np.random.Generator, requests: int, size: float) -> Deploy:
    """A promise: so many requests a side at a coefficient of variation of 1, each in the ten minutes at least that
    either side takes."""
    server = Server(requests / 600, backend=0.0, lock=0.0, cpu=0.1)
    return Deploy(server, 600, 60 + 600, "cpu", size)


@dataclass(frozen=True)
class Outcome:
    """What was judged of a deploy in the end, what was worse, and after how many seconds."""

    status: str
    worse: tuple[Subject, ...]
    better: bool
    seconds: int


def run(seed: tuple[int, int], draw: Callable[[np.random.Generator], Deploy]) -> Outcome:
    random = np.random.default_rng(seed)
    seconds, judgement = 0, None
    for seconds, judgement in follow(draw(random), random):  # noqa: B007 - the last one counts
        pass
    if judgement is None:
        return Outcome("early", (), better=False, seconds=0)
    return Outcome(
        judgement.status,
        tuple(change.subject for change in judgement.worse),
        better=any(change.state == "better" for change in judgement.changes),
        seconds=seconds,
    )


def run_all(
    pool: ProcessPoolExecutor, number: int, count: int, draw: Callable[[np.random.Generator], Deploy]
) -> list[Outcome]:
    """Simulates `count` deploys of one kind. number: of the kind, which seeds them."""
    return list(pool.map(partial(run, draw=draw), [(number, each) for each in range(count)], chunksize=10))


def count_unchanged(name: str, outcomes: Sequence[Outcome]) -> str:
    by = Counter(outcome.status for outcome in outcomes)
    return " | ".join([name, str(len(outcomes)), *(str(by[status]) for status in ("worse", "better", "same", "early"))])


def count_changed(name: str, size: str, fault: Fault, outcomes: Sequence[Outcome]) -> str:
    found = [outcome for outcome in outcomes if SHOWS_IN[fault] in outcome.worse]
    other = sum(bool(outcome.worse) for outcome in outcomes) - len(found)
    better = sum(outcome.better for outcome in outcomes)
    missed = len(outcomes) - len(found) - other
    excluded = sum(outcome.status == "same" for outcome in outcomes)
    delay = f"{statistics.median(outcome.seconds for outcome in found) / 60:.1f} min" if found else "-"
    return " | ".join([name, size, *map(str, (len(outcomes), len(found), other, missed, excluded, better)), delay])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.deploys", description=__doc__)
    parser.add_argument("--unchanged", type=int, default=3000, help="deploys without a change (default %(default)s)")
    parser.add_argument("--changed", type=int, default=1000, help="deploys with one (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    parser.add_argument(
        "--real", type=int, default=0, metavar="ROUNDS", help="rounds of twenty real deploys (default 0)"
    )
    options = parser.parse_args()
    kept = True
    with ProcessPoolExecutor(options.jobs) as pool:
        everything = partial(run_all, pool)
        unchanged = everything(1, options.unchanged, draw_unchanged)
        kept &= sum(outcome.status == "worse" for outcome in unchanged) <= MOST_FALSE * len(unchanged)
        minutes = everything(5, options.unchanged, draw_minutes)
        kept &= sum(outcome.status == "worse" for outcome in minutes) <= MOST_FALSE * len(minutes)
        rows = [count_unchanged("steady load", unchanged), count_unchanged("steady load, minutes before it", minutes)]
        rows.append(count_unchanged("the drift of a day", everything(2, options.unchanged // 3, draw_day)))
        first = table.render_table("without a change | deploys | worse | better | no change | too early", rows)
        print(first, flush=True)
        promises = []
        for number, (requests, size) in enumerate(((1800, 0.2), (6500, 0.1))):
            outcomes = everything(
                3 + number, options.changed // 5, partial(draw_promised, requests=requests, size=size)
            )
            found = sum(outcome.status == "worse" for outcome in outcomes)
            kept &= found >= LEAST_POWER * len(outcomes)
            promises.append(f"{size:.0%} | {requests:,} | {len(outcomes)} | {found} | {found / len(outcomes):.1%}")
        second = table.render_table("change | requests a side | deploys | found | share", promises)
        print(second, flush=True)
        each = options.changed // sum(map(len, SIZES.values()))
        rows = []
        for number, (fault, sizes) in enumerate(SIZES.items()):
            for place, size in enumerate(sizes):
                outcomes = everything(10 + 10 * number + place, each, partial(draw_changed, fault=fault, size=size))
                rows.append(count_changed(fault, _name_size(fault, size), fault, outcomes))
        third = table.render_table(
            "change in | by | deploys | found | only in another quantity | missed | of these judged without a change "
            "above 20 % | better | median time to it",
            rows,
        )
        print(third, flush=True)
    for _ in range(options.real):
        print(describe_real(real.run_round(real.PLANTED)), flush=True)
    return 0 if kept else 1


def describe_real(found: Sequence[real.Found]) -> str:
    rows = [
        " | ".join(
            [
                f"{each.planted.fault}, {each.planted.how}",
                _name_size(each.planted.fault, each.planted.size) if each.planted.size else "",
                each.status,
                ", ".join(each.worse),
                "" if each.after is None else f"{each.after:.0f} s",
                each.sentence,
            ]
        )
        for each in found
    ]
    return table.render_table("change in | by | judged | worse in | after | sentence", rows)


def _name_size(fault: Fault, size: float) -> str:
    if fault == "memory":
        return f"{size * 60 / 1e6:.0f} MB a minute"
    return f"{100 * size:g} %{' of the requests' if fault == 'exceptions' else ''}"


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Server:
    """A server: requests a second, mean seconds of each part of a request with their coefficients of variation, and how
    it deviates from that."""

    rate: float
    cpu: float = 0.03
    backend: float = 0.06
    lock: float = 0.01
    variation: float = 1.0
    drift: float = 0.0
    """The standard deviation of the logarithm of the backend's mean over time, and over how many seconds it lasts."""
    drift_seconds: float = 10.0
    bursts: float = 1.0
    """The factor of the load in a fifth of all seconds, 20 s at a time."""
    slow: float = 0.0
    """The share of requests that take ten times as long."""
    errors: float = 0.0
    """The share of requests that fail."""
    error_bursts: bool = False
    """Whether errors come ten in a row."""
    trend: float = 0.0
    """By which part of its mean the load grows in half an hour, and the logarithm of the backend's mean by half of
    that: the morning of a day."""
    wander: float = 0.0
    """The standard deviation of the logarithm of the backend's mean in the long run; it changes over ten minutes."""
    leak: float = 0.0
    """Bytes that a mean worker grows in a second, for as long as it runs."""
    fills: float = 10e6
    """Bytes of a mean worker that grow with the logarithm of its age."""


@dataclass(frozen=True)
class Deploy:
    """A reload of a server, `before` seconds after it began, and what it changes."""

    server: Server
    before: int
    after: int
    fault: Fault = "none"
    size: float = 0.0
    """By which part the time of a request grows (`cpu`: the CPU time); exceptions in parts of the requests; bytes a
    second of a mean worker."""
    step: int = 1
    """Seconds of a batch before it: 60, if those are from the history file of an exporter that was not running."""

    @property
    def changed(self) -> Server:
        server, size = self.server, self.size
        whole = server.cpu + server.backend + server.lock
        changes: dict[Fault, dict[str, float]] = {
            "none": {},
            "cpu": {"cpu": server.cpu * (1 + size)},
            "backend": {"backend": server.backend + size * whole},
            "lock": {"lock": server.lock + size * whole},
            "memory": {"leak": server.leak + size},
            "exceptions": {"errors": server.errors + size},
            "mix": {"slow": server.slow + size / 9},
        }
        return replace(server, **changes[self.fault])  # type: ignore[arg-type]  # these are all numbers


def run_server(
    server: Server, seconds: int, age: int, random: np.random.Generator, drift: Floats, began: int = 0
) -> list[Batch]:
    """The seconds of a server whose workers are `age` seconds old at first. drift: the logarithm of the backend's mean,
    by second, of which those from `began` on are taken."""
    half_hours = (np.arange(seconds) + began) / 1800
    load = server.rate * (1 + server.trend * half_hours)
    if server.bursts != 1:
        offset = int(random.integers(100))
        load[(np.arange(seconds) + offset) % 100 < 20] *= server.bursts
    counts = random.poisson(load)
    total = int(counts.sum())
    times = np.repeat(np.exp(drift[began : began + seconds] + server.trend * half_hours / 2), counts)
    kinds = np.where(random.random(total) < server.slow, 10.0, 1.0)
    cpu = _lognormal(server.cpu, server.variation, total, random) * kinds
    backend = _lognormal(server.backend, server.variation, total, random) * kinds * times
    lock = _lognormal(server.lock, server.variation, total, random) * kinds
    return [
        Batch(1.0, float(count), time, used, float(failed), grown)
        for count, time, used, failed, grown in zip(
            counts,
            _by_second(cpu + backend + lock, counts),
            _by_second(cpu, counts),
            _errors(server, counts, random),
            _grow(server, seconds, age, random),
            strict=True,
        )
    ]


def _lognormal(mean: float, variation: float, count: int, random: np.random.Generator) -> Floats:
    width = math.sqrt(math.log1p(variation**2))
    return np.asarray(mean * random.lognormal(-(width**2) / 2, width, count))


def _find_drift(server: Server, seconds: int, random: np.random.Generator) -> Floats:
    """The logarithm of the backend's mean, by second: two autoregressive processes."""
    drift = np.zeros(seconds)
    for size, length in ((server.drift, server.drift_seconds), (server.wander, 600.0)):
        if size:
            kept = math.exp(-1 / length)
            steps = random.normal(size=seconds) * math.sqrt(1 - kept**2) * size
            level = random.normal() * size
            for second, step in enumerate(steps):
                level = kept * level + step
                drift[second] += level
    return drift


def _by_second(amounts: Floats, counts: NDArray[np.int64]) -> list[float]:
    sums = np.concatenate([[0.0], np.cumsum(amounts)])
    ends = np.cumsum(counts)
    return [float(amount) for amount in sums[ends] - sums[ends - counts]]


def _errors(server: Server, counts: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    if server.error_bursts:
        return np.minimum(counts, 10 * random.binomial(counts, server.errors / 10))
    return np.asarray(random.binomial(counts, server.errors))


def _grow(server: Server, seconds: int, age: int, random: np.random.Generator) -> list[float]:
    """Growth comes in pages of 256 kB, and a tenth of it is given back at times."""
    ages = age + np.arange(seconds + 1.0)
    smooth = server.fills * np.log1p(ages / 60) + server.leak * ages
    pages = np.floor(smooth / 2**18) * 2**18 + 2**18 * random.binomial(4, 0.5, seconds + 1)
    return [float(each) for each in np.diff(pages)]


def _join(batches: list[Batch], number: int) -> list[Batch]:
    """Each `number` of neighbours as one; a rest is left out. What a simulated server does is always known."""
    groups = zip(*[iter(batches)] * number, strict=False)
    return batches if number == 1 else [Batch(*map(math.fsum, zip(*group, strict=True))) for group in groups]


LOOKS = (*range(120, 600, int(LOOK_SECONDS)), *range(600, 3601, int(LATER_LOOK_SECONDS)))
"""Seconds after the start at which a deploy is looked at, as by the exporter."""


def follow(deploy: Deploy, random: np.random.Generator) -> Iterator[tuple[int, Judgement]]:
    """What is judged at each look, with the seconds since the reload. Ends when it is worse, or better."""
    drift = _find_drift(deploy.server, deploy.before + deploy.after, random)
    before = Sides(_join(run_server(deploy.server, deploy.before, 7200, random, drift), deploy.step))
    whole = run_server(deploy.changed, deploy.after, 0, random, drift, deploy.before)
    start = _find_start(whole)
    for look in LOOKS:
        if start + look > len(whole):
            return
        judgement = judge(before, Sides(whole[start : start + look]))
        yield start + look, judgement
        if judgement.status in ("worse", "better"):
            return


def _find_start(batches: list[Batch]) -> int:
    start = Start(0.0)
    return next((second for second, batch in enumerate(batches) if start.is_over(batch, second + 1.0)), len(batches))


if __name__ == "__main__":
    sys.exit(main())

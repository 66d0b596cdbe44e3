"""Deploys with and without a change, simulated and real, and counts what is judged of them.

`python3 -m tools.bench.deploys` takes about 5 minutes of one CPU, and each round of real ones (`--real`) 24 minutes.
The exit status is 1 if a promise of docs/deploys.md is not kept by the simulated ones.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from tools.bench import table
from tools.bench.deploys import real
from tools.bench.deploys.simulated import Deploy, Fault, Server, follow
from uwsgi_headroom.analysis.deploys.judgement import Subject

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
    """Simulates one deploy."""
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


Run = Callable[[int, int, Callable[[np.random.Generator], Deploy]], list[Outcome]]


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
    """The table of a round of real deploys."""
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


if __name__ == "__main__":
    sys.exit(main())

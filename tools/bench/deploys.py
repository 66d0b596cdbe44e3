"""Deploys with and without a change, simulated and real, and counts what is judged of them.

`python3 -m tools.bench.deploys` takes about 5 minutes of one CPU, and each round of real ones (`--real`) 24 minutes.
The exit status is 1 if a promise of docs/deploys.md is not kept by the simulated ones. In a real round, servers of an
application with planted regressions run side by side, each with its own load, and are reloaded at the same time after
ten minutes. What the exporter says of each is noted until it is certain, or ten minutes have passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tests.support import real_uwsgi
from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import Uwsgi
from tools.bench import clients, table
from tools.scenarios.servers import standing_in
from uwsgi_headroom.analysis.deploys.judgement import Batch, Judgement, Sides, Subject, judge
from uwsgi_headroom.watch.deploy_watch import LATER_LOOK_SECONDS, LOOK_SECONDS, Start

Fault = Literal["none", "cpu", "backend", "lock", "memory", "exceptions", "mix"]

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


CHANGES: dict[Fault, tuple[float, Subject]] = {
    "cpu": (0.2, "cpu"),
    "backend": (0.2, "time"),
    "lock": (0.2, "time"),
    "memory": (10e6 / 60, "memory"),
    "exceptions": (0.02, "errors"),
    "mix": (0.2, "time"),
}
"""How large a change is, and in what it shows."""


def plant(fault: Fault, size: float, version: Mapping[str, float]) -> dict[str, float]:
    """What a fault changes in a version: times grow by a part of themselves or of all of a request."""
    whole = version["cpu"] + version["backend"] + version["lock"]
    changes: dict[Fault, dict[str, float]] = {
        "none": {},
        "cpu": {"cpu": version["cpu"] * (1 + size)},
        "backend": {"backend": version["backend"] + size * whole},
        "lock": {"lock": version["lock"] + size * whole},
        "memory": {"leak": version["leak"] + size},
        "exceptions": {"errors": version["errors"] + size},
        "mix": {"slow": version.get("slow", 0.0) + size / 9},
    }
    return changes[fault]


def draw_changed(random: np.random.Generator, fault: Fault, size: float) -> Deploy:
    return Deploy(draw_server(random), int(random.uniform(900, 1800)), 1800, fault, size)


def draw_promised(_random: np.random.Generator, requests: int, size: float) -> Deploy:
    """A promise: so many requests a side at a coefficient of variation of 1, each in the ten minutes at least that
    either side takes."""
    server = Server(requests / 600, backend=0.0, lock=0.0, cpu=0.1)
    return Deploy(server, 600, 60 + 600, "cpu", size)


@dataclass(frozen=True)
class Kind:
    """Deploys of one kind. count: how many; most, least: the share that may, or must, be judged worse; shows_in: what
    the change is in."""

    name: str
    count: int
    draw: Callable[[np.random.Generator], Deploy]
    most: float = 1.0
    least: float = 0.0
    shows_in: Subject | None = None


def list_kinds(unchanged: int, changed: int) -> Iterator[Kind]:
    yield Kind("no change, steady load", unchanged, draw_unchanged, most=MOST_FALSE)
    yield Kind("no change, steady load, minutes before it", unchanged, draw_minutes, most=MOST_FALSE)
    yield Kind("no change, the drift of a day", unchanged // 3, draw_day)
    for requests, size in ((1800, 0.2), (6500, 0.1)):
        draw = partial(draw_promised, requests=requests, size=size)
        yield Kind(f"{size:.0%} slower, {requests:,} requests a side", changed // 5, draw, least=LEAST_POWER)
    for fault, (size, subject) in CHANGES.items():
        draw = partial(draw_changed, fault=fault, size=size)
        yield Kind(f"{fault}: {_name_size(fault, size)}", changed // len(CHANGES), draw, shows_in=subject)


def run(seed: tuple[int, int], draw: Callable[[np.random.Generator], Deploy]) -> tuple[int, Judgement | None]:
    """The last judgement of a deploy, and after how many seconds."""
    random = np.random.default_rng(seed)
    return next(iter([*follow(draw(random), random)][-1:]), (0, None))


def describe(kind: Kind, judged: Sequence[tuple[int, Judgement | None]]) -> str:
    """The row of the table."""
    by = Counter("early" if judgement is None else judgement.status for _, judgement in judged)
    worse = [(seconds, each.worse) for seconds, each in judged if each and each.status == "worse"]
    right = sum(any(change.subject == kind.shows_in for change in changes) for _, changes in worse)
    delay = f"{statistics.median(seconds for seconds, _ in worse) / 60:.1f}" if worse else ""
    counts = [str(by[status]) for status in ("worse", "better", "same", "early")]
    return " | ".join([kind.name, str(len(judged)), *counts, str(right) if kind.shows_in else "", delay])


HEAD = "deploys | number | worse | better | no change | too early | worse in what changed | median minutes to it"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.deploys", description=__doc__)
    parser.add_argument("--unchanged", type=int, default=3000, help="deploys without a change (default %(default)s)")
    parser.add_argument("--changed", type=int, default=1000, help="deploys with one (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    parser.add_argument("--real", type=int, default=0, metavar="ROUNDS", help="rounds of twenty real ones (default 0)")
    options = parser.parse_args()
    kept = True
    print(table.render_table(HEAD, []), flush=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, kind in enumerate(list_kinds(options.unchanged, options.changed), 1):
            seeds = [(number, each) for each in range(kind.count)]
            judged = list(pool.map(partial(run, draw=kind.draw), seeds, chunksize=10))
            print(f"| {describe(kind, judged)} |", flush=True)
            worse = sum(judgement is not None and judgement.status == "worse" for _, judgement in judged)
            kept &= kind.least * len(judged) <= worse <= kind.most * len(judged)
    for _ in range(options.real):
        print(describe_real(run_round(PLANTED)), flush=True)
    return 0 if kept else 1


def describe_real(found: Sequence[Found]) -> str:
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
        return replace(self.server, **plant(self.fault, self.size, vars(self.server)))  # type: ignore[arg-type]


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


APP = Path(__file__).with_name("deploys_app.py")

BASE: Mapping[str, float] = {"cpu": 0.004, "backend": 0.02, "lock": 0.004, "leak": 0, "errors": 0.001}

BEFORE_SECONDS, AFTER_SECONDS, WARM_SECONDS = 660.0, 660.0, 20.0
RATE = 6.0
"""Requests a second of each server."""

WORKERS = 2


@dataclass(frozen=True)
class Planted:
    """A deploy. how: `reload` the master, or the workers in a `chain`."""

    fault: Fault
    size: float = 0.0
    how: str = "reload"

    @property
    def version(self) -> dict[str, float]:
        size = int(self.size * WORKERS / RATE) if self.fault == "memory" else self.size
        return {**BASE, **plant(self.fault, size, BASE)}


PLANTED: Sequence[Planted] = (
    *[Planted("none")] * 6,
    *[Planted("none", how="chain")] * 2,
    *[Planted("cpu", size) for size in (0.2, 0.5)],
    *[Planted("backend", size) for size in (0.1, 0.2, 0.5)],
    *[Planted("lock", size) for size in (0.2, 0.5)],
    *[Planted("memory", size) for size in (5e6 / 60, 10e6 / 60)],
    *[Planted("exceptions", size) for size in (0.02, 0.05)],
    Planted("backend", 0.5, how="chain"),
)
"""A round: twenty deploys. `memory` is in bytes a second of a mean worker."""


@dataclass
class Found:
    """What the exporter said of a deploy. after: seconds from the reload until it was certain."""

    planted: Planted
    status: str = "early"
    worse: tuple[str, ...] = ()
    after: float | None = None
    sentence: str = ""


@contextlib.contextmanager
def _running(ports: Sequence[int], version: Mapping[str, float]) -> Iterator[list[Uwsgi]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                real_uwsgi.bare(
                    *("--master", "--need-app", "--enable-threads", "--lazy-apps", "--disable-logging"),
                    *("--processes", str(WORKERS), "--threads", "2", "--wsgi-file", str(APP)),
                    *("--http-socket", f"127.0.0.1:{port}", "--stats", "{directory}/stats"),
                    *("--master-fifo", "{directory}/fifo"),
                    files={"version.json": json.dumps(version)},
                )
            )
            for port in ports
        ]


def run_round(planted: Sequence[Planted], before: float = BEFORE_SECONDS, after: float = AFTER_SECONDS) -> list[Found]:
    """Deploys all of these at once, `before` seconds after the load began, and returns what the exporter said in the
    next `after` seconds. The arrivals of each server are random (Poisson)."""
    ports = [real_uwsgi.free_port() for _ in planted]
    sockets = tuple((port, 1 / len(ports)) for port in ports)
    load = clients.Plan(sockets, (clients.Kind(1.0, "/"),), ((RATE * len(ports), math.inf),))
    with standing_in("backend:1000") as backend:
        backend_port = int(backend.rpartition(":")[2])
        with _running(ports, {**BASE, "port": backend_port}) as servers, clients.running(load):
            names = [f"shop{place:02}" for place in range(len(servers))]
            arguments = [f"--stats={name}={server.stats}" for name, server in zip(names, servers, strict=True)]
            time.sleep(WARM_SECONDS)
            with exporter(*arguments) as watching:
                time.sleep(before)
                for each, server in zip(planted, servers, strict=True):
                    _deploy(each, server, backend_port)
                return follow_real(watching, dict(zip(names, planted, strict=True)), after)


def _deploy(planted: Planted, server: Uwsgi, port: int) -> None:
    (server.directory / "version.json").write_text(json.dumps({**planted.version, "port": port}))
    if planted.how == "chain":
        (server.directory / "fifo").write_text("c")
    else:
        os.kill(server.pid, signal.SIGHUP)


def follow_real(watching: Exporter, planted: Mapping[str, Planted], seconds: float) -> list[Found]:
    """What the exporter says of each of these servers, by name, in the next seconds, from when it was certain on."""
    found = {name: Found(each) for name, each in planted.items()}
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        time.sleep(5)
        for name, each in found.items():
            if each.status == "worse":
                continue
            status, body = watching.get(f"/api/v2/servers/{name}")
            deploy = json.loads(body)["deploy"] if status == 200 else None
            if deploy is None:
                continue
            if deploy["status"] != each.status:
                each.after = time.monotonic() - began
            each.status, each.sentence = deploy["status"], deploy["sentence"]
            each.worse = tuple(change["subject"] for change in deploy["changes"] if change["state"] == "worse")
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())

"""Servers of all kinds with ten minutes of load on each, as the exporter sees them and as Prometheus scrapes them.

Loads repeat every half minute, the time between two scrapes, so that counters grow linearly from scrape to scrape:
`rate` then extrapolates exactly at the ends of its range, and must equal the exporter's figures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.metrics import families
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import STATES, UNKNOWN, Waits
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import Pace

READ_EVERY, SCRAPE_EVERY, WINDOW, LENGTH = 5, 30, 300, 600
"""Seconds."""

ASYNC = replace(UNKNOWN, concurrency_kind="async")
"""The setup of a server whose workers run coroutines."""

_PATTERN = SCRAPE_EVERY // READ_EVERY


@dataclass
class Story:
    """One server on one instance. scrapes: by series, a value for each half minute; figures: the exporter's, at the
    end; cpus: usable CPUs, if known; others_follow: whether the CPU use of others grows with its requests."""

    server: str
    instance: str
    scrapes: dict[str, list[float | None]] = field(default_factory=dict)
    figures: Figures | None = None
    cpus: float | None = None
    others_follow: bool | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"job": "uwsgi", "instance": self.instance, "server": self.server}


def tell_story(rng: random.Random, name: str, instance: str) -> Story:
    """Makes a random server with a random load."""
    story = Story(name, instance, others_follow=rng.choice([None, False, True]))
    integrals, history, reading = Integrals(), History(), None
    for at, reading in _readings(rng):
        if reading:
            integrals.add(reading, longest_step=READ_EVERY + 1)
            history.add(reading.at, integrals.totals)
        else:
            integrals.miss(at)
        if at % SCRAPE_EVERY == 0:
            _scrape(story, at // SCRAPE_EVERY, integrals, reading)
    window = history.window(WINDOW)
    assert window
    assert reading
    story.figures = compute_figures(window, describe_server(reading), story.others_follow)
    story.cpus = reading.host.cpus.count if reading.host.cpus else None
    return story


def _readings(rng: random.Random) -> Iterator[tuple[int, Reading | None]]:
    """Yields the time and result of each read; None if the read failed."""
    processes, threads = rng.choice([1, 2, 3, 4, 5, 8]), rng.choice([1, 2, 8])
    late = rng.random() < 0.2 and processes > 1
    server = Server(
        processes=processes,
        threads=threads,
        spawned=processes - late,
        host=rng.random() < 0.8,
        cores=rng.random() < 0.85,
        queue=rng.choice([None, 0, 0]),
        cpus=rng.choice([0.5, 2.0, 4.0, 64.0]),
        idle=rng.choice([None, 0.0, 0.5, 60.0]),
        others=rng.choice([0.0, 0.25, 8.0]),
    )
    queues = [rng.choice([0, 0, 1, 7, 40]) for _ in range(_PATTERN)]
    loads = _loads(rng, processes, threads)
    gap = range(0) if late else rng.choice([range(0), range(425, 450), range(395, 480)])
    spawns_at = rng.choice([390, 480])
    waits = _waits(rng, processes, threads)
    coroutines = server.host and rng.random() < 0.6
    for at in range(0, LENGTH + 1, READ_EVERY):
        place = at // READ_EVERY % _PATTERN
        if late and at == spawns_at:
            server.respawn(processes, at)
        if server.queue is not None:
            server.queue = queues[place]
        server.waits = replace(waits[place], loops={}) if coroutines else waits[place]
        for slot, load in zip(server.slots, loads, strict=True):
            slot.busy = load.busy[place] if slot.pid else 0
            slot.state = ("busy" if slot.busy else "idle") if slot.pid else slot.state
        yield at, None if at in gap else _read(server, at, coroutines)
        for slot, load in zip(server.slots, loads, strict=True):
            if slot.pid is None:
                continue
            served, static = load.served[place], load.static[place]
            slot.requests += served + static
            slot.static_requests += static
            slot.running_time = (slot.running_time or 0.0) + served * load.each
            slot.cpu = (slot.cpu or 0.0) + served * load.cpu


def _read(server: Server, at: float, coroutines: bool) -> Reading:
    reading = server.read(at)
    return replace(reading, host=replace(reading.host, setup=ASYNC)) if coroutines else reading


@dataclass(frozen=True)
class _Load:
    """A worker's requests from one read to the next, its busy threads at each read; seconds and CPU seconds per
    request."""

    served: list[int]
    static: list[int]
    busy: list[int]
    each: float
    cpu: float


def _loads(rng: random.Random, processes: int, threads: int) -> list[_Load]:
    """Loads of different sizes: if workers serve equally many requests, the exporter distinguishes them by id, and
    PromQL cannot."""
    rate = rng.choice([0, 3, 30, 30, 100])
    while True:
        loads = [_load(rng, rate, threads) for _ in range(processes)]
        if not rate or len({sum(load.served + load.static) for load in loads}) == processes:
            return loads


def _load(rng: random.Random, rate: int, threads: int) -> _Load:
    static, crowd = rng.choice([0, 0, rate // 2]), rng.choice([0.01, 0.5, 1.0])
    longest = 10_000 * READ_EVERY * threads // (2 * rate or 1)  # as long as the threads suffice for the highest rate
    return _Load(
        # Times in a history are multiples of 0.1 ms.
        served=[rng.randint(0, 2 * rate) for _ in range(_PATTERN)],
        static=[rng.randint(0, static) for _ in range(_PATTERN)],
        busy=[sum(rng.random() < crowd for _ in range(threads)) for _ in range(_PATTERN)],
        each=rng.randint(1, min(9000, longest)) / 10_000,
        cpu=rng.choice([0, rng.randint(1, 400)]) * 2 / 10_000,
    )


def _waits(rng: random.Random, processes: int, threads: int) -> list[Waits]:
    """What the threads wait for at each read; all unknown if the kernel does not permit to see it."""
    if rng.random() < 0.2:
        return [Waits(off="not permitted")] * _PATTERN
    backends = rng.choice([(), ("postgres",), ("postgres", "redis")])
    return [_waits_at_once(rng, processes, threads, backends) for _ in range(_PATTERN)]


def _waits_at_once(rng: random.Random, processes: int, threads: int, backends: Sequence[str]) -> Waits:
    locks = {worker_id: float(rng.randint(0, threads)) for worker_id in range(1, processes + 1)}
    waiting = {name: float(rng.randint(0, threads)) for name in backends}
    return Waits(
        threads={
            **{state: float(rng.randint(1, threads)) for state in rng.sample(STATES, 4)},
            "interpreter_lock": sum(locks.values()),
            "backend": sum(waiting.values()) + rng.randint(0, threads),
        },
        interpreter_lock=locks,
        backends=waiting,
        busy=processes * threads,
    )


def _scrape(story: Story, place: int, integrals: Integrals, reading: Reading | None) -> None:
    if reading is None:
        return
    observation = Observation(
        story.server, "unix:///run/app.stats", reading, {}, integrals.totals, Pace(), [], story.others_follow
    )
    for metric in families([observation]):
        for sample in metric.samples:
            if "server" not in sample.labels or not sample.name.startswith("uwsgi_"):
                continue
            labels = {**story.labels, **sample.labels}
            name = sample.name + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"
            values = story.scrapes.setdefault(name, [None] * (LENGTH // SCRAPE_EVERY + 1))
            values[place] = sample.value

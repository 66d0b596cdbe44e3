"""The recording rules, evaluated by promtool over the exporter's series, equal the exporter's own figures."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from alerts import recording
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from tests.support import promtool
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS
from uwsgi_headroom.analysis.capacity import LEAST_OWN
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.littles_law import STEADY, ratio
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import sum_if_all_known
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


@dataclass(frozen=True)
class Story:
    """One server on one instance. scrapes: by series, a value for each half minute; figures: the exporter's, at the
    end; cpus: usable CPUs, if known; others_follow: whether the CPU use of others grows with its requests."""

    labels: dict[str, str]
    scrapes: dict[str, list[float | None]]
    figures: Figures
    cpus: float | None
    others_follow: bool | None


def tell_story(rng: random.Random, name: str, instance: str) -> Story:
    """Makes a random server with a random load."""
    labels, others_follow = {"job": "uwsgi", "instance": instance, "server": name}, rng.choice([None, False, True])
    integrals, history, reading = Integrals(), History(), None
    scrapes: dict[str, list[float | None]] = {}
    for at, reading in _readings(rng):
        if reading:
            integrals.add(reading, longest_step=READ_EVERY + 1)
            history.add(reading.at, integrals.totals)
        else:
            integrals.miss(at)
        if at % SCRAPE_EVERY == 0 and reading:
            seen = Observation(name, "unix:///run/app.stats", reading, {}, integrals.totals, Pace(), [], others_follow)
            for series, value in _scrape(seen, labels):
                scrapes.setdefault(series, [None] * (LENGTH // SCRAPE_EVERY + 1))[at // SCRAPE_EVERY] = value
    window = history.window(WINDOW)
    assert window
    assert reading
    figures = compute_figures(window, describe_server(reading), others_follow)
    return Story(labels, scrapes, figures, reading.host.cpus.count if reading.host.cpus else None, others_follow)


def _scrape(seen: Observation, labels: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yields each series of the server, with the labels of its target, and its value."""
    for metric in families([seen]):
        for sample in metric.samples:
            if "server" in sample.labels and sample.name.startswith("uwsgi_"):
                pairs = sorted({**labels, **sample.labels}.items())
                yield sample.name + "{" + ",".join(f'{key}="{value}"' for key, value in pairs) + "}", sample.value


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
    waits = _waits_of_threads(rng, processes, threads)
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
        loads = [_load_worker(rng, rate, threads) for _ in range(processes)]
        if not rate or len({sum(load.served + load.static) for load in loads}) == processes:
            return loads


def _load_worker(rng: random.Random, rate: int, threads: int) -> _Load:
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


def _waits_of_threads(rng: random.Random, processes: int, threads: int) -> list[Waits]:
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


SERVICES, INSTANCES = 20, 3
TOLERANCE = 1e-9
"""Relative: rounding of arithmetic in another order. Different formulas differ by more."""

Expected = Iterator[tuple[str, dict[str, str], float | None]]
"""Recorded name, labels, and value; None for no value."""

RULES = [rule for group in recording.groups(Thresholds()) for rule in group.rules if isinstance(rule, Recording)]


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    """Twenty services on three instances each, always the same."""
    rng = random.Random(20)
    return [
        tell_story(rng, f"shop-{service}", f"web-{instance}:9238")
        for service in range(SERVICES)
        for instance in range(INSTANCES)
    ]


def test_the_rules_say_what_the_exporter_says(stories: list[Story], tmp_path: Path) -> None:
    """Each figure of each worker, server and service is equal in both, or absent in both, for servers of all kinds."""
    text = (promtool.RULES / "recording.yaml").read_text()
    series: dict[str, Sequence[float | None]] = {
        key: values
        for story in stories
        for key, values in story.scrapes.items()
        if key.partition("{")[0] in text and "_bucket" not in key
    }
    names = set()
    services = [stories[place : place + INSTANCES] for place in range(0, len(stories), INSTANCES)]
    expected = [figure for story in stories for figure in [*_workers(story), *_server(story)]]
    expected += [figure for service in services for figure in _service(service)]
    for name, labels, value in expected:
        names.add(name)
        if value is not None:
            written = ",".join(f'{label}="{text}"' for label, text in labels.items())
            series[f"expected:{name}{{{written}}}"] = [value] * (LENGTH // SCRAPE_EVERY + 1)
    assert len([key for key in series if key.startswith("expected:")]) > 2000
    assert len([key for key in series if key.startswith("expected:worker:uwsgi_polling_cpus")]) > 2
    assert names == {rule.record for rule in RULES} - NOT_OF_THE_EXPORTER
    asked = [
        f"({name} unless expected:{name}) or (expected:{name} unless {name})"
        f" or abs({name} - expected:{name}) > {TOLERANCE} * (1 + abs(expected:{name}))"
        for name in sorted(names)
    ]
    assert promtool.nothing(tmp_path, ["recording.yaml"], series, "30s", f"{LENGTH}s", asked) == ""


NOT_OF_THE_EXPORTER = {
    "worker:uwsgi_calm_requests:rate5m",
    "server:uwsgi_active_requests:median_rate5m",
    "server:uwsgi_route_threads:ratio_rate5m",
    "service:uwsgi_route_threads:ratio_rate5m",
    *(f"{level}:uwsgi_response_time_seconds:p{p}_rate5m" for level in ("server", "service") for p in (50, 90, 95, 99)),
}
"""Intermediate series, which `Figures` does not have; routes, which are opt-in; and percentiles, which are finer there.
`alerts/tests` has the last two."""


def _workers(story: Story) -> Expected:
    figures = story.figures
    for worker, counted in zip(figures.balance.workers, figures.window.workers, strict=True):
        labels = {**story.labels, "worker_id": str(worker.worker_id)}
        rate = worker.requests / WINDOW
        yield "worker:uwsgi_requests:rate5m", labels, rate
        yield "worker:uwsgi_active_requests:rate5m", labels, rate if worker.active else None
        yield "worker:uwsgi_timed_requests:rate5m", labels, rate - counted.static_requests / WINDOW
        yield "worker:uwsgi_request_share:ratio_rate5m", labels, worker.share
        yield "worker:uwsgi_response_time_seconds:ratio_rate5m", labels, worker.response_time
        yield "worker:uwsgi_interpreter_load:rate5m", labels, worker.interpreter_load
        yield "worker:uwsgi_concurrency_observed:ratio_rate5m", labels, worker.concurrency
        yield "worker:uwsgi_polling_cpus:rate5m", labels, figures.polling.get(worker.worker_id)
        yield "worker:uwsgi_interpreter_lock_wait_threads:ratio_rate5m", labels, worker.lock_waiters


def _server(story: Story) -> Expected:
    figures, labels = story.figures, story.labels
    yield "server:uwsgi_requests:rate5m", labels, figures.flow.throughput
    yield "server:uwsgi_timed_requests:rate5m", labels, _timed(story) / WINDOW
    yield "server:uwsgi_concurrency_littles_law:rate5m", labels, figures.flow.littles_law
    yield "server:uwsgi_response_time_seconds:ratio_rate5m", labels, figures.flow.response_time
    yield "server:uwsgi_concurrency_observed:ratio_rate5m", labels, figures.flow.observed
    yield "server:uwsgi_queue_length:ratio_rate5m", labels, _queue(story)
    yield "server:uwsgi_queue_wait_seconds:ratio_rate5m", labels, figures.flow.queue_wait
    yield "server:uwsgi_utilization:ratio_rate5m", labels, _utilization(story)
    yield "server:uwsgi_active_workers:count5m", labels, _active(figures) or None
    yield "server:uwsgi_active_requests:rate5m", labels, _active_requests(figures) / WINDOW
    yield "server:uwsgi_hot_worker_ratio:ratio_rate5m", labels, figures.balance.hot_ratio
    yield "server:uwsgi_hot_worker_ratio_noise_floor:ratio_rate5m", labels, figures.balance.noise_floor
    yield "server:uwsgi_calm_response_time_seconds:ratio_rate5m", labels, figures.balance.calm_response_time
    yield "server:uwsgi_unevenness_cost:ratio_rate5m", labels, figures.balance.cost
    yield "server:uwsgi_interpreter_load:rate5m", labels, _load(story)
    demand, capacity = _cpu(story) if story.cpus and _load(story) is not None else (None, None)
    yield "server:uwsgi_cpu_demand:rate5m", labels, demand
    yield "server:uwsgi_cpu_capacity:rate5m", labels, capacity
    for limit, factor in figures.headroom.by_limit.items():
        yield "server:uwsgi_headroom:ratio_rate5m", {**labels, "limit": limit}, factor
    for metric, part, threads, per_request in _waits(figures):
        yield f"server:uwsgi_{metric}_threads:ratio_rate5m", {**labels, **part}, threads
        yield f"server:uwsgi_{metric}_seconds_per_request:ratio_rate5m", {**labels, **part}, per_request


def _accepted(story: Story) -> float:
    """The requests per second over which the time in a server's queues is a mean: completed ones, and those that are
    served or wait, where these are many."""
    flow, queues = story.figures.flow, story.figures.server.queues.values()
    waiting = sum(each.queue or 0 for each in queues)
    standing = waiting + (flow.observed or 0.0) if waiting > flow.requests / STEADY else 0.0
    return (flow.throughput or 0.0) + standing / WINDOW


def _service(servers: list[Story]) -> Expected:
    """The figures of a service, computed from its servers' totals and not from intermediate series."""
    labels = {"job": "uwsgi", "server": servers[0].labels["server"]}
    every = [story.figures for story in servers]
    littles_law = sum(figures.flow.littles_law or 0.0 for figures in every)
    yield "service:uwsgi_requests:rate5m", labels, sum(figures.flow.throughput or 0.0 for figures in every)
    yield "service:uwsgi_concurrency_littles_law:rate5m", labels, littles_law
    timed = sum(_timed(story) for story in servers) / WINDOW
    yield "service:uwsgi_response_time_seconds:ratio_rate5m", labels, ratio(littles_law, timed)
    observed = [figures.flow.observed for figures in every if figures.flow.observed is not None]
    yield "service:uwsgi_concurrency_observed:ratio_rate5m", labels, sum(observed) if observed else None
    measured = [story for story in servers if _queue(story) is not None]
    waiting = sum(_queue(story) or 0.0 for story in measured)
    left = sum(_accepted(story) for story in measured)
    yield "service:uwsgi_queue_wait_seconds:ratio_rate5m", labels, ratio(waiting, left)
    for name, threads in (
        ("available", [figures.available for figures in every]),
        ("configured", [figures.configured for figures in every]),
    ):
        known = [count for count in threads if count is not None]
        yield f"service:uwsgi_threads_{name}:sum", labels, sum(known) if known else None
    with_threads = [figures for figures in every if figures.ceiling and figures.flow.observed is not None]
    used = ratio(
        sum(figures.flow.observed or 0.0 for figures in with_threads),
        sum(figures.ceiling or 0 for figures in with_threads),
    )
    yield "service:uwsgi_utilization:ratio_rate5m", labels, used
    ratios = [figures.balance.hot_ratio for figures in every if _active_requests(figures) >= ENOUGH_REQUESTS]
    yield (
        "service:uwsgi_hot_worker_ratio:max_ratio_rate5m",
        labels,
        max((hot_ratio for hot_ratio in ratios if hot_ratio), default=None),
    )
    costly = [figures for figures in every if figures.balance.cost is not None]
    removable = sum((figures.balance.cost or 0.0) * (figures.flow.littles_law or 0.0) for figures in costly)
    cost = ratio(removable, sum(figures.flow.littles_law or 0.0 for figures in costly))
    yield "service:uwsgi_unevenness_cost:ratio_rate5m", labels, cost
    known = [
        [load for worker in figures.balance.workers if worker.active and (load := worker.interpreter_load) is not None]
        for figures in every
    ]
    whole = [of for of, figures in zip(known, every, strict=True) if len(of) == _active(figures)]
    loads = [load for of in whole for load in of]
    used_by = {
        "hottest_interpreter": max((load for of in known for load in of), default=None),
        "interpreters": ratio(sum(loads), len(loads)),
        "threads": used,
        "cpu": ratio(sum(_cpu(story)[0] for story in servers), sum(_cpu(story)[1] for story in servers)),
    }
    for limit, part in used_by.items():
        factor = None if part is None or part < 0.01 else 1 / part
        yield "service:uwsgi_headroom:ratio_rate5m", {**labels, "limit": limit}, factor
    yield from _service_waits(every, labels)


Waiting = tuple[str, dict[str, str], float, float | None]
"""Start of the name, label of the part, mean threads, and seconds per request."""


def _waits(figures: Figures) -> Iterator[Waiting]:
    """What a server's threads wait for. The exporter omits states without any thread. Per request, the rules divide by
    throughput: no series says which threads are stuck, and which requests were for static files."""
    waits, throughput = figures.waits, figures.flow.throughput
    if waits is None:
        return
    for state in STATES:
        threads = waits.threads.get(state, 0.0)
        yield "wait", {"state": state}, threads, ratio(threads, throughput) if throughput else None
    for name, threads in waits.backends.items():
        yield "backend_wait", {"backend": name}, threads, ratio(threads, throughput) if throughput else None


def _service_waits(servers: list[Figures], labels: dict[str, str]) -> Expected:
    """Threads of all servers, and the same divided by the requests of those servers that have this part."""
    parts: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for figures in servers:
        for metric, part, threads, _ in _waits(figures):
            ((label, value),) = part.items()
            parts.setdefault((metric, label, value), []).append((threads, figures.flow.throughput or 0.0))
    for (metric, label, value), known in parts.items():
        part, threads = {label: value}, sum(threads for threads, _ in known)
        each = ratio(threads, sum(requests for _, requests in known))
        yield f"service:uwsgi_{metric}_threads:ratio_rate5m", {**labels, **part}, threads
        yield f"service:uwsgi_{metric}_seconds_per_request:ratio_rate5m", {**labels, **part}, each


def _active_requests(figures: Figures) -> int:
    return sum(worker.requests for worker in figures.balance.workers if worker.active)


def _timed(story: Story) -> int:
    return sum(worker.requests - worker.static_requests for worker in story.figures.window.workers)


def _queue(story: Story) -> float | None:
    """Mean length of a server's listen queues, if any was measured."""
    window = story.figures.window
    return ratio(sum(window.queue_seconds.values()), window.observed_seconds) if window.queue_seconds else None


def _utilization(story: Story) -> float | None:
    observed = story.figures.flow.observed
    return None if observed is None else ratio(observed, story.figures.ceiling or 0)


def _cpu(story: Story) -> tuple[float, float]:
    """CPUs in use by all programs that grow with the load, and the CPUs that these could use together."""
    cpu, load = story.figures.cpu, _load(story)
    if cpu is None:
        return (0.0, 0.0) if load is None else (load, story.cpus or 0.0)
    demand = cpu.own + (cpu.others or 0.0) * bool(story.others_follow and cpu.own)
    return demand, max(demand + cpu.idle, LEAST_OWN * (story.cpus or 0.0))


def _active(figures: Figures) -> int:
    return sum(worker.active for worker in figures.balance.workers)


def _load(story: Story) -> float | None:
    """CPU seconds per second of all active workers."""
    return sum_if_all_known([worker.interpreter_load for worker in story.figures.balance.workers if worker.active])

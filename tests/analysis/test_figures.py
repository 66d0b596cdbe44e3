"""All figures of a window, and invariants that hold for any document."""

import dataclasses
import math
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from tests.analysis.judging import figures_of
from tests.support.scraped_series import series, watch_of
from tests.support.simulated_server import Server, emperor, reading, router
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Backlog
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.server import STATES, AppSocket, Worker


@pytest.mark.parametrize(("cores", "threads"), [(True, (32, 16)), (False, (None, None))])
def test_capacity_is_of_the_reading(cores, threads):
    """Configured threads are those of all slots, available ones those of accepting workers. Without cores, threads are
    None and have no headroom."""
    server = Server(processes=4, threads=8, spawned=3, cores=cores)
    server.cheap(1)
    result = figures_of(window(60, worker(1, 10, each=1.0)), server)
    assert (result.configured, result.available) == threads
    assert cores or result.headroom.far == ()
    assert result.headroom.by_limit == {}


def test_usable_cpus_come_from_the_kernel():
    """With kernel facts there is a CPU limit, without them there is none."""
    server = Server(cpus=1.5)
    busy = window(60, worker(1, 10, cpu=30.0))
    assert figures_of(busy, server).headroom.by_limit["cpu"] == 3.0
    server.host = False
    assert "cpu" not in figures_of(busy, server).headroom.by_limit


@pytest.mark.parametrize(("values", "sum_"), [([], None), ([1, 2], 3), ([0, 0], 0), ([1, None], None), ([None], None)])
def test_sum_if_all_known(values, sum_):
    """A sum with an unknown part is unknown, and so is one of no parts."""
    assert sum_if_all_known(values) == sum_


BIG = 2**63 - 1
COUNTS = (None, 0, 3, 50, 10**6, BIG)
SECONDS = (None, 0.0, 0.5, 1e4, 2**63 / 1e6)


def make_worker(of: Random, known: Worker, worker_id: int, cores: bool) -> Worker:
    """Any worker that a document may have."""
    pid, threads = of.choice((None, 1, 2, 6)), of.choice((1, 4))
    names = ("requests", "requests_since_spawn", "static_requests", "exceptions", "harakiris")
    return replace(
        known,
        worker_id=worker_id,
        pid=pid,
        state=of.choice(STATES),
        accepting=pid is not None and of.random() < 0.5,
        threads=threads if cores else None,
        busy_threads=of.randint(0, threads) if cores else None,
        running_time=of.choice(SECONDS),
        respawns=of.choice((None, 0, 3)),
        last_spawn=of.choice((None, 0, 3)),
        **{name: of.choice(COUNTS) for name in names},
    )


def make_host(of: Random, sockets: list[str]) -> HostFacts:
    backlogs = {name: Backlog(of.choice((None, 0, 5000)), 100, None) for name in sockets}
    if of.random() < 0.2:
        return HostFacts(off="hidden", backlogs=backlogs)
    processes = {
        pid: WorkerProcess(pid, *of.choices(SECONDS, k=2), of.choice(COUNTS), 0, 0, 0, None, None, of.choice(SECONDS))
        for pid in of.sample(range(1, 7), of.randint(0, 6))
    }
    cpus = of.choice((None, 0.05, 1.0, 64.0))
    return HostFacts(processes=processes, backlogs=backlogs, cpus=cpus and UsableCpus(cpus, "quota", 64, 64, cpus))


def make_outcome(of: Random, at: float) -> Reading | ReadError:
    kind = of.choice("ssssssser")
    if kind == "e":
        return ReadError("timeout", "no answer")
    if kind == "r":
        return of.choice([emperor, router])(at)
    cores, sockets = of.random() < 0.5, of.choice([[], ["a"], ["a", "b"], ["b"]])
    base = Server(processes=1).read(at).snapshot
    workers = [make_worker(of, base.workers[0], number, cores) for number in range(1, of.choice([1, 2, 3, 3, 3, 4]))]
    snapshot = replace(
        base,
        workers=tuple(workers),
        sockets=tuple(AppSocket(name, of.choice((None, 0, 3)), None) for name in sockets),
    )
    return reading(at, snapshot, make_host(of, sockets), read_seconds=of.choice([0.0, 0.001, 0.05, 3.0]))


def make_story(of: Random) -> list[tuple[float, Reading | ReadError]]:
    """Times that mostly increase, and the outcome of a read at each. A monotonic clock never shows less than 0."""
    at, story = of.choice((2.0, 1e3, 1e6)), []
    for _ in range(of.randint(1, 12)):
        story.append((at, make_outcome(of, at)))
        at += of.choice([0.0, -0.1, 0.2, 0.7, 1.0, 1.2, 2.9, 50.0, 1e5])
    return story


def snapshot_of(totals: Totals) -> Totals:
    return replace(
        totals,
        occupancy=list(totals.occupancy),
        workers=[replace(worker, residency=dict(worker.residency)) for worker in totals.workers],
        queue_seconds=dict(totals.queue_seconds),
    )


def numbers(value: object) -> list[float]:
    """Every number in the figures, however deep, except memory growth, which may be negative, and starts of known
    times."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    if isinstance(value, (tuple, list)):
        return [number for part in value for number in numbers(part)]
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        named = (name for name in names_of(value) if name != "resident_growth")
        return [number for name in named for number in numbers(getattr(value, name))]
    return []


def names_of(value: object) -> tuple[str, ...]:
    """The names of the fields of a dataclass or a Struct."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(value))


KEPT = ("resident_bytes", "running_time_since", "cpu_since")
"""Of a worker's totals: times and states, which may be less later."""


def check_totals(before: Totals, now: Totals) -> None:
    """No reading decreases a total of a worker slot or socket while the slot or socket exists."""
    for name in ("samples", "observed_seconds", "gap_seconds", "full_seconds", "reloads", "occupancy_sum"):
        assert getattr(now, name) >= getattr(before, name)
    assert all(late >= early for early, late in zip(before.occupancy, now.occupancy, strict=True))
    for early, late in zip(before.workers, now.workers, strict=False):
        for name in set(names_of(late)) - set(KEPT):
            was, is_ = getattr(early, name), getattr(late, name)
            if isinstance(was, dict):
                assert all(is_[key] >= value for key, value in was.items())
            else:
                assert was is None or is_ >= was
    for socket in before.queue_seconds.keys() & now.queue_seconds.keys():
        assert now.queue_seconds[socket] >= before.queue_seconds[socket]


def check_figures(result: Figures) -> None:
    """No figure is NaN, infinite or negative, and ratios are within their bounds."""
    balance, headroom = result.balance, result.headroom
    active = sum(worker.active for worker in balance.workers)
    assert all(math.isfinite(number) and number >= 0 for number in numbers(result))
    assert result.window.seconds > 0
    assert result.window.observed_seconds <= result.window.seconds + 1e-3
    assert all(worker.share is None or worker.share <= 1 for worker in balance.workers)
    assert balance.hot_ratio is None or 1 - 1e-9 <= balance.hot_ratio <= active + 1e-9
    assert balance.fairness is None or 1 / active - 1e-9 <= balance.fairness <= 1 + 1e-9
    assert balance.noise_floor is None or balance.noise_floor >= 1
    assert balance.cost is None or balance.cost <= 1
    assert headroom.factor == min(headroom.by_limit.values(), default=None)
    assert all(factor > 0 for factor in headroom.by_limit.values())


@pytest.mark.parametrize("seed", range(60))
def test_any_story(seed):
    """Each second since the first attempt to read a server is counted once, totals never decrease, and figures and
    series are numbers."""
    watch = watch_of()
    before = snapshot_of(watch.integrals.totals)
    known: list[float] = []
    for at, outcome in make_story(Random(seed)):
        watch._record(at, outcome)
        if isinstance(outcome, ReadError) or isinstance(outcome.snapshot, Snapshot):
            known.append(at)
        totals = watch.integrals.totals
        since = max(known) - known[0] if known else 0.0
        assert totals.observed_seconds + totals.gap_seconds == pytest.approx(since, abs=1e-6)
        check_totals(before, totals)
        before = snapshot_of(totals)
        if isinstance(outcome, Reading):
            for result in watch.figures(outcome, (1.0, 60.0, 300.0)):
                check_figures(result)
            for key, number in series(watch, outcome, "Sampled totals", "Window figures").items():
                assert math.isfinite(number), key
                assert number >= 0, key

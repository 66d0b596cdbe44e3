"""Running time is counted in full up to what is possible, whatever uWSGI's wall clock does."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched, totals_of, watch
from tests.support.captured_documents import NAMES, document, kind
from tests.support.simulated_server import EPOCH, Server, reading
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading


class Sampled(Watched):
    """A server of four threads, sampled five times a second."""

    def __init__(self) -> None:
        super().__init__(Server(processes=2, threads=2))
        self.at = 0.0

    def run(self, seconds: float) -> Sampled:
        for _ in range(round(seconds / 0.2)):
            self.at = round(self.at + 0.2, 1)
            self.sample(self.at)
        return self

    def serving(self, worker_id: int, *starts: float) -> None:
        """Requests in service now, with uWSGI's start of each."""
        self.server[worker_id].request_starts = tuple(EPOCH + int(start) for start in starts)
        self.server[worker_id].busy = len(starts)

    @property
    def running_time(self) -> float:
        return sum(worker.running_time or 0.0 for worker in self.totals.workers)


@pytest.mark.parametrize("forward", [10.0, 100.0, 86_400.0])
def test_clock_set_forward_makes_no_concurrency_above_the_threads(forward):
    """If uWSGI's clock is set forward, every request in service adds the step; the window's figures stay possible."""
    watched = Sampled().run(0.2)
    for second in range(60):
        watched.serving(1, second, second)
        watched.serving(2, second, second)
        watched.run(1.0)
        for worker_id in (1, 2):  # each of the two threads ends a request of one second
            watched.server.serve(worker_id, 2, each=1.0 + (forward if second == 30 else 0.0))
    watched.serving(1)
    watched.serving(2)
    watched.run(0.2)
    window = watched.window()
    assert window is not None
    concurrency = compute_flow(window).littles_law
    assert concurrency is not None
    assert 3.9 < concurrency < 4.05


@pytest.mark.parametrize("late", ["", "idle in one document", "in another request"])
def test_long_request_is_counted_in_full(late):
    """A request of ten minutes adds all its time when it ends between two samples, and also if its time is added one
    document later, in which its thread may serve the next request. Only impossible time, of a clock that lengthens the
    next one by a day, is dropped."""
    watched = Sampled().run(1.0)
    watched.serving(1, watched.at)
    watched.run(600.0)
    watched.serving(1, *([watched.at] if late == "in another request" else []))
    if late:
        watched.run(0.2)
    watched.server.serve(1, 1, each=600.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(600.0)
    watched.serving(1, watched.at)
    watched.run(60.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=60.0 + 86_400)
    watched.run(0.2)
    assert 660.0 <= watched.running_time < 668.0


def test_long_request_from_before_the_first_sample():
    """A request that began before the first sample may be of any age."""
    watched = Sampled()
    watched.serving(1, -5000)
    watched.run(10.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=5000.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(5000.0)


def test_long_request_over_a_gap():
    """A request's time in a gap counts, too."""
    watched = Sampled().run(1.0)
    watched.serving(2, watched.at)
    watched.run(1.0)
    watched.at += 120.0
    watched.serving(2)
    watched.server.serve(2, 1, each=121.0)
    watched.run(0.2)
    assert watched.running_time == pytest.approx(121.0)


def test_next_request_of_a_thread_is_not_as_old_as_the_one_before():
    """A thread's age is that of its present request: uWSGI's start of it changes with each request."""
    watched = Sampled().run(1.0)
    for second in range(100):
        watched.serving(1, second)
        watched.run(1.0)
    watched.serving(1)
    watched.server.serve(1, 1, each=100.0)
    watched.run(0.2)
    assert watched.running_time < 5.0


def test_absurd_time_after_a_reload_is_not_counted():
    """After a full reload, a worker's running time is bounded by the time since the last sample."""
    watched = Sampled().run(1.0)
    watched.server.reload(watched.at)
    watched.server.serve(1, 5, each=1e9)
    watched.run(0.2)
    assert watched.totals.reloads == 1
    assert watched.running_time < 1.0


def test_without_threads_nothing_is_bounded():
    """With stats-no-cores the number of threads is unknown, so uWSGI's figure counts."""
    server, watched = watch(processes=1, cores=False)
    watched.sample(1.0)
    server.serve(1, 1, each=1000.0)
    watched.sample(1.2)
    assert watched.totals.workers[0].running_time == pytest.approx(1000.0)


def _captured(name: str, at: float, running_time: int, serving: bool) -> Reading:
    """A captured document with its workers' running time increased (µs), and its requests as captured or ended."""
    tree = json.loads(document(name).decode("latin-1"), strict=False)
    for worker in tree["workers"]:
        worker["running_time"] += running_time * sum(core["in_request"] for core in worker.get("cores", ()))
        for core in () if serving else worker.get("cores", ()):
            core["in_request"], core["req_info"] = 0, {}
    return reading(at, stats.decode(json.dumps(tree).encode()), HostFacts())


CAPTURED = [name for name in NAMES if kind(name) == "server"]


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("lasting", [0.3, 90.0])
def test_captured_requests_are_counted_in_full(name, lasting):
    """The requests of every captured document begin, last and end: all their time is counted."""
    totals = totals_of(
        _captured(name, 1.0, 0, serving=False),
        _captured(name, 1.2, 0, serving=True),
        _captured(name, 1.2 + lasting - 0.2, 0, serving=True),
        _captured(name, 1.2 + lasting, int(lasting * 1e6), serving=False),
    )
    busy = _captured(name, 1.0, 0, serving=True).snapshot
    expected = [lasting * (worker.busy_threads or 0) for worker in busy.workers]
    grown = [worker.running_time or 0.0 for worker in totals.workers]
    # The flags of a killed worker stay set but are not requests, so their time does not count.
    assert [time for time, truth in zip(grown, expected, strict=True) if truth] == pytest.approx(
        [truth for truth in expected if truth]
    )


def test_slow_read_is_time_too():
    """uWSGI may have written a document when its read began, so the step includes the read."""
    server = Server(processes=1, threads=1)
    slow = replace(server.read(10.0), read_seconds=3.0)
    server.serve(1, 1, each=3.1)
    assert totals_of(slow, server.read(10.2)).workers[0].running_time == pytest.approx(3.1)

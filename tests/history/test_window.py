"""A history of totals, and windows of it, at times that the test sets."""

import re
from itertools import pairwise
from typing import get_type_hints

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched, watch
from tests.support.simulated_server import Server
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history import counts
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.totals import CpuTotals, Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.history.window import QUANTITIES, CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.stats.server import Worker


def history_of(*rows: tuple[float, Totals]) -> History:
    history = History()
    for at, totals in rows:
        history.add(at, totals)
    return history


class TestLength:
    @pytest.mark.parametrize("times", [(), (1.0,), (0.0, 0.9), (10.0, 10.0, 5.0, 10.9)])
    def test_without_two_rows_there_is_no_window(self, times):
        assert history_of(*((at, Totals()) for at in times)).window(60) is None

    def test_shorter_than_asked(self):
        window = history_of(*((at, Totals()) for at in (0.0, 1.0, 2.5))).window(60)
        assert (window.asked, window.seconds) == (60, 2.5)

    @pytest.mark.parametrize("seconds", [1, 10, 60, 300])
    def test_as_long_as_asked(self, seconds):
        history = History()
        at = 0.0
        while at < 400:
            history.add(at, Totals())
            at += 1.13
        assert history.window(seconds).seconds == pytest.approx(seconds, abs=0.57)

    def test_rows_are_a_second_apart(self):
        history = History()
        for index in range(101):
            history.add(index / 5, Totals())
        assert len(history._rows) == 21
        assert list(history._rows.times) == [float(second) for second in range(21)]

    def test_an_hour_is_kept(self):
        history = History()
        for second in range(HISTORY_SECONDS + 500):
            history.add(float(second), Totals())
        window = history.window(10 * HISTORY_SECONDS)
        assert window.seconds == pytest.approx(HISTORY_SECONDS, abs=15)
        assert history.seconds == HISTORY_SECONDS
        assert history._latest_at - history._rows.times[0] < HISTORY_SECONDS + 100

    def test_older_rows_are_farther_apart(self):
        """An hour takes some 700 rows instead of 3,600; windows that end at multiples of their step do not change."""
        history, whole = History(), []
        for second in range(HISTORY_SECONDS + 100):
            history.add(second + 0.3, Totals(observed_seconds=second * 1.0))
            whole.append(second + 0.3)
        assert 600 < len(history._rows) < 800
        for step, oldest in ((1.0, 360), (5.0, 960), (15.0, 3600)):
            now = whole[-1]
            wanted = [later for earlier, later in pairwise(whole) if later // step != (later + 1) // step]
            ends = [window.until for window in history.slices(step, now - oldest, now)]
            assert ends
            assert set(ends) <= set(wanted)
            assert len(ends) == pytest.approx(oldest / step, abs=2)

    def test_until_an_earlier_time(self):
        server, watched = watch(processes=1)
        for second in range(100):
            watched.sample(float(second))
            server.serve(1, second)
        window = watched.history.window(10, until=50.5)
        assert window.seconds == 10
        assert window.workers[0].requests == sum(range(40, 50))
        assert watched.history.window(10, until=0.5) is None
        assert watched.history.window(10, until=-5.0) is None

    def test_outage_is_not_spanned_by_a_shorter_window(self):
        server, watched = watch(processes=1)
        watched.sample(0.0, 1.0)
        hours = 8 * 3600.0
        watched.sample(hours)
        assert watched.window() is None
        server.serve(1, 30)
        watched.sample(hours + 20)
        window = watched.window()
        assert (window.seconds, window.workers[0].requests) == (20, 30)

    def test_outage_shorter_than_the_window_is_within_it(self):
        watched = Watched(Server())
        for at in (0.0, 1.0, 40.0, 41.0, 61.0):
            watched.sample(at)
        window = watched.window()
        assert window.seconds == 60
        assert window.gap_seconds == pytest.approx(59)
        assert window.observed_seconds == pytest.approx(1)


class TestGrowth:
    def test_window_of_a_scenario(self):
        server, watched = watch(processes=2, threads=2)
        server.serve(1, 1000)
        watched.sample(0.0)
        server.busy(2, 1)
        server.queue = 4
        server[2].exceptions = 3
        server[1].static_requests = 2
        server.serve(1, 10, each=0.15, cpu=0.02)
        for at in (1.0, 2.0):
            watched.sample(at)
        window = watched.window(1)
        assert (window.seconds, window.exceptions) == (1, 0)
        assert window.full_seconds == 0
        assert window.queue_seconds == {"app.sock": pytest.approx(4)}
        assert [worker.busy_seconds for worker in window.workers] == [2, 1]
        window = watched.window()
        first = window.workers[0]
        assert (first.worker_id, first.requests, first.static_requests) == (1, 10, 2)
        assert (first.running_time, first.cpu_seconds) == (pytest.approx(1.5), 0.2)
        assert (window.exceptions, window.reloads, window.harakiris, window.respawns) == (3, 0, 0, 0)

    @pytest.mark.parametrize("before", [0, 2**32 - 3, 2**33 - 1, 2**63])
    def test_counts_are_exact_across_the_wrap(self, before):
        window = history_of((0.0, served(before)), (1.0, served(before + 7))).window(60)
        assert window.workers[0].requests == 7

    @pytest.mark.parametrize("before", [0.0, 429_496.7, 12_345_678.9, 1e9])
    def test_times_are_exact_to_a_tick_across_the_wrap(self, before):
        def totals(grown: float) -> Totals:
            worker = WorkerTotals(running_time=before + grown, running_time_since=0.0)
            return Totals(workers=[worker], queue_seconds={"a": before + grown}, queue_since={"a": 0.0})

        window = history_of((0.0, totals(0)), (1.0, totals(1.2345))).window(60)
        assert window.workers[0].running_time == pytest.approx(1.2345, abs=1.01e-4)
        assert window.queue_seconds["a"] == pytest.approx(1.2345, abs=1.01e-4)

    def test_119_hours_of_thread_time_fit(self):
        hours = 119.0
        window = history_of(
            (0.0, Totals(workers=[WorkerTotals(busy_seconds=0.0)])),
            (3600.0, Totals(workers=[WorkerTotals(busy_seconds=hours * 3600)])),
        ).window(3600)
        assert window.workers[0].busy_seconds == hours * 3600

    def test_counts_continue_over_a_reload_which_is_a_gap(self):
        server, watched = watch(processes=1)
        watched.sample(0.0)
        server.serve(1, 100)
        watched.sample(1.0)
        server.reload(1.5)
        server.serve(1, 40)
        watched.sample(2.0)
        server.serve(1, 2)
        watched.sample(3.0)
        window = watched.window()
        assert (window.reloads, window.seconds, window.workers[0].requests) == (1, 3, 142)
        assert window.observed_seconds + window.gap_seconds == pytest.approx(3)

    def test_memory_growth(self):
        """Memory at the end, and its growth or decrease; the growth is unknown if memory was unknown at the start."""
        server, watched = watch(processes=2, spawned=1)
        watched.sample(0.0)
        server[1].resident = 40 << 20
        server.respawn(2, 0.5)
        watched.sample(1.0)
        window = watched.window()
        first, second = window.workers
        assert (first.resident_bytes, first.resident_growth) == (40 << 20, -(10 << 20))
        assert (second.resident_bytes, second.resident_growth) == (50 << 20, None)


class TestUnknown:
    def test_figures_never_reported_are_none(self):
        server = Server(processes=1, cores=False, host=False, queue=None)
        server[1].running_time = None
        watched = Watched(server)
        watched.sample(0.0, 1.0)
        window = watched.window()
        worker = window.workers[0]
        assert (worker.busy_seconds, worker.cpu_seconds, worker.running_time, worker.resident_bytes) == (None,) * 4
        assert window.queue_seconds == {}

    def test_facts_that_became_unknown(self):
        """CPU time of a process that can no longer be read is None, not 0; a queue that is not reported is absent."""
        server, watched = watch(processes=1, queue=5)
        watched.sample(0.0)
        server.host, server.queue = False, None
        watched.sample(*range(1, 70))
        window = watched.window()
        assert (window.workers[0].cpu_seconds, window.queue_seconds) == (None, {})

    @pytest.mark.parametrize(("spawned", "end", "cpu"), [(0, Server.cheap, 0.25), (1, Server.kill, 0.75)])
    def test_worker_without_a_process_has_known_cpu_time(self, spawned, end, cpu):
        server, watched = watch(processes=1, spawned=spawned)
        watched.sample(0.0)
        if spawned:
            server.serve(1, 1, cpu=0.5)
            watched.sample(1.0)
            end(server, 1)
        watched.sample(2.0)
        server.respawn(1, 2.5)
        server.serve(1, 1, cpu=0.25)
        watched.sample(3.0)
        if not spawned:
            end(server, 1)
        watched.sample(4.0)
        assert watched.window().workers[0].cpu_seconds == cpu

    def test_facts_that_came_are_unknown_until_they_cover_the_window(self):
        server, watched = watch(processes=1, host=False)
        for second in range(100):
            server.host = second >= 50
            server.serve(1, 1, cpu=0.5)
            watched.sample(float(second))
        for seconds, known in ((40, 20.0), (49, 24.5), (60, None)):
            assert watched.history.window(seconds).workers[0].cpu_seconds == known

    def test_running_time_that_wrapped_is_unknown(self):
        server, watched = watch(processes=1)
        known = []
        for second in range(20):
            server.serve(1, 1)
            server[1].running_time = None if 5 <= second < 10 else float(second)
            watched.sample(float(second))
            window = watched.history.window(4)
            known.append(None if window is None else window.workers[0].running_time)
        assert known[4] == 4
        assert known[5:14] == [None] * 9
        assert known[14:] == [4] * 6


class TestChanges:
    @pytest.mark.parametrize("processes", [2, 6])
    def test_other_number_of_workers_restarts_the_history(self, processes):
        server, watched = watch(processes=4)
        watched.sample(*range(10))
        server.reload(9.1, processes=processes)
        watched.sample(9.5)
        assert watched.window() is None
        server.serve(1, 10)
        watched.sample(10.5)
        window = watched.window()
        assert (window.seconds, [worker.requests for worker in window.workers]) == (1, [10] + [0] * (processes - 1))

    def test_other_sockets_restart_the_history(self):
        server, watched = watch(socket="a.sock")
        watched.sample(0.0, 1.0)
        server.socket = "b.sock"
        watched.sample(2.0)
        assert watched.window() is None
        watched.sample(3.0)
        assert list(watched.window().queue_seconds) == ["b.sock"]


def test_rows_cost_what_the_docstring_says():
    history = history_of((0.0, Totals(workers=[WorkerTotals() for _ in range(64)])))
    without = history_of((0.0, Totals()))
    stated = re.search(r"takes (\d+) bytes a worker and (\d+) for", " ".join((counts.__doc__ or "").split()))
    assert len(without._rows[0]) == int(stated[2])
    assert len(history._rows[0]) - len(without._rows[0]) == 64 * int(stated[1])


def test_later_totals_do_not_change_a_row():
    totals = Totals(workers=[WorkerTotals()])
    history = history_of((0.0, totals))
    totals.workers[0].requests = 5
    history.add(1.0, totals)
    totals.workers[0].requests = 50
    window = history.window(60, until=1.0)
    assert window.workers[0].requests == 5
    assert replace(window, seconds=0.0).seconds == 0.0


def served(requests: int, workers: int = 1) -> Totals:
    return Totals(workers=[WorkerTotals(requests=requests, running_time=0.0) for _ in range(workers)])


@pytest.mark.parametrize(
    ("until", "seconds", "requests"),
    [(None, 2.4, 29), (2.3, 2.0, 20)],
    ids=["the latest totals, less than a second after the last row", "only rows for an earlier time"],
)
def test_the_end_of_a_window(until, seconds, requests):
    history = history_of((0.0, served(0)), (1.0, served(10)), (2.0, served(20)), (2.4, served(29)))
    window = history.window(60, until=until)
    assert (window.seconds, window.workers[0].requests) == (seconds, requests)


@pytest.mark.parametrize(("last", "requests"), [(9.4, 54), (9.5, 55)])
def test_a_window_starts_at_the_row_nearest_to_its_length(last, requests):
    """It is up to half a second longer or shorter than requested; of two rows that are as near, the older counts."""
    times = [*map(float, range(10)), last]
    window = history_of(*((at, served(round(at * 10))) for at in times)).window(5)
    assert (window.seconds, window.workers[0].requests) == (last - 4.0, requests)


def test_totals_of_an_earlier_time():
    """A sample that is recorded late does not shorten the window: its totals reach until the time before it."""
    history = History()
    for at, observed in ((0.0, 0.0), (1.4, 1.4), (1.3, 1.4)):
        history.add(at, Totals(observed_seconds=observed))
    window = history.window(60)
    assert (window.seconds, window.observed_seconds) == (1.4, 1.4)


OWNERS = dict.fromkeys(("server", "occupancy", "socket"), (Totals, Window))
OWNERS |= dict.fromkeys(("waits", "state", "backend"), (WaitTotals, WaitWindow))
OWNERS |= {"all workers": (WorkerTotals, Window), "cpu": (CpuTotals, CpuWindow), "worker": (WorkerTotals, WorkerWindow)}


@pytest.mark.parametrize(
    "quantity", [each for part in QUANTITIES for each in part], ids=lambda quantity: f"{quantity.of} {quantity.name}"
)
def test_totals_and_windows_have_what_the_table_names(quantity):
    """Each is an attribute of its owner; a counter is uWSGI's too; only what may be unknown may be None."""
    totals, window = OWNERS[quantity.of]
    assert quantity.name in totals.__struct_fields__
    assert quantity.known in ("", "reported", "waits") or quantity.known in totals.__struct_fields__
    assert not quantity.counter or quantity.name in Worker.__struct_fields__
    may_be_none = type(None) in getattr(get_type_hints(window)[quantity.name], "__args__", ())
    assert may_be_none == (quantity.may_be_unknown and quantity.of != "socket")


def test_a_worker_of_a_window_is_its_number_and_the_rows_of_the_table():
    assert WorkerWindow.__struct_fields__ == ("worker_id", *(quantity.name for quantity in QUANTITIES[-1]))

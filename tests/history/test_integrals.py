"""Totals made of readings whose times and true figures the test sets."""

import math
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.history.watched import totals_of, watch
from tests.support.simulated_server import Server, emperor, router
from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.kernel.backlogs import ListenOverflows
from uwsgi_headroom.kernel.processes import WorkerProcess

STEP = 1.0  # the longest between two samples


TIMES = {
    "one sample covers no time, and no gap is before it": ("1000", 1, 0.0, 0.0),
    "time up to the longest step is observed": ("10 10.2 11.2", 3, 1.2, 0.0),
    "a longer pause is entirely a gap": ("10 11.5 12", 3, 0.5, 1.5),
    "however often a read fails, the step is one gap": ("10 !10.2 !10.4 10.6 10.8", 3, 0.2, 0.6),
    "a gap is visible before the server is back": ("10 !25", 1, 0.0, 15.0),
    "with the server down at first, it begins with the first attempt": ("!5 !8 10", 1, 0.0, 5.0),
    "a failure that is recorded late counts once": ("10 10.5 !10.2 10.8", 3, 0.5, 0.3),
    "a sample from before a failure adds nothing": ("!10 9.9 10.1", 1, 0.0, 0.1),
    "a reload is one gap": ("10 10.2 reload@10.3 10.4 10.6", 4, 0.4, 0.2),
    "a reload after a failure is one gap as well": ("10 !10.2 reload@10.3 !11.2 12", 2, 0.0, 2.0),
}
"""Samples at these times, `!` before that of a failed read, and the samples, observed and gap seconds that follow."""


class TestTime:
    @pytest.mark.parametrize(("story", "samples", "observed", "gap"), TIMES.values(), ids=TIMES)
    def test_each_moment_is_observed_or_a_gap(self, story, samples, observed, gap):
        server, integrals = Server(), Integrals()
        for word in story.split():
            if word.startswith("!"):
                integrals.miss(float(word[1:]))
            elif word.startswith("reload@"):
                server.reload(float(word[7:]))
            else:
                integrals.add(server.read(float(word)), STEP)
        totals = integrals.totals
        assert (totals.samples, totals.reloads) == (samples, "reload" in story)
        assert (totals.observed_seconds, totals.gap_seconds) == (pytest.approx(observed), pytest.approx(gap))

    @pytest.mark.parametrize("again", [10.2, 10.1, 0.0])
    def test_reading_that_is_not_newer_adds_nothing(self, again):
        server = Server()
        first = [server.read(10.0), server.read(10.2)]
        server.serve(1, 5)
        totals = totals_of(*first, server.read(again))
        assert (totals.samples, totals.observed_seconds) == (2, pytest.approx(0.2))
        assert totals.workers[0].requests == 0

    def test_clock_of_the_host_does_not_matter(self):
        server = Server()
        server.busy(1, 0, 0, 0)
        first, second = server.read(10.0), server.read(10.5)
        totals = totals_of(first, replace(second, time=second.time - 86_400))
        assert (totals.workers[0].busy_seconds, totals.gap_seconds) == (pytest.approx(0.5), 0)

    @pytest.mark.parametrize("other", [emperor, router])
    def test_document_of_another_kind_adds_nothing(self, other):
        assert totals_of(other(1.0), other(2.0)) == Totals()
        server = Server()
        totals = totals_of(server.read(10.0), other(10.1), server.read(10.2))
        assert totals.samples == 2
        assert totals.observed_seconds + totals.gap_seconds == pytest.approx(0.2)


Change = Callable[[Server], object]


def nothing(_: Server) -> None:
    pass


def step(change: Change = nothing, later: float = 10.2, *, before: Change = nothing, **options: object) -> Totals:
    server = Server(**options)
    before(server)
    first = server.read(10.0)
    change(server)
    return totals_of(first, server.read(later))


class TestCounters:
    def test_counts_before_the_first_sample_are_left_out(self):
        """Totals begin with the exporter, not with uWSGI; what uWSGI counted during a gap is added."""
        totals = step(lambda server: server.serve(1, 7, each=0.2), before=lambda server: server.serve(1, 1000))
        assert (totals.workers[0].requests, totals.workers[0].running_time) == (7, pytest.approx(1.4))
        assert step(lambda server: server.serve(2, 40), 100.0).workers[1].requests == 40

    def test_decrease_due_to_a_race_adds_nothing(self):
        server = Server()
        counts, readings = [100, 103, 101, 102, 110], []
        for at, requests in enumerate(counts):
            server[1].requests = requests
            readings.append(server.read(10.0 + at / 5))
        totals = totals_of(*readings)
        assert totals.reloads == 0
        assert 10 <= totals.workers[0].requests <= 12

    @pytest.mark.parametrize(
        ("born", "before", "at", "after", "later"),
        [
            (0.0, 1000, 11.0, 3, 12.0),
            (0.0, 10, 11.0, 25, 70.0),  # the number of spawns shows it: the counter exceeds its earlier value
            (9.7, 3, 10.2, 4, 10.5),  # the pid shows it: uWSGI's whole seconds are equal
        ],
    )
    @pytest.mark.parametrize("is_known", [True, False])
    def test_reload_counts_from_zero(self, born, before, at, after, later, is_known):
        """A counter's value is its growth since the reload, whether or not the running time was known before."""

        def serve(server: Server) -> None:
            server.serve(1, before)
            server[1].running_time = server[1].running_time if is_known else None

        def reload(server: Server) -> None:
            server.reload(at)
            server.serve(1, after, each=0.01)

        totals = step(reload, later, before=serve, born=born)
        assert (totals.reloads, totals.workers[0].requests) == (1, after)
        assert totals.workers[0].running_time == pytest.approx(after * 0.01)

    @pytest.mark.parametrize(
        ("options", "before", "change", "later", "requests"),
        [
            (  # the number of spawns decreases if the workers had been respawned before
                {},
                lambda server: (server.respawn(1, 5.0), server.respawn(2, 6.0)),
                lambda server: server.reload(11.0),
                12.0,
                0,
            ),
            (  # a count of requests decreases by more than a race can cause, whatever the spawns are
                {"processes": 1},
                lambda server: server.serve(1, 5000),
                lambda server: (server.reload(20.0), server.respawn(1, 25.0), server.serve(1, 30)),
                30.0,
                30,
            ),
            (  # slots that were never spawned, before or after
                {"spawned": 1},
                lambda server: server.serve(1, 50),
                lambda server: server._begin(12.0, spawned=1),
                13.0,
                0,
            ),
        ],
        ids=["of respawned workers", "hidden by a respawn of every worker", "that leaves cheaper workers unspawned"],
    )
    def test_what_hides_no_reload(self, options, before, change, later, requests):
        totals = step(change, later, before=before, **options)
        assert (totals.reloads, totals.workers[0].requests) == (1, requests)

    @pytest.mark.parametrize("workers", [(1,), (1, 2, 3, 4)])
    def test_respawn_keeps_counters_and_is_no_reload(self, workers):
        server = Server()
        server.serve(1, 100)
        readings = [server.read(10.0)]
        for worker_id in workers:
            server.respawn(worker_id, 10.1 + worker_id)
            server.serve(worker_id, 1)
            readings.append(server.read(10.2 + worker_id))
        totals = totals_of(*readings)
        assert totals.reloads == 0
        assert sum(total.requests for total in totals.workers) == len(workers)
        assert sum(total.respawns for total in totals.workers) == len(workers)

    def test_workers_drained_by_a_reload_are_one_reload(self):
        server, watched = watch(processes=2)
        server.serve(1, 50)
        watched.sample(10.0)
        for worker_id in (1, 2):
            server[worker_id].pid, server[worker_id].state = None, "gone"
            watched.sample(10.0 + worker_id / 5)
        server.reload(11.0)
        server.serve(1, 2)
        watched.sample(11.2)
        assert (watched.totals.reloads, watched.totals.workers[0].requests) == (1, 2)

    def test_worker_that_cheaper_adds_and_takes_away(self):
        server, watched = watch(processes=2, spawned=1)
        watched.sample(10.0)
        for at in (10.1, 10.5):
            server.respawn(2, at)
            server.serve(2, 5)
            watched.sample(at + 0.1)
            server.cheap(2)
            watched.sample(at + 0.3)
        totals = watched.totals
        assert (totals.reloads, totals.gap_seconds) == (0, 0)
        assert (totals.workers[1].requests, totals.workers[1].respawns) == (10, 2)

    def test_workers_added_by_a_reload_count_from_zero(self):
        def reload(server: Server) -> None:
            server.reload(11.0, processes=4)
            server.serve(4, 6, each=0.5, cpu=0.2)

        added = step(reload, 12.0, processes=2).workers[3]
        assert (added.requests, added.running_time) == (6, pytest.approx(3.0))
        assert added.cpu_seconds == pytest.approx(1.2)

    def test_running_time_that_wrapped_and_recovered(self):
        """While uWSGI's clock error hides the field it adds nothing, and its next value is not a jump."""
        server, readings = Server(), []
        for place, running_time in enumerate((10.0, 11.0, None, 0.25, 1.25)):
            server[1].running_time = running_time
            readings.append(server.read(10.0 + 0.2 * place))
            server.serve(1, 1, each=0.0)
        assert totals_of(*readings).workers[0].running_time == pytest.approx(2.0)


class TestCpu:
    @pytest.mark.parametrize(
        ("before", "respawned", "after", "added"),
        [
            (50.0, "", 50.1, 0.1),
            (50.0, "another pid", 0.03, 0.03),
            (0.1, "the same pid", 0.3, 0.3),  # which the kernel gave again: the start of the process shows it
            (1.0, "", 0.99, 0.0),  # the kernel may scale the sum of user and system time back by a tick
            (None, "", 500.0, 0.0),  # earlier CPU time is not added once it becomes known
        ],
    )
    def test_cpu_time_of_a_step(self, before, respawned, after, added):
        """What the same process has used since, or all that another process has used; a total never decreases."""

        def use(server: Server) -> None:
            if respawned:  # in the second of the earlier spawn
                server.respawn(1, 10.1, pid=server[1].pid if respawned == "the same pid" else None)
            server[1].cpu = after

        totals = step(use, before=lambda server: setattr(server[1], "cpu", before), born=9.5)
        assert totals.workers[0].cpu_seconds == pytest.approx(added)

    def test_facts_that_come_late_do_not_add_the_past(self):
        """If a process is first seen but not new, it is unknown how much of its CPU time is from this step."""
        server, watched = watch(host=False)
        server.serve(1, 100, cpu=1.0)
        watched.sample(10.0)
        server.host = True
        watched.sample(10.2)
        server.serve(1, 1, cpu=0.1)
        watched.sample(10.4)
        assert watched.totals.workers[0].cpu_seconds == pytest.approx(0.1)

    def test_without_a_known_start_the_same_pid_is_the_same_process(self):
        server, readings = Server(processes=1), []
        for at, seconds in ((10.0, 3.0), (10.2, 3.25)):
            reading, pid = server.read(at), server[1].pid or 0
            process = WorkerProcess(pid, seconds, 0.0, None, None, None, None, None, None, None)
            readings.append(replace(reading, host=replace(reading.host, processes={pid: process})))
        totals = totals_of(*readings)
        assert totals.workers[0].cpu_seconds == pytest.approx(0.25)
        assert totals.workers[0].resident_bytes is None


class TestLevels:
    def test_linear_change_is_exact(self):
        rng = random.Random(1)
        server = Server(processes=1, threads=1000)
        server.queue = 0
        instants = [0.0]
        while instants[-1] < 100:
            instants.append(min(100.0, instants[-1] + rng.uniform(0.1, 0.9)))
        integrals = Integrals()
        for at in (round(instant, 3) for instant in instants):
            server[1].busy = server.queue = round(10 * at * 100)  # in hundredths of a thread
            integrals.add(server.read(at), STEP)
        totals = integrals.totals
        assert totals.workers[0].busy_seconds == pytest.approx(100 * 10 * 100**2 / 2, rel=1e-9)
        assert totals.queue_seconds["app.sock"] == pytest.approx(100 * 10 * 100**2 / 2, rel=1e-9)

    @pytest.mark.parametrize("period", [0.2, 1.0, 2.0, 7.3])
    def test_square_wave_is_estimated_without_bias(self, period):
        """Jittered samples of a load that is on and off find its mean, even where its period is their interval."""
        rng = random.Random(2)
        runs, seconds = 6, 60.0
        errors = []
        for _ in range(runs):
            server = Server(processes=1, threads=16)
            integrals, at, phase = Integrals(), 0.0, rng.uniform(0, period)
            while at <= seconds:
                server.busy(16 if (at + phase) % period < period / 2 else 0)
                integrals.add(server.read(at), STEP)
                at += 0.2 * rng.uniform(0.8, 1.2)
            observed = (integrals.totals.workers[0].busy_seconds or 0) / integrals.totals.observed_seconds
            on = _on_time(phase, seconds, period) / seconds
            errors.append((observed - 16 * on) / 8)
        # A wave's standard deviation equals its mean, so a run of n independent samples errs by 1/sqrt(n): 6 % at 300.
        # At the sampling interval itself, consecutive samples are correlated: an eighth of them count.
        n = 5 * seconds / (8 if period == 0.2 else 1)
        assert abs(sum(errors) / runs) < 3 / math.sqrt(n * runs)
        assert max(map(abs, errors)) < 4 / math.sqrt(n)

    @pytest.mark.parametrize("mean", [0.5, 4, 14])
    def test_random_load_errs_as_stated(self, mean):
        """With sparse samples of a Poisson number of busy threads, the error is sqrt(L/n)/L."""
        rng = random.Random(3)
        n, runs, errors = 300, 15, []
        for _ in range(runs):
            server = Server(processes=1, threads=64)
            integrals = Integrals()
            for index in range(n):
                server[1].busy = _poisson(rng, mean)
                integrals.add(server.read(index * 0.2), STEP)
            observed = (integrals.totals.workers[0].busy_seconds or 0) / integrals.totals.observed_seconds
            errors.append(observed / mean - 1)
        stated = math.sqrt(mean / n) / mean
        rms = math.sqrt(sum(error * error for error in errors) / runs)
        assert abs(sum(errors) / runs) < 3 * stated / math.sqrt(runs)
        assert stated / 1.6 < rms < stated * 1.6

    def test_a_document_without_workers_begins_no_step(self):
        server = Server()
        server.busy(8, 8, 8, 8)
        sample = server.read(10.2)
        empty = replace(sample, at=10.0, snapshot=replace(sample.snapshot, workers=()))
        totals = totals_of(empty, sample, server.read(10.4))
        assert [total.busy_seconds for total in totals.workers] == [pytest.approx(8 * 0.2)] * 4
        assert totals.gap_seconds == pytest.approx(0.2)

    def test_full_occupancy_is_timed(self):
        server, watched = watch(processes=2, threads=2)
        server.busy(2, 2)
        watched.sample(10.0, 11.0)
        server.busy(2, 1)
        watched.sample(11.5, 12.0)
        assert watched.totals.full_seconds == pytest.approx(1.25)
        totals = step(later=10.5, processes=2, spawned=0)  # no thread is available
        assert (totals.full_seconds, sum(totals.occupancy)) == (0, 0)

    def test_worker_is_up_while_it_accepts(self):
        totals = step(lambda server: server.cheap(1), 10.4)
        assert [worker.up_seconds for worker in totals.workers[:2]] == [pytest.approx(0.2), pytest.approx(0.4)]

    @pytest.mark.parametrize("reloads", [True, False])
    def test_gaps_and_reloads_add_to_no_integral(self, reloads):
        """Busy threads and queues at both ends of a gap, or of a reload, say nothing about the time in between."""

        def change(server: Server) -> None:
            if reloads:
                server.reload(10.1)
            server.busy(8, 8, 8, 8)

        totals = step(change, 10.2 if reloads else 20.0, before=lambda server: server.busy(8, 8, 8, 8), queue=50)
        assert [(total.busy_seconds, total.up_seconds) for total in totals.workers] == [(0.0, 0.0)] * 4
        assert (totals.queue_seconds, totals.full_seconds) == ({"app.sock": 0.0}, 0)

    @pytest.mark.parametrize(("host", "busy_seconds"), [(True, 0), (False, 2.0)])
    def test_killed_worker_is_not_busy(self, host, busy_seconds):
        """The flags that a killed worker left set do not count as work; without kernel facts, uWSGI's figures do."""
        totals = step(later=10.4, before=lambda server: (server.busy(5), server.kill(1)), processes=1, host=host)
        assert (totals.workers[0].busy_seconds, totals.full_seconds) == (pytest.approx(busy_seconds), 0)

    def test_what_was_never_there_stays_unknown(self):
        """stats-no-cores hides the threads, the occupancy has no samples; without the kernel there is no CPU time."""
        totals = step(later=10.4, cores=False)
        assert {total.busy_seconds for total in totals.workers} == {None}
        assert (sum(totals.occupancy), totals.observed_seconds) == (0, pytest.approx(0.4))
        assert {total.cpu_seconds for total in step(host=False).workers} == {None}
        totals = step(before=lambda server: setattr(server[1], "running_time", None), processes=1)
        assert totals.workers[0].running_time is None

    def test_queue_that_cannot_be_measured_is_absent(self):
        server = Server(queue=None)
        first = server.read(10.0)
        assert totals_of(first).queue_seconds == {}
        server.queue = 10
        second = server.read(10.2)
        server.queue = 20
        assert totals_of(first, second, server.read(10.4)).queue_seconds == {"app.sock": pytest.approx(3.0)}

    def test_full_queue_is_timed(self):
        """Time at or above the limit counts: the kernel accepts one connection more than the backlog."""
        server, watched = watch(queue=100)
        watched.sample(10.0)
        for at, queue in ((10.2, 101), (10.4, 99), (10.6, 0)):
            server.queue = queue
            watched.sample(at)
        assert watched.totals.queue_full_seconds == {"app.sock": pytest.approx(0.2 + 0.1)}
        assert watched.totals.brimming_seconds == pytest.approx(0.1 + 0.1)


class TestOccupancy:
    @pytest.mark.parametrize("busy", range(11))
    def test_bound_belongs_to_its_bucket(self, busy):
        """A sample equal to a bound counts below it, as in every Prometheus histogram."""
        server = Server(processes=1, threads=10)
        server.busy(busy)
        totals = totals_of(server.read(10.0))
        bucket = totals.occupancy.index(1)
        assert OCCUPANCY_BOUNDS[bucket] >= busy / 10
        assert bucket == 0 or OCCUPANCY_BOUNDS[bucket - 1] < busy / 10
        assert totals.occupancy_sum == pytest.approx(busy / 10)

    def test_more_busy_than_available_is_full(self):
        """A worker that is stopping still finishes its requests, but its threads are not available."""
        server = Server(processes=2, threads=2)
        server.busy(2, 2)
        server[2].state = "cheap"
        totals = totals_of(server.read(10.0), server.read(10.5))
        assert totals.occupancy_sum == 2.0
        assert totals.full_seconds == pytest.approx(0.5)

    def test_every_sample_counts_once(self):
        server = Server()
        totals = totals_of(*(server.read(at) for at in (1.0, 1.2, 9.0, 9.2)))
        assert sum(totals.occupancy) == totals.samples == 4


def _on_time(phase: float, seconds: float, period: float) -> float:
    def until(at: float) -> float:
        periods, rest = divmod(at, period)
        return periods * period / 2 + min(rest, period / 2)

    return until(phase + seconds) - until(phase)


def _poisson(rng: random.Random, mean: float) -> int:
    count, product, limit = 0, rng.random(), math.exp(-mean)
    while product > limit:
        count += 1
        product *= rng.random()
    return count


class TestLost:
    def test_killed_worker_loses_its_requests(self):
        server = Server()
        server.busy(3, 0, 0, 0)
        readings = [server.read(10.0)]
        server.kill(1)
        readings.append(server.read(10.2))
        server.respawn(1, 10.3)
        readings.append(server.read(10.4))
        assert [total.lost for total in totals_of(*readings).workers] == [3, 0, 0, 0]
        assert totals_of(readings[0], readings[2]).workers[0].lost == 3

    def test_lost_requests_of_a_worker_that_a_reload_removed_stay_lost(self):
        server, watched = watch(processes=2)
        server.busy(0, 3)
        watched.sample(10.0)
        server.kill(2)
        watched.sample(10.2)
        server.respawn(2, 10.3)
        watched.sample(10.4)
        server.reload(11.0, processes=1)
        for at in range(12, 40):
            server.serve(1, 1)
            watched.sample(float(at))
        assert watched.totals.response_times.lost == 3

    @pytest.mark.parametrize(
        ("change", "later", "lost"),
        [
            (lambda server: (server.serve(1, 3), server.respawn(1, 10.1)), 10.2, [3 - 3, 0, 0, 0]),
            (lambda server: server.reload(11.0), 12.0, [0] * 4),
            (lambda server: (server.serve(1, 1), server.respawn(1, 10.9), server.serve(1, 20)), 11.2, [2, 0, 0, 0]),
        ],
        ids=["a recycled worker first finishes them", "they are unknown after a reload", "the successor served others"],
    )
    def test_what_is_lost(self, change, later, lost):
        totals = step(change, later, before=lambda server: server.busy(3, 0, 0, 0))
        assert [total.lost for total in totals.workers] == lost

    def test_a_thread_that_has_not_called_its_application_loses_nothing(self):
        """At the sample, it reads what its client sends slowly; the request is completed before its process ends."""
        server = Server()
        server[1].requests, server[1].calls = 20, 20
        server.busy(1, 0, 0, 0)
        before = server.read(10.0)
        server.serve(1, 1)
        server[1].calls += 1
        server.busy(0, 0, 0, 0)
        server.respawn(1, 10.1)
        assert totals_of(before, server.read(10.2)).workers[0].lost == 0

    def test_a_request_too_short_for_a_sample_is_lost(self):
        """Requests count when they begin, so what ended its process is lost, once; not so with `lazy-apps`."""
        for lazy, lost in ((False, 1), (True, 0)):
            server = Server()
            server[1].requests, server[1].calls = 20, 0 if lazy else 20
            readings = [server.read(10.0)]
            server.serve(1, 4)
            server[1].calls += 4 + 1  # of which the last one ends the process
            server.kill(1)
            dead = server.read(10.2)
            server.respawn(1, 10.3)
            server.serve(1, 2)
            server.busy(1, 0, 0, 0)
            server[1].calls = 3 if lazy else server[1].calls + 2 + 1
            found = [totals_of(*readings, *between, server.read(10.4)).workers for between in ([], [dead])]
            assert found[0][0].lost == lost
            assert found[1][0].lost == 1  # the dead process is seen, and its count with it


def overflowing(counts: tuple[int, ...], queues: tuple[int, ...] = (0, 0, 0), alone: bool = False, **of) -> Totals:
    """The totals of a server beside which the kernel counts so many overflows. of: the server."""
    server, readings = Server(**of), []
    for place, (queue, count) in enumerate(zip(queues, counts, strict=True)):
        server.queue = queue
        reading = server.read(10.0 + 0.2 * place)
        readings.append(replace(reading, host=replace(reading.host, overflows=ListenOverflows(count, 0, alone))))
    return totals_of(*readings)


@pytest.mark.parametrize(
    ("queues", "socket", "alone", "refused"),
    [
        ((0, 0, 0), ":8080", False, 0),
        ((0, 0, 0), ":8080", True, 9),
        ((0, 100, 0), ":8080", False, 7),
        ((0, 100, 100), ":8080", False, 9),
        ((0, 99, 99), ":8080", False, 0),
        ((0, 100, 100), "app.sock", False, 0),
        ((0, 0, 0), "app.sock", False, 0),
    ],
)
def test_whose_overflows_they_are(queues, socket, alone, refused):
    """Those of all TCP listeners are this server's if it is the only one, or if its queue was full at the time."""
    totals = overflowing((1000, 1007, 1009), queues, alone, socket=socket)
    assert (totals.overflows, totals.refused) == (9, refused)


@pytest.mark.parametrize(
    ("opened", "made"),
    [
        ([(100, 1.0), (100, 1.0), (130, 4.0)], (30, 3.0)),
        ([None, (100, 1.0), (130, 4.0)], (30, 3.0)),
        ([(100, 1.0), None, (130, 4.0)], (0, 0.0)),  # another socket listened meanwhile
        ([(100, 1.0), (7, 2.0), (9, 3.0)], (2, 2.0)),  # another network namespace
        ([None, None, None], (None, None)),
    ],
)
def test_connections_and_their_time(opened, made):
    server, readings = Server(), []
    for place, each in enumerate(opened):
        reading = server.read(10.0 + 0.2 * place)
        overflows = ListenOverflows(0, 0, True, *(each or (None,)))
        readings.append(replace(reading, host=replace(reading.host, overflows=overflows)))
    totals = totals_of(*readings)
    assert (totals.connections, totals.connections_seconds) == made


def test_overflows_that_fall_or_are_unknown():
    """A server that moves to another network namespace has another count: nothing was refused by that."""
    totals = overflowing((1000, 3, 5), (100, 100, 100), True, socket=":8080")
    assert (totals.overflows, totals.refused) == (2, 2)
    unknown = totals_of(Server().read(10.0), Server().read(10.2))
    assert (unknown.overflows, unknown.refused) == (None, None)

"""Counts of the kernel become totals that never decrease: periods of a quota, and processes that ran out of memory."""

from __future__ import annotations

from dataclasses import replace

from tests.support.simulated_server import Server
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.kernel.cpus import Throttling
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.memory import OomKills
from uwsgi_headroom.record import LoopHold, LoopUse, Quota, TrackedConnections, Waits

QUOTA = Quota("/app", 1.0, 4)


def integrate(*facts: HostFacts) -> Integrals:
    """The totals after one reading a second with these facts."""
    server, integrals = Server(), Integrals()
    for second, each in enumerate(facts):
        reading = server.read(1000.0 + second)
        host = replace(
            reading.host,
            throttling=each.throttling,
            oom_kills=each.oom_kills,
            tracked=each.tracked,
            waits=each.waits or reading.host.waits,
        )
        integrals.add(replace(reading, host=host), longest_step=2.0)
    return integrals


def test_periods_of_a_quota() -> None:
    """Growth counts, from the first reading on; without a quota nothing is known."""
    counts = [Throttling(QUOTA), Throttling(QUOTA, 50, 20, 1.5), Throttling(QUOTA, 60, 25, 2.0)]
    totals = integrate(*[HostFacts(throttling=each) for each in counts]).totals
    assert (totals.quota_periods, totals.throttled_periods, totals.throttled_seconds) == (60, 25, 2.0)
    assert integrate(HostFacts(), HostFacts()).totals.quota_periods is None


def test_a_reader_that_began_anew() -> None:
    """After a restart of uWSGI its counts begin at 0: nothing is taken away."""
    counts = [Throttling(QUOTA, 50, 20, 1.5), Throttling(QUOTA), Throttling(QUOTA, 10, 5, 0.5)]
    totals = integrate(*[HostFacts(throttling=each) for each in counts]).totals
    assert (totals.quota_periods, totals.throttled_periods, totals.throttled_seconds) == (10, 5, 0.5)


def test_processes_that_were_killed() -> None:
    """Those of the cgroup count, else those of the host; a cgroup that was made anew adds nothing."""
    kills = [OomKills(3, 7), OomKills(5, 9), OomKills(0, 10), OomKills(1, 11)]
    assert integrate(*[HostFacts(oom_kills=each) for each in kills]).totals.oom_kills == 3
    assert (
        integrate(HostFacts(oom_kills=OomKills(None, 7)), HostFacts(oom_kills=OomKills(None, 9))).totals.oom_kills == 2
    )
    assert integrate(HostFacts()).totals.oom_kills is None


def test_packets_of_untracked_connections() -> None:
    """Growth counts; where connections are not tracked, it is not known."""
    counts = [TrackedConnections(1, 9, dropped) for dropped in (40, 43, 43, 47)]
    assert integrate(*[HostFacts(tracked=each) for each in counts]).totals.untracked == 7
    assert integrate(HostFacts()).totals.untracked is None


def test_threads_in_a_shared_connection_and_before_a_full_pipe() -> None:
    """Both are areas under the number of threads, as for every state."""
    waits = [Waits(threads={"backend": 2.0, "pipe": 1.0}, shared=shared, output=1.0) for shared in (0.0, 2.0, 2.0)]
    totals = integrate(*[HostFacts(waits=each) for each in waits]).totals
    assert totals.shared_connection_seconds == 3.0
    assert totals.output_blocked_seconds == 2.0


def test_time_in_which_a_loop_is_held() -> None:
    """It counts from sample to sample, of each worker; without loops nothing is known."""
    held, free = LoopUse(LoopHold("sleep"), True, 1.0), LoopUse(LoopHold("sleep"), False, 0.0)
    loops = [{}, {1: held}, {1: held}, {1: free, 2: held}]
    workers = integrate(*[HostFacts(waits=Waits(off="one thread", loops=each)) for each in loops]).totals.workers
    assert [worker.loop_held_seconds for worker in workers] == [2.0, 0.5, 0.0, 0.0]
    workers = integrate(*[HostFacts(waits=Waits(off="no right"))] * 2).totals.workers
    assert {worker.loop_held_seconds for worker in workers} == {None}

"""Totals of what happens now and then: counts of the kernel, lives of workers, responses that nobody read."""

import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from copy import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.analysis.judging import describe, findings_by_code, idle, judge
from tests.history.watched import Watched, watch
from tests.support.captured_documents import document
from tests.support.real_uwsgi import Uwsgi, accepting, uwsgi, wait_until
from tests.support.simulated_server import Server, Slot, reading
from tools.scenarios.actions import find_accept_lock_holder
from uwsgi_headroom import record, stats
from uwsgi_headroom.analysis.findings.log import UNANSWERED, UNANSWERED_CALLS
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import INSTANT, Totals, copy_totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import CpuTimes, Throttling
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.memory import OomKills
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Backlog, Blocker, LogMessage, LogRecord, LoopUse, Options, Quota, Setup, Waits
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.recorder import Recorder

QUOTA = Quota("/app", 1.0, 4)


def totals_of(*facts: HostFacts) -> Totals:
    watched = Watched(longest_step=2.0)
    for second, each in enumerate(facts):
        made = watched.server.read(1000.0 + second)
        counts = {"throttling": each.throttling, "oom_kills": each.oom_kills, "tracked": each.tracked}
        watched.add(replace(made, host=replace(made.host, waits=each.waits, **counts)))
    return watched.totals


@pytest.mark.parametrize(
    ("counts", "grown"),
    [
        ([Throttling(QUOTA), Throttling(QUOTA, 50, 20, 1.5), Throttling(QUOTA, 60, 25, 2.0)], (60, 25, 2.0)),
        ([Throttling(QUOTA, 50, 20, 1.5), Throttling(QUOTA), Throttling(QUOTA, 10, 5, 0.5)], (10, 5, 0.5)),
        ([None, None], (None, None, None)),
    ],
    ids=["growth from the first reading on", "counts that begin anew take nothing away", "without a quota"],
)
def test_periods_of_a_quota(counts, grown):
    totals = totals_of(*[HostFacts(throttling=each) for each in counts])
    assert (totals.quota_periods, totals.throttled_periods, totals.throttled_seconds) == grown


@pytest.mark.parametrize(
    ("kills", "grown"),
    [
        ([OomKills(3, 7), OomKills(5, 9), OomKills(0, 10), OomKills(1, 11)], 3),  # a cgroup that was made anew
        ([OomKills(None, 7), OomKills(None, 9)], 2),
        ([None], None),
    ],
)
def test_processes_that_were_killed(kills, grown):
    """Those of the cgroup count, else those of the host."""
    assert totals_of(*[HostFacts(oom_kills=each) for each in kills]).oom_kills == grown


def test_packets_of_untracked_connections():
    """Growth counts; where connections are not tracked, it is not known."""
    counts = [record.TrackedConnections(1, 9, dropped) for dropped in (40, 43, 43, 47)]
    assert totals_of(*[HostFacts(tracked=each) for each in counts]).untracked == 7
    assert totals_of(HostFacts()).untracked is None
    # Threads in a shared connection, and before a full pipe, are areas under their number, as for every state.
    waits = [Waits(threads={"backend": 2.0, "pipe": 1.0}, shared=shared, output=1.0) for shared in (0.0, 2.0, 2.0)]
    totals = totals_of(*[HostFacts(waits=each) for each in waits])
    assert totals.shared_connection_seconds == 3.0
    assert totals.output_blocked_seconds == 2.0


def test_time_in_which_a_loop_is_held():
    """It counts from sample to sample, of each worker; without loops nothing is known."""
    held, free = LoopUse(Blocker("sleep"), True, 1.0), LoopUse(Blocker("sleep"), False, 0.0)
    loops = [{}, {1: held}, {1: held}, {1: free, 2: held}]
    workers = totals_of(*[HostFacts(waits=Waits(off="one thread", loops=each)) for each in loops]).workers
    assert [worker.loop_held_seconds for worker in workers] == [2.0, 0.5, 0.0, 0.0]
    workers = totals_of(*[HostFacts(waits=Waits(off="no right"))] * 2).workers
    assert {worker.loop_held_seconds for worker in workers} == {None}


MB = 1 << 20


def grown(*lives: tuple[int | None, ...]) -> int | None:
    """The megabytes that a worker's memory grew by, of lives with what uWSGI reports every second in megabytes."""
    server, watched = watch(processes=1)
    second = 0.0
    for number, life in enumerate(lives):
        if number:
            server.respawn(1, second)
        for memory in life:
            server[1].reported_memory = None if memory is None else memory * MB
            watched.sample(second)
            second += 1.0
    kilobytes = watched.totals.workers[0].grown_kilobytes
    return None if kilobytes is None else kilobytes // 1024


@pytest.mark.parametrize(
    ("lives", "expected"),
    [
        (((20, 30, 50),), 30),
        (((20, 30, 50), (20, 30, 50)), 60),
        (((20, 30, 50), (None, 25, 45)), 50),  # uWSGI reports it only after the first request
        (((20, 50, 30, 50),), 30),  # memory that was freed and used again is no growth
        (((50, 20),), 0),
        (((None, None),), None),
    ],
)
def test_growth_is_summed_over_lives(lives, expected):
    """Each process begins with its first figure; its highest one counts, and that of the next is added."""
    assert grown(*lives) == expected


def test_a_window_has_its_growth():
    server, watched = watch(processes=1)
    for second in range(10):
        server[1].reported_memory = (20 + 3 * second) * MB
        watched.sample(float(second))
    assert watched.window(4).workers[0].grown_kilobytes == 4 * 3 * 1024


def test_a_worker_that_loads_has_the_memory_of_the_one_before():
    """So a worker of 70 MB that ends after each request is not taken for one of 10 MB."""
    server, watched = watch(processes=1)
    server[1].reported_memory, server[1].resident = 70 * MB, 70 * MB
    watched.sample(0.0)
    server.respawn(1, 1.0)
    server[1].reported_memory, server[1].resident, server[1].state = None, 10 * MB, "starting"
    watched.sample(1.0)
    assert watched.totals.workers[0].resident_bytes == 70 * MB
    for second, state in enumerate(("idle", "pause"), 2):
        server[1].state = state
        watched.sample(float(second))
        assert watched.totals.workers[0].resident_bytes == 10 * MB


def test_time_without_a_worker():
    server, watched = watch(processes=2)
    for second in range(10):
        server[1].state = "starting" if 2 <= second <= 6 else "idle"
        server[2].state = "starting" if 4 <= second <= 8 else "idle"
        watched.sample(float(second))
    assert watched.totals.no_worker_seconds == 2.0
    assert watched.totals.starting_seconds == 10.0, "five of each"


def test_time_in_handlers_of_signals():
    """A thread that runs a handler is taken, so all are while the other worker's thread serves; it is not busy."""
    server = Server(processes=2, threads=1)
    server[2].busy = 1
    watched = Watched(server)
    for second in range(10):
        server[1].state = "signal" if 2 <= second <= 6 else "idle"
        watched.sample(float(second))
    totals = watched.totals
    assert totals.handler_seconds == 5.0
    assert totals.full_seconds == 5.0
    assert [worker.busy_seconds for worker in totals.workers] == [0.0, 9.0]


def idle_seconds(*samples: tuple[int | None, int]) -> float | None:
    """The total after samples, a second apart, of a queue's length and the busy threads of two."""
    server, watched = watch(processes=2, threads=1)
    for second, (queue, busy) in enumerate(samples):
        server.queue = queue
        server.busy(*(int(place < busy) for place in range(2)))
        watched.sample(float(second))
    return watched.totals.idle_queue_seconds


@pytest.mark.parametrize(
    ("samples", "seconds"),
    [
        (((3, 0), (3, 1), (3, 1)), 2.0),
        (((3, 2), (3, 2), (0, 1), (0, 0)), 0.0),  # they wait for a thread, or no request waits
        (((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)), 0.0),  # just accepted: one sample alone shows it
        (((None, 0), (None, 1)), None),
    ],
)
def test_requests_that_wait_beside_a_free_thread(samples, seconds):
    """Time counts in which both samples have a waiting request and a free thread; it is unknown without the queue."""
    assert idle_seconds(*samples) == seconds


@pytest.mark.parametrize(("busy", "idle"), [(1, 0.0), (0, 2.0)])
def test_the_threads_of_the_socket(busy, idle):
    """With `map-socket`, only those count that take requests from the socket where some wait. It may be unknown."""
    server, watched = watch(processes=2, threads=1, queue=3)
    server.busy(busy, 0)
    setup = Setup(Options(), None, None, {server.socket: (1,)}, mapped=True)
    for second in range(3):
        sample = server.read(float(second))
        watched.add(replace(sample, host=replace(sample.host, setup=setup)))
    assert watched.totals.idle_queue_seconds == idle
    watched = Watched(Server(cores=False, queue=5))
    watched.sample(*map(float, range(3)))
    assert watched.totals.idle_queue_seconds is None


def answers(server: Uwsgi) -> bool:
    with socket.create_connection(("127.0.0.1", server.http), 2) as client:
        client.settimeout(2)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        try:
            return client.recv(12).endswith(b"200")
        except TimeoutError:
            return False


@pytest.mark.integration
@pytest.mark.parametrize("sign", [signal.SIGCONT, signal.SIGKILL])
def test_the_advice_frees_the_accept_lock(sign):
    """While the holder is stopped nobody is served; `kill -CONT` and `kill -KILL` end that."""
    with accepting("--processes", "3", "--thunder-lock") as server:
        holder = find_accept_lock_holder(server)
        os.kill(holder, signal.SIGSTOP)
        time.sleep(0.2)
        assert not answers(server)
        os.kill(holder, sign)
        wait_until(lambda: answers(server), what="an answer")


INSTANTLY = INSTANT / 10


def count(serve: Callable[[Server], None], *, cores: bool = True, name: str = "unanswered") -> int | None:
    """The number after ten seconds of samples, with `serve` between each two."""
    server, watched = watch(processes=2, threads=2, cores=cores)
    for second in range(11):
        watched.sample(float(second))
        serve(server)
    return getattr(watched.window(60), name)


def fail(server: Server, requests: int = 10, each: float = INSTANTLY) -> None:
    server.serve(1, requests, each)
    server[1].silent_requests += requests


def test_requests_that_bring_nothing_count():
    """All but the last two samples': their answers may still come. Without cores, errors and routes are unknown."""
    assert count(fail) == 90
    assert count(lambda server: fail(server, each=2 * INSTANT)) == 0
    assert count(fail, cores=False) is None
    # Those that are answered do not: neither the fastest, nor failing ones beside others that are answered.
    assert count(lambda server: server.serve(1, 10, 0.000_01)) == 0

    def beside(server: Server) -> None:
        fail(server)
        server.serve(2, 1, 0.1)

    assert count(beside) == 0


def test_bytes_that_are_counted_a_sample_later():
    """uWSGI counts the bytes of a request after the request, and may be interrupted in between."""

    def late(server: Server) -> None:
        slot = server[1]
        if slot.silent_requests:
            slot.silent_requests = 0
        else:
            fail(server, 1)

    assert count(late) == 0


@pytest.mark.parametrize("name", ["exceptions", "write_errors", "read_errors", "static_requests", "routed_requests"])
def test_requests_with_a_reason_do_not(name):
    """An exception, a client that left, a static file, a rule that closes connections."""

    def serve(server: Server) -> None:
        fail(server)
        slot: Slot = server[1]
        setattr(slot, name, getattr(slot, name) + 10)

    assert count(serve) == 0


def test_requests_that_reach_an_application_do_not():
    """It may send nothing on purpose. A respawn that sets its calls to 0 makes no requests."""

    def serve(server: Server) -> None:
        fail(server)
        server[1].calls = 0 if server[1].requests == 50 else (server[1].calls or 0) + 10

    assert count(serve) == 10
    assert count(serve, name="unanswered_calls") == 80
    assert count(lambda server: (fail(server), setattr(server[1], "calls", 7))) == 90 - 7


def test_a_reload_begins_anew():
    """Counters that fall are no requests. What came in the step of the reload, and just before it, is left out."""

    def serve(server: Server) -> None:
        if server[1].requests == 50:
            server.reload(6.5)
        fail(server)

    assert count(serve) == 70


def test_running_time_that_is_unknown_for_a_moment_takes_nothing_away():
    """The host's clock is set back during a request."""

    def serve(server: Server) -> None:
        fail(server)
        server[1].running_time = None if server[1].requests == 50 else 0.0

    assert count(serve) == 60


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"unanswered": 2}, None),
        ({"unanswered": 19}, None),
        ({"unanswered": 20}, UNANSWERED),
        ({"unanswered": 2000}, UNANSWERED),
        ({"unanswered_calls": 2}, None),
        ({"unanswered_calls": 20}, UNANSWERED_CALLS),  # it may write to the connection itself: a warning
    ],
)
def test_many_are_critical(counts, kind):
    """From three, and one in a hundred on."""
    finding = findings_by_code(replace(idle(), **counts)).get("requests_unanswered")
    assert (finding and finding.kind) == kind
    if kind is UNANSWERED:
        assert finding.severity == "critical"
        assert "modifier" in finding.change


def test_a_log_that_proves_the_cause_says_it_instead():
    """One finding for one problem: that of the log names the modifier. A line with which nothing agrees does not."""
    for agreed, code in ((2000, "requests_rejected"), (0, "requests_unanswered")):
        log = LogRecord(messages={"modifier_unavailable": LogMessage(2000, agreed, limit=5)})
        by_code = judge(replace(idle(), unanswered=2000), describe(log=log))
        assert next(iter(by_code)) == code
        assert ("requests_unanswered" in by_code) == (agreed == 0)


def errors_of(window: Window | None) -> list[int | None]:
    return [worker.write_errors for worker in window.workers]


def test_write_errors_without_cores():
    """With stats-no-cores it is unknown, and so it is after that until the window begins later."""
    server, watched = watch(processes=1, cores=False)
    for second in range(20):
        server.cores = not 5 <= second < 10
        server[1].write_errors += 1
        watched.sample(float(second))
        if second == 4:
            assert errors_of(watched.window(60)) == [4]
        if second == 9:
            assert errors_of(watched.window(60)) == [None]
    assert errors_of(watched.window(60)) == [None]
    assert errors_of(watched.window(5)) == [5]


def leave_early(server: Uwsgi) -> None:
    """Asks for a response, and resets the connection before it is written."""
    with socket.create_connection(("127.0.0.1", server.http), 20) as client:
        client.sendall(b"GET /?io_ms=300 HTTP/1.0\r\n\r\n")
        wait_until(lambda: b'"in_request":1' in server.document(), what="the request")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.integration
def test_a_client_that_leaves():
    """uWSGI counts a response for a client that has left, and the window has it."""
    with uwsgi("--processes", "1", "--threads", "2") as server:
        watched = Watched()
        snapshots: list[Snapshot] = []

        def sample() -> int | None:
            snapshot = stats.decode(server.document())
            snapshots.append(replace(snapshot, sockets=()))  # uWSGI adds their queues after a second
            return snapshot.workers[0].write_errors

        assert sample() == 0
        leave_early(server)
        wait_until(sample, what="the write error")
    for at, snapshot in enumerate((snapshots[0], snapshots[-1], snapshots[-1])):
        watched.add(reading(float(at), snapshot, HostFacts()))
    assert errors_of(watched.window(60)) == [1]


EPOCH = 1795250100.0
DOCUMENT = document("threads_4x8_busy")


def after_requests(number: int) -> bytes:
    """The captured document after so many more requests of the first worker, which then are not in service."""
    contents = json.loads(DOCUMENT)
    worker = contents["workers"][0]
    worker["running_time"] += 100_000 * number
    for core in worker["cores"]:
        core["requests"] += number
        core["in_request"] = int(number % 2 == 0)
    return json.dumps(contents).encode()


CHANGES = "nothing cpus cpus queue requests process gone off gap"
DOCUMENTS = [after_requests(number) for number in range(4)]


@st.composite
def stories(draw: st.DrawFn) -> list[Reading]:
    """Readings of one server, which share their objects with the reading before as long as nothing changes."""
    snapshots = [stats.decode(body) for body in DOCUMENTS]
    number, at, snapshot = 0, 100.0, snapshots[0]
    pids = [worker.pid for worker in snapshot.workers if worker.pid]
    host = HostFacts(processes={pid: process_of(pid, 1.0) for pid in pids}, cpu_times=CpuTimes())
    story = []
    for change in draw(st.lists(st.sampled_from(CHANGES.split()), max_size=30)):
        at += 10.0 if change == "gap" else 1.0
        times = host.cpu_times or CpuTimes()
        if change == "cpus":
            used = CpuTimes(times.measured_seconds + 1, times.idle_seconds + 1.5, times.used_seconds + 0.5)
            host = replace(host, cpu_times=used)
        elif change == "queue":
            host = replace(host, backlogs={"127.0.0.1:3031": Backlog(number + 1, 100, None)})
        elif change == "requests":
            number = min(number + 1, len(snapshots) - 1)
        elif change == "process":
            host = replace(host, processes={**host.processes, pids[0]: process_of(pids[0], at)})
        elif change == "gone":
            host = replace(host, processes={pid: each for pid, each in host.processes.items() if pid != pids[-1]})
        elif change == "off":
            host = HostFacts(off="not proven")
        story.append(Reading(at, EPOCH + at, 0.001, 0.0001, 5000, snapshots[number], host))
    return story


def process_of(pid: int, seconds: float) -> WorkerProcess:
    return WorkerProcess(pid, seconds, 0.5, 30_000_000, 1, 1, 9, (0, 1), 0, EPOCH, 12_000_000, 0.0)


def without_shared_objects(reading: Reading) -> Reading:
    snapshot, host = reading.snapshot, reading.host
    workers = tuple([replace(worker) for worker in snapshot.workers])
    processes = {pid: copy(process) for pid, process in host.processes.items()}
    return replace(reading, snapshot=replace(snapshot, workers=workers), host=replace(host, processes=processes))


def integrate(story: list[Reading]) -> tuple[list[Totals], tuple[Event, ...]]:
    integrals, recorder, totals = Integrals(), Recorder(), []
    for sample in story:
        integrals.add(sample, longest_step=2.0)
        recorder.begin(sample.time)
        recorder.read(sample, integrals.totals)
        totals.append(copy_totals(integrals.totals))
    return totals, recorder.journal.since(float("-inf"))


@given(stories())
@settings(max_examples=40)
def test_totals_and_events_are_those_of_a_full_computation(story):
    assert integrate(story) == integrate([without_shared_objects(reading) for reading in story])

"""A server at rest is not computed anew at each sample. Its totals and events are those of a full computation."""

import json
from copy import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.captured_documents import document
from uwsgi_headroom import stats
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import Totals, copy_totals
from uwsgi_headroom.kernel.cpus import CpuTimes
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Backlog
from uwsgi_headroom.watch.recorder import Recorder

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


DOCUMENTS = [after_requests(number) for number in range(4)]


@st.composite
def stories(draw: st.DrawFn) -> list[Reading]:
    """Readings of one server, which share their objects with the reading before as long as nothing changes."""
    snapshots = [stats.decode(body) for body in DOCUMENTS]
    number, at, snapshot = 0, 100.0, snapshots[0]
    pids = [worker.pid for worker in snapshot.workers if worker.pid]
    host = HostFacts(processes={pid: process_of(pid, 1.0) for pid in pids}, cpu_times=CpuTimes())
    story = []
    for change in draw(
        st.lists(
            st.sampled_from(["nothing", "cpus", "cpus", "queue", "requests", "process", "gone", "off", "gap"]),
            max_size=30,
        )
    ):
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
    """An equal reading that shares no snapshot, worker or process with another."""
    snapshot, host = reading.snapshot, reading.host
    workers = tuple([replace(worker) for worker in snapshot.workers])
    processes = {pid: copy(process) for pid, process in host.processes.items()}
    return replace(reading, snapshot=replace(snapshot, workers=workers), host=replace(host, processes=processes))


def integrate(story: list[Reading]) -> tuple[list[Totals], tuple[Event, ...]]:
    """The totals after each reading, and the events of all."""
    integrals, recorder, totals = Integrals(), Recorder(), []
    for reading in story:
        integrals.add(reading, longest_step=2.0)
        recorder.begin(reading.time)
        recorder.read(reading, integrals.totals)
        totals.append(copy_totals(integrals.totals))
    return totals, recorder.journal.since(float("-inf"))


@given(stories())
@settings(max_examples=40)
def test_totals_and_events_are_those_of_a_full_computation(story):
    """It makes no difference whether a reading shares objects with the one before."""
    assert integrate(story) == integrate([without_shared_objects(reading) for reading in story])

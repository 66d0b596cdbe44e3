"""Findings about limits of the kernel: descriptors, threads, memory and tracked connections."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, idle, judge, row, setup, severity
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.capacity import count_more_workers, fits
from uwsgi_headroom.analysis.findings import Finding, parts
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_memory
from uwsgi_headroom.record import FullDisk, LogMessage, LogRecord, MemoryPressure, Tasks, TrackedConnections

MB = 1_000_000


@pytest.mark.parametrize(
    ("entries", "dropped", "expected"),
    [
        (899, 0, None),
        (900, 0, "warning"),
        (800, 1, "warning"),  # some entries have expired since
        (1000, 19, "warning"),  # below a hundredth of the requests
        (1000, 20, "critical"),
        (700, 20, None),  # dropped for another reason
        (899, None, None),
    ],
)
def test_a_full_table_of_connections(entries, dropped, expected):
    """It is a warning before it is full, and critical only while the kernel counts drops: it may drop our clients."""
    record = describe(tracked=TrackedConnections(entries, 1000, 0))
    found = judge(replace(idle(), untracked=dropped), record)
    assert severity(found, "connections_tracked") == expected
    assert not expected or "nf_conntrack_max=2000" in found["connections_tracked"].change
    assert not expected or ("may have dropped" in found["connections_tracked"].title) == bool(dropped)


def with_open(*numbers: int | None, most: int | None = 1000, exceptions: int = 0) -> dict[str, Finding]:
    """The findings about a calm server whose workers have so many descriptors open."""
    record = describe(Server(processes=len(numbers)))
    rows = zip(record.workers, numbers, strict=True)
    workers = tuple(replace(each, open_fds=number, most_fds=most) for each, number in rows)
    quiet = replace(idle(workers=len(numbers)), exceptions=exceptions)
    return judge(quiet, replace(record, workers=workers))


def test_the_workers_without_descriptors_are_named_and_what_to_raise():
    """The title has no figure; the change has the limit of now. It is why requests raise exceptions."""
    finding = with_open(998, 20, 999, 900)["descriptors_used_up"]
    assert finding.title.startswith("Workers 1 and 3 ")
    assert "raise `max-fd` from 1000" in finding.change
    failing, others = (with_open(number, 20, exceptions=400) for number in (1000, 900))
    assert [harm.code for harm in failing["descriptors_used_up"].harms] == ["exceptions"]
    assert ["exceptions" in found for found in (failing, others)] == [False, True]


def with_threads(
    threads: int | None, growth: int | None, *, respawns: int = 0, tasks: Tasks | None = None
) -> dict[str, Finding]:
    """The findings about two workers of 4 request threads, of which the first has so many threads, the second 14."""
    calm = change_workers(idle(workers=2), process_threads=14, threads_growth=0)
    calm = change_workers(calm, 1, process_threads=threads, threads_growth=growth, respawns=respawns)
    return judge(calm, describe(Server(processes=2, threads=4), tasks=tasks))


@pytest.mark.parametrize(
    ("tasks", "threads", "growth", "kind"),
    [
        # Most of the limit of the cgroup is in use, half of it by threads that serve no request.
        (Tasks(800, 1000), 394, 0, parts.THREADS_NEAR_LIMIT),
        (Tasks(1000, 1000), 900, 0, parts.THREADS_NEAR_LIMIT),
        (Tasks(799, 1000), 700, 0, None),
        (Tasks(800, 1000), 393, 0, None),
        (Tasks(600, 1000), 504, 40, parts.THREADS_GROW),
        (Tasks(800, 1000, 400), None, None, parts.ZOMBIES),
        (Tasks(800, 1000, 399), None, None, None),
        (Tasks(800, 1000, 400, "ulimit -u"), None, None, parts.ZOMBIES),
        (Tasks(0, 1), None, None, None),  # where nothing is known of the threads, a limit says nothing
    ],
)
def test_threads_near_the_limit(tasks, threads, growth, kind):
    """If they grow, the evidence says when it is reached."""
    found = with_threads(threads, growth, tasks=tasks)
    assert row(found, "threads_growing") is kind
    assert kind is not parts.THREADS_GROW or found["threads_growing"].evidence.endswith(" none is left in 10 min.")


@pytest.mark.parametrize(
    ("disks", "titles"),
    [
        ((), []),
        ((FullDisk("log", "/var/log", 0, False),), ["A file system that uWSGI uses has no space left: /var/log."]),
        ((FullDisk("directory", "/srv", 9, True),), ["A file system that uWSGI uses has no inode left: /srv."]),
    ],
)
def test_full_file_systems(disks, titles):
    """The mount is named, but not to people who may only scrape."""
    found = judge(idle(), describe(setup=replace(setup(), full_disks=disks)))
    assert [each.title for code, each in found.items() if code == "disk_full"] == titles
    assert not any("/" in "".join(each.public) for each in found.values() if each.code == "disk_full")


@pytest.mark.parametrize(("raised", "expected"), [(100, "warning"), (1990, "critical")])
def test_a_full_disk_comes_before_exceptions(raised, expected):
    """Where most requests fail, a deploy is the second thing to look at."""
    record = describe(setup=replace(setup(), full_disks=(FullDisk("directory", "/srv", 0, False),)))
    found = judge(replace(idle(), exceptions=raised), record)
    assert next(iter(found.items()))[0] == "disk_full"
    assert severity(found, "disk_full") == severity(found, "exceptions") == expected


@pytest.mark.parametrize(
    ("workers", "files", "expected"),
    [(4, 999, None), (4, 1000, "warning"), (60, 1199, None), (60, 1200, "warning")],
)
def test_files_of_metrics(workers, files, expected):
    """Each process has a few of them, and leaves them when it ends."""
    record = describe(Server(processes=workers), setup=replace(setup(), metrics_files=("/run/shop", files)))
    found = judge(idle(workers=workers), record)
    assert severity(found, "metrics_files") == expected
    assert not expected or "/run/shop" not in "".join(found["metrics_files"].public)


@pytest.mark.parametrize(
    ("left", "exceptions", "messages", "expected"),
    [
        (511, 200, {}, True),
        (512, 200, {}, False),
        (40, 2, {}, False),
        (40, 0, {"out_of_memory": LogMessage(9, 0)}, True),
        (40, 200, {"traceback": LogMessage(9, 9, place="KeyError at app.py:4")}, False),
        (40, 200, {"traceback": LogMessage(9, 9, place="MemoryError at app.py:4")}, True),
        (None, 200, {}, False),  # no limit
    ],
)
def test_address_space(left, exceptions, messages, expected):
    """A limit of it is named only where requests fail, and for no other reason that is known."""
    record = describe(log=LogRecord(messages=messages))
    rows = [replace(each, address_left=left and left * MB) for each in record.workers]
    found = judge(replace(idle(), exceptions=exceptions), replace(record, workers=tuple(rows)))
    assert ("address_space_used_up" in found) == expected


@pytest.mark.parametrize(
    ("starved", "version", "options", "expected"),
    [
        (2, "2.0.26", {"complete": True}, "warning"),
        (0, "2.0.26", {"complete": True}, None),
        (2, "2.0.27", {"complete": True}, None),  # a library may hold the lock
        (2, "2.0.21-debian", {"complete": True, "enable_threads": True}, None),
        (2, "2.0.26", {}, None),
    ],
)
def test_threads_that_stand_still(starved, version, options, expected):
    """The option is known to be missing, and threads are seen to want the lock of an idle worker."""
    found = judge(idle(), describe(starved=starved, version=version, setup=setup(**options)))
    assert severity(found, "threads_stand_still") == expected


def memory_of(per_worker: int, available: int, source: Source = "uss", workers: int = 4) -> Memories:
    taken = WorkerMemory(per_worker, source, workers * per_worker, {})
    return Memories(taken, AvailableMemory(available, "cgroup"))


@pytest.mark.parametrize(
    ("pressure", "queued", "kind", "expected"),
    [
        (MemoryPressure(0.049, 0.009, "cgroup"), 0.0, None, None),
        (MemoryPressure(0.05, 0.009, "cgroup"), 10.0, parts.MEMORY_IS_SHORT, "warning"),
        (MemoryPressure(0.05, 0.01, "cgroup"), 0.0, parts.MEMORY_STALLS, "warning"),
        (MemoryPressure(0.05, 0.01, "cgroup"), 10.0, parts.MEMORY_STALLS, "critical"),
        (MemoryPressure(0.5, 0.3, "host"), 10.0, parts.MEMORY_IS_SHORT, "warning"),  # other programs may wait
        (None, 10.0, None, None),
    ],
)
def test_processes_that_wait_for_memory(pressure, queued, kind, expected):
    """It is harm where all of uWSGI's processes wait, and critical where requests wait meanwhile."""
    memory = memory_of(100 * MB, 900 * MB)
    memory = replace(memory, available=replace(memory.available, pressure=pressure))
    queues = {"queue_seconds": {"app.sock": 60 * queued}, "queue_full_seconds": {"app.sock": 0.0}}
    found = judge(replace(idle(), **queues), describe(memory=memory))
    assert (row(found, "memory_stalls"), severity(found, "memory_stalls")) == (kind, expected)


def test_how_many_workers_fit():
    """The number of workers that fit is available memory over that of one worker, rounded down."""
    room = describe_memory(memory_of(180 * MB, 719 * MB))
    assert (count_more_workers(room), room.source, room.limited_by) == (3, "uss", "cgroup")
    assert (room.per_worker, room.available, room.together) == (180 * MB, 719 * MB, 720 * MB)


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        Memories(None, None),
        Memories(None, AvailableMemory(10, "host")),
        Memories(WorkerMemory(10, "uss", 10, {}), None),
        memory_of(0, 10),
    ],
)
def test_unknown_memory(unknown):
    """If either is unknown, there is no figure, and the clause says so."""
    assert describe_memory(unknown) is None
    assert fits(None, 2) == "check first that memory suffices for 2 more workers"


@pytest.mark.parametrize(
    ("more", "available", "source", "clause"),
    [
        (2, 1200, "uss", "2 more workers of 180 MB each fit into the 1.2 GB available"),
        (1, 1200, "uss", "1 more worker of 180 MB fits into the 1.2 GB available"),
        (2, 240, "uss", "of which there is room for 1 only: 180 MB each, 240 MB available"),
        (1, 60, "uss", "for which there is no room: 180 MB, 60 MB available"),
        (2, 1200, "anonymous", "2 more workers of at most 180 MB each fit into the 1.2 GB available"),
        (2, 240, "anonymous", "of which there is room for 1 for certain: at most 180 MB each, 240 MB available"),
        (1, 60, "anonymous", "for which there may be no room: at most 180 MB, 60 MB available"),
    ],
)
def test_whether_they_fit_in_words(more, available, source, clause):
    """The clause for advice to add processes; with an upper bound, it says only what is certain."""
    assert fits(describe_memory(memory_of(180 * MB, available * MB, source)), more) == clause

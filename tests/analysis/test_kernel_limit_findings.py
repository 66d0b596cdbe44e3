"""Findings about limits of the kernel: descriptors, threads, memory and tracked connections."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, idle, judge, setup, severity
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.capacity import count_more_workers, fits
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_memory
from uwsgi_headroom.surroundings import FullDisk

MB = 1_000_000


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


@pytest.mark.parametrize(
    ("disks", "titles"),
    [
        ((), []),
        ((FullDisk("log", "/var/log", 0, False),), ["A file system that uWSGI uses has no space left: /var/log."]),
        ((FullDisk("directory", "/srv", 9, True),), ["A file system that uWSGI uses has no inode left: /srv."]),
    ],
)
def test_full_file_systems(disks, titles):
    """The mount is named, but not to people who may only scrape; clients that left with no exception change nothing."""
    of = change_workers(idle(), read_errors=9, write_errors=0)
    found = judge(of, describe(setup=replace(setup(), full_disks=disks)))
    assert [each.title for code, each in found.items() if code == "disk_full"] == titles
    assert not any("/" in "".join(each.public) for each in found.values() if each.code == "disk_full")


@pytest.mark.parametrize(
    ("workers", "files", "expected"), [(4, 999, None), (4, 1000, "warning"), (60, 1199, None), (60, 1200, "warning")]
)
def test_files_of_metrics(workers, files, expected):
    """Each process has a few of them, and leaves them when it ends."""
    record = describe(Server(processes=workers), setup=replace(setup(), metrics_files=("/run/shop", files)))
    found = judge(idle(workers=workers), record)
    assert severity(found, "metrics_files") == expected
    assert not expected or "/run/shop" not in "".join(found["metrics_files"].public)


def memory_of(per_worker: int, available: int, source: Source = "uss", workers: int = 4) -> Memories:
    taken = WorkerMemory(per_worker, source, workers * per_worker, {})
    return Memories(taken, AvailableMemory(available, "cgroup"))


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

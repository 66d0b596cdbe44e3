"""Findings about limits of the kernel: descriptors, threads, memory and tracked connections."""

import pytest

from uwsgi_headroom.analysis.capacity import count_more_workers, fits
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_memory

MB = 1_000_000


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

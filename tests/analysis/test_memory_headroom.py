"""The number of workers that fit into memory, in figures and in text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.analysis.capacity import count_more_workers, fits
from uwsgi_headroom.kernel.facts import Memory
from uwsgi_headroom.kernel.memory import AvailableMemory, Source, WorkerMemory
from uwsgi_headroom.reading import describe_memory

MB = 1_000_000


def memory(per_worker: int, available: int, source: Source = "uss", workers: int = 4) -> Memory:
    return Memory(WorkerMemory(per_worker, source, workers * per_worker, {}), AvailableMemory(available, "cgroup"))


def test_headroom() -> None:
    """The number of workers that fit is available memory over that of one worker, rounded down."""
    room = describe_memory(memory(180 * MB, 719 * MB))
    assert room
    assert (count_more_workers(room), room.source, room.limited_by) == (3, "uss", "cgroup")
    assert (room.per_worker, room.available, room.together) == (180 * MB, 719 * MB, 720 * MB)


UNKNOWN = [
    None,
    Memory(None, None),
    Memory(None, AvailableMemory(10, "host")),
    Memory(WorkerMemory(10, "uss", 10, {}), None),
    memory(0, 10),
]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_unknown(unknown: Memory | None) -> None:
    """If either is unknown, there is no figure, and the clause says so."""
    assert describe_memory(unknown) is None
    assert fits(describe_memory(unknown), 2) == "check first that memory suffices for 2 more workers"
    assert fits(describe_memory(unknown), 1) == "check first that memory suffices for 1 more worker"


@given(st.integers(1, 10**12), st.integers(0, 10**13))
def test_the_headroom_is_the_largest_number_that_fits(per_worker: int, available: int) -> None:
    """The headroom is not negative, fits, and one more worker would not fit."""
    room = describe_memory(memory(per_worker, available))
    assert room
    more = count_more_workers(room)
    assert more >= 0
    assert more * per_worker <= available < (more + 1) * per_worker


@pytest.mark.parametrize(
    ("more", "available", "source", "clause"),
    [
        (2, 1200 * MB, "uss", "2 more workers of 180 MB each fit into the 1.2 GB available"),
        (1, 1200 * MB, "uss", "1 more worker of 180 MB fits into the 1.2 GB available"),
        (2, 240 * MB, "uss", "of which there is room for 1 only: 180 MB each, 240 MB available"),
        (2, 60 * MB, "uss", "for which there is no room: 180 MB each, 60 MB available"),
        (1, 60 * MB, "uss", "for which there is no room: 180 MB, 60 MB available"),
        (2, 1200 * MB, "anonymous", "2 more workers of at most 180 MB each fit into the 1.2 GB available"),
        (2, 240 * MB, "anonymous", "of which there is room for 1 for certain: at most 180 MB each, 240 MB available"),
        (1, 60 * MB, "anonymous", "for which there may be no room: at most 180 MB, 60 MB available"),
    ],
)
def test_whether_they_fit_in_words(more: int, available: int, source: Source, clause: str) -> None:
    """The clause for advice to add processes; with an upper bound, it says only what is certain."""
    assert fits(describe_memory(memory(180 * MB, available, source)), more) == clause

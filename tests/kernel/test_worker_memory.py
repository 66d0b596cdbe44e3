"""The memory of one more worker: from `smaps_rollup` files written by these tests, and from a real process."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.kernel.memory import (
    LONGEST_WALK,
    USS_SECONDS,
    WorkerMemories,
    WorkerMemory,
    read_unique_bytes,
)
from uwsgi_headroom.kernel.processes import Processes, WorkerProcess

MASTER = 4000
KB = 1024

ROLLUP = """\
55c9024a1000-7ffef294f000 ---p 00000000 00:00 0                          [rollup]
Rss:                1700 kB
Pss:                 194 kB
Shared_Clean:       1540 kB
Private_Clean:        44 kB
Private_Dirty:     {dirty:>5} kB
Anonymous:           116 kB
"""
"""A file of Linux 6.18, with some lines left out."""

HUGE = "Shared_Hugetlb:        0 kB\nPrivate_Hugetlb:    2048 kB\n"


def write_rollup(root: Path, pid: int, dirty: int, more: str = "") -> None:
    """Write the file of a process with 44 kB of clean private memory and `dirty` kB of dirty memory."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "smaps_rollup").write_text(ROLLUP.format(dirty=dirty) + more)


def process(pid: int, anonymous: int | None = None, start: float = 1e9) -> WorkerProcess:
    return WorkerProcess(pid, 1.0, 0.5, 20_000_000, 1, 1, None, (0,), 0, start, anonymous)


def by_pid(*processes: WorkerProcess) -> dict[int, WorkerProcess]:
    return {process.pid: process for process in processes}


class SlowClock:
    """CPU time that grows by `step` seconds at each call."""

    def __init__(self, step: float = 0.0) -> None:
        self.step, self._now = step, 0.0

    def __call__(self) -> float:
        self._now += self.step
        return self._now


def test_unique_memory(tmp_path: Path) -> None:
    """Unique memory is the private pages, clean and dirty, and those of hugetlbfs if the kernel counts them."""
    write_rollup(tmp_path, 7, 116)
    assert read_unique_bytes(7, tmp_path) == (44 + 116) * KB
    write_rollup(tmp_path, 7, 116, HUGE)
    assert read_unique_bytes(7, tmp_path) == (44 + 116 + 2048) * KB


def test_a_rollup_without_private_pages(tmp_path: Path) -> None:
    """A file without private pages is an error, not 0."""
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/smaps_rollup").write_text("Rss: 10 kB\nPrivate_Clean: 1 kB\n")
    with pytest.raises(ValueError, match="no private pages"):
        read_unique_bytes(7, tmp_path)


def test_one_worker_a_minute_the_largest_first(tmp_path: Path) -> None:
    """One worker is read per minute: first those never read, the largest first, then the one read the longest ago."""
    workers = by_pid(process(1, 10_000), process(2, 30_000), process(3, 20_000))
    for pid in workers:
        write_rollup(tmp_path, pid, pid)
    memories = WorkerMemories(root=tmp_path)
    known = []
    for turn in range(4):
        for part in (0.0, 0.5, 0.99):
            answer = memories.read(MASTER, workers, (turn + part) * USS_SECONDS)
            assert answer is not None
            known.append(sorted(answer.unique))
        write_rollup(tmp_path, 2, 100)  # read when it is worker 2's turn again
    assert known == [*[[2]] * 3, *[[2, 3]] * 3, *[[1, 2, 3]] * 6]
    assert answer is not None
    assert (answer.largest, answer.source) == (144 * KB, "uss")


def test_the_largest_value_of_each_worker_counts(tmp_path: Path) -> None:
    """A worker that shrinks keeps its largest value; a worker that has ended no longer counts, nor does a reused
    pid."""
    memories = WorkerMemories(root=tmp_path)
    write_rollup(tmp_path, 1, 956)
    assert memories.read(MASTER, by_pid(process(1)), 0.0) == WorkerMemory(1000 * KB, "uss", 1000 * KB, {1: 1000 * KB})
    write_rollup(tmp_path, 1, 156)
    shrunk = memories.read(MASTER, by_pid(process(1), process(2)), USS_SECONDS)
    assert shrunk is not None
    write_rollup(tmp_path, 2, 456)
    both = memories.read(MASTER, by_pid(process(1), process(2)), 2 * USS_SECONDS)
    assert both is not None
    assert both.unique[1] == 1000 * KB
    used_again = memories.read(MASTER, by_pid(process(1, start=2e9)), 3 * USS_SECONDS)
    assert used_again == WorkerMemory(200 * KB, "uss", 200 * KB, {1: 200 * KB})


def test_restarted_workers_are_not_read_more_often(tmp_path: Path) -> None:
    """A worker restart does not restart the minute."""
    memories = WorkerMemories(root=tmp_path)
    for pid in (1, 2):
        write_rollup(tmp_path, pid, 100)
    memories.read(MASTER, by_pid(process(1)), 0.0)
    assert memories.read(MASTER, by_pid(process(2)), 5.0) is None


def test_together(tmp_path: Path) -> None:
    """A worker not yet read counts as the largest; of anonymous memory, which workers may share, only the largest
    counts."""
    write_rollup(tmp_path, 2, 56)
    workers = by_pid(process(1, 50_000), process(2, 90_000), process(3, 70_000))
    assert WorkerMemories(root=tmp_path).read(MASTER, workers, 0.0) == WorkerMemory(
        100 * KB, "uss", 300 * KB, {2: 100 * KB}
    )
    nothing = WorkerMemories(root=tmp_path / "nothing")
    assert nothing.read(MASTER, workers, 0.0) == WorkerMemory(90_000, "anonymous", 90_000, {})


def test_anonymous_memory_if_there_is_no_other(tmp_path: Path) -> None:
    """If smaps_rollup is unreadable, the most anonymous memory of a living worker is the figure."""
    memories = WorkerMemories(root=tmp_path)
    memories.read(MASTER, by_pid(process(1, 900), process(2, 100)), 0.0)
    assert memories.read(MASTER, by_pid(process(1, 300), process(2, 200)), 5.0) == WorkerMemory(
        900, "anonymous", 900, {}
    )
    assert memories.read(MASTER, by_pid(process(2, 150)), 10.0) == WorkerMemory(200, "anonymous", 200, {})


def test_nothing_is_known_without_a_worker(tmp_path: Path) -> None:
    """Without a worker, or if the kernel reports nothing about it, there is no figure."""
    memories = WorkerMemories(root=tmp_path)
    assert memories.read(MASTER, {}, 0.0) is None
    assert memories.read(MASTER, by_pid(process(1)), 5.0) is None


def test_a_walk_that_takes_too_long_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a walk of page tables takes more than 50 ms of CPU, anonymous memory is the figure from then on; a new master
    is tried again."""
    write_rollup(tmp_path, 1, 956)
    clock = SlowClock(step=0.9 * LONGEST_WALK)
    monkeypatch.setattr(time, "thread_time", clock)
    memories = WorkerMemories(root=tmp_path)
    workers = by_pid(process(1, 5_000_000))
    first = memories.read(MASTER, workers, 0.0)
    assert first is not None
    assert first.source == "uss"

    clock.step = 1.1 * LONGEST_WALK
    slow = WorkerMemory(5_000_000, "anonymous", 5_000_000, {})
    assert memories.read(MASTER, workers, USS_SECONDS) == slow

    clock.step = 0.0
    assert memories.read(MASTER, workers, 2 * USS_SECONDS) == slow
    again = memories.read(MASTER + 1, workers, 3 * USS_SECONDS)
    assert again is not None
    assert again.source == "uss"


@given(st.lists(st.dictionaries(st.integers(1, 4), st.integers(0, 10**9), max_size=4), min_size=1, max_size=6))
def test_the_largest_living_worker_is_the_figure(samples: list[dict[int, int]]) -> None:
    """However workers come, go, grow and shrink, the figure is that of a living worker, and at least its present
    value."""
    memories = WorkerMemories(root=Path("/nonexistent"))
    most: dict[int, int] = {}
    for turn, sizes in enumerate(samples):
        most = {pid: max(size, most.get(pid, 0)) for pid, size in sizes.items()}
        answer = memories.read(MASTER, by_pid(*(process(pid, size) for pid, size in sizes.items())), 5.0 * turn)
        assert (answer.largest if answer else None) == max(most.values(), default=None)


def test_a_real_process() -> None:
    """Anonymous memory is the kernel's RssAnon, and unique memory is at least what the process allocated itself."""
    program = "taken = b'x' * 20_000_000; print(flush=True); input()"
    with subprocess.Popen(["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        known = Processes().read(os.getpid(), [child.pid])
        status = Path(f"/proc/{child.pid}/status").read_text()
        answer = WorkerMemories().read(os.getpid(), known, 0.0)
        child.kill()
    named = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    # The kernel adds up the pages of each CPU only occasionally.
    assert known[child.pid].anonymous_bytes == pytest.approx(named * KB, abs=2_000_000)
    assert answer is not None
    assert answer.source == "uss"
    assert 20_000_000 < answer.largest < 40_000_000

"""CPU time of threads and their wait for a CPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import run_delays
from uwsgi_headroom.kernel.waits.run_delays import RunDelays


def parts(monkeypatch: pytest.MonkeyPatch, *lines: bytes) -> Iterator[float]:
    delays = RunDelays()
    for line in lines:
        monkeypatch.setattr(procfs.KEPT, "read_line", lambda _, line=line: line)
        yield delays.part_waiting(1, 2)


def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait since the last time, as a part of both; 0 if a thread id was reused or the kernel does not count."""
    lines = (b"100 300 7\n", b"200 300 8\n", b"200 300 8\n", b"200 400 9\n", b"0 1 1\n", b"1 2 2\n", b"", b"x y\n")
    assert list(parts(monkeypatch, *lines)) == [0.75, 0, 0, 1, 0, 0.5, 0, 0]


def test_a_real_thread_and_one_that_has_ended() -> None:
    """A part is from 0 to 1; a thread that has ended has none."""
    delays = RunDelays()
    assert 0 <= delays.part_waiting(os.getpid(), threading.get_native_id()) <= 1
    ended = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(ended, 0)
    assert delays.part_waiting(ended, ended) == 0


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are forgotten with `forget`, and threads that come and go do not fill the memory."""
    monkeypatch.setattr(procfs.KEPT, "read_line", lambda _: b"1 1 1\n")
    monkeypatch.setattr(run_delays, "_MOST_KNOWN", 100)
    delays = RunDelays()
    for thread in range(1000):
        delays.part_waiting(1 + thread % 2, thread)
    assert len(delays._last) <= 101
    delays.forget(1)
    assert {pid for pid, _ in delays._last} == {2}

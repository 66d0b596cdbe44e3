"""CPU time and last CPU of every living thread, while other threads end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from uwsgi_headroom.kernel import processes, procfs


def test_every_thread_of_a_process_is_read() -> None:
    """Each thread has the CPU on which it last ran and its CPU time."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        threads = processes.read_threads(os.getpid())
    finally:
        ended.set()
        thread.join()
    assert {os.getpid(), thread.native_id} <= threads.keys()
    assert all(cpu >= 0 and seconds >= 0 for cpu, seconds in threads.values())


def test_a_thread_that_ends_during_the_reading_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ended after it was listed is left out; the others are read."""
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["999999999", *listed(folder)])
    assert os.getpid() in processes.read_threads(os.getpid())


def test_no_process_no_threads() -> None:
    """A process that has ended has no threads."""
    assert processes.read_threads(999999999) == {}


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    """The fields are those after the last parenthesis of the name."""
    path = f"{tmp_path}/stat"
    with open(path, "wb") as file:
        file.write(b"7 (a) S (b) R 1 2 3\n")
    assert procfs.read_stat_fields(path) == [b"R", b"1", b"2", b"3"]

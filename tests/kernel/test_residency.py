"""Where threads ran: every thread that lives, whichever others end meanwhile."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from uwsgi_headroom.kernel import procfs, residency


def test_every_thread_of_a_process_is_there() -> None:
    """Each with the CPU it last ran on and the CPU time it used."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        threads = residency.read_threads(os.getpid())
    finally:
        ended.set()
        thread.join()
    assert {os.getpid(), thread.native_id} <= threads.keys()
    assert all(cpu >= 0 and seconds >= 0 for cpu, seconds in threads.values())


def test_a_thread_that_ends_meanwhile_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was listed and is gone when it is looked at is left out, alone."""
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["999999999", *listed(folder)])
    assert os.getpid() in residency.read_threads(os.getpid())


def test_no_process_no_threads() -> None:
    """A process that is gone has none."""
    assert residency.read_threads(999999999) == {}


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    """The fields are those behind the last parenthesis of the name."""
    path = f"{tmp_path}/stat"
    with open(path, "wb") as file:
        file.write(b"7 (a) S (b) R 1 2 3\n")
    assert procfs.read_stat_fields(path) == [b"R", b"1", b"2", b"3"]

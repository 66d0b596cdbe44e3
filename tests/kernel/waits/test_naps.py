"""For how long threads sleep at a time: of real threads, and where the kernel's count says nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from uwsgi_headroom.kernel.waits.naps import LEAST_SECONDS, Naps


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Ends the threads of a test."""
    end = threading.Event()
    yield end
    end.set()


def start(end: threading.Event, seconds: float) -> int:
    """Start a thread that sleeps for so many seconds again and again; returns its id."""

    def sleep() -> None:
        while not end.is_set():
            time.sleep(seconds)

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    return thread.native_id or 0


def watch(naps: Naps, thread: int, *, requests: bool = False) -> None:
    """Watch a thread for half as long again as is needed. requests: whether one is completed before each sample."""
    began, number = time.monotonic(), 0
    while time.monotonic() < began + 1.5 * LEAST_SECONDS:
        naps.begin()
        number += requests
        naps.note(os.getpid(), thread, number, time.monotonic())
        time.sleep(0.1)


@pytest.mark.parametrize("seconds", [0.01, 30.0])
def test_a_thread_that_sleeps_again_and_again_and_one_that_sleeps_once(end: threading.Event, seconds: float) -> None:
    """A busy machine makes a nap longer, and no thread that sleeps wakes up for it."""
    naps, thread = Naps(), start(end, seconds)
    time.sleep(0.1)
    watch(naps, thread)
    assert naps.length is not None
    assert (0.005 < naps.length < 0.2) if seconds < 1 else naps.length > 1


def test_between_requests_nothing_is_known(end: threading.Event) -> None:
    """A thread that was asleep in another request says nothing; nor does one that has ended, nor a gap."""
    naps, thread = Naps(), start(end, 0.01)
    watch(naps, thread, requests=True)
    assert naps.length is None
    for now in (0.0, 10.0, 20.0):
        naps.begin()
        naps.note(os.getpid(), thread, 0, now)
        naps.note(os.getpid(), 1 << 30, 0, now)
    assert naps.length is None

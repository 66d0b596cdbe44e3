"""Measures what a read costs uWSGI's master, which serves the stats itself and does nothing else meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

HOW = (
    "The state of uWSGI's master is sampled every 0.2 ms during separate scrapes (`/proc/<pid>/syscall`). The master "
    "is *occupied* whenever it is not asleep in the system call in which it idles, and *held up* while it is asleep in "
    "another one, which is `write` or the wait before it, for a reader that has not read yet"
)

_INTERVAL_SECONDS = 0.0002

_READINGS = 500
"""How often the master's state is read to find the system call in which it idles."""


@dataclass(frozen=True, slots=True)
class Occupation:
    """Seconds of one scrape for which the master was occupied, and for which of these the reader held it up."""

    occupied: float
    held_up: float


def occupation(pid: int, scrape: Callable[[], object], scrapes: int, pause: float) -> Occupation:
    """Scrapes `scrapes` times, and returns the mean occupation of the master per scrape."""
    watched = _Watch(pid)
    for _ in range(scrapes):
        with watched:
            scrape()
        time.sleep(pause)
    return Occupation(watched.seconds["occupied"] / scrapes, watched.seconds["held up"] / scrapes)


class _Watch:
    """Adds up the time that the master spends in each state during a block. The master must be idle for most of the
    time at creation: another exporter may read it then."""

    def __init__(self, pid: int) -> None:
        self.seconds = dict.fromkeys(("occupied", "held up"), 0.0)
        self._path = f"/proc/{pid}/syscall"
        calls: Counter[str] = Counter()
        for _ in range(_READINGS):
            calls[self._system_call()] += 1
            time.sleep(_INTERVAL_SECONDS)
        del calls["running"]
        self._at_rest = calls.most_common(1)[0][0]

    def __enter__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        before = time.perf_counter()
        while not self._over.is_set():
            time.sleep(_INTERVAL_SECONDS)
            call = self._system_call()
            now = time.perf_counter()
            if call != self._at_rest:
                self.seconds["occupied"] += now - before
                if call != "running":
                    self.seconds["held up"] += now - before
            before = now

    def _system_call(self) -> str:
        """Returns the number of the system call in which the master is asleep, or `running`."""
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            return os.read(descriptor, 256).split()[0].decode()
        finally:
            os.close(descriptor)

"""A log of a real uWSGI is rotated in every way while it is read: each line of a request is read once.

The ways are those of logrotate (`create`, with `touch-logreopen`) and uWSGI's own `log-maxsize`. `test_tail.py` has
logs that are truncated.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.uwsgi_log.test_real_uwsgi import APP, get, serving
from uwsgi_headroom.uwsgi_log.tail import Tail
from uwsgi_headroom.watch.log_reader import TURN_SECONDS

pytestmark = pytest.mark.integration

MAXSIZE = 30_000
REQUESTS = 1200
BETWEEN_LOOKS = 100
"""The most requests between two looks at the log, also on a busy machine: fewer than uWSGI rotates after."""

ROTATIONS = 3


def rename(log: Path, number: int) -> None:
    """As logrotate does with `create`: uWSGI writes to the old file until it is asked to open the log again."""
    log.rename(f"{log}.{number}")
    log.touch()
    time.sleep(0.3)
    later = time.time() + 10 * number
    os.utime(log.with_name("reopen"), (later, later))


def by_uwsgi(_log: Path, _number: int) -> None:
    """uWSGI's master renames the log once a second, if it is larger than `log-maxsize`."""


@pytest.mark.parametrize("rotate", [rename, by_uwsgi])
def test_every_request_is_read_once(rotate: Callable[[Path, int], None], tmp_path: Path) -> None:
    """Some 200 requests a second, and a rotation between two looks at the log, over and over."""
    app, log, reopen = tmp_path / "shop.py", tmp_path / "shop.log", tmp_path / "reopen"
    app.write_text(APP)
    log.touch()
    reopen.touch()
    options = ["--logto", str(log), "--touch-logreopen", str(reopen)]
    options += ["--log-master", "--log-maxsize", str(MAXSIZE)] if rotate is by_uwsgi else []
    tail, found, stop, looked = Tail(str(log)), bytearray(), threading.Event(), threading.Event()

    def look() -> None:
        for block in tail.read(time.monotonic(), 1 << 30):
            found.extend(block or b"")

    def follow() -> None:
        while not stop.wait(TURN_SECONDS):
            look()
            looked.set()

    look()
    with serving(app, *options) as server:
        look()  # the first lines: a second change within half a second of the first would not be seen
        reader = threading.Thread(target=follow)
        reader.start()
        try:
            rotated = 0
            for number in range(REQUESTS):
                get(server, f"/{number}")
                last = f"GET /{number} ".encode()
                if number % BETWEEN_LOOKS == 0:
                    looked.clear()
                    assert looked.wait(60)
                if number % (REQUESTS // 5) == REQUESTS // 10:
                    rotated += 1
                    rotate(log, rotated)
            end = time.monotonic() + 30
            while last not in found and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            stop.set()
            reader.join()
    requests = Counter(map(int, re.findall(rb" GET /(\d+) ", found)))
    assert requests == Counter(range(REQUESTS))
    assert len(list(tmp_path.glob("shop.log*"))) > ROTATIONS
    assert not tail.skipped

"""Reads a log that `check` has found, as a question for `kernel.aside`: nobody named it, so its file system may not
answer, and its path may be a user's link to a file of root's.

It begins with the last LAST_BYTES. Of those, only what came in the last RECENT_SECONDS is scanned, and counted apart:
an old line says nothing about now, and no reading can prove it. uWSGI dates the lines of requests and some of its
messages; what follows a date in a log is younger. A log without dates begins at its end.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections import Counter
from math import inf

from uwsgi_headroom.uwsgi_log.scan import LogBatch, Scanner, scan_blocks
from uwsgi_headroom.uwsgi_log.tail import Tail

LAST_BYTES = 1 << 20
RECENT_SECONDS = 300.0

_DATED = re.compile(
    rb"^(?:\[pid: \d[^\n]{1,400}?\} \[)?([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})(?: - |\] )",
    re.MULTILINE,
)

_logs: dict[tuple[str, int], tuple[Tail, Scanner]] = {}


def read_found(path: str, holder: int, now: float, most: int, is_first: bool) -> tuple[LogBatch, str | None]:
    """What was added to a log since the last question, and why it cannot be read. holder: the PID of the master, which
    must have it open; now: monotonic seconds; most: bytes; is_first: else another process had begun to read it."""
    known = _logs.get((path, holder))
    tail, scanner = known or (Tail(path, LAST_BYTES * is_first, holder), Scanner())
    _logs[path, holder] = tail, scanner
    if known or not is_first:
        return scan_blocks(tail.read(now, most), scanner, inf), tail.trouble
    recent = _cut_recent(b"".join(filter(None, tail.read(now, LAST_BYTES))), path)
    before = Counter[str]()
    for seen, count in scan_blocks([recent], Scanner(), inf).seen.items():
        before[seen.code] += count
    return LogBatch(before=before), tail.trouble


def _cut_recent(block: bytes, path: str) -> bytes:
    """The lines of the last RECENT_SECONDS; none if a date is later than the last write, as in another time zone."""
    dates = list(_DATED.finditer(block))
    try:
        written, since = os.stat(path).st_mtime + 1.0, time.time() - RECENT_SECONDS
        place = bisect_left(dates, since, key=_read_date)
        is_known = place < len(dates) and _read_date(dates[-1]) <= written
    except (OSError, OverflowError, ValueError):
        return b""
    return block[dates[place].start() :] if is_known else b""


def _read_date(found: re.Match[bytes]) -> float:
    """A date of uWSGI's as epoch seconds. Raises ValueError or OverflowError."""
    return time.mktime(time.strptime(found[1].decode(), "%a %b %d %H:%M:%S %Y"))

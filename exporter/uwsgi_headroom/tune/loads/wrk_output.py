"""Reads what wrk prints."""

from __future__ import annotations

import re

from uwsgi_headroom.tune.loads.load import Answers

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = r"([\d.]+)(us|ms|s|m|h)"


def parse_wrk(text: str) -> Answers:
    """Return the answers of a run with `--latency`. It has no 95th percentile.

    wrk keeps connections open. If the server closes each one after the response without announcing it, as uWSGI's
    `http-socket` does, wrk counts a read error for each answer: those are no failed requests. It counts statuses beyond
    399 together, and late answers both as answers and as timeouts. Raises ValueError if this is not the output of wrk.
    """
    total = re.search(rf"^ *(\d+) requests in {_TIME},", text, re.MULTILINE)
    if not total or not _seconds(total[2], total[3]):
        raise ValueError("the output of wrk has no results")
    complete, errors = int(total[1]), _errors(text, int(total[1]))
    answered = max(0, complete - errors.get("status not 2xx or 3xx", 0))
    times = re.search(rf"^ *Latency +{_TIME} +{_TIME} +{_TIME}", text, re.MULTILINE)
    at = {
        int(percent): _seconds(value, unit) for percent, value, unit in re.findall(rf"^ *(\d+)% +{_TIME}$", text, re.M)
    }
    has_times = bool(answered and times and float(times[5]))  # zeros if all answers were late
    return Answers(
        seconds=_seconds(total[2], total[3]),
        answered=answered,
        errors=errors,
        mean=_seconds(times[1], times[2]) if times and has_times else None,
        p50=at.get(50) if has_times else None,
        p99=at.get(99) if has_times else None,
        longest=_seconds(times[5], times[6]) if times and has_times else None,
    )


def _errors(text: str, complete: int) -> dict[str, int]:
    errors = {}
    if counts := re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text):
        connect, read, write, timeout = map(int, counts.groups())
        clients = re.search(r"(\d+) connections", text)
        is_closed_after_each = read >= complete - int(clients[1] if clients else 0) and complete > 0
        reset = write + (max(0, read - complete) if is_closed_after_each else read)
        errors = {"connect": connect, "reset": reset, "timeout": timeout}
    if status := re.search(r"Non-2xx or 3xx responses: (\d+)", text):
        errors["status not 2xx or 3xx"] = int(status[1])
    return {kind: count for kind, count in errors.items() if count}


def _seconds(value: str, unit: str) -> float:
    return float(value) * _SECONDS[unit]

"""Reads what ApacheBench (ab) prints."""

from __future__ import annotations

import re
from pathlib import Path

from uwsgi_headroom.tune.loads.load import Answers

_TEXT = {
    "seconds": r"^Time taken for tests: +([\d.]+) seconds",
    "complete": r"^Complete requests: +(\d+)",
    "failed": r"^Failed requests: +(\d+)",
}
_KINDS = r"\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)"


def parse_ab(text: str, percentiles: str = "") -> Answers:
    """Return the answers of a run with `-r -l`. text: standard output; percentiles: the file of option `-e`.

    ab only counts statuses beyond 299, so a 404 is an error too. It takes a connection that is closed without a
    response for an answer: this is seen only if all are. It has no mean of the response times: `mean` is that of
    Little's law, clients x seconds / requests. Raises ValueError if this is not the output of ab.
    """
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _TEXT.items()}
    if not all(found.values()):
        raise ValueError("the output of ab has no results")
    seconds, complete, failed = (float(match[1]) for match in found.values() if match)
    if not seconds:
        raise ValueError("ab measured for no time")
    errors = {"status not 2xx": _count(r"^Non-2xx responses: +(\d+)", text)}
    if kinds := re.search(_KINDS, text):
        connect, receive, _, exceptions = map(int, kinds.groups())
        errors |= {"connect": connect, "reset": receive, "exception": exceptions}
    elif failed:
        errors["failed"] = int(failed)
    errors = {kind: count for kind, count in errors.items() if count}
    if _count(r"^Total transferred: +(\d+) bytes", text) == 0 and not errors:
        errors = {"empty": int(complete)}
    # A failed request is complete for ab, but for those that could not connect.
    answered = max(0, int(complete) - sum(count for kind, count in errors.items() if kind != "connect"))
    if not answered:
        return Answers(seconds=seconds, answered=0, errors=errors)
    mean = re.search(r"^Time per request: +([\d.]+) \[ms\] \(mean\)", text, re.MULTILINE)
    longest = re.search(r"^ *100% +(\d+)", text, re.MULTILINE)
    at = {int(percent): float(value) / 1000 for percent, value in re.findall(r"^(\d+),([\d.]+)", percentiles, re.M)}
    return Answers(
        seconds=seconds,
        answered=answered,
        errors=errors,
        mean=float(mean[1]) / 1000 if mean else None,
        p50=at.get(50),
        p95=at.get(95),
        p99=at.get(99),
        longest=int(longest[1]) / 1000 if longest else None,
    )


def read_ab(text: str, file: Path) -> Answers:
    """Return the answers, with the percentiles of the file of option `-e`, which ab omits without an answer."""
    return parse_ab(text, file.read_text() if file.exists() else "")


def _count(pattern: str, text: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1]) if match else 0

"""Reads the paths of an access log, to request them again. Nothing else of the log is kept, and nothing is written.

The formats are the common and the combined log format of Apache and nginx, also compressed by gzip.
"""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.errors import ConfigError

MOST_PATHS = 500
MOST_BYTES = 60_000
"""Of all paths together, so that a log of long lines takes little memory."""

LONGEST_PATH = 2000

_SEED = 1
# The length of the time is bounded, so that a line of many brackets takes no longer than others.
_REQUEST = re.compile(rb'^\S+ \S+ .*?\[[^\]]{0,99}\] "([A-Z]{3,10}) (\S+)(?: HTTP/[\d.]+)?" \d{3} ')
_LINE = 64 << 10


@dataclass(frozen=True, slots=True)
class Replay:
    """What of a log can be requested again."""

    paths: tuple[str, ...]
    """In the order of the log; a random sample of at most MOST_PATHS."""

    requests: int
    """Lines that could be replayed."""

    left_out: Mapping[str, int]
    """The other requests by method."""

    unreadable: int
    """Lines in another format."""


def read_access_log(path: Path, methods: Collection[str] = ("GET",)) -> Replay:
    """Read a log. methods: those whose requests are replayed, as GET. Raises ConfigError if there is none, or if the
    file cannot be read."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_gzip else path.open("rb") as log:
            replay = collect(iter(lambda: log.readline(_LINE), b""), methods)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise ConfigError(f"--access-log: {path} cannot be read: {reason}") from None
    if not replay.paths:
        raise ConfigError(f"--access-log: {path} has no request to replay{_describe_none(replay, methods)}")
    return replay


def collect(lines: Iterable[bytes], methods: Collection[str]) -> Replay:
    """Collect a sample of the paths (reservoir sampling: J. S. Vitter, ACM Trans. Math. Softw. 11 (1), 1985)."""
    chance = random.Random(_SEED)  # noqa: S311 - a sample, no secret
    sample: list[tuple[int, bytes]] = []
    requests, unreadable, left_out = 0, 0, Counter[str]()
    for line in lines:
        match = _REQUEST.match(line)
        if match is None:
            unreadable += bool(line.strip())
            continue
        method, target = match[1].decode(), _find_path(match[2])
        if method not in methods or target is None:
            left_out[method] += 1
            continue
        requests += 1
        if len(sample) < MOST_PATHS:
            sample.append((requests, target))
        elif (place := chance.randrange(requests)) < MOST_PATHS:
            sample[place] = (requests, target)
    kept: list[str] = []
    size = 0
    for _, target in sorted(sample):
        size += len(target) + 4
        if size > MOST_BYTES:
            break
        kept.append(target.decode("ascii"))
    return Replay(tuple(kept), requests, dict(left_out), unreadable)


def is_path(text: str) -> bool:
    """Whether a text can be requested: a path, perhaps with a query, in ASCII and without spaces."""
    return re.fullmatch(rf"/[!-~]{{0,{LONGEST_PATH - 1}}}", text) is not None and not text.startswith("//")


def _find_path(target: bytes) -> bytes | None:
    """The path of a request, without the host that a proxy's log may have. Logs escape bytes beyond ASCII (`\\xc3`)."""
    path = re.sub(rb"^https?://[^/]*", b"", target)
    path = re.sub(rb"\\x([0-9A-Fa-f]{2})", rb"%\1", path)
    return path if path.isascii() and is_path(path.decode("ascii")) else None


def _describe_none(replay: Replay, methods: Collection[str]) -> str:
    if others := {method: count for method, count in replay.left_out.items() if method not in methods}:
        names = ", ".join(f"{count:,} {method}" for method, count in sorted(others.items()))
        return f": only {names}, which --allow-methods may allow"
    if replay.left_out:
        return ": none of its requests has a path in ASCII that can be requested"
    if replay.unreadable:
        return ": none of its lines is in the common or combined log format"
    return ": it is empty"

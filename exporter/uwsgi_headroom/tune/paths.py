"""The paths that are requested: given ones, or those of an access log in the common or combined log format."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import counted

MOST_PATHS = 500
# The time is bounded, so that a line of many brackets takes no longer. A proxy's log may have the host, too.
_GET = re.compile(rb'\S+ \S+ .*?\[[^\]]{0,99}\] "GET (?:https?://[^/ ]+)?(\S+)(?: HTTP/[\d.]+)?" \d{3} ')


def find_paths(urls: tuple[str, ...], log: str | None) -> tuple[tuple[str, ...], str]:
    """The paths, and what they are in words. Raises ConfigError."""
    if log and urls:
        raise ConfigError("give --url or --access-log, not both")
    if log:
        paths = read_access_log(Path(log))
        return paths, f"{counted(len(paths), 'path')} of {Path(log).name}"
    for url in urls:
        if not is_path(url):
            raise ConfigError(f"--url: expected a path such as /items, not {url}: tune loads only its own server")
    # A query may hold a token.
    return urls or ("/",), " ".join(dict.fromkeys(url.partition("?")[0] for url in urls)) or "/"


def is_path(text: str) -> bool:
    """Whether a text can be requested: a path, perhaps with a query, in ASCII and without spaces."""
    return re.fullmatch(r"/([!-.0-~][!-~]{0,2000})?", text) is not None


def read_access_log(log: Path) -> tuple[str, ...]:
    """The paths of the last 500 GET requests in a log; others may change data. Raises ConfigError."""
    found = deque[str](maxlen=MOST_PATHS)
    try:
        with log.open("rb") as lines:
            for match in filter(None, map(_GET.match, lines)):
                escaped = re.sub(rb"\\x([0-9A-Fa-f]{2})", rb"%\1", match[1])  # how logs write bytes beyond ASCII
                found.extend(filter(is_path, [escaped.decode("ascii", errors="replace")]))
    except OSError as error:
        raise ConfigError(f"--access-log: {log} cannot be read: {error.strerror}") from None
    if not found:
        raise ConfigError(f"--access-log: {log} has no GET request in the common or combined log format")
    return tuple(found)

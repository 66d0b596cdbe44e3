"""Searches the configuration of the web server of this host for the addresses of uWSGI's sockets, for one look.

No command of a web server is run: `nginx -t` opens logs and resolves names, `nginx -T` prints secrets. Of a line with
such an address, the path, the number and the directive are kept. Lines that do not have an address literally are not
found, so that nothing found proves nothing. A question for `aside`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import WebLine, is_tcp

_FOLDER = "/etc/nginx"
_MOST_FILES, _MOST_BYTES, _MOST_SECONDS = 500, 256 << 10, 0.2
_NOT_READ = ("sites-available", "modules-available")
"""Folders of files that are not in use, unless a link leads there."""

_GIVEN = re.compile(r"^nginx: master process .* -c (/[^\s;]+)")
_EVERY = ("", "0.0.0.0", "[::]", "127.0.0.1", "localhost", "[::1]")  # noqa: S104 - names, no binds
_LOOPBACK = r"(?:127\.0\.0\.1|localhost|\[::1\])"


@lru_cache(maxsize=16)
def find_named(sockets: tuple[tuple[str, str, str], ...], web_servers: tuple[int, ...]) -> tuple[WebLine, ...]:
    """The lines that lead to these sockets. sockets: name, address and protocol of each; web_servers: processes of the
    web server, whose command lines say which file they read."""
    patterns = [(name, protocol, _compile(address)) for name, address, protocol in sockets]
    found = list[WebLine]()
    for path, text in _read_files(web_servers):
        for name, protocol, pattern in patterns:
            for match in pattern.finditer(text):
                line = text.count(b"\n", 0, match.start(1)) + 1
                found.append(WebLine(name, path, line, match[1].decode(), protocol))
    return tuple(found)


def _compile(address: str) -> re.Pattern[bytes]:
    """What finds a directive with this address, which is a path or HOST:PORT, outside of comments."""
    there = rf"unix:(?://)?{re.escape(address)}"
    if is_tcp(address):
        host, _, port = address.rpartition(":")
        there = f"{dict.fromkeys(_EVERY, _LOOPBACK).get(host, re.escape(host))}:{port}"
    return re.compile(os.fsencode(rf"^[ \t]*(\w+)[ \t][^#;\n]*?(?<![\w.]){there}(?=[:;/\s])"), re.MULTILINE)


def _read_files(web_servers: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """The regular files of the configuration that are root's or that everybody may read, in time."""
    end, left = time.monotonic() + _MOST_SECONDS, _MOST_FILES
    for path in dict.fromkeys((*_list_given(web_servers), *_list_files())):
        if left <= 0 or time.monotonic() > end:
            return
        left -= 1
        with suppress(OSError):
            descriptor = procfs.open_regular(path)
            try:
                about = os.fstat(descriptor)
                if about.st_size <= _MOST_BYTES and (about.st_uid == 0 or about.st_mode & 0o004):
                    yield path, os.read(descriptor, _MOST_BYTES)
            finally:
                os.close(descriptor)


def _list_files() -> Iterator[str]:
    for folder, folders, files in os.walk(_FOLDER):
        folders[:] = [each for each in folders if each not in _NOT_READ]
        yield from (os.path.join(folder, file) for file in sorted(files))


def _list_given(web_servers: Sequence[int]) -> Iterator[str]:
    """The files that command lines name."""
    for pid in web_servers:
        with suppress(OSError):
            words = procfs.read_begin(_MOST_BYTES, f"/proc/{pid}/cmdline").replace(b"\0", b" ")
            if given := _GIVEN.match(os.fsdecode(words)):
                yield given[1]

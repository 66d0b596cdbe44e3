"""Searches the configuration of the web servers of this host for the addresses of uWSGI's sockets, for one look.

No command of a web server is run: `nginx -t` opens logs and resolves names, `nginx -T` prints secrets. Of a line with
such an address, the path, the number and the directive are kept. Nothing found proves nothing. A question for `aside`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.surroundings import WebLine

_FOLDERS = ("/etc/nginx", "/etc/apache2", "/etc/httpd")
_NOT_READ = re.compile(r"(?:sites|mods|modules|conf)-available")  # unless a link leads there
_MOST_FILES, _MOST_BYTES, _MOST_LINES, _MOST_SECONDS = 500, 256 << 10, 20, 0.2
_ENDS = re.compile(rb"[;{}]")  # of a directive
_GIVEN = re.compile(rb"^(?:nginx: master process .* -c |\S*(?:apache2|httpd)\0(?:.*\0)?-f\0)(/[^\s;\0]+)")
_DIRECTIVE = re.compile(rb"[A-Za-z_]{3,40}")  # a file that is none of a web server's may have secrets in this place
_HERE = r"(?:127\.0\.0\.1|localhost|\[::1\])"


@lru_cache(maxsize=16)
def find_lines(sockets: tuple[tuple[str, str, str], ...], web_servers: tuple[int, ...]) -> tuple[WebLine, ...]:
    """The lines that lead to these sockets. sockets: name, address and protocol of each; web_servers: processes of the
    web server, whose command lines name a file."""
    patterns = [(name, protocol, compile_address(address)) for name, address, protocol in sockets]
    found = list[WebLine]()
    for path, text in _read_files(web_servers):
        for name, protocol, pattern in patterns:
            for match in islice(pattern.finditer(text), _MOST_LINES):
                begin = text.rfind(b"\n", 0, match.start()) + 1
                before = text[begin : match.start()]
                words = _ENDS.split(before)[-1].split()
                if words and _DIRECTIVE.fullmatch(words[0]) and b"#" not in before:
                    number = text.count(b"\n", 0, begin) + 1
                    found.append(WebLine(name, path, number, words[0].decode(), protocol))
    return tuple(found)


def compile_address(address: str) -> re.Pattern[bytes]:
    """What finds an address, which is a path or HOST:PORT."""
    host, _, port = address.rpartition(":")
    hosts = dict.fromkeys(("", "0.0.0.0", "[::]", "127.0.0.1", "localhost", "[::1]"), _HERE)  # noqa: S104 - names
    tcp, unix = rf"{hosts.get(host, re.escape(host))}:{port}", rf"unix:(?://)?{re.escape(address)}"
    return re.compile(os.fsencode(rf"(?<![\w.]){(unix, tcp)[is_tcp(address)]}(?=[:;/|\"'\s])"))


def _read_files(web_servers: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """The regular files of the configuration that are root's or that everybody may read, in time."""
    end = time.monotonic() + _MOST_SECONDS
    for path in islice(dict.fromkeys(_list_files(web_servers)), _MOST_FILES):
        with suppress(OSError):
            descriptor = procfs.open_regular(path)
            try:
                about = os.fstat(descriptor)
                if about.st_size <= _MOST_BYTES and (about.st_uid == 0 or about.st_mode & 0o004):
                    yield path, os.read(descriptor, _MOST_BYTES)
            finally:
                os.close(descriptor)
        if time.monotonic() > end:
            return


def _list_files(web_servers: Sequence[int]) -> Iterator[str]:
    """Those that command lines name, and those of the folder."""
    for pid in web_servers:
        with suppress(OSError):
            if given := _GIVEN.match(procfs.read_begin(4096, f"/proc/{pid}/cmdline")):
                yield os.fsdecode(given[1])
    for folder, folders, files in chain.from_iterable(map(os.walk, _FOLDERS)):
        folders[:] = [each for each in folders if not _NOT_READ.fullmatch(each)]
        yield from (os.path.join(folder, file) for file in sorted(files))

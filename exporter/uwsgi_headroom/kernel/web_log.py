"""Counts known messages in the error logs of the web servers of this host, for one look.

What a web server does to uWSGI's responses, or where it connects instead, is in no counter of uWSGI's. Of lines that
are newer than the first look, the message and the address alone are read, nothing of a request. A question for `aside`,
whose process remembers where each log ended.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.web_files import compile_address
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.surroundings import WebError

_MOST_BYTES, _MOST_DESCRIPTORS, _MOST_ERRORS = 1 << 20, 256, 8

_BEGAN: dict[tuple[int, int], int] = {}
"""The size of each log, by its device and inode, when this process first saw it."""

_LINE = re.compile(
    rb"^[\d/]{10} [\d:]{8} \[\w+\] [\d#]{3,30}: \*\d+ (?P<said>(?:(?!, client: ).){1,500}), client: .*?"
    rb', upstream: "(?P<to>[^"\n]{1,200})'  # of nginx
    rb"|^(?:\[[^]\n]{1,60}\] ){2,5}(?P<failed>\(\d+\)[^:\n]{1,80}): AH0\d+: .{1,20}attempt to connect to "  # of Apache
    rb"(?:Unix domain socket )?(?P<there>\S{1,200}) ",
    re.MULTILINE,
)
_CAUSE = re.compile(
    rb"(?P<large_head>upstream sent too big header)|(?P<closed>upstream prematurely closed connection while reading re)"
    rb"|(?P<not_buffered>(?:\((?:13|28): [^)]*\)|has written only \d+ of \d+) while reading upstream)"
    rb"|(?P<unread>\((?:104|32): [^)]*\) while (?:reading|sending request to)\b.* upstream)"
    rb"|(?P<refused>\((?!11:)\d+: [^)]*\) while connecting to upstream|^\(\d+\))"
)
_NUMBER, _ADDRESS = re.compile(rb"\((\d+)\b"), re.compile(r"(?:\w+://)?(?:unix:)?(/[^:|]*|[^/|]*)")


def find_errors(
    sockets: Sequence[tuple[str, str, str]], web_servers: Sequence[int], master_pid: int
) -> tuple[WebError, ...]:
    """What the logs of those in the PID namespace of a uWSGI say of its sockets, and of addresses with the port or the
    file name of one. sockets: name, address and protocol of each; web_servers: processes."""
    ours = [(name, compile_address(address)) for name, address, _ in sockets]
    ends = {address.rpartition(":" if is_tcp(address) else "/")[2] for _, address, _ in sockets}
    found = Counter[tuple[Any, ...]]()
    for program, log, text in _read_logs(web_servers, master_pid):
        for line in _LINE.finditer(text):
            said, there = line["said"] or line["failed"], line["to"] or line["there"]
            cause, number = _CAUSE.search(said), _NUMBER.search(said)
            name = next((name for name, pattern in ours if pattern.search(b"unix:%s " % there)), "")
            address = _ADDRESS.findall(os.fsdecode(there))[0]
            if cause and (name or (cause["refused"] and re.split("[:/]", address)[-1] in ends)):
                reason = os.strerror(int(number[1])) if number else ""
                found[name, address, program, cause.lastgroup, reason, log] += 1
    return tuple([WebError._make([*each, count]) for each, count in found.most_common(_MOST_ERRORS)])


def _read_logs(web_servers: Sequence[int], master_pid: int) -> Iterator[tuple[str, str, bytes]]:
    """The program, the path and the new lines of each error log that a process of root's has open."""
    seen = set[tuple[int, int]]()
    for pid in web_servers:
        with suppress(OSError):
            is_roots = {*(procfs.read_status("Uid", f"/proc/{pid}/status") or ())} == {b"0"}
            is_beside = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{master_pid}/ns/pid")
            for number, path in list(procfs.list_descriptors(pid, _MOST_DESCRIPTORS * (is_roots and is_beside))):
                if "err" in os.path.basename(path):
                    with os.fdopen(procfs.open_regular(f"/proc/{pid}/fd/{number}"), "rb") as file:
                        about = os.fstat(file.fileno())
                        key, size = (about.st_dev, about.st_ino), about.st_size
                        began = _BEGAN.setdefault(key, size)
                        file.seek(max(began if began <= size else 0, size - _MOST_BYTES))
                        if key not in seen:
                            yield procfs.read_name(pid), path, file.read(_MOST_BYTES)
                        seen.add(key)

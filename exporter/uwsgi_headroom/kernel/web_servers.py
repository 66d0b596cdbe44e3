"""What the web servers of this host say of uWSGI's sockets, for one look: the lines of their configuration that lead to
one, and known messages in their error logs. Questions for `aside`.

No command of a web server is run: `nginx -t` opens logs and resolves names, `nginx -T` prints secrets. Of a line with
such an address, the path, the number and the directive are kept.

Of lines of a log that are newer than the first look, the message and the address alone are read, nothing of a request.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.surroundings import WebError, WebLine

_PERIOD_SECONDS = 10.0
_NAMES = ("nginx", "apache2", "httpd")


def find_web_servers() -> tuple[int, ...]:
    """The processes of web servers, for all servers of one moment."""
    return _find_web_servers(int(time.monotonic() // _PERIOD_SECONDS))


@lru_cache(maxsize=1)
def _find_web_servers(_period: int) -> tuple[int, ...]:
    found = list[int]()
    for pid in procfs.list_processes():
        with suppress(OSError):
            found += [pid] * (procfs.read_name(pid) in _NAMES)
    return tuple(found)


_FOLDERS = ("/etc/nginx", "/etc/apache2", "/etc/httpd")
_NOT_READ = re.compile(r"(?:sites|mods|modules|conf)-available")  # unless a link leads there
_MOST_FILES, _MOST_BYTES, _MOST_LINES, _MOST_SECONDS = 500, 256 << 10, 20, 0.2
_ENDS = re.compile(rb"[;{}]")  # of a directive
_GIVEN = re.compile(rb"^(?:nginx: master process .* -c |\S*(?:apache2|httpd)\0(?:.*\0)?-f\0)(/[^\s;\0]+)")
_UNBUFFERED = re.compile(rb"^[^#\n]*?\b((?:uwsgi|proxy)_buffering)\s+off\s*;", re.MULTILINE)
_OWN = re.compile(rb"(?:^|[{;])\s*uwsgi_param\s", re.MULTILINE)
_COMPLETE = re.compile(rb"\binclude\b|\bREQUEST_METHOD\b")
_DIRECTIVE = re.compile(rb"[A-Za-z_]{3,40}")  # a file that is none of a web server's may have secrets in this place
_GROUP = re.compile(rb"\bupstream\s+([\w.-]{1,99})\s*\{[^{}]*\Z")
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
                    group = b"".join(_GROUP.findall(text[: match.start()])).decode()
                    found.append(WebLine(name, path, number, words[0].decode(), protocol, group))
                    if words[0] == b"uwsgi_pass" and _lacks_parameters(text, match.start()):
                        found.append(WebLine("", path, number, "uwsgi_param", ""))
        if found and found[-1].path == path and (off := _UNBUFFERED.search(text)):
            found.append(WebLine("", path, text.count(b"\n", 0, off.start(1)) + 1, off[1].decode(), ""))
    return tuple(found)


def _lacks_parameters(text: bytes, place: int) -> bool:
    """Whether the block around a place has a parameter of its own, so that it inherits none, and no other."""
    block = text[text.rfind(b"{", 0, place) : text.find(b"}", place)]
    return bool(_OWN.search(block)) and not _COMPLETE.search(block)


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


_MOST_LOG_BYTES, _MOST_DESCRIPTORS, _MOST_ERRORS = 1 << 20, 256, 8

_BEGAN: dict[tuple[int, int], int] = {}
"""The size of each log, by its device and inode, when this process first saw it."""

_HEAD = rb"^[\d/]{10} [\d:]{8} \[(?P<level>\w+)\] [\d#]{3,30}: "
_CLIENT = rb', client: [^,"\n]{1,60}, server: [^"\n]{0,300}, request: "[^"\n]*"'
_HOST = rb'(?:, host: "[^"\n]*")?(?:, referrer: "[^"\n]*")?$'
"""Of nginx. Whole lines are matched, because a message may quote a path that quotes such a line."""

_LINE = re.compile(
    _HEAD + rb"\*\d+ (?P<said>(?:(?!, client: ).){1,500})" + _CLIENT + rb'(?:, subrequest: "[^"\n]*")?'
    rb', upstream: "(?P<to>[^"\n]{1,200})"' + _HOST +
    rb"|^(?:\[[^]\n]{1,60}\] ){2,5}(?P<failed>\(\d+\)[^:\n]{1,80}): AH0\d+: (?P<by>.{1,20})attempt to "  # of Apache
    rb"connect to (?:Unix domain socket )?(?P<there>\S{1,200}) ",
    re.MULTILINE,
)  # fmt: skip
_CAUSE = re.compile(
    rb"^(?:(?P<none_alive>no live upstreams)|(?P<timed_out>upstream timed out .* while reading re)|(?P<large_head>"
    rb"upstream sent too big h)|upstream prematurely closed connection while reading (?:(?P<closed>re)|(?P<short>up))"
    rb'|(?P<not_buffered>\w+\(\) (?:"[^"]*" )?(?:failed \((?:13|28): [^)"]*\)|has written only \d+ of \d+) while '
    rb"reading upstream$)"
    rb"|(?P<unread>\w+\(\) failed \((?:104|32): [^)]*\) while (?:reading|sending request to)\b.* upstream$)"
    rb'|(?P<no_file>open\(\) "[^"]{1,400}" failed \(\d+: [^)]*\)$)'
    rb'|(?P<refused>[^"]*\((?!11:)\d+: [^)"]*\) while connecting to upstream$|\(\d+\))'
    rb'|(?P<busy>[^"]*\(11: [^)"]*\) while conn))'
)
_ERRORS = (b"error", b"crit", b"alert", b"emerg")
_OTHER = re.compile(rb"(?P<other>SSL_do_handshake\(\) failed|[A-Za-z][A-Za-z .,/-]{9,79}?(?= while |[^A-Za-z .,/-]|$))")
"""What else it says of an error: no name, number or quotation."""

_OF_ALL = re.compile(
    _HEAD + rb"(?:\*\d+ client intended to send (?P<body_limit>too large body)"
    rb"|\*\d+ limiting (?P<rate_limit>requests|connections)\b"
    rb'|\*\d+ open\(\) "[^"\n]{1,300}/\d{10}" failed \((?P<uploads>\d{1,5}): [^)"\n]*\)' + _CLIENT + _HOST +
    rb"|(?:\*\d+ )?(?P<full>\d+ worker_connections are not enough|accept4?\(\) failed \(24: ))",
    re.MULTILINE,
)  # fmt: skip
"""What nginx says of all its clients."""

_ANY = re.compile(
    rb"^[\d/]{10} [\d:]{8} \[(?:error|crit|alert|emerg)\] [\d#]{3,30}: \*\d+ (?!client )"
    rb'((?:[A-Za-z]+ ){2,4})(?!.*, upstream: ")',
    re.MULTILINE,
)
"""The first words of an error that names no upstream: they have nothing of a request."""

_NUMBER, _ADDRESS = (
    re.compile(rb"(?:^|.* (?:failed|out) )\((\d{1,5})\b"),
    re.compile(r"(?:\w+://)?(?:unix:)?(/[^:|]*|[^/|]*)"),
)


def find_errors(
    sockets: Sequence[tuple[str, str, str]], web_servers: Sequence[int], master_pid: int, lines: Sequence[WebLine]
) -> tuple[WebError, ...]:
    """What the logs of those in the PID namespace of a uWSGI, or of this process, say of its sockets, and of addresses
    with the port or the file name of one. sockets: name, address and protocol of each; web_servers: processes; lines:
    which lead to one: if there are any, what is said of all clients is about this uWSGI."""
    if not sockets:
        return ()
    ours = [(name, compile_address(address)) for name, address, _ in sockets]
    ends = {address.rpartition(":" if is_tcp(address) else "/")[2] for _, address, _ in sockets}
    found, groups = Counter[tuple[Any, ...]](), {each.group: each.name for each in lines}
    for program, log, text in _read_logs(web_servers, master_pid):
        for line in _OF_ALL.finditer(text * bool(lines)):
            reason = os.strerror(int(line["uploads"])) if line["uploads"] else ""
            found[sockets[0][0], "", program, line.lastgroup, reason, log] += 1
        for words, count in Counter(_ANY.findall(text)).most_common(1):
            found[sockets[0][0], "", program, "any", words.decode().rstrip(), log] += count
        last = ""  # the socket of the line before
        for line in _LINE.finditer(text):
            said, there = line["said"] or line["failed"], line["to"] or line["there"]
            cause, number = _CAUSE.search(said), _NUMBER.search(said)
            cause = cause or (line["level"] in _ERRORS and _OTHER.match(said)) or None
            name = next((name for name, pattern in ours if pattern.search(b"unix:%s " % there)), "")
            address = _ADDRESS.findall(os.fsdecode(there))[0]
            is_group = cause is not None and cause.lastgroup == "none_alive"  # such a line names a group of servers
            last = name = (name, groups.get(address, last))[is_group]
            if cause and (name or (cause.lastgroup == "refused" and re.split("[:/]", address)[-1] in ends)):
                reason = os.strerror(int(number[1])) if number else cause.groupdict().get("other", b"").decode()
                found[name, address, program, cause.lastgroup, reason, log] += 1
    return tuple([WebError._make([*each, count]) for each, count in found.most_common(_MOST_ERRORS)])


def find_refused(web_servers: Sequence[int], pid: int) -> Counter[tuple[str, str, str]]:
    """How often web servers could not connect, by their logs in the PID namespace of a process: by the program, the
    address of the uwsgi protocol, and the reason."""
    found = Counter[tuple[str, str, str]]()
    for program, _, text in _read_logs(web_servers, pid):
        for line in _LINE.finditer(text):
            said, there = line["said"] or line["failed"], line["to"] or line["there"]
            cause, number = _CAUSE.search(said), _NUMBER.search(said)
            is_uwsgi = (line["to"] or line["by"]).startswith(b"uwsgi:")
            if is_uwsgi and cause and number and cause.lastgroup == "refused":
                found[program, _ADDRESS.findall(os.fsdecode(there))[0], os.strerror(int(number[1]))] += 1
    return found


def _read_logs(web_servers: Sequence[int], master_pid: int) -> Iterator[tuple[str, str, bytes]]:
    """The program, the path and the new lines of each error log that a process of root's has open."""
    seen = set[tuple[int, int]]()
    for pid in web_servers:
        with suppress(OSError):
            is_roots = {*(procfs.read_status("Uid", f"/proc/{pid}/status") or ())} == {b"0"}
            beside = [os.readlink(f"/proc/{each}/ns/pid") for each in (master_pid, os.getpid())]
            is_beside = os.readlink(f"/proc/{pid}/ns/pid") in beside
            for number, path in list(procfs.list_descriptors(pid, _MOST_DESCRIPTORS * (is_roots and is_beside))):
                if "err" in os.path.basename(path):
                    with os.fdopen(procfs.open_regular(f"/proc/{pid}/fd/{number}"), "rb") as file:
                        about = os.fstat(file.fileno())
                        key, size = (about.st_dev, about.st_ino), about.st_size
                        began = _BEGAN.setdefault(key, size)
                        file.seek(max(began if began <= size else 0, size - _MOST_LOG_BYTES))
                        if key not in seen:
                            yield procfs.read_name(pid), path, _drop_doubtful(file.read(_MOST_LOG_BYTES))
                        seen.add(key)


_LONGEST = 2048
_DOUBTFUL = re.compile(
    rb'(?:%(?:25)*0a|, upstream: "fastcgi:|" was not found in "|": password mismatch)[^\n]*\n', re.IGNORECASE
)


def _drop_doubtful(text: bytes) -> bytes:
    """The text without messages that a client may have written. nginx writes a line break in a path, in the name of a
    user or from FastCGI as it is, in a message of `_LONGEST` bytes at most, whose last line shows it, or is cut off."""
    starts = [0, *(each.end() for each in re.finditer(b"\n", text))]
    known = {*starts}
    ends = [each.end() for each in _DOUBTFUL.finditer(text)]
    ends += [
        each + _LONGEST for each in starts if each + _LONGEST in known and b"\n" in text[each : each + _LONGEST - 1]
    ]
    kept, begin = list[bytes](), 0
    for end in sorted(ends):
        kept.append(text[begin : max(begin, end - _LONGEST)])
        begin = end
    return b"\n".join([*kept, text[begin:]])

"""The table of hostile stats servers: the name of each, what is at its address, and the state that the exporter must
report."""

import gzip
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from tests.support.captured_documents import document
from tests.support.hostile.bodies import (
    EMPEROR,
    GOOD,
    ROUTER,
    Body,
    alternately,
    changing_names,
    changing_size,
    core,
    counting,
    cut_anywhere,
    emperor,
    losing_keys,
    named_everywhere,
    padded,
    router,
    server,
    workers,
)
from tests.support.hostile.servers import (
    HEAD,
    Behaviour,
    Peer,
    Place,
    changed,
    changing_kind,
    closed_port,
    drips,
    elsewhere,
    endless,
    full_backlog,
    head,
    huge,
    in_turn,
    made,
    move_behind_link,
    on_http,
    on_http_body,
    on_tcp,
    on_unix,
    passes_descriptors,
    pauses,
    refuses_half_the_time,
    replaced_at_every_read,
    response,
    sends,
    sends_urgent_data,
    stale,
    then,
    unconnectable,
)
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import Reason
from uwsgi_headroom.stats.bounds import LOCKS_BYTES, MOST


class Expected(Struct, frozen=True):
    """The expected state of a server: whether reads succeed, and the reasons if they fail. With both, reads of both
    kinds happen, and `uwsgi_up` depends on the last ones."""

    read: bool
    reasons: tuple[Reason, ...] = ()


UP = Expected(True)


def down(*reasons: Reason) -> Expected:
    """Every read fails, for one of these reasons."""
    return Expected(False, reasons)


def sometimes(*reasons: Reason) -> Expected:
    """Some reads succeed, and others fail for one of these reasons."""
    return Expected(True, reasons)


class Case(Struct, frozen=True):
    """A case. settings: its settings in the configuration file."""

    name: str
    place: Place
    expected: Expected
    settings: Mapping[str, float] = field(default_factory=lambda: LONG)


LONG: Mapping[str, float] = {"timeout": 60.0}
"""For servers that answer or fail by themselves: even on a busy machine they must not time out."""

SHORT = {"timeout": 1.0}
"""For servers that never answer."""

SMALL = {**LONG, "size_cap": 64 * 1024}
"""For servers that write endlessly: receiving 6 MB each time would be slow and test nothing more."""

TRANSPORTS = {"unix": on_unix, "tcp": on_tcp, "http": on_http_body}


def over(
    transports: str, name: str, behave: Behaviour, expected: Expected, settings: Mapping[str, float] = LONG
) -> Iterable[Case]:
    """Yields a case of one behaviour for each of these transports."""
    for transport in transports.split():
        yield Case(f"{name} ({transport})", TRANSPORTS[transport](behave), expected, settings)


def _over_one(transports: str, documents: Mapping[str, tuple[bytes | Body, Expected]]) -> Iterable[Case]:
    """Yields a case of each document. Cases use the transports in turn, because it makes no difference."""
    names = transports.split()
    for place, (name, (body, expected)) in enumerate(documents.items()):
        yield from over(names[place % len(names)], name, sends(body), expected)


NOT_JSON, NOT_UWSGI, TOO_LARGE = down("not_json"), down("not_uwsgi"), down("too_large")

# ---------------------------------------------------------------- on the connection, whatever they send

HALF = GOOD[: len(GOOD) // 2]
OPENED = b'{"version":"2.0.31","workers":['

CONNECTIONS = (
    Case("backlog full (unix)", full_backlog(socket.AF_UNIX), down("timeout"), SHORT),
    Case("backlog full (tcp)", full_backlog(socket.AF_INET), down("timeout"), SHORT),
    *over("unix tcp http", "never writes", Peer.hold, down("timeout"), SHORT),
    Case("never answers a request", on_http(Peer.hold), down("timeout"), SHORT),
    *over("unix tcp http", "one byte a second", drips(GOOD, 1.0), down("timeout"), SHORT),
    *over("unix tcp http", "whole, but slow", drips(GOOD, 0.05, len(GOOD) // 5), UP),
    *over("unix tcp http", "half, then silence", then(sends(HALF), Peer.hold), down("timeout"), SHORT),
    *over("unix tcp http", "whole, then silence", then(sends(GOOD), Peer.hold), down("timeout"), SHORT),
    *over("unix tcp http", "whole, then endless spaces", endless(GOOD, b" "), down("too_large"), SMALL),
    *over("unix tcp http", "endless spaces", endless(b"", b" "), down("too_large"), SMALL),
    *over("unix tcp http", "endless workers", endless(OPENED, b'{"id":0},'), down("too_large"), SMALL),
    *over("unix", "endless workers up to the default cap", endless(OPENED, b'{"id":0},'), down("too_large")),
    *over("unix tcp http", "endless brackets", endless(b"", b"["), down("too_large"), SMALL),
    *over("unix tcp http", "endless text", endless(b'{"version":"', b"x"), down("too_large"), SMALL),
    *over("unix tcp http", "endless zero bytes", endless(b"", b"\0"), down("too_large"), SMALL),
    *over("unix tcp http", "as large as may be", sends(padded(SIZE_CAP)), UP),
    *over("unix tcp", "a byte too large", sends(padded(SIZE_CAP + 1)), down("too_large")),
    *over("unix tcp", "closes at once", then(), down("empty")),
    Case("closes after the request", on_http(then()), down("empty")),
    *over("tcp http", "resets at once", Peer.reset, down("truncated", "empty")),
    *over("tcp http", "half, then a reset", then(sends(HALF), pauses(2.0), Peer.reset), down("truncated")),
    *over("tcp http", "whole, then a reset", then(sends(GOOD), pauses(2.0), Peer.reset), UP),
    *over(
        "unix tcp http",
        "half, then half-closed",
        then(sends(HALF), Peer.close_sending_side, Peer.hold),
        down("truncated"),
    ),
    *over("unix tcp http", "whole, then half-closed", then(sends(GOOD), Peer.close_sending_side, Peer.hold), UP),
    *over("unix tcp", "nothing, then half-closed", then(sends(b""), Peer.close_sending_side, Peer.hold), down("empty")),
    *over("tcp", "urgent data", sends_urgent_data, UP),
    *over("unix", "passes open files", passes_descriptors, UP),
    *over("unix tcp http", "silent every other time", in_turn(sends(GOOD), Peer.hold), sometimes("timeout"), SHORT),
    *over("tcp", "resets every other time", in_turn(sends(GOOD), Peer.reset), sometimes("truncated")),
)

# ---------------------------------------------------------------- documents: no JSON, not of uWSGI, or of another shape

DEEP = 100_000
DEEPEST = 1_000_000  # since 3.14, Python goes as deep as its stack of 8 MB allows, which 100,000 do not fill

DOCUMENTS: dict[str, tuple[bytes | Body, Expected]] = {
    "nothing": (b"", down("empty")),
    "a megabyte of spaces": (b" " * 2**20, down("empty")),
    "cut behind the first byte": (GOOD[:1], down("truncated")),
    **{f"cut at {percent} %": (GOOD[: len(GOOD) * percent // 100], down("truncated")) for percent in (10, 30, 70, 90)},
    "cut before the last byte": (GOOD[:-1], down("truncated")),
    "cut anywhere": (cut_anywhere, down("truncated")),
    "prose": (b"uwsgi is fine\n", NOT_JSON),
    "zero bytes": (b"\0" * 1000, down("truncated")),
    "every byte there is": (bytes(range(256)) * 100, NOT_JSON),
    "UTF-16": (GOOD.decode().encode("utf-16"), NOT_JSON),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, NOT_JSON),
    "compressed": (gzip.compress(GOOD), NOT_JSON),
    "HTTP where none is wanted": (HEAD + GOOD, NOT_JSON),
    "two documents": (GOOD + GOOD, NOT_JSON),
    "two documents with a line between": (GOOD + b"\n" + EMPEROR, NOT_JSON),
    "a document and a byte": (GOOD + b"x", NOT_JSON),
    "a document and a zero byte": (GOOD + b"\0", UP),
    "a document and a megabyte of spaces": (padded(2**20), UP),
    "deep lists": (b"[" * DEEP, NOT_UWSGI),
    "deep lists in a key that is skipped": (b'{"workers":[],"x":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}", NOT_JSON),
    "deep objects": (b'{"workers":' * DEEP, NOT_UWSGI),
    "deep request variables": (core(vars=[]).replace(b"[]", b"[" * DEEPEST + b"]" * DEEPEST, 1), NOT_JSON),
    "a number": (b"17", NOT_UWSGI),
    "a text": (b'"workers"', NOT_UWSGI),
    "null": (b"null", NOT_UWSGI),
    "a list": (b"[" + GOOD + b"]", NOT_UWSGI),
    "an empty object": (b"{}", NOT_UWSGI),
    "other JSON": (b'{"status": "green", "workers": 4}', NOT_UWSGI),
    "workers null": (server(workers=None), NOT_UWSGI),
    "workers an object": (server(workers={}), NOT_UWSGI),
    "workers lists": (server(workers=[[]]), NOT_UWSGI),
    "workers null each": (server(workers=[None]), NOT_UWSGI),
    "cores an object": (workers(cores={}), NOT_UWSGI),
    "cores numbers": (workers(cores=[1, 2]), NOT_UWSGI),
    "apps a text": (workers(apps="x" * 1000), NOT_UWSGI),
    "request info a list": (core(req_info=[]), NOT_UWSGI),
    "metrics a list": (server(metrics=[]), NOT_UWSGI),
    "read errors a text": (core(read_errors="1"), NOT_UWSGI),
    "read errors below zero": (core(read_errors=-1), NOT_UWSGI),
    "read errors null": (core(read_errors=None), NOT_UWSGI),
    "write errors beyond requests": (core(write_errors=2**63 - 1, read_errors=2**63 - 1, requests=0), UP),
    "an accept lock of nobody": (server(locks=[{"thunder": -1}, {"thunder": 2**62}]), UP),
    "an accept lock of everybody": (server(locks=[{"thunder": 1}] * 1000), UP),
    "a cache that was always full": (server(caches=[{"name": "x" * 255, "full": 2**63 - 1, "items": 2**63 - 1}]), UP),
    "a cache without anything": (server(caches=[{}] * 100), UP),
    "a cache with a text": (server(caches=[{"full": "many"}]), NOT_UWSGI),
    "a spooler of the whole machine": (server(spoolers=[{"dir": "/", "tasks": 2**63 - 1}, {"dir": "/proc"}]), UP),
    "a spooler of all memory": (server(spoolers=[{"dir": "/proc/self/task/../fd/../../../dev/zero"}]), UP),
    "a spooler of no directory": (server(spoolers=[{"dir": ""}, {"dir": "\0"}, {"dir": "../" * 1000}]), UP),
    "locks lists": (server(locks=[[]]), NOT_UWSGI),
    "sockets an object": (server(sockets={}), NOT_UWSGI),
    "a pid that is a text": (server(pid="1"), NOT_UWSGI),
    "a version that is a number": (server(version=2), NOT_UWSGI),
    "a key twice": (GOOD[:-1] + b',"pid":1,"pid":2}', UP),
    "all keys twice": (GOOD[:-1] + b"," + GOOD[1:], UP),
    "no workers": (server(workers=[]), UP),
    "as many workers as may be": (workers(MOST["workers"]), UP),
    "a worker too many": (workers(MOST["workers"] + 1), TOO_LARGE),
    "a hundred thousand workers": (b'{"workers":[' + b"{}," * 99_999 + b"{}]}", TOO_LARGE),
    "a thread too many": (workers(1, cores=[{}] * (MOST["cores"] + 1)), TOO_LARGE),
    "workers without a key": (server(workers=[{}] * 10), UP),
    "workers of one id": (workers(8).replace(b'"id": 2', b'"id": 1'), UP),
    "another number of workers each time": (changing_size, UP),
    "another key missing each time": (losing_keys, UP),
    "whole and broken in turn": (alternately(GOOD, b"nonsense"), sometimes("not_json")),
    "whole and cut in turn": (alternately(GOOD, GOOD[:100]), sometimes("truncated")),
    "server, emperor and router in turn": (alternately(GOOD, EMPEROR, ROUTER), UP),
    "no uWSGI, then one, in turn": (alternately(b"{}", GOOD), sometimes("not_uwsgi")),
    "requests with all that was captured": (document("hostile_everything"), UP),
    "requests without UTF-8": (document("hostile_not_utf8"), UP),
    "requests with control characters": (document("hostile_control_characters"), UP),
}

# ---------------------------------------------------------------- numbers that uWSGI never writes, and counters

LARGEST = 2**63 - 1

_SIMPLE = workers(1, requests=5, cores=None)


def requests(number: bytes) -> bytes:
    """A server of one worker whose request counter is this text."""
    return _SIMPLE.replace(b'"requests": 5', b'"requests": ' + number, 1)


NUMBERS: dict[str, tuple[bytes | Body, Expected]] = {
    "a counter below zero": (requests(b"-1"), NOT_UWSGI),
    "a counter of 2**63 - 1": (workers(requests=LARGEST, tx=LARGEST, rss=LARGEST, cores=None), UP),
    "a counter of 2**63": (requests(b"9223372036854775808"), NOT_UWSGI),
    "a counter of 400 digits": (requests(b"1" + b"0" * 400), NOT_UWSGI),
    "a counter of a million digits": (requests(b"1" * 10**6), NOT_UWSGI),
    "a counter with a fraction": (requests(b"1.5"), NOT_UWSGI),
    "a counter with an exponent": (requests(b"1e400"), NOT_UWSGI),
    "a counter of minus zero": (requests(b"-0"), UP),
    "a counter with a leading zero": (requests(b"007"), NOT_JSON),
    "NaN": (requests(b"NaN"), NOT_JSON),
    "Infinity": (requests(b"Infinity"), NOT_JSON),
    "minus Infinity": (requests(b"-Infinity"), NOT_JSON),
    "a counter that is true": (requests(b"true"), NOT_UWSGI),
    "a counter that is a text": (requests(b'"5"'), NOT_UWSGI),
    "a counter that is null": (requests(b"null"), UP),
    "running time that wrapped around": (workers(running_time=2**64 - 60_000_000), UP),
    "running time below zero": (workers(running_time=-1), NOT_UWSGI),
    "running time of 4,299 digits": (_SIMPLE.replace(b"26558", b"1" * 4299), NOT_UWSGI),
    "spawned in a billion years": (workers(last_spawn=2**62), UP),
    "requests from the future": (core(in_request=1, req_info={"request_start": 2**62}), UP),
    "requests from before all time": (core(in_request=-1, req_info={"request_start": -(2**63)}), UP),
    "requests since the first second": (core(in_request=2**40, req_info={"request_start": 1}), UP),
    "counters that fall": (counting(-1000, 10**6), UP),
    "counters that jump": (counting(2**62 + 1), UP),
    "counters that are largest and zero in turn": (
        alternately(workers(requests=LARGEST, tx=LARGEST, cores=None), workers(requests=0, tx=0, cores=None)),
        UP,
    ),
    "errors, caches, spoolers and memory that jump": (
        alternately(
            server(
                workers=[{"pid": 1, "rss": 1, "cores": [{"write_errors": 0, "read_errors": LARGEST}]}],
                caches=[{"name": "a", "full": 0}],
                spoolers=[{"dir": "/", "tasks": 0}],
            ),
            server(
                workers=[{"pid": 1, "rss": LARGEST, "cores": [{"write_errors": LARGEST, "read_errors": 0}]}],
                caches=[{"name": "a", "full": LARGEST}],
                spoolers=[{"dir": "/", "tasks": LARGEST}],
            ),
        ),
        UP,
    ),
    "counters that rise and wrap": (counting(7, 20), UP),
    "all pids 0": (server(pid=0, workers=[{"pid": 0, "accepting": 1}] * 4), UP),
    "all pids 1": (server(pid=1, workers=[{"pid": 1, "accepting": 1, "last_spawn": 1}] * 4), UP),
    "all pids below zero": (server(pid=-1, workers=[{"pid": -(2**63), "accepting": 1}] * 4), UP),
    "all pids beyond any": (server(pid=2**31, workers=[{"pid": LARGEST, "accepting": 1}] * 4), UP),
    "all pids its own": (lambda _number: server(pid=os.getpid(), workers=[{"pid": os.getpid(), "accepting": 1}]), UP),
    "workers that are other processes": (
        lambda number: server(pid=os.getpid(), workers=[{"pid": pid, "accepting": 1} for pid in range(1, number + 2)]),
        UP,
    ),
    "a pid of 2**63": (server(pid=2**63), NOT_UWSGI),
    "queues that are longer than they may be": (
        server(sockets=[{"name": "127.0.0.1:1", "queue": LARGEST, "max_queue": 1}], listen_queue=LARGEST),
        UP,
    ),
}

# ---------------------------------------------------------------- names that break out of a line, too long, or changing

INJECTIONS = (
    'x"} 1\nuwsgi_up{server="good"} 0\n#',
    "\n# EOF\n",
    "# HELP uwsgi_up no",
    "\\",
    '\\"',
    "{}",
    'a="b",c="d',
    "<script>alert(1)</script>",
    "%s%n{0}",
    "../../../etc/passwd",
)
CONTROLS = tuple(chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0xFEFF, 0xFFFF))
PORTS = ("0.0.0.0:22", "[::]:65535", ":0", ":99999", "[::1%lo]:80", "\0:80", "@", "/etc/shadow", "/dev/zero", "~")
SAME = ("a", "a", "a#2", "a#2", "a", "a#3", "", "")


def metrics(count: int) -> bytes:
    """A server with this many custom metrics."""
    return server(metrics={f"own.{number}": {"type": 0, "value": number} for number in range(count)})


NAMES: dict[str, tuple[bytes | Body, Expected]] = {
    "names that inject series": (named_everywhere(*INJECTIONS), UP),
    "vassals that inject series": (emperor(*INJECTIONS), UP),
    "backends that inject series": (router(*INJECTIONS), UP),
    "a version that injects series": (server(version=INJECTIONS[0]), UP),
    "names of control characters": (named_everywhere(*CONTROLS), UP),
    "names with raw control bytes": (
        named_everywhere("a b").replace(b"a b", b"a" + bytes([*range(1, 9), 11, 12, *range(14, 32)]) + b"b"),
        UP,
    ),
    "names with raw zero bytes": (named_everywhere("a b").replace(b"a b", b"a\0\0b"), UP),
    "names without UTF-8": (named_everywhere("a b").replace(b"a b", b"a\xff\xfe\xc3\x28b"), UP),
    "names with half a pair": (named_everywhere("a b").replace(b"a b", b"a\\ud800b"), UP),
    "names of ports and files": (named_everywhere(*PORTS), UP),
    "the same names again": (named_everywhere(*SAME), UP),
    "the same vassals again": (emperor(*SAME), UP),
    "the same backends again": (router(*SAME, nodes=3), UP),
    "names as long as may be": (named_everywhere("é" * 255), UP),
    "a name too long": (named_everywhere("é" * 256), UP),
    "a version of a megabyte": (server(version="2" * 2**20), UP),
    "a metric's name of a megabyte": (server(metrics={"m" * 2**20: {}}), UP),
    "a list of locks too long": (server(locks=[{}] * LOCKS_BYTES), TOO_LARGE),
    "metrics as many as may be": (metrics(MOST["custom metrics"]), UP),
    "a metric too many": (metrics(MOST["custom metrics"] + 1), TOO_LARGE),
    "static nodes as many as may be": (router(*map(str, range(MOST["static nodes"])), nodes=0), UP),
    "a node too many": (router("a", nodes=MOST["nodes"] + 1), TOO_LARGE),
    "a vassal too many": (emperor(*map(str, range(MOST["vassals"] + 1))), TOO_LARGE),
    "new names each time": (changing_names(named_everywhere, 50), UP),
    "new sockets each time": (
        changing_names(lambda *names: server(sockets=[{"name": name} for name in names]), 500),
        UP,
    ),
    "new vassals each time": (changing_names(emperor, 100), UP),
    "new backends each time": (changing_names(router, 100), UP),
    "another version each time": (lambda number: server(version=str(number)), UP),
}

# ---------------------------------------------------------------- responses that violate HTTP, or end otherwise

BAD = down("http")
CHUNKED = "Transfer-Encoding: chunked"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SIZE = len(GOOD)


def chunks(*lines: bytes) -> bytes:
    """Joins the lines of a chunked body."""
    return b"".join(line + b"\r\n" for line in lines)


ANSWERS: dict[str, tuple[Behaviour, Expected]] = {
    "no HTTP at all": (sends(b"hello\r\n\r\n"), BAD),
    "a raw document": (sends(GOOD), BAD),
    "a head that is cut": (sends(HEAD[:-3]), BAD),
    "a status line alone": (sends(b"HTTP/1.0 200 OK\r\n"), BAD),
    "HTTP/0.9": (sends(b"\r\n\r\n" + GOOD), BAD),
    "HTTP of version 9": (sends(HEAD.replace(b"1.0", b"9.9", 1) + GOOD), UP),
    "HTTP/2": (sends(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GOOD), BAD),
    "a TLS alert": (sends(b"\x15\x03\x01\x00\x02\x02\x28"), BAD),
    "no status": (sends(b"HTTP/1.1 OK\r\n\r\n" + GOOD), BAD),
    "a status of four digits": (response("2000 OK"), BAD),
    "a header of 100 kB": (response("200 OK", "X: " + "a" * 100_000), BAD),
    "ten thousand headers": (response("200 OK", *["X: a"] * 10_000), BAD),
    "a header without a colon": (response("200 OK", "nonsense"), BAD),
    "a header with a zero byte": (response("200 OK", "X: a\0b"), BAD),
    "no content": (response("204 No Content", body=b""), BAD),
    "partial content": (response("206 Partial Content"), BAD),
    "not modified": (response("304 Not Modified", body=b""), BAD),
    "a redirect to another host": (response("301 Moved", "Location: http://192.0.2.1/"), BAD),
    "a redirect to itself": (response("302 Found", "Location: /"), BAD),
    "a redirect to a file": (response("307 Temporary Redirect", "Location: file:///etc/passwd"), BAD),
    "unauthorised": (response("401 Unauthorized", "WWW-Authenticate: Basic"), down("permission")),
    "forbidden": (response("403 Forbidden"), down("permission")),
    "an internal error": (response("500 Internal Server Error"), BAD),
    "unavailable": (response("503 Service Unavailable", "Retry-After: 0"), BAD),
    "an upgrade": (response("101 Switching Protocols", "Upgrade: h2c", "Connection: upgrade"), BAD),
    "three informational answers": (sends(CONTINUE * 3 + HEAD + GOOD), UP),
    "four informational answers": (sends(CONTINUE * 4 + HEAD + GOOD), BAD),
    "chunks": (response("200 OK", CHUNKED, body=chunks(b"%x" % SIZE, GOOD, b"0", b"")), BAD),
    "chunks of no size": (response("200 OK", CHUNKED, body=chunks(b"zz", GOOD, b"0", b"")), BAD),
    "chunks below zero": (response("200 OK", CHUNKED, body=chunks(b"-1", GOOD)), BAD),
    "a chunk of 2**64": (response("200 OK", CHUNKED, body=chunks(b"f" * 16, GOOD)), BAD),
    "another transfer encoding": (response("200 OK", "Transfer-Encoding: gzip"), BAD),
    "a length that is right": (response("200 OK", f"Content-Length: {SIZE}"), UP),
    "a length that is right, twice": (response("200 OK", *[f"Content-Length: {SIZE}"] * 2), UP),
    "two lengths": (response("200 OK", f"Content-Length: {SIZE}", "Content-Length: 7"), BAD),
    "a length too large": (response("200 OK", f"Content-Length: {SIZE + 1}"), down("truncated")),
    "a length of 2**63": (response("200 OK", f"Content-Length: {2**63}"), down("truncated")),
    "a length of 5,000 digits": (response("200 OK", "Content-Length: " + "9" * 5000), BAD),
    "a length too small": (response("200 OK", f"Content-Length: {SIZE - 1}"), down("truncated")),
    "a length of zero": (response("200 OK", "Content-Length: 0"), down("empty")),
    "a length below zero": (response("200 OK", "Content-Length: -1"), BAD),
    "a length that is no number": (response("200 OK", "Content-Length: all"), BAD),
    "a length in other digits": (response("200 OK", "Content-Length: \u00b2"), BAD),
    "a length and chunks": (response("200 OK", f"Content-Length: {SIZE}", CHUNKED), BAD),
    "bytes behind its length": (response("200 OK", f"Content-Length: {SIZE}", body=GOOD + b"x" * 10_000), UP),
    "two answers": (sends((HEAD + GOOD) * 2), down("not_json")),
    "a page": (response("200 OK", "Content-Type: text/html", body=b"<html>" * 1000), down("not_json")),
    "a compressed answer": (response("200 OK", "Content-Encoding: gzip", body=gzip.compress(GOOD)), down("not_json")),
    "a compressed bomb": (
        response("200 OK", "Content-Encoding: gzip", body=gzip.compress(b'{"workers":[' + b"0," * (64 << 19))),
        down("not_json"),
    ),
}

HTTP = (
    *(Case(f"{name} (http)", on_http(behave), expected) for name, (behave, expected) in ANSWERS.items()),
    Case("an endless header", on_http(endless(HEAD[:-2] + b"X: ", b"a")), down("too_large"), SMALL),
    Case("endless headers", on_http(endless(HEAD[:-2], b"X: a\r\n")), down("too_large"), SMALL),
    Case("an endless status line", on_http(endless(b"HTTP/1.0 200 ", b"a")), down("too_large"), SMALL),
    Case("endless informational answers", on_http(endless(b"", CONTINUE)), down("too_large"), SMALL),
    Case("endless empty lines", on_http(endless(b"", b"\r\n")), down("too_large"), SMALL),
    Case("endless chunks", on_http(endless(head("200 OK", CHUNKED), b"1\r\na\r\n")), down("too_large"), SMALL),
    Case("slow headers", on_http(drips(HEAD + GOOD, 0.1)), down("timeout"), SHORT),
    Case(
        "kept alive although asked to close",
        on_http(then(sends(head("200 OK", "Connection: keep-alive", f"Content-Length: {SIZE}") + GOOD), Peer.hold)),
        down("timeout"),
        SHORT,
    ),
    Case("no TLS where some is wanted", on_http(sends(HEAD + GOOD), "https"), down("unreachable")),
)

# ---------------------------------------------------------------- addresses without a listener, or with another one

WELL = sends(GOOD)
GONE = sometimes("not_found", "refused", "truncated", "empty")
"""The listener may end between the connection and the answer."""

PLACES = (
    Case("nothing there", elsewhere("unix://{path}"), down("not_found")),
    Case("below a file", elsewhere("unix:///etc/passwd/stats"), down("not_found")),
    Case("a folder", made(Path.mkdir), down("not_found")),
    Case("a regular file", made(Path.touch), down("not_found")),
    Case("a fifo", made(os.mkfifo), down("not_found")),
    Case("a device", elsewhere("unix:///dev/zero"), down("not_found")),
    Case("a link to itself", made(lambda path: path.symlink_to(path)), down("unreachable")),
    Case("a link to nothing", made(lambda path: path.symlink_to("/nowhere")), down("not_found")),
    Case("a link to a server", changed(WELL, move_behind_link), UP),
    Case("a stale socket", stale, down("refused")),
    Case("a datagram socket", unconnectable(socket.SOCK_DGRAM), down("unreachable")),
    Case("a socket of packets", unconnectable(socket.SOCK_SEQPACKET), down("unreachable")),
    # Root may connect to anything.
    Case("no permission", changed(WELL, lambda path: path.chmod(0)), UP if os.geteuid() == 0 else down("permission")),
    Case("an abstract name that nobody has", elsewhere("unix:@uwsgi-headroom-nobody"), down("refused")),
    Case("a closed port", closed_port, down("refused")),
    Case("a name that does not resolve", elsewhere("tcp://no-such-host.invalid:1717"), down("unreachable", "timeout")),
    Case("a broadcast address", elsewhere("tcp://255.255.255.255:1717"), down("unreachable", "permission")),
    Case("a file that is a folder", made(Path.mkdir, "file"), down("not_found")),
    Case("a file that is a fifo", made(os.mkfifo, "file"), down("not_found")),
    Case("a file that is a device", elsewhere("file:///dev/zero"), down("not_found")),
    Case("a file of a terabyte", made(huge, "file"), down("too_large")),
    Case("a file of the kernel", elsewhere("file:///proc/self/environ"), down("not_json", "truncated", "empty")),
    Case("refuses half the time", refuses_half_the_time(WELL), GONE),
    Case("replaced at every read", replaced_at_every_read(WELL, 0.0), UP),
    Case("gone for a second after every read", replaced_at_every_read(WELL, 1.0), GONE),
    Case("a fifo half the time", changing_kind(WELL, os.mkfifo), GONE),
    Case("a folder, a file or a fifo half the time", changing_kind(WELL, Path.mkdir, Path.touch, os.mkfifo), GONE),
)

CASES: tuple[Case, ...] = (
    *CONNECTIONS,
    *_over_one("unix tcp http", DOCUMENTS),
    *_over_one("unix", NUMBERS),  # whose owner the kernel knows, so that the PIDs of a document can be proven
    *_over_one("tcp http unix", NAMES),
    *HTTP,
    *PLACES,
)

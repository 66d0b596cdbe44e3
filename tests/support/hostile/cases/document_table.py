"""Documents that are not JSON, not from uWSGI, or of a shape that uWSGI never writes."""

from __future__ import annotations

import gzip

from tests.support.captured_documents import document
from tests.support.hostile.bodies import (
    EMPEROR,
    GOOD,
    ROUTER,
    alternately,
    changing_size,
    core,
    cut_anywhere,
    losing_keys,
    padded,
    server,
    workers,
)
from tests.support.hostile.case import UP, Case, Expected, down, over, sometimes
from tests.support.hostile.connections import answers
from tests.support.hostile.http_answers import HEAD
from tests.support.hostile.peer import Body
from uwsgi_headroom.stats.bounds import MOST

NOT_JSON, NOT_UWSGI, TOO_LARGE = down("not_json"), down("not_uwsgi"), down("too_large")
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

CASES: tuple[Case, ...] = tuple(
    case
    for place, (name, (body, expected)) in enumerate(DOCUMENTS.items())
    for case in over(("unix", "tcp", "http")[place % 3], name, answers(body), expected)
)
"""Cases use the transports in turn, because the transport makes no difference for a document."""

"""Numbers that uWSGI never writes, and counters that misbehave."""

from __future__ import annotations

import os

from tests.support.hostile.bodies import alternately, core, counting, server, workers
from tests.support.hostile.case import UP, Case, Expected, down, over
from tests.support.hostile.connections import answers
from tests.support.hostile.peer import Body

NOT_JSON, NOT_UWSGI = down("not_json"), down("not_uwsgi")
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

CASES: tuple[Case, ...] = tuple(
    case for name, (body, expected) in NUMBERS.items() for case in over("unix", name, answers(body), expected)
)
"""Over UNIX sockets, whose owner the kernel knows, so that the PIDs of a document can be proven."""

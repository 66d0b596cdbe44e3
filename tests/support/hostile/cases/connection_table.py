"""Servers that misbehave on the connection, whatever they send: silence, drips, floods, early and late ends."""

from __future__ import annotations

import socket

from tests.support.hostile.bodies import GOOD, padded
from tests.support.hostile.case import SHORT, SMALL, UP, at, down, over, sometimes
from tests.support.hostile.connections import (
    answers,
    closes_at_once,
    drips,
    endless,
    ends_and_stays_open_after,
    in_turn,
    never_writes,
    passes_descriptors,
    resets_after,
    resets_at_once,
    sends_urgent_data,
    stays_open_after,
)
from tests.support.hostile.listeners import full_backlog, on_http
from uwsgi_headroom.config.defaults import SIZE_CAP

ALL = "unix tcp http"
HALF = GOOD[: len(GOOD) // 2]
OPENED = b'{"version":"2.0.31","workers":['

CASES = (
    at("backlog full (unix)", full_backlog(socket.AF_UNIX), down("timeout"), SHORT),
    at("backlog full (tcp)", full_backlog(socket.AF_INET), down("timeout"), SHORT),
    *over(ALL, "never writes", never_writes, down("timeout"), SHORT),
    at("never answers a request", on_http(never_writes), down("timeout"), SHORT),
    *over(ALL, "one byte a second", drips(GOOD, 1.0), down("timeout"), SHORT),
    *over(ALL, "whole, but slow", drips(GOOD, 0.05, len(GOOD) // 5), UP),
    *over(ALL, "half, then silence", stays_open_after(HALF), down("timeout"), SHORT),
    *over(ALL, "whole, then silence", stays_open_after(GOOD), down("timeout"), SHORT),
    *over(ALL, "whole, then endless spaces", endless(GOOD, b" "), down("too_large"), SMALL),
    *over(ALL, "endless spaces", endless(b"", b" "), down("too_large"), SMALL),
    *over(ALL, "endless workers", endless(OPENED, b'{"id":0},'), down("too_large"), SMALL),
    *over("unix", "endless workers up to the default cap", endless(OPENED, b'{"id":0},'), down("too_large")),
    *over(ALL, "endless brackets", endless(b"", b"["), down("too_large"), SMALL),
    *over(ALL, "endless text", endless(b'{"version":"', b"x"), down("too_large"), SMALL),
    *over(ALL, "endless zero bytes", endless(b"", b"\0"), down("too_large"), SMALL),
    *over(ALL, "as large as may be", answers(padded(SIZE_CAP)), UP),
    *over("unix tcp", "a byte too large", answers(padded(SIZE_CAP + 1)), down("too_large")),
    *over("unix tcp", "closes at once", closes_at_once, down("empty")),
    at("closes after the request", on_http(closes_at_once), down("empty")),
    *over("tcp http", "resets at once", resets_at_once, down("truncated", "empty")),
    *over("tcp http", "half, then a reset", resets_after(HALF), down("truncated")),
    *over("tcp http", "whole, then a reset", resets_after(GOOD), UP),
    *over(ALL, "half, then half-closed", ends_and_stays_open_after(HALF), down("truncated")),
    *over(ALL, "whole, then half-closed", ends_and_stays_open_after(GOOD), UP),
    *over("unix tcp", "nothing, then half-closed", ends_and_stays_open_after(b""), down("empty")),
    *over("tcp", "urgent data", sends_urgent_data, UP),
    *over("unix", "passes open files", passes_descriptors, UP),
    *over(ALL, "silent every other time", in_turn(answers(GOOD), never_writes), sometimes("timeout"), SHORT),
    *over("tcp", "resets every other time", in_turn(answers(GOOD), resets_at_once), sometimes("truncated")),
)

"""Addresses without a listener, with one of another kind, or with one that comes and goes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.support.hostile.bodies import GOOD
from tests.support.hostile.case import UP, at, down, sometimes
from tests.support.hostile.connections import answers
from tests.support.hostile.listeners import changing_kind, refuses_half_the_time, replaced_at_every_read, unreadable
from tests.support.hostile.paths import behind_link, circle, closed_port, elsewhere, huge, made, no_stream, stale

WELL = answers(GOOD)
GONE = sometimes("not_found", "refused", "truncated", "empty")
"""The listener may end between the connection and the answer."""

CASES = (
    at("nothing there", elsewhere("unix://{path}"), down("not_found")),
    at("below a file", elsewhere("unix:///etc/passwd/stats"), down("not_found")),
    at("a folder", made(Path.mkdir), down("not_found")),
    at("a regular file", made(Path.touch), down("not_found")),
    at("a fifo", made(os.mkfifo), down("not_found")),
    at("a device", elsewhere("unix:///dev/zero"), down("not_found")),
    at("a link to itself", made(circle), down("unreachable")),
    at("a link to nothing", made(lambda path: path.symlink_to("/nowhere")), down("not_found")),
    at("a link to a server", behind_link(WELL), UP),
    at("a stale socket", stale, down("refused")),
    at("a datagram socket", no_stream(socket.SOCK_DGRAM), down("unreachable")),
    at("a socket of packets", no_stream(socket.SOCK_SEQPACKET), down("unreachable")),
    # Root may connect to anything.
    at("no permission", unreadable(WELL), UP if os.geteuid() == 0 else down("permission")),
    at("an abstract name that nobody has", elsewhere("unix:@uwsgi-headroom-nobody"), down("refused")),
    at("a closed port", closed_port, down("refused")),
    at("a name that does not resolve", elsewhere("tcp://no-such-host.invalid:1717"), down("unreachable", "timeout")),
    at("a broadcast address", elsewhere("tcp://255.255.255.255:1717"), down("unreachable", "permission")),
    at("a file that is a folder", made(Path.mkdir, "file"), down("not_found")),
    at("a file that is a fifo", made(os.mkfifo, "file"), down("not_found")),
    at("a file that is a device", elsewhere("file:///dev/zero"), down("not_found")),
    at("a file of a terabyte", made(huge, "file"), down("too_large")),
    at("a file of the kernel", elsewhere("file:///proc/self/environ"), down("not_json", "truncated", "empty")),
    at("refuses half the time", refuses_half_the_time(WELL), GONE),
    at("replaced at every read", replaced_at_every_read(WELL, 0.0), UP),
    at("gone for a second after every read", replaced_at_every_read(WELL, 1.0), GONE),
    at("a fifo half the time", changing_kind(WELL, os.mkfifo), GONE),
    at("a folder, a file or a fifo half the time", changing_kind(WELL, Path.mkdir, Path.touch, os.mkfifo), GONE),
)

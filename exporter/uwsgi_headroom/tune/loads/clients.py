"""Applies a load to 127.0.0.1 and counts what its clients see, in one loop that serves all connections.

`Clients` prints `begin` and the time, when the measured time begins. The time is that of `CLOCK_MONOTONIC`, which all
processes of a machine share.

* Closed loop: an answer counts if it ends in the measured time. A client pauses only after a failure.
* Open loop: a request counts if it was due in the measured time, however late its answer comes; so the clients wait for
  the last answers, up to the timeout. A request does not wait for earlier answers, and its response time counts from
  the time at which it was due, even if this process was late.
* Idle connections are opened first, and again when the server closes them.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from array import array
from collections import Counter, deque
from itertools import cycle

import httptools

from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.tune.loads.load_tools import Answers, Load

RECEIVE_BYTES = 1 << 16

_RESET = struct.pack("ii", 1, 0)  # struct linger: discard at once
_NOT_YET = frozenset({errno.EAGAIN, errno.EINPROGRESS, errno.ENOTCONN})
_KINDS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.EADDRNOTAVAIL: "no free port",
    errno.EMFILE: "no free descriptor",
    errno.ENFILE: "no free descriptor",
}


def error_kind(number: int | None) -> str:
    """Return the kind under which an error of the kernel is counted."""
    return _KINDS.get(number or 0) or os.strerror(number or 0).lower()


class Connection:
    """An HTTP connection that carries one request at a time, without blocking."""

    __slots__ = (
        "_head",
        "_is_sized",
        "_parser",
        "_unsent",
        "began",
        "calls",
        "done",
        "error",
        "fd",
        "sock",
        "stays_open",
        "target",
    )

    def __init__(self, port: int) -> None:
        """Begin to connect to 127.0.0.1. Raises OSError."""
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.fd = self.sock.fileno()
        self.calls = 0  # requests sent on it
        self.began = 0.0  # the time from which the present request's response time counts
        self.target = b""
        self.error = ""  # the kind of the failure of the last call of `send` or `receive`
        self.done = True
        self.stays_open = False  # whether the server keeps the connection open after the response
        self._head = self._is_sized = False
        self._unsent = b""
        self._parser = httptools.HttpResponseParser(self)
        failed = self.sock.connect_ex(("127.0.0.1", port))
        if failed and failed not in _NOT_YET:
            self.sock.close()
            raise OSError(failed, os.strerror(failed))

    def ask(self, target: bytes, request: bytes, began: float) -> bool:
        """Send a request. Return whether it was sent completely; if not, call `send` when the socket is writable."""
        self.target, self.began, self.calls, self.done = target, began, self.calls + 1, False
        self.stays_open = False
        self._head = self._is_sized = False
        self._unsent = request
        return self.send()

    def send(self) -> bool:
        """Send what is left of the request; return whether that was all, or it failed."""
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except OSError as error:
            if error.errno not in _NOT_YET:
                self.error = error_kind(error.errno)
                self._unsent = b""
        return not self._unsent

    def receive(self) -> bool:
        """Receive what has arrived; return whether the response is complete or has failed."""
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except OSError as error:
            if error.errno in _NOT_YET:
                return False
            self.error = error_kind(error.errno)
            return True
        if not data:  # the end of a response without a length; too early otherwise
            self.done = self._head and not self._is_sized
            self.error = "" if self.done else "reset"
            return True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.error = "no HTTP"
            return True
        return self.done

    def close(self) -> None:
        """Close the connection; nothing else may be called then.

        It is reset, so that neither end stays in TIME_WAIT: at some 2000 connections a second the kernel's table of
        those would be full after a minute, and connections then take a second or more.
        """
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()
        del self._parser  # it refers to this object, and the clients run without a garbage collector

    @property
    def status(self) -> int:
        status: int = self._parser.get_status_code()
        return status

    # httptools calls these.

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._is_sized = True

    def on_headers_complete(self) -> None:
        self._head = True

    def on_message_complete(self) -> None:
        self.done = True
        self.stays_open = self._is_sized and bool(self._parser.should_keep_alive())


NOT_SUCCESS = 300
"""The lowest status of redirects and errors."""


class Tally:
    """Counts answers and failures of the measured time."""

    def __init__(self, begin: float, end: float, *, by_start: bool) -> None:
        self._begin, self._end, self._by_start = begin, end, by_start
        self._times = array("d")
        self._errors: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()

    def _counts(self, began: float, now: float) -> bool:
        return self._begin <= (began if self._by_start else now) < self._end

    def answered(self, began: float, now: float, status: int = 200) -> None:
        """Count an answer by the time from which it counts, and the time of its end."""
        if self._counts(began, now):
            self._times.append(now - began)
            if status >= NOT_SUCCESS:
                self._statuses[status] += 1

    def failed(self, kind: str, began: float, now: float) -> None:
        """Count a request without a proper answer."""
        if self._counts(began, now):
            self._errors[kind] += 1

    def waited_throughout(self, began: float) -> None:
        """Count a request that was without an answer for the whole of the measured time."""
        if began < self._begin:
            self._errors["no answer"] += 1

    def result(self) -> Answers:
        times, seconds = sorted(self._times), self._end - self._begin
        if not times:
            return Answers(seconds=seconds, answered=0, errors=dict(self._errors))
        return Answers(
            seconds=seconds,
            answered=len(times),
            errors=dict(self._errors),
            mean=sum(times) / len(times),
            p50=percentile(times, 0.5),
            p95=percentile(times, 0.95),
            p99=percentile(times, 0.99),
            longest=times[-1],
            statuses=dict(self._statuses),
        )


MOST_IN_FLIGHT = 2000
"""Requests of an open loop at once. Further ones are left out and counted, so that a server that does not answer does
not use up all descriptors."""

MOST_CLOSING = 500
"""Connections at once that wait for the server to close them after the last response."""

PAUSE_SECONDS = 0.05
"""How long a client waits after a failure. Without a pause, refused connections would use up a CPU."""

_NEVER = float("inf")


class Clients:
    """All connections of a load, served by one loop."""

    def __init__(self, load: Load, port: int) -> None:
        self._load, self._port = load, port
        self._epoll = select.epoll()
        self._open: dict[int, Connection] = {}  # with a request in flight
        self._kept: dict[int, Connection] = {}  # between two requests of an open loop; the latest is used first
        self._idle: dict[int, Connection] = {}
        self._closing: dict[int, Connection] = {}  # after the last response; the server closes first
        self._deadlines: deque[tuple[float, Connection, int]] = deque()
        self._restarts: deque[tuple[float, bool]] = deque()  # when a client goes on, or an idle connection is opened
        self._targets = cycle([path.encode() for path in load.paths])
        self._requests: dict[tuple[bytes, bool], bytes] = {}
        self._tally = Tally(0.0, 0.0, by_start=False)

    def run(self) -> Answers:
        """Apply the load; return what the measured time had."""
        load, start = self._load, time.monotonic()
        for _ in range(load.idle):
            self._open_idle()
        begin = start + load.warm_up
        end = begin + load.seconds
        self._tally = Tally(begin, end, by_start=bool(load.rate))
        for _ in range(0 if load.rate else load.clients):
            self._begin(start)
        sent, is_begun = 0, False
        while (now := time.monotonic()) < end:
            if not is_begun and now >= begin:
                is_begun = True
                print("begin", begin, flush=True)
            sent = self._arrive(start, sent, now)
            due = start + sent / load.rate if load.rate else _NEVER
            self._wait(min(due, end, _NEVER if is_begun else begin))
        if not is_begun:
            print("begin", begin, flush=True)
        self._arrive(start, sent, end)  # late, if this process was stopped before the end
        self._finish(end)
        return self._tally.result()

    def _finish(self, end: float) -> None:
        """Wait for the last answers of an open loop."""
        if not self._load.rate:
            for connection in self._open.values():
                self._tally.waited_throughout(connection.began)
            return
        self._restarts.clear()
        while self._open and time.monotonic() < end + self._load.timeout + PAUSE_SECONDS:
            self._wait(end + self._load.timeout)

    def _arrive(self, start: float, sent: int, now: float) -> int:
        """Send the requests of an open loop that are due; return how many were due since the start."""
        while self._load.rate and (due := start + sent / self._load.rate) < now:
            if len(self._open) < MOST_IN_FLIGHT:
                self._begin(due)
            else:
                self._tally.failed("left out", due, due)
            sent += 1
        return sent

    def _begin(self, began: float) -> None:
        target = next(self._targets)
        if self._kept:
            _, connection = self._kept.popitem()
            self._ask(connection, target, began)
        else:
            self._connect(target, began)

    def _connect(self, target: bytes, began: float) -> None:
        try:
            connection = Connection(self._port)
        except OSError as error:
            self._fail(error_kind(error.errno), began)
            return
        self._epoll.register(connection.fd, select.EPOLLIN)
        self._ask(connection, target, began)

    def _ask(self, connection: Connection, target: bytes, began: float) -> None:
        self._open[connection.fd] = connection
        self._deadlines.append((began + self._load.timeout, connection, connection.calls + 1))
        is_last = connection.calls + 1 >= self._load.keep_alive
        if not connection.ask(target, self._request(target, is_last), began):
            self._epoll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        elif connection.error:
            self._end(connection)

    def _request(self, target: bytes, is_last: bool) -> bytes:
        key = target, is_last
        if key not in self._requests:
            version, close = (b"1.0", b"") if self._load.keep_alive <= 1 else (b"1.1", b"Connection: close\r\n")
            self._requests[key] = b"GET %b HTTP/%b\r\nHost: 127.0.0.1:%d\r\nUser-Agent: uwsgi-headroom\r\n%b\r\n" % (
                target,
                version,
                self._port,
                close if is_last else b"",
            )
        return self._requests[key]

    def _wait(self, until: float) -> None:
        """Handle what arrives until a time, a deadline or a restart, whichever is first."""
        while self._deadlines and self._is_past(self._deadlines[0]):
            self._deadlines.popleft()
        for queue in (self._deadlines, self._restarts):
            if queue:
                until = min(until, queue[0][0])
        left = max(0.0, min(1.0, until - time.monotonic()))
        if left:  # `select` waits to the microsecond, `epoll` would to the millisecond
            select.select([self._epoll], [], [], left)
        for fd, events in self._epoll.poll(0):
            self._handle(fd, events)
        now = time.monotonic()
        self._time_out(now)
        while self._restarts and self._restarts[0][0] <= now:
            _, is_idle = self._restarts.popleft()
            if is_idle:
                self._open_idle()
            else:
                self._begin(now)

    def _is_past(self, deadline: tuple[float, Connection, int]) -> bool:
        _, connection, calls = deadline
        return connection.calls != calls or self._open.get(connection.fd) is not connection

    def _time_out(self, now: float) -> None:
        while self._deadlines and (self._deadlines[0][0] <= now or self._is_past(self._deadlines[0])):
            deadline = self._deadlines.popleft()
            if not self._is_past(deadline):
                connection = deadline[1]
                self._forget(connection)
                self._fail("timeout", connection.began)

    def _handle(self, fd: int, events: int) -> None:
        connection = self._open.get(fd)
        if connection is None:
            self._closed_by_server(fd)
            return
        if events & select.EPOLLOUT and connection.send():
            if connection.error:
                self._end(connection)
                return
            self._epoll.modify(fd, select.EPOLLIN)
        if events & ~select.EPOLLOUT and connection.receive():
            self._end(connection)

    def _closed_by_server(self, fd: int) -> None:
        """Without a request in flight, the end of the connection is all that a server can send."""
        connection = self._kept.get(fd) or self._idle.get(fd) or self._closing.get(fd)
        if connection:
            if fd in self._idle:
                self._restarts.append((time.monotonic() + PAUSE_SECONDS, True))
            self._forget(connection)

    def _end(self, connection: Connection) -> None:
        """The request in flight is over."""
        now, began = time.monotonic(), connection.began
        if connection.error:
            self._forget(connection)
            if connection.calls > 1 and connection.error == "reset":
                self._connect(connection.target, began)  # the server closed a kept connection at the same moment
            else:
                self._fail(connection.error, began)
            return
        if connection.status >= 500:
            kind = f"status {connection.status}"
            self._forget(connection)
            self._fail(kind, began)
            return
        self._tally.answered(began, now, connection.status)
        if connection.calls < self._load.keep_alive and connection.stays_open:
            del self._open[connection.fd]
            self._kept[connection.fd] = connection
        else:
            self._let_close(connection)
        if not self._load.rate:
            self._begin(now)

    def _let_close(self, connection: Connection) -> None:
        """Leave the end of the connection to the server, which would see a reset otherwise."""
        del self._open[connection.fd]
        self._closing[connection.fd] = connection
        if len(self._closing) > MOST_CLOSING:
            self._forget(next(iter(self._closing.values())))

    def _fail(self, kind: str, began: float) -> None:
        now = time.monotonic()
        self._tally.failed(kind, began, now)
        if not self._load.rate:
            self._restarts.append((now + PAUSE_SECONDS, False))

    def _open_idle(self) -> None:
        try:
            connection = Connection(self._port)
        except OSError:
            self._restarts.append((time.monotonic() + PAUSE_SECONDS, True))
            return
        self._epoll.register(connection.fd, select.EPOLLIN)
        self._idle[connection.fd] = connection

    def _forget(self, connection: Connection) -> None:
        for connections in (self._open, self._kept, self._idle, self._closing):
            connections.pop(connection.fd, None)
        connection.close()

"""One HTTP connection of a client, without blocking: sends a request, and recognises the end of the response."""

from __future__ import annotations

import errno
import os
import socket
import struct

import httptools

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
    """A connection that carries one request at a time.

    calls: requests sent on it. began: the time from which the present request's response time counts. error: the kind
    of the failure of the last call of `send` or `receive`, empty without one. stays_open: whether the server keeps the
    connection open after the response.
    """

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
        self.calls = 0
        self.began = 0.0
        self.target = b""
        self.error = ""
        self.done = True
        self.stays_open = False
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
        """The status of the response."""
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

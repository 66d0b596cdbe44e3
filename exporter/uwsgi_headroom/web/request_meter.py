"""Counts the bytes of a request before they are parsed or kept; does no I/O.

A request is split into pieces that end at the end of a line, of the head or of the body, so that the parser never sees
uncounted bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from uwsgi_headroom.web import bounds


class RequestMeter:
    """Counts the requests of a connection, one after another."""

    def __init__(self) -> None:
        self.start_request()

    def start_request(self) -> None:
        """Begin a request with the next byte."""
        self._bytes = 0
        self._line_bytes = 0
        self._lines = 0
        self._body_left = 0

    def start_body(self, length: int) -> None:
        """Begin a body of `length` bytes with the next byte."""
        self._body_left = length

    @property
    def is_in_head(self) -> bool:
        """Whether a head has arrived in part."""
        return self._bytes > 0 and not self._body_left

    def end_of_piece(self, data: bytes, start: int) -> int:
        """Return the end of the piece of `data` that begins at `start`."""
        if self._body_left:
            return min(len(data), start + self._body_left)
        return data.find(b"\n", start) + 1 or len(data)

    def count(self, data: bytes, start: int, end: int) -> int:
        """Count a piece. Returns 0, or the HTTP status with which to refuse the request."""
        self._bytes += end - start
        if self._body_left:
            self._body_left -= end - start
            return 0
        self._line_bytes += end - start
        if self._line_bytes > bounds.LINE_BYTES:
            return 431 if self._lines else 414
        if self._bytes > bounds.HEAD_BYTES or self._lines >= bounds.HEAD_LINES:
            return 431
        if data[end - 1] == 0x0A:
            self._line_bytes = 0
            self._lines += 1
        return 0


def body_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the length of a body from the request's headers, which the parser has checked; -1 if unknown."""
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return -1
        if name == b"content-length":
            length = int(value)
    return length

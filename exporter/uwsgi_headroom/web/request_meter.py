"""Counts the bytes of a request before anything parses or keeps them. No I/O here.

A request is split into pieces that each end where its head, a line of its head, or its body ends, so that the parser
never sees bytes that were not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from uwsgi_headroom.web import bounds


class RequestMeter:
    """Counts one request after the other of a connection."""

    def __init__(self) -> None:
        self.start_request()

    def start_request(self) -> None:
        """The next byte is the first of a request."""
        self._bytes = 0
        self._line_bytes = 0
        self._lines = 0
        self._body_left = 0

    def start_body(self, length: int) -> None:
        """The next byte is the first of a body of `length` bytes."""
        self._body_left = length

    @property
    def is_in_head(self) -> bool:
        """Whether part of a head has arrived, and not all of it."""
        return self._bytes > 0 and not self._body_left

    def end_of_piece(self, data: bytes, start: int) -> int:
        """Where the piece of `data` that begins at `start` ends."""
        if self._body_left:
            return min(len(data), start + self._body_left)
        return data.find(b"\n", start) + 1 or len(data)

    def count(self, data: bytes, start: int, end: int) -> int:
        """Count a piece; the HTTP status to refuse the request with, or 0."""
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
    """The length of a request's body by its headers, which the parser has checked; -1 if it has no length."""
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return -1
        if name == b"content-length":
            length = int(value)
    return length

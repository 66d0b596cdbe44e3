"""Reads the head of an HTTP/1 request, within the bounds; does no I/O.

A head is parsed once it is complete, so the parser never sees more than the bounds allow. Bodies need no parser: those
without a length are refused.
"""

from __future__ import annotations

import re
import urllib.parse
from http import HTTPStatus

import httptools
from msgspec import Struct

from uwsgi_headroom.web import bounds

_END = re.compile(rb"\n\r?\n")


class RefusedHeadError(Exception):
    """A request that is answered with a status and no more, without the application."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Head(Struct, frozen=True):
    """The head of a request. headers: with names in lower case. path: decoded, raw_path: as it was sent."""

    method: str
    http_version: str
    raw_path: bytes
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body_bytes: int
    keeps_alive: bool


def measure(received: bytes | bytearray, seen: int = 0) -> int:
    """Return the length of the head at the beginning of `received`, 0 if it is incomplete. Raises RefusedHeadError if a
    bound is exceeded, or if it begins as no request does.

    seen: how many of the bytes an earlier call has measured, so that a byte at a time costs no more than a line.
    """
    begin = len(received) - len(received.lstrip(b"\r\n"))  # empty lines before a head are ignored (RFC 9112, 2.2)
    if begin < len(received) and not received[begin : begin + 1].isalpha():
        raise RefusedHeadError(HTTPStatus.BAD_REQUEST)
    end = _END.search(received, max(begin, seen - 2))
    stop = end.end() if end else min(len(received), bounds.HEAD_BYTES + 1)
    start = received.rfind(b"\n", 0, seen) + 1
    lines = received.count(b"\n", 0, start)
    while start < stop:
        following = received.find(b"\n", start, stop) + 1 or stop
        if following - start > bounds.LINE_BYTES:
            raise RefusedHeadError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if lines else HTTPStatus.REQUEST_URI_TOO_LONG
            )
        start, lines = following, lines + 1
    if stop > bounds.HEAD_BYTES or lines > bounds.HEAD_LINES:
        raise RefusedHeadError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    return end.end() if end else 0


def parse(data: bytes) -> Head:
    """Parse a complete head. Raises RefusedHeadError."""
    events = _Events()
    parser = httptools.HttpRequestParser(events)
    wants_upgrade = False
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        wants_upgrade = True  # the answer is HTTP all the same, and ends the connection
    except httptools.HttpParserError:
        raise RefusedHeadError(HTTPStatus.BAD_REQUEST) from None
    if not events.is_complete:
        raise RefusedHeadError(HTTPStatus.BAD_REQUEST)
    try:
        url = httptools.parse_url(events.target)
        raw_path = url.path or b"/"
        path = urllib.parse.unquote(raw_path.decode("ascii"))
    except (httptools.HttpParserError, UnicodeDecodeError):
        raise RefusedHeadError(HTTPStatus.BAD_REQUEST) from None
    headers = events.headers
    if sum(name == b"host" for name, _ in headers) > 1:  # RFC 9112, 3.2
        raise RefusedHeadError(HTTPStatus.BAD_REQUEST)
    if url.host:  # overrides the Host header (RFC 9112, 3.2.2)
        host = b"[%b]" % url.host if b":" in url.host else url.host  # the parser removes an IPv6 address' brackets
        authority = host if url.port is None else b"%b:%d" % (host, url.port)
        headers = [*(header for header in headers if header[0] != b"host"), (b"host", authority)]
    version = parser.get_http_version()
    return Head(
        method=parser.get_method().decode("ascii"),
        http_version=version,
        raw_path=raw_path,
        path=path,
        query=url.query or b"",
        headers=headers,
        body_bytes=_body_bytes(headers),
        keeps_alive=not wants_upgrade and _keeps_alive(version, headers),
    )


def _keeps_alive(version: str, headers: list[tuple[bytes, bytes]]) -> bool:
    options = b",".join(value for name, value in headers if name == b"connection").lower().split(b",")
    # A client that waits for "100 Continue" gets its answer instead, and may then not send the body.
    expects = any(name == b"expect" for name, _ in headers)
    return version == "1.1" and not expects and b"close" not in map(bytes.strip, options)


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            raise RefusedHeadError(HTTPStatus.LENGTH_REQUIRED)
        if name == b"content-length":
            length = int(value)  # the parser has checked it
    if length > bounds.BODY_BYTES:
        raise RefusedHeadError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return length


class _Events:
    """What httptools' parser calls."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_complete = True

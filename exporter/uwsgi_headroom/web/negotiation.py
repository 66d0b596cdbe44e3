"""Parses the formats and encodings that a client accepts, and compresses responses accordingly."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from uwsgi_headroom.web import bounds

GZIP_LEVEL = 1
"""Level 6 makes a response a fifth smaller but costs three times the CPU: too much beside a busy server."""


def accepts_openmetrics(header: str) -> bool:
    """Whether a client accepts OpenMetrics 1.0.0. (The library's `choose_encoder` raises on some headers.)"""
    return any(
        name == "application/openmetrics-text"
        and parameters.get("version", "1.0.0") == "1.0.0"
        and not _is_refused(parameters)
        for name, parameters in _parse_header(header)
    )


def accepts_gzip(header: str) -> bool:
    """Whether a client accepts gzip, by its Accept-Encoding header."""
    codings = dict(_parse_header(header))
    parameters = codings.get("gzip", codings.get("*"))
    return parameters is not None and not _is_refused(parameters)


def compressible_response(
    request: Request,
    body: bytes,
    headers: Mapping[str, str],
    media_type: str | None = None,
    *,
    status: int = 200,
    compressed: bytes | None = None,
    least_bytes: int = 0,
) -> Response:
    """Make a response, compressed if the client accepts gzip and the body has at least `least_bytes`.

    headers: must contain `Vary: Accept-Encoding` and, without a media type, `Content-Type`. compressed: the compressed
    body, if it exists already.
    """
    if len(body) >= least_bytes and accepts_gzip(request.headers.get("accept-encoding", "")):
        body = compressed or compress(body)
        headers = {**headers, "Content-Encoding": "gzip"}
    return PiecewiseResponse(body, status, headers, media_type)


class PiecewiseResponse(Response):
    """Sends a large body in pieces, each once the client has received most of those before: a connection would copy
    the whole body, and 200 connections 200 times."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) <= bounds.PIECE_BYTES:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), bounds.PIECE_BYTES):
            piece = bytes(self.body[start : start + bounds.PIECE_BYTES])
            is_last = start + bounds.PIECE_BYTES >= len(self.body)
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})


def compress(body: bytes) -> bytes:
    """Compress with gzip; equal bodies give equal bytes."""
    return gzip.compress(body, GZIP_LEVEL, mtime=0)


def _parse_header(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Parse an Accept or Accept-Encoding header to names with their parameters."""
    for entry in _split(header.lower(), ","):
        name, *parameters = (part.strip() for part in _split(entry, ";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key.strip(): value.strip() for key, _, value in pairs}


def _split(text: str, separator: str) -> list[str]:
    """Split a text into its first parts. The others are ignored."""
    return text.split(separator, bounds.HEADER_VALUES)[: bounds.HEADER_VALUES]


def _is_refused(parameters: dict[str, str]) -> bool:
    return parameters.get("q", "1").rstrip("0.") == ""

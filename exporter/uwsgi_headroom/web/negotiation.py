"""What a client accepts, and answers that are compressed if it accepts gzip."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

GZIP_LEVEL = 1
"""Level 6 makes an answer a fifth smaller and costs three times the CPU: the wrong trade beside a busy server."""


def accepts_openmetrics(header: str) -> bool:
    """Whether a client names the one version there is here. (The library's `choose_encoder` raises on some headers.)"""
    return any(
        name == "application/openmetrics-text"
        and parameters.get("version", "1.0.0") == "1.0.0"
        and not _is_refused(parameters)
        for name, parameters in _parse_header(header)
    )


def accepts_gzip(header: str) -> bool:
    """From its Accept-Encoding."""
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
    """The body, compressed if the client accepts that and it has `least_bytes`.

    headers: as they are, with `Vary: Accept-Encoding` and, without a media type, `Content-Type`. compressed: the body
    as it was compressed before, if it was.
    """
    if len(body) >= least_bytes and accepts_gzip(request.headers.get("accept-encoding", "")):
        body = compressed or compress(body)
        headers = {**headers, "Content-Encoding": "gzip"}
    return Response(body, status, headers, media_type)


def compress(body: bytes) -> bytes:
    """As gzip; equal bodies make equal bytes."""
    return gzip.compress(body, GZIP_LEVEL, mtime=0)


def _parse_header(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in an Accept header or one of its kind: names with their parameters."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key.strip(): value.strip() for key, _, value in pairs}


def _is_refused(parameters: dict[str, str]) -> bool:
    return parameters.get("q", "1").rstrip("0.") == ""

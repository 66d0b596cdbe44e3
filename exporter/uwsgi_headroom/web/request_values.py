"""Parses what a request asks for: query parameters, whose errors say what is allowed, and the formats and encodings
that a client accepts; compresses responses accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.convertors import PathConvertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from uwsgi_headroom import numbers
from uwsgi_headroom.analysis.what_if.measured import Setting, SettingError, parse_settings
from uwsgi_headroom.documents.build import NEWEST, Cursor
from uwsgi_headroom.web import bounds

RETRY_SECONDS = 2
"""How long a client should wait before it repeats a request that was refused with status 503."""


class RefusedError(Exception):
    """The request is refused. `status` is the HTTP status; with 503, a retry may succeed, as its `headers` say."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = {}
        if status == 503:
            self.headers["Retry-After"] = str(RETRY_SECONDS)


def read_parameter(request: Request, name: str) -> str:
    """Return a parameter's text; "" if there is none. Raises RefusedError if the query has too many to parse."""
    if request.scope["query_string"].count(b"&") >= bounds.QUERY_PARAMETERS:
        raise RefusedError(400, f"the query has more than {bounds.QUERY_PARAMETERS} parameters")
    return request.query_params.get(name, "")


def parse_window(request: Request, windows: Sequence[float]) -> float:
    """Parse the window: one of these lengths in seconds, by default the first. Raises RefusedError."""
    text = read_parameter(request, "window")
    if not text:
        return windows[0]
    try:
        return windows[windows.index(float(text))]
    except ValueError:
        choice = " or ".join(f"{window:g}" for window in windows)
        raise RefusedError(400, f"window: expected {choice} (seconds, as configured), not {text!r}") from None


def parse_number(request: Request, name: str, default: float, least: float, most: float) -> float:
    """Parse a number within bounds; `default` if there is none. Raises RefusedError."""
    text = read_parameter(request, name)
    if not text:
        return default
    try:
        return numbers.parse_number(text, least, most)
    except ValueError:
        raise RefusedError(400, f"{name}: expected a number from {least:g} to {most:g}, not {text!r}") from None


def parse_whole_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Parse a whole number within bounds. Raises RefusedError."""
    value = parse_number(request, name, default, least, most)
    if value != int(value):
        raise RefusedError(400, f"{name}: expected a whole number, not {value:g}")
    return int(value)


def parse_cursor(request: Request, name: str) -> Cursor:
    """Parse the place of an event, as in `next` of a journal; the newest if there is none. Raises RefusedError."""
    text = read_parameter(request, name)
    if not text:
        return NEWEST
    time, _, number = text.partition(",")
    try:
        return numbers.parse_number(time, 0, 1e12), int(numbers.parse_number(number, 0, 1e15))
    except ValueError:
        raise RefusedError(400, f"{name}: expected `next` of another answer, not {text!r}") from None


def parse_setting_list(request: Request, name: str) -> tuple[Setting, ...]:
    """Parse settings such as `8x4,4x8`; empty if there are none. Raises RefusedError."""
    try:
        return parse_settings([text for text in read_parameter(request, name).split(",") if text.strip()])
    except SettingError as error:
        raise RefusedError(400, f"{name}: {error}") from None


class TextConvertor(PathConvertor):
    """Starlette's `path` convertor, newlines included, because names of servers may contain them."""

    regex = r"[\s\S]*"


def accepts_openmetrics(header: str) -> bool:
    """Whether a client accepts OpenMetrics 1.0.0. (The library's `choose_encoder` raises on some headers.)"""
    return any(
        name == "application/openmetrics-text"
        and parameters.get("version", "1.0.0") == "1.0.0"
        and not _is_refused(parameters)
        for name, parameters in _parse_header(header)
    )


def accepts_gzip(header: str) -> bool:
    codings = dict(_parse_header(header))
    parameters = codings.get("gzip", codings.get("*"))
    return parameters is not None and not _is_refused(parameters)


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


def _parse_header(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for entry in _split(header.lower(), ","):
        name, *parameters = (part.strip() for part in _split(entry, ";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key.strip(): value.strip() for key, _, value in pairs}


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator, bounds.HEADER_VALUES)[: bounds.HEADER_VALUES]


def _is_refused(parameters: dict[str, str]) -> bool:
    return parameters.get("q", "1").rstrip("0.") == ""

"""Parses query parameters, and refuses requests: an error says what is allowed.

Also registers a path parameter for any text, because names of servers may contain slashes and newlines.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request

from uwsgi_headroom import numbers
from uwsgi_headroom.analysis.what_if import Setting, SettingError, parse_settings
from uwsgi_headroom.documents.build import NEWEST, Cursor
from uwsgi_headroom.web import bounds

RETRY_SECONDS = 2
"""How long a client should wait before it repeats a request that was refused with status 503."""


class RefusedError(Exception):
    """The request is refused. `status` is the HTTP status; with 503, a retry may succeed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


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


class _TextConvertor(Convertor[str]):
    """Starlette's `path` convertor, newlines included."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def register_text_convertor() -> None:
    """Register the convertor, for routes such as `/{name:anything}`."""
    register_url_convertor("anything", _TextConvertor())

"""What a request asks for, or a sentence that says what would be right."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from uwsgi_headroom import number_range


class RefusedError(Exception):
    """What was asked cannot be answered; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_window(request: Request, windows: Sequence[float]) -> float:
    """One of these lengths in seconds, the first if none is asked for. Raises RefusedError."""
    text = request.query_params.get("window", "")
    if not text:
        return windows[0]
    try:
        return windows[windows.index(float(text))]
    except ValueError:
        choice = " or ".join(f"{window:g}" for window in windows)
        raise RefusedError(400, f"window: {choice} (seconds, as configured), not {text!r}") from None


def parse_number(request: Request, name: str, default: float, least: float, most: float) -> float:
    """A number between these, `default` if none is given. Raises RefusedError."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        return number_range.parse_number(text, least, most)
    except ValueError:
        raise RefusedError(400, f"{name}: a number from {least:g} to {most:g}, not {text!r}") from None


def parse_whole_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number between these. Raises RefusedError."""
    value = parse_number(request, name, default, least, most)
    if value != int(value):
        raise RefusedError(400, f"{name}: a whole number, not {value:g}")
    return int(value)

"""Requests are counted before they are kept."""

from __future__ import annotations

import pytest

from uwsgi_headroom.web.bounds import HEAD_BYTES, HEAD_LINES, LINE_BYTES
from uwsgi_headroom.web.request_meter import RequestMeter, body_length

FIRST = b"GET / HTTP/1.1\r\n"


def fed(data: bytes, size: int, meter: RequestMeter | None = None) -> int:
    """The result for this much of a head, received in parts of `size` bytes."""
    meter = meter or RequestMeter()
    for part_start in range(0, len(data), size):
        part, start = data[part_start : part_start + size], 0
        while start < len(part):
            end = meter.end_of_piece(part, start)
            if status := meter.count(part, start, end):
                return status
            start = end
    return 0


def line(length: int) -> bytes:
    return b"X: " + b"a" * (length - 5) + b"\r\n"


@pytest.mark.parametrize("size", [1, 100, 65536])
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (FIRST + line(LINE_BYTES), 0),
        (FIRST + line(LINE_BYTES + 1), 431),
        (FIRST + b"a" * (LINE_BYTES + 1), 431),
        (line(LINE_BYTES), 0),
        (line(LINE_BYTES + 1), 414),
        (line(8) * HEAD_LINES, 0),
        (line(8) * HEAD_LINES + b"\r", 431),
        (b"\n" * HEAD_LINES, 0),
        (b"\n" * HEAD_LINES + b"G", 431),
        (line(1024) * (HEAD_BYTES // 1024), 0),
        (line(1024) * (HEAD_BYTES // 1024) + b"\r", 431),
    ],
)
def test_bounds(head: bytes, status: int, size: int) -> None:
    """A line and a head may be as long as the bounds and not a byte longer, in any parts."""
    assert fed(head, size) == status


def test_a_complete_request_starts_anew() -> None:
    """Earlier requests of the connection do not count."""
    meter = RequestMeter()
    for _ in range(4):
        assert fed(line(LINE_BYTES) * 3, 1000, meter) == 0
        assert meter.is_in_head
        meter.start_request()
        assert not meter.is_in_head


def test_a_body_is_no_head() -> None:
    """A body has no lines, and the bytes after it belong to the next request."""
    meter = RequestMeter()
    assert fed(FIRST, 100, meter) == 0
    meter.start_body(100_000)
    data = b"\n" * 100_000 + FIRST
    assert not meter.is_in_head
    assert meter.end_of_piece(data, 0) == 100_000
    assert meter.count(data, 0, 100_000) == 0
    meter.start_request()
    assert meter.end_of_piece(data, 100_000) == len(data)


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ([], 0),
        ([(b"host", b"x"), (b"content-length", b"65536")], 65536),
        ([(b"transfer-encoding", b"chunked")], -1),
        ([(b"content-length", b"1"), (b"transfer-encoding", b"chunked")], -1),
    ],
)
def test_body_length(headers: list[tuple[bytes, bytes]], length: int) -> None:
    """The length of a body comes from its header; a chunked body has none."""
    assert body_length(headers) == length

"""Heads of requests: how much is kept, and what is made of it."""

from __future__ import annotations

import pytest

from uwsgi_headroom.web.bounds import BODY_BYTES, HEAD_BYTES, HEAD_LINES, LINE_BYTES
from uwsgi_headroom.web.request_head import RefusedHeadError, measure, parse

FIRST = b"GET / HTTP/1.1\r\n"


def fed(data: bytes, size: int) -> int:
    """The status of the refusal of this much of a head, received in parts of `size` bytes; 0 without one."""
    received = bytearray()
    try:
        for start in range(0, len(data), size):
            seen = len(received)
            received += data[start : start + size]
            assert measure(received, seen) == 0
    except RefusedHeadError as refused:
        return refused.status
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


@pytest.mark.parametrize("empty_lines", [b"", b"\r\n", b"\n\r\n"])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_head_ends_at_its_empty_line(empty_lines: bytes, end: bytes) -> None:
    """Empty lines before it do not count as that line, and what follows is not looked at."""
    head = empty_lines + FIRST + b"Host: x\r\n" + end
    assert measure(head) == len(head)
    assert measure(head + b"\n" * 10 * HEAD_BYTES) == len(head)
    assert not any(measure(head[:length]) for length in range(len(head)))


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        (b"", 0),
        (b"Content-Length: 65536\r\n", BODY_BYTES),
        (b"Content-Length: 65537\r\n", 413),
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n", 400),
    ],
)
def test_the_length_of_a_body(headers: bytes, length: int) -> None:
    """It comes from a header. A body without a length is refused, and so is a head with two."""
    if length in (400, 411, 413):
        with pytest.raises(RefusedHeadError) as refused:
            parse(FIRST + headers + b"\r\n")
        assert refused.value.status == length
    else:
        assert parse(FIRST + headers + b"\r\n").body_bytes == length


@pytest.mark.parametrize(
    "data",
    [
        b"G\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        FIRST + b"no colon\r\n\r\n",
        FIRST + b"a\0b: c\r\n\r\n",
        FIRST + b" folded: c\r\n\r\n",
        FIRST + b"a: b\r\n c\r\n\r\n",
        FIRST + b"a: b\0c\r\n\r\n",
        FIRST + b"Content-Length:\r\n\r\n",
        FIRST + b"Host: x\r\nhost: x\r\n\r\n",
        b"\x00\x01\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
    ],
)
def test_what_is_no_request(data: bytes) -> None:
    """It is refused."""
    with pytest.raises(RefusedHeadError) as refused:
        parse(data)
    assert refused.value.status == 400


def test_a_request() -> None:
    """What the application sees of it: names in lower case, the path decoded, the query as it is."""
    head = parse(b"POST /a%20b?c=%20d HTTP/1.0\r\nHOST: x\r\nX-Y:  Z\r\n\r\n")
    assert (head.method, head.http_version, head.raw_path, head.path) == ("POST", "1.0", b"/a%20b", "/a b")
    assert (head.query, head.headers) == (b"c=%20d", [(b"host", b"x"), (b"x-y", b"Z")])
    assert not head.keeps_alive
    assert parse(FIRST + b"\r\n").keeps_alive
    for ending in (b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Expect: 100-continue"):
        assert not parse(FIRST + ending + b"\r\n\r\n").keeps_alive


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://shop.example/x", b"shop.example"),
        (b"http://shop.example:9238/x", b"shop.example:9238"),
        (b"http://[::1]:9238/x", b"[::1]:9238"),
        (b"http://user:word@[::1]", b"[::1]"),
    ],
)
def test_an_absolute_target(target: bytes, host: bytes) -> None:
    """Its host and port override the Host header, in the form of that header."""
    head = parse(b"GET %b HTTP/1.1\r\nHost: other\r\n\r\n" % target)
    assert head.headers == [(b"host", host)]

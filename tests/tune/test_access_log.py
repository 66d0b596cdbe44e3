"""Paths to request from an access log: which lines are replayed, and what is kept of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.tune.application.application import (
    MOST_BYTES,
    MOST_PATHS,
    Replay,
    collect,
    is_path,
    read_access_log,
)

COMMON = b'192.0.2.7 - ann [23/Nov/2026:04:00:00 +0000] "%s HTTP/1.1" 200 512\n'
COMBINED = COMMON.rstrip() + b' "https://shop.example/cart?token=secret" "Mozilla/5.0 (X11) \\"odd\\""\n'


def lines(*requests: bytes, form: bytes = COMMON) -> list[bytes]:
    return [form % request for request in requests]


@pytest.mark.parametrize("form", [COMMON, COMBINED])
def test_both_formats(form: bytes) -> None:
    """Only the paths are kept, in their order; other methods are counted."""
    log = lines(b"GET /a?b=c", b"POST /pay", b"HEAD /a", b"GET /", b"POST /pay", form=form)
    assert collect(log, ["GET"]) == Replay(("/a?b=c", "/"), 2, {"POST": 2, "HEAD": 1}, 0)


def test_other_methods_on_request() -> None:
    """Those that are allowed."""
    assert collect(lines(b"GET /a", b"HEAD /b", b"PUT /c"), ["GET", "HEAD"]).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("request_line", "path"),
    [
        (b"GET http://shop.example/a?b", "/a?b"),
        (b"GET /caf\\xC3\\xA9", "/caf%C3%A9"),
        (b"GET *", None),
        (b"GET //evil.example/", None),
        (b"GET http://shop.example", None),
        (b"GET /" + b"a" * 3000, None),
        (b"GET /caf\xc3\xa9", None),
    ],
)
def test_odd_targets(request_line: bytes, path: str | None) -> None:
    """A proxy's log has whole URLs, and logs escape bytes; what is no path is counted as left out."""
    replay = collect(lines(request_line), ["GET"])
    assert replay.paths == ((path,) if path else ())
    assert replay.left_out == ({} if path else {"GET": 1})


def test_lines_in_another_format_are_counted() -> None:
    """Empty ones are not."""
    broken = [b"\x16\x03\x01 hello\n", b"\n", b'{"path": "/a"}\n', b'1 - - [x] "GET /a HTTP/1.1" - 5\n']
    assert collect([*lines(b"GET /"), *broken], ["GET"]) == Replay(("/",), 1, {}, 3)


def test_a_sample_of_a_long_log() -> None:
    """From all of it, in its order, the same each time, and of limited size."""
    log = lines(*(b"GET /%d" % number for number in range(5000)))
    replay = collect(log, ["GET"])
    numbers = [int(path[1:]) for path in replay.paths]
    assert len(numbers) == MOST_PATHS
    assert numbers == sorted(numbers)
    assert 2000 < sum(numbers) / len(numbers) < 3000
    assert collect(log, ["GET"]) == replay
    long = collect(lines(*(b"GET /" + b"a" * 1900 for _ in range(100))), ["GET"])
    assert sum(map(len, long.paths)) <= MOST_BYTES


def test_a_compressed_log(tmp_path: Path) -> None:
    """As log rotation leaves it."""
    path = tmp_path / "access.log.1.gz"
    path.write_bytes(gzip.compress(b"".join(lines(b"GET /a"))))
    assert read_access_log(path).paths == ("/a",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no request to replay: it is empty"),
        (b"nonsense\n", "none of its lines is in the common or combined log format"),
        (b"".join(lines(b"POST /a", b"POST /b")), "only 2 POST, which --allow-methods may allow"),
        (b"".join(lines(b"GET //a")), "none of its requests has a path in ASCII that can be requested"),
        (b"".join(lines(b"GET //a", b"POST /b")), "only 1 POST, which"),
        (gzip.compress(b"".join(lines(b"GET /a") * 99))[:-9], "cannot be read"),
    ],
)
def test_a_log_without_usable_lines(tmp_path: Path, content: bytes, message: str) -> None:
    """The message says why."""
    path = tmp_path / "access.log"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_access_log(path)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """The message is the kernel's."""
    with pytest.raises(ConfigError, match=r"access\.log cannot be read: No such file or directory"):
        read_access_log(tmp_path / "access.log")


@pytest.mark.parametrize("text", ["items", "//host/a", "/a b", "/a\n", "http://host/", "", "/ü"])
def test_what_is_no_path(text: str) -> None:
    """An address cannot be given."""
    assert not is_path(text)

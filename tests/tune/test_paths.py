"""Which paths are requested: given ones, or those of an access log."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.tune.paths import MOST_PATHS, find_paths, is_path, read_access_log

COMMON = b'192.0.2.7 - ann [23/Nov/2026:04:00:00 +0000] "%s HTTP/1.1" 200 512\n'
COMBINED = COMMON.rstrip() + b' "https://shop.example/cart?token=secret" "Mozilla/5.0 (X11) \\"odd\\""\n'


def log(directory: Path, *requests: bytes, form: bytes = COMMON) -> Path:
    path = directory / "access.log"
    path.write_bytes(b"".join(form % request for request in requests))
    return path


@pytest.mark.parametrize("form", [COMMON, COMBINED])
def test_only_get_is_repeated(tmp_path: Path, form: bytes) -> None:
    """In the order of the log; other methods may change data."""
    path = log(tmp_path, b"GET /a?b=c", b"POST /pay", b"HEAD /a", b"GET /", form=form)
    assert find_paths((), str(path)) == (("/a?b=c", "/"), "2 paths of access.log")


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
def test_odd_targets(tmp_path: Path, request_line: bytes, path: str | None) -> None:
    """A proxy's log has whole URLs, and logs escape bytes; what is no path is left out."""
    assert read_access_log(log(tmp_path, request_line, b"GET /z")) == ((path, "/z") if path else ("/z",))


def test_the_end_of_a_long_log(tmp_path: Path) -> None:
    """The latest requests, of limited number."""
    paths = read_access_log(log(tmp_path, *(b"GET /%d" % number for number in range(2 * MOST_PATHS))))
    assert paths == tuple(f"/{number}" for number in range(MOST_PATHS, 2 * MOST_PATHS))


@pytest.mark.parametrize("content", [b"", b"nonsense\n", COMMON % b"POST /a", b'1 - - [x] "GET /a HTTP/1.1" - 5\n'])
def test_a_log_without_usable_lines(tmp_path: Path, content: bytes) -> None:
    """The message says what is expected."""
    (tmp_path / "access.log").write_bytes(content)
    with pytest.raises(ConfigError, match="has no GET request in the common or combined log format"):
        read_access_log(tmp_path / "access.log")


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """The message is the kernel's."""
    with pytest.raises(ConfigError, match=r"access\.log cannot be read: No such file or directory"):
        find_paths((), str(tmp_path / "access.log"))


@pytest.mark.parametrize("text", ["items", "//host/a", "/a b", "/a\n", "http://host/", "", "/ü"])
def test_what_is_no_path(text: str) -> None:
    """An address cannot be given."""
    assert not is_path(text)
    with pytest.raises(ConfigError, match="tune loads only its own server"):
        find_paths((text,), None)


def test_given_paths_are_named_without_their_queries() -> None:
    """A query may hold a token."""
    assert find_paths(("/a?token=7", "/b"), None) == (("/a?token=7", "/b"), "/a /b")

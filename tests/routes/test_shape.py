"""Shapes: what is left of the method and path of a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.routes import (
    LONGEST_NAME,
    LONGEST_PATH,
    MOST_SEGMENTS,
    OTHER,
    PLACEHOLDERS,
    SegmentCache,
    Shape,
    Templates,
    make_shape,
)


def path_of(path, *templates):
    raw = path if isinstance(path, bytes) else path.encode()
    shape = make_shape(b"GET", raw, Templates(templates), SegmentCache())
    return "other" if shape == OTHER else "/" + "/".join(shape.segments)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("/export", "/export"),
        ("/export/", "/export"),
        ("//api///v1/", "/api/v1"),
        ("/api/v1.2/getUserById", "/api/v1.2/getUserById"),
        ("/wp-login.php", "/wp-login.php"),
        ("/.well-known/_matrix/oauth2", "/.well-known/_matrix/oauth2"),
        ("/FAQ/2fa/index.html", "/FAQ/2fa/index.html"),
        ("/orders/42/items/7", "/orders/{id}/items/{id}"),
        ("/on/2024-01-31/at/192.168.0.1", "/on/{id}/at/{id}"),
        ("/x/550e8400-e29b-41d4-a716-446655440000", "/x/{uuid}"),
        ("/x/550E8400-E29B-41D4-A716-446655440000/edit", "/x/{uuid}/edit"),
        ("/blob/3f2a9c1d", "/blob/{hash}"),
        ("/blob/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/blob/{hash}"),
        ("/static/app.3f2a9c1d77.js", "/static/{token}"),
        ("/a/an-article-with-a-title-that-is-quite-long", "/a/{token}"),
    ],
)
def test_names_stay_and_values_go(path, expected):
    """Segments that read like names stay; numbers, UUIDs, hashes and tokens become placeholders."""
    assert path_of(path) == expected


VALUES = """
QWxhZGRpbjpvcGVuIHNlc2FtZQ dGhpc2lzYXNlY3JldA JBSWY3DPEHPK3PXP aB3dE9 Xk9_-fQz kqzjvhwpfmxtrn
sk_live_4eC39HqLyjWDarjtT1zdp7dc 5f4dcc3b5aa765d61d8327deb882cf99 deadbeefdeadbeef user-48213
0151-1234567 15551234567 4111-1111-1111-1111 DE89370400440532013000
eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N
"""


@pytest.mark.parametrize("secret", [*VALUES.split(), "a" * 200])
def test_a_value_that_is_no_name_does_not_survive(secret):
    """Tokens, numbers of phones, cards and accounts, and keys become placeholders."""
    assert path_of(f"/reset/{secret}/confirm") in {f"/reset/{each}/confirm" for each in PLACEHOLDERS}


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"*",
        b"export",
        b"http://example.com/x",
        b"/u/bob@example.com",
        b"/app;jsessionid=1A2B3C",
        b"/a/../b",
        b"/./a",
        b"/a%2Fb",
        b"/a b",
        b"/caf\xc3\xa9",
        b"/\xff\xfe",
        b"/a\x01b",
        b"/a?b",
        b"/a#b",
        b"/a=b",
        b"/+491511234567",
        b"/<script>",
        b'/"',
        b"/a\\b",
        b"/a\nb",
        b"/{id}",
        b"/{any}",
        b"/" + b"/".join([b"a"] * (MOST_SEGMENTS + 1)),
        b"/" + b"a" * LONGEST_PATH,
    ],
)
def test_any_other_path_is_other(path):
    """A path with more than plain characters, with too many segments or too long has no route."""
    assert path_of(path) == "other"


@pytest.mark.parametrize("method", [b"", b"get", b"PROPFIND", b"GET ", b"SECRET", b"\xff"])
def test_a_method_that_is_not_standard_is_other(method):
    """A client can send any word as a method."""
    assert make_shape(method, b"/export", Templates(), SegmentCache()) == OTHER
    assert make_shape(b"PATCH", b"/export", Templates(), SegmentCache()) == Shape("PATCH", ("export",))


def test_templates_come_first():
    """The first template that matches decides, also for values that have no plain characters."""
    templates = "/users/{email}", "/users/me", "/v1/books:export", "/{tenant}/orders/{id}"
    assert path_of("/users/bob@example.com", *templates) == "/users/{email}"
    assert path_of("/users/me", *templates) == "/users/{email}"
    assert path_of("/v1/books:export", *templates) == "/v1/books:export"
    assert path_of("/shop/orders/x%20y/", *templates) == "/{tenant}/orders/{id}"
    assert path_of("/users/bob/42", *templates) == "/users/bob/{id}"
    assert path_of("/users/..", *templates) == "other"


@given(st.binary(max_size=60))
def test_a_shape_has_plain_names_only(path):
    """Whatever a client sends, each segment is a placeholder or a short word."""
    shape = make_shape(b"GET", b"/" + path, Templates(), SegmentCache())
    assert len(shape.segments) <= MOST_SEGMENTS
    for segment in shape.segments:
        assert segment in PLACEHOLDERS or (
            len(segment) <= LONGEST_NAME and set(segment) & set("@;%=+{}<>\"'\\ ") == set()
        )

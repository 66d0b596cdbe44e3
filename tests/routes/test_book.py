"""Names of routes: when a path is named, and what bounds them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.routes import (
    FORGET_SECONDS,
    LONGEST_NAME,
    LONGEST_PATH,
    MOST_CANDIDATES,
    MOST_NODES,
    MOST_ROUTES,
    MOST_SEGMENTS,
    MOST_VALUES,
    OTHER,
    PLACEHOLDERS,
    SIGHTINGS,
    RouteBook,
    SegmentCache,
    Shape,
    Templates,
    make_shape,
)

WORDS = [f"{first}{second}ra" for first in "bdfglmnprst" for second in "aeiou"]


class Book:
    """A book, and the time of its last sample."""

    def __init__(self, *templates):
        self.book = RouteBook()
        self.at = 0.0
        self.templates = Templates(templates)

    def see(self, *paths, method="GET", samples=1):
        """The routes of these paths after some samples, a fifth of a second apart."""
        shapes = [make_shape(method.encode(), path.encode(), self.templates, SegmentCache()) for path in paths]
        for _ in range(samples):
            self.at += 0.2
            numbers = self.book.find_numbers(shapes, self.at)
        return [self.book.names[numbers[shape]] for shape in shapes]

    def routes(self):
        return set(filter(None, self.book.names))


def test_a_path_is_named_in_its_third_sample():
    """Until then it is `other`: a path that was requested once is never shown."""
    book = Book()
    assert [book.see("/export") for _ in range(SIGHTINGS)] == [["other"], ["other"], ["GET /export"]]
    assert book.see("/export", method="POST") == ["other"]
    assert book.see("/export", method="POST", samples=2) == ["POST /export"]
    assert book.see("/") == ["other"]
    assert book.see("/", samples=2) == ["GET /"]


def test_many_threads_in_one_sample_are_one_sighting():
    assert Book().see(*["/export"] * 100) == ["other"] * 100


def test_a_template_is_named_at_once():
    """The operator has named it already."""
    assert Book("/orders/{order}").see("/orders/7", "/orders/x") == ["GET /orders/{order}"] * 2


def test_requests_without_a_shape_are_other():
    """They never become a route."""
    book = RouteBook()
    for at in range(9):
        assert book.find_numbers([OTHER], float(at)) == {OTHER: 0}
    assert book.names == ("other",)


def test_values_that_come_once_are_any():
    """Users that are seen once each share a route, and what follows in the path is named."""
    book = Book()
    for word in WORDS[:40]:
        last = book.see(f"/users/{word}/edit")
    assert last == ["other"], "/users itself is not named yet"
    book.see("/users/me/edit", samples=SIGHTINGS)
    for word in WORDS[:40]:
        last = book.see(f"/users/{word}/edit")
    assert last == ["GET /users/{any}/edit"]
    assert book.see("/users/me/edit") == ["GET /users/me/edit"]
    assert book.routes() == {"other", "GET /users/me/edit", "GET /users/{any}/edit"}


def test_the_21st_name_takes_all_names_of_a_segment():
    """A segment with more than 20 names is `{any}` for good, its names are gone, and others stay."""
    book = Book()
    book.see("/health", "/users/x/edit", samples=SIGHTINGS)
    for word in WORDS[: MOST_VALUES - 1]:
        assert book.see(f"/users/{word}/edit", samples=SIGHTINGS) == [f"GET /users/{word}/edit"]
    assert len(book.routes()) == 2 + MOST_VALUES
    book.see(f"/users/{WORDS[30]}/edit", samples=SIGHTINGS)
    assert book.see("/users/x/edit", f"/users/{WORDS[0]}/edit", "/health", samples=SIGHTINGS) == [
        "GET /users/{any}/edit",
        "GET /users/{any}/edit",
        "GET /health",
    ]
    assert book.routes() == {"other", "GET /health", "GET /users/{any}/edit"}


def test_a_scan_leaves_the_named_routes_alone():
    """Hundreds of paths that are seen once each change no route, and a new route can still be named."""
    book = Book()
    book.see("/export", "/login", samples=SIGHTINGS)
    for first in WORDS:
        book.see("/export", f"/{first}", f"/{first}/config")
    assert book.see("/export", "/login", "/news", samples=SIGHTINGS) == ["GET /export", "GET /login", "GET /news"]
    assert book.routes() <= {
        "other",
        "GET /export",
        "GET /login",
        "GET /news",
        "GET /{any}",
        "GET /{any}/config",
        "GET /{any}/{any}",
    }


def test_there_are_fifty_routes():
    """The rest is `other`, until a route was not seen for an hour."""
    book = Book()
    for number in range(MOST_ROUTES):
        book.see(f"/{WORDS[number % 10]}/{WORDS[number // 10]}", samples=SIGHTINGS)
    assert book.see("/late", samples=9) == ["other"]
    assert len(book.book.names) == MOST_ROUTES + 1
    first, generations = book.book.names[1], book.book.generations
    book.at += FORGET_SECONDS
    assert book.see("/late", samples=SIGHTINGS) == ["GET /late"]
    assert book.book.names[1] == "GET /late"
    assert first not in book.routes()
    assert [new - old for new, old in zip(book.book.generations, generations, strict=True)][:3] == [0, 1, 0]


def test_a_name_that_was_not_seen_for_an_hour_makes_room():
    """So a segment overflows only if 21 names are in use within an hour."""
    book = Book()
    for word in WORDS[:MOST_VALUES]:
        book.see(f"/{word}", samples=SIGHTINGS)
    book.at += FORGET_SECONDS
    book.see(*(f"/{word}" for word in WORDS[1:MOST_VALUES]))
    assert book.see("/late", samples=SIGHTINGS) == ["GET /late"]
    assert f"GET /{WORDS[0]}" not in book.routes()
    assert f"GET /{WORDS[1]}" in book.routes()


@pytest.mark.parametrize("held", [1, SIGHTINGS])
def test_random_paths_cannot_grow_the_memory(held):
    """Ten minutes of random paths, seen once or until they are named, keep every store within its bound."""
    book, random, letters = RouteBook(), Random(1), "aeioubdfgl"
    paths = []
    for sample in range(3000):
        if sample % held == 0:
            paths = [
                Shape(
                    random.choice(("GET", "POST")),
                    tuple(
                        random.choice(("{id}", "{uuid}", "".join(random.choices(letters, k=random.randrange(1, 5)))))
                        for _ in range(random.randrange(1, 9))
                    ),
                )
                for _ in range(8)
            ]
        book.find_numbers(paths, sample * 0.2)
        assert len(book.names) <= MOST_ROUTES + 1
        assert len(book._candidates) <= MOST_CANDIDATES
        assert book._tree._nodes <= MOST_NODES
    nodes = [book._tree._root]
    for node in nodes:
        nodes += node.children.values()
        assert len(node.unnamed) < MOST_VALUES
    assert len(nodes) == book._tree._nodes


def test_a_number_keeps_its_route_within_a_generation():
    """A route never changes its meaning silently, whatever comes."""
    book, random = RouteBook(), Random(2)
    meant = {}
    for sample in range(2000):
        shapes = [Shape("GET", (random.choice(WORDS[:25]), random.choice(WORDS[:5]))) for _ in range(4)]
        book.find_numbers(shapes, sample * 7.0)
        for number, (name, generation) in enumerate(zip(book.names, book.generations, strict=True)):
            if name:
                assert meant.setdefault((number, generation), name) == name
        named = list(filter(None, book.names))
        assert len(set(named)) == len(named)


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

"""Names of routes: when a path is named, and what bounds them."""

from random import Random

import pytest

from uwsgi_headroom.routes import (
    FORGET_SECONDS,
    MOST_CANDIDATES,
    MOST_NODES,
    MOST_ROUTES,
    MOST_VALUES,
    OTHER,
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

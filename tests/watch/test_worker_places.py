"""The workers of servers that patterns find: who has a place if there are too many."""

import asyncio
import json

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import File
from uwsgi_headroom.watch.reader import WORKERS_PER_SERVER, Reader, WorkerPlaces


def admitted(places: WorkerPlaces, numbers: dict[str, int]) -> set[str]:
    """The servers that have places once each has been read twice."""
    for _ in range(2):
        found = set(numbers)
        for server, number in numbers.items():
            try:
                places.take(server, number)
            except StatsError:
                found.discard(server)
    return found


def test_the_smallest_servers_have_places_first():
    """Large servers find no place, in whatever order they are read; of equal ones, the first has."""
    large = {f"large{number}": 60 for number in range(5)}
    assert admitted(WorkerPlaces(10), {**large, "small": 4, "middle": 30}) == {"large0", "small", "middle"}


def test_few_workers_always_have_places():
    """As many servers as may be watched, with the usual number of workers."""
    usual = {str(number): WORKERS_PER_SERVER for number in range(10)}
    assert admitted(WorkerPlaces(10), {"large": 1000, **usual}) == usual.keys()


def test_servers_that_are_gone_leave_their_places():
    """A server that found no place has one at its next read."""
    places = WorkerPlaces(10)
    assert admitted(places, {"first": 80, "second": 80}) == {"first"}
    places.keep({"second"})
    assert admitted(places, {"second": 80}) == {"second"}


def test_the_reader_refuses_the_server(tmp_path):
    """A server without places is down, for a reason that says what to do; a named one needs no places."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"version": "2.0.31", "pid": 7, "workers": [{"pid": 8}] * 50}))
    refused = asyncio.run(Reader("large", File(str(path)), places=WorkerPlaces(1)).read())
    assert refused.reason == "too_large"
    assert "has 50: name the server in the configuration, or raise `max_servers`" in str(refused)
    assert isinstance(asyncio.run(Reader("large", File(str(path))).read()), Reading)

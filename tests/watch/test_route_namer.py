"""Routes of a server that is read: unchanged documents, other kinds of documents, reloads."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tools.support.captured_documents import NAMES, document
from uwsgi_headroom import stats
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes.shape import Templates
from uwsgi_headroom.source.address import File
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.reader import RouteNamer
from uwsgi_headroom.watch.watch import Watch


def busy(path: str, **keys: object) -> bytes:
    """A document with one thread in service, and one that is idle."""
    variables = ["REQUEST_METHOD=POST", f"PATH_INFO={path}", ""]
    cores = [{"in_request": 1, "vars": variables, "req_info": {"request_start": 1_795_250_000}}, {"in_request": 0}]
    worker = {"id": 1, "pid": 8, "accepting": 1, "status": "busy", "respawn_count": 1, "cores": cores, **keys}
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [worker]}).encode()


class Watched:
    """A watch of a file with routes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.watch = Watch("shop", File(str(path)), routes=RouteNamer(Templates()))

    def read(self, body: bytes) -> dict[int, str] | None:
        """The routes of the first worker in a reading of this document."""
        self.path.write_bytes(body)
        reading = asyncio.run(self.watch.reader.read())
        assert isinstance(reading, Reading)
        return reading.routes.of_worker(1) if reading.routes else None


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "document")


def test_an_unchanged_document_counts_as_a_sample(watched: Watched) -> None:
    """It is not decoded again, but a request that is stuck gets its name."""
    body = busy("/export")
    assert [watched.read(body) for _ in range(3)] == [{0: "other"}, {0: "other"}, {0: "POST /export"}]


def test_routes_survive_a_reload(watched: Watched) -> None:
    """Names stay, and no counter falls."""
    for running_time in range(4):
        watched.read(busy("/export", running_time=running_time, last_spawn=5))
    totals = watched.watch.integrals.totals
    assert totals.routes
    before = totals.routes.by_route()
    assert before["POST /export"] > 0
    assert watched.read(busy("/export", last_spawn=9)) == {0: "POST /export"}
    assert totals.reloads == 1
    after = totals.routes.by_route()
    assert after == before, "the time of the reload is a gap"
    watched.read(busy("/export", last_spawn=9))
    assert totals.routes.by_route()["POST /export"] > before["POST /export"]


def test_after_a_restart_of_the_exporter_names_begin_anew(watched: Watched, tmp_path: Path) -> None:
    """Nothing is stored: another watch knows no route."""
    for _ in range(3):
        named = watched.read(busy("/export"))
    assert (named, Watched(tmp_path / "other").read(busy("/export"))) == ({0: "POST /export"}, {0: "other"})


def test_a_request_without_variables_is_other(watched: Watched) -> None:
    """uWSGI before 1.9 had none, and they may be missing when a request ends."""
    for core in ({"in_request": 1}, {"in_request": 1, "vars": [], "req_info": {}}):
        assert [watched.read(busy("/", cores=[core])) for _ in range(4)][-1] == {0: "other"}


def test_stats_without_cores_have_no_routes(watched: Watched) -> None:
    """Busy threads are unknown then, and so are their routes."""
    for _ in range(3):
        assert watched.read(document("no_cores")) is None
    assert watched.watch.integrals.totals.routes is None


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_document_can_be_read(name: str) -> None:
    """Each busy thread has a route, whatever the version and the kind of server; other figures do not change."""
    body = document(name)
    on, off = stats.decode(body, Templates()), stats.decode(body)
    routes = RouteNamer(Templates()).find_routes(on, 0.0)
    if not isinstance(on, Snapshot) or not isinstance(off, Snapshot):
        assert (on, routes) == (off, None)
        return
    for with_routes, without in zip(on.workers, off.workers, strict=True):
        assert (with_routes.serving, with_routes.requests) == (without.serving, without.requests)
        if routes:
            assert routes.of_worker(with_routes.worker_id).keys() == with_routes.serving.keys()

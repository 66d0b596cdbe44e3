"""Caches that are full and spoolers that fall behind are named, with their figures."""

from __future__ import annotations

import socket
from dataclasses import replace

import msgspec
import pytest

from tests.analysis.test_findings import AT, findings_by_code, idle
from tests.history.test_window import Watched
from tests.support.real_uwsgi import uwsgi
from tests.support.simulated_server import Server
from tools.scenarios.scenario import APP
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.findings.parts import (
    CACHE_FULL,
    SPOOLER_BEHIND,
)
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import UNKNOWN, Options
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.raw import Cache, Spooler


def with_parts(reading: Reading, spooled: dict[str, int] | None = None, **parts: object) -> Reading:
    assert isinstance(reading.snapshot, Snapshot)
    host = replace(reading.host, spooled=spooled or {})
    return replace(reading, snapshot=msgspec.structs.replace(reading.snapshot, **parts), host=host)


def judged(
    window: Window, spooled: dict[str, int] | None = None, options: Options | None = None, **parts: object
) -> dict[str, Finding]:
    reading = with_parts(Server().read(AT), spooled, **parts)
    setup = replace(UNKNOWN, options=options or Options(complete=True))
    return findings_by_code(window, snapshot=reading.snapshot, host=replace(reading.host, setup=setup))


def full(*caches: Cache, refused: int | None = 40, options: Options | None = None) -> dict[str, Finding]:
    return judged(replace(idle(), cache_full=refused), options=options, caches=caches)


def test_the_full_cache_is_named() -> None:
    """Of two that ever refused items, it is the one without room: uWSGI keeps one item for itself."""
    caches = Cache("pages", full=40, items=49, max_items=50), Cache("old", full=3, items=1, max_items=9)
    finding = full(*caches)["cache_full"]
    assert (finding.kind, finding.severity) == (CACHE_FULL, "warning")
    assert "`old`" not in finding.title
    assert "40 new items found no room; `pages` holds 49 of at most 49 items." in finding.evidence


def test_several_caches() -> None:
    """All without room are named, at most three of them."""
    caches = [Cache(name, full=1, items=9, max_items=9) for name in "abcde"]
    assert "`a`, `b`, `c` and 2 more" in full(*caches)["cache_full"].title


def test_a_cache_of_unknown_size() -> None:
    """It is named all the same: items of several blocks use up the blocks first."""
    assert "holds" not in full(Cache("a", full=4))["cache_full"].evidence
    assert "`a`" in full(Cache("a", full=4, items=3, max_items=9))["cache_full"].title
    assert "cache_full" not in full()


def test_a_cache_that_purges_items() -> None:
    """uWSGI counts an item that it makes room for, too; that is what `purge_lru` is for."""
    caches = Cache("pages", full=40, items=49, max_items=50), Cache("other", full=3, items=9, max_items=10)
    purging = Options(complete=True, purging_caches=("pages",))
    assert "cache_full" not in full(caches[0], options=purging)
    finding = full(*caches, options=purging)["cache_full"]
    assert "`pages`" not in finding.title
    assert "at most 40 new items" in finding.evidence


@pytest.mark.parametrize(
    ("refused", "is_sure", "severity"),
    [
        (None, True, None),
        (0, True, None),
        (2, True, "info"),
        (3, True, "warning"),
        (3, False, "info"),
    ],
)
def test_how_many_items_are_refused(refused: int | None, *, is_sure: bool, severity: str | None) -> None:
    """One or two may be a burst. A cache whose options are not known may purge items, so it is no warning."""
    caches = full(Cache("a", full=4, items=9, max_items=9), refused=refused, options=Options(complete=is_sure))
    assert [finding.severity for finding in caches.values()] == [severity] * (severity is not None)


def spooler(waiting: int | None, done: int | None, growth: int | None = 0) -> Finding | None:
    window = replace(idle(), spooled=waiting, spooler_tasks=done, spooled_growth=growth)
    spoolers = (Spooler("/spool", tasks=9), Spooler("/spool", tasks=9), Spooler("/other", tasks=0))
    return judged(window, {"/spool": waiting or 0, "/other": 0}, spoolers=spoolers).get("spooler_behind")


@pytest.mark.parametrize(
    ("waiting", "done", "growth", "title"),
    [(85, 4, 60, "falls behind"), (10, 0, 0, "processes none"), (500, 100, -100, "has a long list")],
)
def test_a_spooler_that_falls_behind(waiting: int, done: int, growth: int, title: str) -> None:
    """Its last task waits for more than a minute. It is no warning while its tasks become fewer."""
    finding = spooler(waiting, done, growth)
    assert finding
    assert (finding.kind, finding.severity) == (SPOOLER_BEHIND, "info" if growth < 0 else "warning")
    assert title in finding.title
    assert finding.evidence.startswith(f"{waiting} tasks wait in /spool")
    assert ("60 more than 60 s ago" in finding.evidence) == (growth == 60)
    assert "/spool" not in finding.public.evidence


@pytest.mark.parametrize(
    ("waiting", "done", "growth"), [(9, 0, 9), (100, 101, 50), (None, 4, None), (100, None, 9), (0, 0, 0)]
)
def test_a_spooler_that_keeps_up(waiting: int | None, done: int | None, growth: int | None) -> None:
    """Few tasks, tasks that are due within a minute, or unknown ones are no finding."""
    assert spooler(waiting, done, growth) is None


def sampled(*samples: tuple[tuple[Cache, ...], tuple[Spooler, ...], dict[str, int]]) -> Window:
    """The window of samples, a second apart."""
    server, watched = Server(processes=1), Watched(Server(processes=1))
    for second, (caches, spoolers, spooled) in enumerate(samples):
        reading = with_parts(server.read(float(second)), spooled, caches=caches, spoolers=spoolers)
        watched.integrals.add(reading, 2.0)
        watched.history.add(float(second), watched.integrals.totals)
    window = watched.history.window(60)
    assert window is not None
    return window


def test_counters_of_a_window() -> None:
    """Growth is added by name; what was there before, and a counter that was reset, add nothing."""
    window = sampled(
        ((Cache("a", full=100), Cache("b", full=5)), (Spooler("/s", tasks=7), Spooler("/s", tasks=1)), {"/s": 3}),
        ((Cache("a", full=110), Cache("b", full=2)), (Spooler("/s", tasks=9), Spooler("/s", tasks=1)), {"/s": 8}),
        ((Cache("c", full=50), Cache("a", full=111)), (Spooler("/s", tasks=9), Spooler("/s", tasks=2)), {"/s": 6}),
    )
    assert (window.cache_full, window.spooler_tasks) == (11, 3)
    assert (window.spooled, window.spooled_growth) == (6, 3)


def test_missing_figures() -> None:
    """Without caches and spoolers all is unknown; a counter that is missing adds nothing."""
    window = sampled(((), (), {}), ((), (), {}))
    assert (window.cache_full, window.spooler_tasks, window.spooled, window.spooled_growth) == (None,) * 4
    window = sampled(((Cache("a"),), (Spooler("/s"),), {}), ((Cache("a"),), (Spooler("/s"),), {}))
    assert (window.cache_full, window.spooler_tasks, window.spooled) == (0, 0, None)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("more", "is_full"),
    [("items=10", True), ("items=10,purge_lru=1", False), ("items=10,lru=1", False), ("items=50", False)],
)
def test_the_advice_about_a_full_cache(more: str, is_full: bool) -> None:
    """`purge_lru` and more `items` end what the finding is about, by uWSGI's document and its options."""
    with uwsgi("--processes", "1", "--cache2", f"name=pages,{more}", app=APP) as server:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.http), 10) as client:
                client.sendall(b"GET /cache HTTP/1.0\r\n\r\n")
                assert client.recv(12).endswith(b"200")
        snapshot = stats.decode(server.document())
        options = read_options(server.pid)
    assert isinstance(snapshot, Snapshot)
    (cache,) = snapshot.caches
    findings = full(cache, refused=cache.full, options=replace(options, complete=True))
    assert ("cache_full" in findings) == is_full

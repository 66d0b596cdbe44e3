"""Findings about caches that are full, spoolers and vassals that fall behind, and static files that workers serve."""

import socket

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, figures_of, findings_by_code, idle, judge, severity
from tests.history.watched import Watched
from tests.support.real_uwsgi import uwsgi
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from tools.scenarios.scenario import APP
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import RUNBOOKS, Finding, collect_emperor_findings, parts
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.reading import Reading, describe_emperor
from uwsgi_headroom.record import UNKNOWN, Options
from uwsgi_headroom.stats.raw import Blacklisted, Cache, EmperorSnapshot, ListedVassal, Spooler


def with_parts(reading: Reading, spooled: dict[str, int], **parts: object) -> Reading:
    host = replace(reading.host, spooled=spooled)
    return replace(reading, snapshot=replace(reading.snapshot, **parts), host=host)


def judged(
    of: Window, spooled: dict[str, int] | None = None, options: Options | None = None, **parts: object
) -> dict[str, Finding]:
    snapshot = replace(Server().read(AT).snapshot, **parts)
    setup = replace(UNKNOWN, options=options or Options(complete=True))
    return findings_by_code(of, snapshot=snapshot, spooled=spooled or {}, setup=setup)


def full(*caches: Cache, refused: int | None = 40, options: Options | None = None) -> dict[str, Finding]:
    return judged(replace(idle(), cache_full=refused), options=options, caches=caches)


PURGING = Options(complete=True, purging_caches=("pages",))
PAGES = Cache("pages", full=40, items=49, max_items=50)


@pytest.mark.parametrize(
    ("caches", "options", "said"),
    [
        # Of two that ever refused items, it is the one without room: uWSGI keeps one item for itself.
        ([PAGES, Cache("old", full=3, items=1, max_items=9)], None, "`pages`"),
        ([Cache(name, full=1, items=9, max_items=9) for name in "abcde"], None, "`a`, `b`, `c` and 2 more"),
        # Of unknown size: items of several blocks use up the blocks first.
        ([Cache("a", full=4)], None, "`a`"),
        ([Cache("a", full=4, items=3, max_items=9)], None, "`a`"),
        ([], None, None),
        # uWSGI counts an item that it makes room for, too; that is what `purge_lru` is for.
        ([PAGES], PURGING, None),
        ([PAGES, Cache("other", full=3, items=9, max_items=10)], PURGING, "`other`"),
    ],
)
def test_the_full_caches_are_named(caches, options, said):
    """Those without room, at most three of them."""
    finding = full(*caches, options=options).get("cache_full")
    assert (finding is not None) == (said is not None)
    assert not finding or said in finding.title
    assert not finding or len(caches) > 2 or finding.title.count("`") == 2


def spooler(waiting: int | None, done: int | None, growth: int | None = 0) -> dict[str, Finding]:
    of = replace(idle(), spooled=waiting, spooler_tasks=done, spooled_growth=growth)
    spoolers = (Spooler("/spool", tasks=9), Spooler("/spool", tasks=9), Spooler("/other", tasks=0))
    return judged(of, {"/spool": waiting or 0, "/other": 0}, spoolers=spoolers)


@pytest.mark.parametrize(
    ("waiting", "done", "growth", "expected", "title"),
    [
        (85, 4, 60, "warning", "falls behind"),
        (10, 0, 0, "warning", "processes none"),
        (500, 100, -100, "info", "has a long list"),
        # Few tasks, tasks that are due within a minute, or unknown ones are no finding.
        (9, 0, 9, None, ""),
        (100, 101, 50, None, ""),
        (None, 4, None, None, ""),
        (100, None, 9, None, ""),
        (0, 0, 0, None, ""),
    ],
)
def test_a_spooler_falls_behind(waiting, done, growth, expected, title):
    """Its last task waits for more than a minute. It is no warning while its tasks become fewer."""
    found = spooler(waiting, done, growth)
    assert severity(found, "spooler_behind") == expected
    assert not expected or title in found["spooler_behind"].title
    assert not expected or "/spool" not in found["spooler_behind"].public.evidence


def sampled(*samples: tuple[tuple[Cache, ...], tuple[Spooler, ...], dict[str, int]]) -> Window:
    """The window of samples, a second apart."""
    server, watched = Server(processes=1), Watched(Server(processes=1))
    for second, (caches, spoolers, spooled) in enumerate(samples):
        reading = with_parts(server.read(float(second)), spooled, caches=caches, spoolers=spoolers)
        watched.integrals.add(reading, 2.0)
        watched.history.add(float(second), watched.integrals.totals)
    return watched.history.window(60)


def test_counters_of_a_window():
    """Growth is added by name; what was there before, and a counter that was reset, add nothing."""
    window = sampled(
        ((Cache("a", full=100), Cache("b", full=5)), (Spooler("/s", tasks=7), Spooler("/s", tasks=1)), {"/s": 3}),
        ((Cache("a", full=110), Cache("b", full=2)), (Spooler("/s", tasks=9), Spooler("/s", tasks=1)), {"/s": 8}),
        ((Cache("c", full=50), Cache("a", full=111)), (Spooler("/s", tasks=9), Spooler("/s", tasks=2)), {"/s": 6}),
    )
    assert (window.cache_full, window.spooler_tasks) == (11, 3)
    assert (window.spooled, window.spooled_growth) == (6, 3)


def test_missing_figures():
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
def test_the_advice_about_a_full_cache(more, is_full):
    """`purge_lru` and more `items` end what the finding is about, by uWSGI's document and its options."""
    with uwsgi("--processes", "1", "--cache2", f"name=pages,{more}", app=APP) as server:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.http), 10) as client:
                client.sendall(b"GET /cache HTTP/1.0\r\n\r\n")
                assert client.recv(12).endswith(b"200")
        snapshot = stats.decode(server.document())
        options = read_options(server.pid)
    (cache,) = snapshot.caches
    findings = full(cache, refused=cache.full, options=replace(options, complete=True))
    assert ("cache_full" in findings) == is_full


def emperor(*throttled: Blacklisted, vassals: int = 2, start: str = "") -> list[Finding]:
    running = tuple(ListedVassal(name=f"v{number}.ini", pid=number + 10) for number in range(vassals))
    snapshot = EmperorSnapshot(version="2.0.31", pid=9, vassals=running, blacklist=throttled)
    return collect_emperor_findings(describe_emperor(snapshot, start=start))


def test_a_vassal_that_the_tyrant_refuses():
    """The log alone says so, and names it."""
    snapshot = EmperorSnapshot(version="2.0.31", pid=9, vassals=(), blacklist=())
    (finding,) = collect_emperor_findings(describe_emperor(snapshot, "shop.ini"))
    assert (finding.kind, finding.severity) == (parts.VASSAL_REFUSED, "warning")
    assert "shop.ini" in finding.title


def test_a_throttled_vassal_is_a_warning():
    """The finding names the vassal, and how long the emperor waits; there is a runbook."""
    (finding,) = emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3))
    assert (finding.kind, finding.severity) == (parts.VASSALS_THROTTLED, "warning")
    assert finding.evidence.endswith("start shop.ini, for 12 s at most.")
    (finding,) = emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3), start="home_wrong")
    assert finding.evidence.endswith("says that Python does not find its standard library, so uWSGI does not start.")
    assert finding.change.startswith("Correct `home`")
    assert RUNBOOKS[finding.code] == "UwsgiVassalThrottled"
    assert [emperor(vassals=number) for number in (0, 2)] == [[], []]


@pytest.mark.parametrize(("count", "end"), [(3, "a, b and c."), (5, "a, b, c and 2 more.")])
def test_only_some_of_many_throttled_vassals_are_listed(count, end):
    """The sentence lists the first three, without figures that uWSGI omits; the document lists all of them."""
    (finding,) = emperor(*(Blacklisted(name=name) for name in "abcde"[:count]), vassals=1)
    assert finding.evidence.endswith(end)


FILES = Server(processes=2, threads=2, cpus=8.0)


def files(held: float | None = 3.8, *, static: int = 450, other: int = 50, queued: float = 0.0) -> Window:
    """A minute of two workers with two threads each, of which files hold so many, and others a few."""
    busy = None if held is None else 60 * held / 2 + other * 0.02
    rows = (worker(number, static + other, each=0.02, static=static, cpu=0.5, busy=busy) for number in (1, 2))
    return window(60, *rows, waits={"client": held or 0.1, "cpu": 0.03}, app=60 * queued)


@pytest.mark.parametrize(
    ("of", "takes_much"),
    [
        (files(0.1), False),
        (files(None), False),  # with stats-no-cores it is not known what they hold
        (files(1.2), True),
        (files(3.8), True),
        # Most requests are others, or there are hardly any.
        (files(0.1, static=0, other=500), None),
        (files(0.1, static=249, other=251), None),
        (files(0.1, static=10, other=5), None),
        # Counters that contradict each other, as no uWSGI writes them, raise nothing.
        (files(0.1, static=50, other=-50), None),
        (files(0.1, static=100, other=-20), False),
    ],
)
def test_files_while_nobody_waits(of, takes_much):
    """They are good to know, with something to change if they take many threads."""
    found = judge(of, FILES)
    assert severity(found, "static_files") == (None if takes_much is None else "info")
    finding = found.get("static_files")
    assert not finding or [bool(finding.change), bool(finding.settings)] == [takes_much, takes_much]


def test_one_basis_for_a_mean_request():
    """The time of a mean request is that of requests that uWSGI measures: what threads do for files is not in it."""
    hidden, shown = (figures_of(of, FILES) for of in (files(queued=9.0), files(0.001, static=10, other=490)))
    assert hidden.waits.per_request is None
    assert sum(shown.waits.per_request.values()) == pytest.approx(shown.flow.response_time)

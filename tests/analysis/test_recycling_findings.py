"""Workers that a limit of requests or of memory replaces, and a reload that ends requests: one cause for each."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import change_workers, describe, findings_by_code, judge, row, setup
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, recycling, workers
from uwsgi_headroom.history.window import Window


def recycled(server: Server, served: int, spawned: tuple[int, ...]) -> None:
    """Each worker has ended once, after so many requests, and was spawned again at these seconds."""
    for slot, second in zip(server.slots, spawned, strict=True):
        slot.requests, slot.before_spawn, slot.respawns = served + 10, served, 2
        slot.last_spawn = EPOCH + second


def waiting(respawns: int = 1, queue: float = 8.0, **more: object) -> Window:
    """A minute of four workers, each of which was respawned; a mean number of requests waits."""
    rows = (worker(number, 300, each=0.05, busy=15.0, respawns=respawns, up=56.0) for number in range(1, 5))
    return replace(window(60, *rows, app=60 * queue), no_worker_seconds=3.0, **more)


def together(
    spawned: tuple[int, ...] = (950, 950, 951, 950),
    served: int = 1000,
    window_: Window | None = None,
    version: str = "2.0.31",
    **options: object,
) -> dict[str, Finding]:
    server = Server(processes=4, threads=1, version=version)
    recycled(server, served, spawned)
    options = {"max_requests": 1000, **options}
    return findings_by_code(window_ or waiting(), server, setup=setup(complete=True, **options))


DELTA, FEWER = ("max-requests-delta", 250), (("max-requests", 18000), ("max-requests-delta", 4500))


@pytest.mark.parametrize(
    ("known", "settings"),
    [
        ({}, (DELTA,)),
        ({"version": ""}, (DELTA,)),  # a version that cannot be read may have the option
        ({"version": "2.0.21-debian"}, ()),
        ({"version": "2.0.28"}, ()),
        ({"max_requests_delta": 2}, (DELTA,)),
        ({"max_requests_delta": 250}, FEWER),  # large enough, so it is no remedy
        ({"max_requests_delta": 4500}, FEWER[:1]),  # what is set is never advised
        ({"max_requests_delta": 250, "served": 3000}, FEWER),  # `min-worker-lifetime` ends them together
    ],
)
def test_workers_that_are_recycled_together(known, settings):
    """The wait has its cause, the seconds without service, and an option with a number that keeps them apart."""
    finding = together(**known)["queue_wait"]
    assert (finding.kind, finding.settings) == (recycling.RECYCLED_TOGETHER, settings)
    assert f"after at least {known.get('served', 1000):,} requests each; for 3.0 s, no worker" in finding.evidence
    assert ("before it is 10 s old" in finding.change) == ("served" in known)


@pytest.mark.parametrize(
    ("starting", "idle_queue", "slowly"),
    [(0.1, 4.0, True), (0.1, 0.9, False), (12.0, 2.0, False), (None, 4.0, False), (0.1, None, False)],
)
def test_workers_that_take_long_to_end(starting, idle_queue, *, slowly):
    """They are up by uWSGI's count, with free threads that take nothing, and new ones start at once: no delta helps."""
    seen = change_workers(waiting(), up_seconds=60.0)
    seen = replace(seen, starting_seconds=starting, idle_queue_seconds=idle_queue)
    finding = together(window_=seen)["queue_wait"]
    assert finding.kind is (recycling.RECYCLED_SLOWLY if slowly else recycling.RECYCLED_TOGETHER)
    assert dict(finding.settings).get("max-requests") == (18000 if slowly else None)


@pytest.mark.parametrize(("ended", "found"), [(4, True), (2, True), (1, False)])
def test_workers_that_take_long_to_end_one_after_another(ended, *, found):
    """They need not end together: each is away for so long that the others cannot serve all requests."""
    seen = change_workers(change_workers(waiting(), up_seconds=60.0, respawns=0), *range(1, ended + 1), respawns=1)
    seen = replace(seen, starting_seconds=0.0, idle_queue_seconds=6.0)
    said = together((920, 935, 950, 900), window_=seen).get("recycled_together")
    assert bool(said) == found
    assert said is None or said.evidence.startswith(f"{ended} of 4 workers were replaced, after")


def leaking(grown: int | None = 45_000, respawns: int = 2, up: float = 58.0, queue: float = 0.0) -> Window:
    """A minute in which the memory of each of two workers grew by so many kilobytes in all."""
    rows = (worker(number, 100, each=0.02, cpu=0.5, busy=2.0, respawns=respawns, up=up) for number in (1, 2))
    return change_workers(window(60, *rows, app=60 * queue), grown_kilobytes=grown)


def leak(window_: Window, **options: object) -> dict[str, Finding]:
    server = Server(processes=2, threads=1)
    options = {"reload_on_rss": 70, "complete": True, **options}
    return findings_by_code(window_, server, setup=setup(**options))


def test_a_leak_over_the_lives_of_workers():
    """Growth is summed over all processes, which a limit of memory hides; nobody is hurt."""
    finding = leak(leaking())["memory_recycled"]
    assert finding.kind is recycling.MEMORY_RECYCLED
    assert "475 kB per request" in finding.evidence


def test_a_leak_that_ends_workers_again_and_again():
    """Its limit is why they keep restarting, and no import error. One that kills workers is replaced first, by one
    that has to be allowed to end such young workers."""
    killed = leak(leaking(150_000, respawns=6), reload_on_rss=None, evil_reload_on_rss=70)
    finding = killed["respawn_loop"]
    assert (finding.kind, finding.severity) == (recycling.LEAK_ENDS_WORKERS, "critical")
    assert "`min-worker-lifetime` to 0" in finding.change
    assert "memory_recycled" not in killed
    lost = change_workers(leaking(150_000, respawns=6), lost=1)
    lost = leak(lost, reload_on_rss=None, evil_reload_on_rss=70)["requests_lost"]
    assert lost.public.act == finding.public.act
    assert "`min-worker-lifetime`" not in leak(leaking(150_000, respawns=6))["respawn_loop"].change


def test_a_limit_of_memory_below_what_the_application_needs():
    """Workers that have more when they are loaded are not in a loop of crashes; one more megabyte of limit is none."""
    rows = (worker(number, 12, each=0.02, busy=2.0, respawns=6, up=40.0) for number in (1, 2))
    above = change_workers(window(60, *rows, app=60.0), resident_bytes=80 << 20)
    finding = leak(above, reload_on_rss=80)["respawn_loop"]
    assert (finding.kind, finding.severity) == (recycling.MEMORY_ABOVE_LIMIT, "critical")
    assert finding.settings == (("reload-on-rss", 120),)
    assert "reload-on-rss" not in leak(above, reload_on_rss=81)["respawn_loop"].change


DELTA_OF_AGE = "max-worker-lifetime-delta"


@pytest.mark.parametrize(
    ("of", "options", "settings"),
    [
        (waiting(9), {"max_worker_lifetime": 5}, (("max-worker-lifetime", 3600), (DELTA_OF_AGE, 900))),
        (waiting(9), {"max_worker_lifetime": 60}, None),  # workers end for another reason
        (waiting(9, queue=0.0), {"max_worker_lifetime": 5}, None),  # nobody feels it
        # It is doubled where workers live for an hour and users feel it, and a delta that is set is not advised.
        (
            replace(waiting(9), seconds=40_000.0),
            {"max_worker_lifetime": 3600, "max_worker_lifetime_delta": 1800},
            (("max-worker-lifetime", 7200),),
        ),
    ],
)
def test_workers_that_reach_their_age(of, options, settings):
    """It is a cause if workers live as long as that, and users feel it; a delta keeps them apart."""
    known = setup(complete=True, **options)
    said = [each.settings for each in findings_by_code(of, Server(processes=4, threads=1), setup=known).values()]
    assert [each for each in said if each and each[0][0] == "max-worker-lifetime"][:1] == [settings] * bool(settings)


def test_cpus_used_by_workers_that_were_replaced():
    """Workers that are too new to be compared use CPU as well: never `0.00 of 4 CPUs in use by 0 workers`."""
    rows = [worker(number, 100, each=0.5, cpu=20.0, busy=50.0, respawns=3, up=20.0) for number in (1, 2)]
    full = window(60, *rows, cpu=(1.2, 0.0, 2.8), waits={"cpu_wait": 2.0})
    finding = judge(full, Server(processes=2, cpus=4.0))["cpu_bound"]
    assert finding.evidence.startswith("2 workers use 1.20 of 4 CPUs")


def brutal(lost: int = 3, **options: object) -> dict[str, Finding]:
    rows = [worker(number, 50, each=0.1, busy=5.0, respawns=1, lost=lost if number == 1 else 0) for number in (1, 2)]
    known = setup(complete=True, **options)
    return findings_by_code(replace(window(60, *rows), reloads=1), Server(processes=2, threads=1), setup=known)


def test_sigterm_without_die_on_term():
    """A reload that ended requests is one finding with its cause, and no crash; without a lost one it is a reload."""
    by_code, ended = brutal(), brutal(die_on_term=True, worker_reload_mercy=5)  # SIGTERM ends uWSGI then
    assert next(iter(by_code.values())).kind is workers.RELOAD_LOST_REQUESTS
    assert "reloaded" not in by_code
    said = [found["requests_lost"].title + found["requests_lost"].change for found in (by_code, ended)]
    assert ["`die-on-term`" in each for each in said] == [True, False]
    assert "5 s at most" in ended["requests_lost"].meaning
    graceful = brutal(lost=0)
    assert [row(graceful, code) for code in ("requests_lost", "reloaded")] == [None, workers.RELOADED]


def test_requests_per_life():
    """It is the mean of the processes that ended; unknown until one has."""
    server = Server(processes=4)
    recycled(server, 90, (1, 1, 1, 1))
    lives = [[worker.requests_per_life for worker in describe(each).workers] for each in (server, Server(processes=1))]
    assert lives == [[90.0] * 4, [None]]

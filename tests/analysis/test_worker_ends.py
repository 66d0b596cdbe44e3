"""Workers that end: by `harakiri`, a limit, a reload or cheaper mode, or for a reason that nothing explains."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import describe, judge, setup
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.record import LogMessage, LogRecord

IN_ORDER, AT_ONCE = (950, 953, 956, 959), (950, 950, 951, 950)
CRASH = LogRecord(messages={"segmentation_fault": LogMessage(4, 4)})


def waiting(
    spawned: tuple[int, ...] = IN_ORDER,
    up: float = 17.0,
    busy: float = 15.0,
    lost: int = 0,
    reloads: int = 0,
    log: LogRecord | None = None,
    **options: object,
) -> Finding:
    """What is said of 20 s in which each of the workers was replaced, with one thread each, and requests waited."""
    server = Server(processes=len(spawned), threads=1)
    for slot, second in zip(server.slots, spawned, strict=True):
        slot.last_spawn, slot.requests, slot.respawns, slot.state = EPOCH + second, 150, 2, "idle"
    numbers = range(1, len(spawned) + 1)
    rows = (worker(number, 150, each=busy / 150, busy=busy, up=up, respawns=1, lost=lost) for number in numbers)
    record = describe(server, setup=setup(**{"complete": True, "can_reload_workers": True, **options}), log=log)
    return next(iter(judge(replace(window(20, *rows, app=180.0), reloads=reloads), record).values()))


@pytest.mark.parametrize(
    ("known", "act"),
    [
        # During a chain reload one worker after another is away, and the others are too few.
        ({}, "Raise `processes` from 4 to 5 ("),
        ({"up": 17.2, "busy": 13.0}, "Raise `processes` from 4 to 5 ("),
        ({"busy": 17.0}, "Raise `processes` from 4 to 5 ("),
        ({"spawned": (950,)}, "Raise `processes` from 1 to 2 ("),
        # With threads to spare while one is away, or with none at any time, that is no cause.
        ({"up": 17.2, "busy": 5.0}, "Run `"),
        ({"up": 17.2, "busy": 19.0}, "Run `"),
        # `max-requests-delta` lets workers end in their order, unless they serve far too little to reach the limit.
        ({"up": 17.2, "busy": 13.0, "max_requests": 150}, "Raise `max-requests` from 150, so"),
        ({"up": 17.2, "busy": 13.0, "max_requests": 5000}, "Raise `processes` from 4 to 5 ("),
        ({"spawned": AT_ONCE}, "Use a chain reload ("),
        ({"reloads": 1}, "If requests waited while a full reload loaded"),
        ({"idle": 3}, "Remove `idle`, or raise it: after 3 s without a "),
        ({"cheap": True}, "Remove `cheap`, so that the workers"),
        # The log is the place to look only where nothing that is set or seen explains it.
        ({"lost": 1}, "Check uWSGI's log for the reason why workers are down 15 %"),
        ({"spawned": (959, 950, 956, 953)}, "Check uWSGI's log for the reason"),
        ({"idle": 3, "lost": 1}, "Check uWSGI's log for the reason"),
        ({"log": CRASH}, "Check uWSGI's log for the reason"),
    ],
)
def test_requests_that_wait_for_workers_that_are_down(known, act):
    """The first act is about why they are down; the log is quoted where it says that."""
    change = waiting(**known).change
    assert change.startswith(act)
    assert ("uWSGI's log says" in change) == ("log" in known)


@pytest.mark.parametrize("lazy", [True, None])
def test_workers_that_load_before_they_serve_on_demand(lazy):
    """Without `lazy-apps`, a start takes next to nothing."""
    assert ("`lazy-apps`" in waiting(idle=3, lazy_apps=lazy).change) == bool(lazy)


def ended_after(server: Server, served: int, spawned: tuple[int, ...]) -> None:
    """Each worker has ended once, after so many requests, and was spawned again at these seconds."""
    for slot, second in zip(server.slots, spawned, strict=True):
        slot.requests, slot.before_spawn, slot.respawns = served + 10, served, 2
        slot.last_spawn = EPOCH + second


def test_requests_per_life():
    """It is the mean of the processes that ended; unknown until one has."""
    server = Server(processes=4)
    ended_after(server, 90, (1, 1, 1, 1))
    lives = [[worker.requests_per_life for worker in describe(each).workers] for each in (server, Server(processes=1))]
    assert lives == [[90.0] * 4, [None]]

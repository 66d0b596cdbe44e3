"""Findings name the routes, the lines of code and the slow requests that hold threads, where these are known."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, change_workers, describe, judge
from tests.analysis.test_waits import of_16_threads, the_server
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import the_example, window
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.routes import compute_routes, describe_route, find_ages
from uwsgi_headroom.code_look import CodeLook, CodeSight, Line
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.record import ServerRecord, State
from uwsgi_headroom.routes import ServedRoutes

WINDOW = RouteWindow(10.0, {"other": 20.0, "GET /a": 19.0, "POST /export": 61.0})
NAMES = ("other", "GET /a", "POST /export")


def serving(routes: bool = True, **threads: int) -> ServerRecord:
    """A server whose first worker serves these routes (by number), which began so many seconds ago (`s14=2`)."""
    server = Server(4, 8)
    server[1].request_starts = tuple(int(EPOCH + AT) - int(name[1:]) for name in threads)
    server[1].busy = len(threads)
    served = ServedRoutes(NAMES, (1, 1, 1), {1: dict(enumerate(threads.values()))})
    return describe(server, routes=served if routes else None)


def test_shares_are_of_the_busy_threads():
    """The mean number of threads in the window, and the share of all of them."""
    routes = compute_routes(WINDOW)
    assert routes.threads == {"other": 2.0, "GET /a": 1.9, "POST /export": 6.1}
    assert [routes.share(route) for route in (*NAMES, "never seen")] == pytest.approx([0.2, 0.19, 0.61, 0.0])
    assert compute_routes(RouteWindow(10.0, {"other": 0.0})).share("other") == 0
    assert compute_routes(None) is None


def test_ages_are_of_requests_in_service_now():
    """By route; a worker whose process is gone has none."""
    assert find_ages(serving(s3=1, s14=2, s5=2)) == {"GET /a": [3.0], "POST /export": [14.0, 5.0]}
    assert find_ages(serving(routes=False, s3=1)) == {}
    gone = Server(4, 8)
    gone[1].request_starts = (int(EPOCH + AT) - 3,)
    assert find_ages(describe(gone, routes=ServedRoutes(NAMES, (1, 1, 1), {1: {0: 1}}), processes={})) == {}


@pytest.mark.parametrize(
    ("seconds", "threads", "sentence"),
    [
        (WINDOW.seconds, {"s3": 1, "s14": 2, "s5": 2}, "; its oldest request is 14 s old."),
        (WINDOW.seconds, {"s3": 1}, "."),
        ({"other": 9.0, "GET /a": 0.0}, {"s3": 0}, None),
        ({"other": 9.0}, {"s3": 0}, None),
        ({}, {"s3": 0}, None),
    ],
)
def test_the_sentence(seconds, threads, sentence):
    """The route with most threads, its share, and its oldest request, if any is in service."""
    said = describe_route(compute_routes(RouteWindow(10.0, seconds)), serving(**threads))
    assert said == ("" if sentence is None else f" `POST /export` holds 61 % of all busy threads{sentence}")
    assert describe_route(None, serving(s3=1)) == ""


@pytest.mark.parametrize(
    ("of", "threads", "code", "route"),
    [
        # The route with most of the stuck requests, not the one with most threads; `other` is no name that helps.
        (window(60.0), {"s3": 2, "s45": 1, "s5": 2}, "request_stuck", "`GET /a` holds 19 %"),
        (window(60.0), {"s3": 2, "s45": 0}, "request_stuck", ""),
        (the_example(), {"s3": 2}, "unevenness_hurts", "`POST /export` holds 61 %"),
        (change_workers(the_example(), cpu_seconds=None), {"s3": 2}, "uneven", "`POST /export` holds 61 %"),
    ],
)
def test_findings_that_name_a_route(of, threads, code, route):
    """Nothing changes but the evidence."""
    on, off = (judge(of, serving(**threads), routes=routes)[code] for routes in (WINDOW, None))
    assert on.evidence.removeprefix(off.evidence).strip().startswith(route)
    assert bool(route) == (on.evidence != off.evidence)
    assert replace(on, evidence="") == replace(off, evidence="")


AUDIT, QUERY, OTHER = "audit", "query_orders", "render"


def at(name: str, number: int) -> Line:
    return Line(name, "/srv/shop/orders.py", number)


def sight(
    thread: int, name: str, number: int, state: State, address: str = "", inside: int | None = None, worker: int = 1
) -> CodeSight:
    """What a thread does in a line. inside: the line of AUDIT in which it is, too."""
    within = None if inside is None else at(AUDIT, inside)
    return CodeSight(worker, thread, at(name, number), state, address, 1.0, within)


def judged(of: Window, looks: int, *sights: CodeSight, server: Server | None = None) -> dict[str, Finding]:
    """The findings where so many looks, one a second, all saw the same, beside a thread that goes on."""
    history = CodeHistory()
    for second in range(looks):
        goes_on = sight(9, f"{OTHER}_{second % 2}", 9, "cpu", worker=2)
        history.add(float(second), CodeLook(None, (*sights, goes_on)), 3.0)
    return judge(of, server or the_server(), code=history.of(0.0, 60.0))


def test_the_lines_of_a_wait():
    """The evidence has the lines of the threads in that state, and no others; a cause says so if most are in one."""
    backend = [sight(place, QUERY, 3, "backend", "10.0.0.5:5432") for place in range(4)]
    others = sight(4, OTHER, 9, "backend"), sight(5, OTHER, 7, "cpu")
    finding = judged(of_16_threads({"backend": 12.0}), 30, *backend, *others)["waits_for_backend"]
    where = ": 80 % in query_orders (shop/orders.py:3), 20 % in render (shop/orders.py:9)."
    assert finding.evidence.endswith(where)
    assert finding.clause.endswith(", mostly in query_orders (shop/orders.py:3)")
    few = judged(of_16_threads({"backend": 12.0}), 3, *backend)["waits_for_backend"]
    assert "in the code" not in few.evidence, "a few looks say nothing"


@pytest.mark.parametrize(
    ("others", "holder"),
    [
        ([sight(3, QUERY, 3, "dns", "10.0.0.2:53", 9)], "query_orders (shop/orders.py:3) waiting for DNS"),
        ([sight(3, AUDIT, 9, "sleep", inside=9)], "audit (shop/orders.py:9) sleeping"),
        ([sight(3, AUDIT, 7, "sleep", inside=7)], ""),  # before the lock
        ([sight(3, OTHER, 9, "sleep")], ""),
        ([sight(3, AUDIT, 9, "sleep", inside=9, worker=2)], ""),  # of another process
        ([sight(each, AUDIT, 9, "sleep", inside=9) for each in (3, 4)], ""),  # two cannot both have it
        ([], ""),
    ],
)
def test_who_has_a_lock(others, holder):
    """The holder is the one thread of the worker that is further down in the function in which others wait. Without
    one, or with several, nothing is said."""
    waiting = [sight(each, AUDIT, 8, "lock", inside=8) for each in (1, 2)]
    finding = judged(of_16_threads({"lock": 8.0}), 30, *waiting, *others)["application_lock"]
    assert "100 % in audit (shop/orders.py:8)" in finding.evidence
    said = finding.evidence.partition("that thread holds the lock, and is in ")[2]
    assert said == (f"{holder}." if holder else "")

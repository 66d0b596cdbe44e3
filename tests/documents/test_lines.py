"""The lines about a server, whose texts every face has."""

import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server, unreadable
from tests.support.documents_with_times import (
    KNOWN_WAITS,
    burn,
    objective,
    waits,
    with_objective,
    with_reason,
    with_response_times,
    with_waits,
)
from uwsgi_headroom.analysis.capacity import CpuShares, OtherLimit
from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import Balance, Finding, Harm, Identity, Line, Memory, Server
from uwsgi_headroom.documents.waits import Route

SERVER = busy_server()
(SOCKET,) = SERVER.sockets
FLOW, ROOM = SERVER.flow, SERVER.headroom


def find(server: Server, code: str) -> Line | None:
    return next((line for line in list_lines(server) if line.code == code), None)


def text(server: Server, code: str) -> str:
    line = find(server, code)
    return line.text if line else ""


def flow(**changes: object) -> Server:
    return replace(SERVER, flow=replace(FLOW, **changes))


def room(**changes: object) -> Server:
    return replace(SERVER, headroom=replace(ROOM, **changes))


def threads(**changes: object) -> Server:
    return replace(SERVER, threads=replace(SERVER.threads, **changes))


def queue(**changes: object) -> Server:
    return replace(SERVER, sockets=(replace(SOCKET, **changes),))


EXPORT = Route(route="POST /export", threads=4.9, share=0.61, in_service=5, oldest_seconds=42.0)
ORDER = Route(route="GET /orders/{id}", threads=1.6, share=0.2, in_service=0, oldest_seconds=None)
OTHER = Route(route="other", threads=0.1, share=0.01, in_service=0, oldest_seconds=None)
POSTGRES = DestinationFigures(
    state="backend", name="postgres", address="10.0.0.5:5432", threads=4.1, share=0.5, per_request=0.041, connecting=0.0
)
BALANCE = Balance(
    active=4,
    even_share=0.25,
    hot_ratio=1.72,
    noise_floor=1.05,
    fairness=0.9,
    cost=None,
    calm_response_time=None,
    hottest=2,
)
IDENTITY = Identity(pid=77, host="web1", application="shop:app", configuration_file="/etc/shop.ini", uptime=7300.0)
GREAT = "99 % within 1 s"

TEXTS = [
    (
        flow(queue_wait=0.0814, response_time=0.2454),
        "users_wait",
        "326 ms = 81 ms in the listen queue + 245 ms in service",
    ),
    (flow(queue_wait=0.0), "users_wait", "50 ms in service; the listen queue is empty"),
    (flow(queue_wait=None), "users_wait", "50 ms in service; the wait in the listen queue is not known"),
    (
        flow(queue_wait=1.1, wait_is_floor=True),
        "users_wait",
        "at least 1.2 s = 1.1 s in the listen queue up to now + 50 ms in service",
    ),
    (flow(response_time=None, requests=0, littles_law=None), "users_wait", "not known"),
    (
        flow(response_time=None, queue_wait=0.0),
        "users_wait",
        "not known: uWSGI does not time static files; the listen queue is empty",
    ),
    (
        flow(refused=43.0, throughput=37.0),
        "served",
        "37.0/s; 0.5 at once for 32 threads; 43.0/s turned away with retries",
    ),
    (flow(refused=0.0), "served", "5.00/s; 0.5 at once for 32 threads; none turned away"),
    (queue(full=0.98), "served", "5.00/s; 0.5 at once for 32 threads; queue full 98 % of the time"),
    (flow(throughput=None), "served", "not known"),
    (
        replace(SERVER, window=replace(SERVER.window, exceptions=3, harakiris=1, reloads=2)),
        "served",
        "5.00/s; 0.5 at once for 32 threads; 3 exceptions; 1 harakiri; 2 reloads",
    ),
    (
        with_waits(SERVER),
        "time",
        "41 ms postgres, 22 ms interpreter lock (GIL), 18 ms CPU, 5.0 ms CPU wait, 3.0 ms other per request",
    ),
    (
        with_waits(SERVER, replace(KNOWN_WAITS, stuck=0.5)),
        "stuck",
        "0.5 threads hold requests that are stuck, not counted here",
    ),
    (
        with_waits(SERVER, replace(KNOWN_WAITS, lasting=14.0)),
        "stuck",
        "14.0 threads hold requests that last, not counted here",
    ),
    (
        with_waits(flow(requests=0), waits({"backend": 8.0}, {"postgres": 8.0}, throughput=None)),
        "time",
        "8.0 postgres (mean threads, no request completed)",
    ),
    (with_reason(SERVER, "no right: give the exporter one"), "time", "not known: no right"),
    (with_reason(SERVER, "off: run the exporter with --waits"), "time", ""),
    (
        with_waits(SERVER, replace(KNOWN_WAITS, destinations=(POSTGRES,))),
        "outside",
        "backend 41 ms: postgres at 10.0.0.5:5432",
    ),
    (with_waits(SERVER), "outside", ""),
    (room(), "headroom", "4.0x, then threads run out"),
    (room(usable=1.6), "headroom", "4.0x, then threads run out; 1.6x until requests wait"),
    (room(usable=1.0), "headroom", "4.0x, then threads run out; requests wait with more load"),
    (
        replace(room(usable=1.0), flow=replace(FLOW, waiting="noticed")),
        "headroom",
        "4.0x, then threads run out; requests wait already",
    ),
    (
        room(sleeps=True, is_upper_bound=True),
        "headroom",
        "at most 4.0x, then threads run out; none if a rate limit or retries make requests wait",
    ),
    (room(sleeps=True, factor=1.0), "headroom", "1.0x, then threads run out"),
    (room(factor=None, first=None, far=("threads",)), "headroom", "over 100x: nearly idle"),
    (room(factor=None, first=None, far=(), no_requests=True), "headroom", "not known: no requests yet"),
    (
        room(factor=None, first=None, other=OtherLimit("event_loop", "one loop serves all.")),
        "headroom",
        "not known: one loop serves all.",
    ),
    (
        with_objective(SERVER, objective(load_multiple=1.62, load_multiple_reached=True)),
        "objective",
        f"missed: {GREAT}; 1.8 % of 10,000 requests missed it in the last hour (burn rate 1.8, 0.2 in the last 5 "
        "min); queue wait 2.0 ms; p95 reaches 1 s at 1.6x today's load",
    ),
    (
        with_objective(SERVER, objective(load_multiple=1.8, load_multiple_reached=False, queue_wait=None)),
        "objective",
        f"missed: {GREAT}; 1.8 % of 10,000 requests missed it in the last hour (burn rate 1.8, 0.2 in the last 5 "
        "min); p95 stays under 1 s up to 1.8x today's load (the most seen in the last hour)",
    ),
    (
        with_objective(SERVER, objective(burn(300.0, 1.0), burn(3599.6, 1.0, lost=12), queue_wait=None)),
        "objective",
        f"missed: {GREAT}; 100 % of 10,000 requests missed it in the last hour, 12 lost with their worker (burn rate "
        "100, 100 in the last 5 min)",
    ),
    (
        with_objective(SERVER, objective(burn(59.0, 0.0), queue_wait=None, threshold=0.8, objective=0.995)),
        "objective",
        "met: 99.5 % within 800 ms; none of 10,000 requests missed it in the last 59 s (burn rate 0.0)",
    ),
    (
        with_objective(SERVER, objective(burn(59.0, None, requests=37))),
        "objective",
        f"not judged: {GREAT}; only 37 requests in the last 59 s",
    ),
    (
        with_objective(SERVER, objective(unjudged="not judged: the wait is long")),
        "objective",
        f"not judged: {GREAT}; the wait is long",
    ),
    (
        queue(queue=40, limit=40, mean_queue=41.0, full=0.97, oldest_wait=4.1, name="tcp"),
        "queue",
        "40 of 40 (40 on average), full 97 % of the time, oldest 4.1 s  tcp",
    ),
    (queue(queue=None, reason="hidden", name="tcp"), "queue", "not known: hidden  tcp"),
    (
        with_response_times(SERVER),
        "response",
        "p95 480 ms (450 to 520), p50 under 160 ms, p90 300 ms (250 to 330), p99 910 ms (800 ms to 1.2 s); inside "
        "uWSGI, percentiles estimated from 5 samples a second",
    ),
    (with_response_times(SERVER, None), "response", ""),
    (
        threads(busy=7, stuck=1, held=True, configured=40),
        "in_service",
        "0.0 of 32 threads, 0.5 by Little's law, 7 now, 1 for over 30 s; kept connections hold more; 40 configured",
    ),
    (flow(observed=None), "in_service", "not known, 0.5 by Little's law, 0 now"),
    (
        replace(SERVER, routes=(EXPORT, ORDER, OTHER)),
        "routes",
        "POST /export 61 % of the busy threads, oldest 42 s; GET /orders/{id} 20 %; 1 more",
    ),
    (replace(SERVER, routes=()), "routes", ""),
    (with_response_times(SERVER), "queue_wait", "1.0 ms in the listen queue"),
    (queue(oldest_wait=0.812), "queue_wait", "1.0 ms in the listen queue; the oldest has waited for 812 ms"),
    (
        replace(SERVER, balance=BALANCE),
        "balance",
        "worker 2 takes 1.72x an even share of the requests (25 %); chance alone explains up to 1.05x",
    ),
    (
        replace(
            SERVER,
            host=replace(SERVER.host, cpus=2.0),
            cpu=CpuShares(own=0.46, idle=1.4, others=0.14),
        ),
        "cpu",
        "1.40 of 2 idle, 0.46 used by the workers, 0.14 by other programs",
    ),
    (
        replace(
            SERVER,
            host=replace(
                SERVER.host,
                memory=Memory(
                    available=3 * 10**9, limited_by="host", per_worker=85 * 10**6, source="uss", more_workers=35
                ),
            ),
        ),
        "memory",
        "35 more workers would fit: 3.0 GB available, 85 MB each",
    ),
    (
        replace(SERVER, identity=IDENTITY),
        "identity",
        "master PID 77, up 2 h 2 min, on web1, app shop:app, config /etc/shop.ini",
    ),
    (replace(SERVER, state="down"), "served", "nothing: the server is down; 5.00/s before"),
    (replace(SERVER, state="down"), "users_wait", ""),
    (unreadable(), "verdict", "It cannot be read: connection refused."),
]


@pytest.mark.parametrize(("server", "code", "expected"), TEXTS)
def test_what_a_line_says(server, code, expected):
    assert text(server, code) == expected


def test_a_worker_that_was_not_up_all_the_time_is_named():
    """It cannot be compared with the others."""
    first, *others = SERVER.workers
    workers = (replace(first, active=False, accepting=True), *others)
    assert text(replace(SERVER, balance=BALANCE, workers=workers), "balance").endswith(
        "; worker 1 was not up all the time"
    )


HARM = Harm("clients_refused", "critical", "Clients are refused.", "41 of 40.")
CAUSE = Finding(
    code="threads", severity="warning", title="", evidence="", meaning="", change="", harms=(HARM,), runbook=None
)


@pytest.mark.parametrize(
    ("server", "code", "tone"),
    [
        (flow(waiting="noticed"), "users_wait", "warning"),
        (flow(waiting="severe"), "users_wait", "critical"),
        (SERVER, "users_wait", None),
        (replace(SERVER, findings=(CAUSE,)), "served", "critical"),
        (
            replace(flow(throughput=0.0), threads=replace(SERVER.threads, busy=4), status="critical"),
            "served",
            "critical",
        ),
        (replace(flow(throughput=0.0), threads=replace(SERVER.threads, busy=4)), "served", None),
        (queue(queue=40, limit=40), "queue", "critical"),
        (with_objective(SERVER, objective(level="fast")), "objective", "critical"),
        (with_objective(SERVER, objective(level="slow")), "objective", "warning"),
        (with_objective(SERVER, objective()), "objective", None),
        (
            with_objective(replace(SERVER, status="warning"), objective(burn(300.0, 0.02), burn(3600.0, 0.02))),
            "objective",
            "warning",
        ),
        (
            with_objective(replace(SERVER, status="warning"), objective(burn(300.0, 0.41), burn(3600.0, 0.03))),
            "objective",
            "critical",
        ),
        (threads(stuck=1), "in_service", "critical"),
    ],
)
def test_a_line_that_is_bad_has_a_tone(server, code, tone):
    """What may be normal has none beside a verdict that is ok."""
    line = find(server, code)
    assert line.tone == tone


def test_the_first_part_can_stand_alone():
    """Where there is no room, the others are left out."""
    firsts = {line.code: line.parts[0] for line in list_lines(with_response_times(with_waits(SERVER)))}
    assert firsts["users_wait"] == "51 ms"
    assert firsts["response"] == "p95 480 ms"
    assert firsts["time"] == "41 ms postgres"

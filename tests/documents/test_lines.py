"""The lines about a server, whose texts every face has."""

import os
from pathlib import Path

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
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.analysis.capacity import CpuShares, OtherLimit
from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import FindingSection, Harm, Identity, MemorySection, ServerDocument, TextLine
from uwsgi_headroom.documents.subjects import Route
from uwsgi_headroom.history.window import WaitWindow
from uwsgi_headroom.record import NO_WAITS, Waits
from uwsgi_headroom.routes import ServedRoutes

SERVER = busy_server()
(SOCKET,) = SERVER.sockets
FIRST, *OTHERS = SERVER.workers
PAGE = Path(__file__).with_name("lines.txt")
FLOW, ROOM = SERVER.flow, SERVER.headroom


def find(server: ServerDocument, code: str) -> TextLine | None:
    return next((line for line in list_lines(server) if line.code == code), None)


def text(server: ServerDocument, code: str) -> str:
    line = find(server, code)
    return line.text if line else ""


def flow(**changes: object) -> ServerDocument:
    return replace(SERVER, flow=replace(FLOW, **changes))


def room(**changes: object) -> ServerDocument:
    return replace(SERVER, headroom=replace(ROOM, **changes))


def threads(**changes: object) -> ServerDocument:
    return replace(SERVER, threads=replace(SERVER.threads, **changes))


def queue(**changes: object) -> ServerDocument:
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

REDIRECTS = FindingSection(
    code="redirects",
    severity="info",
    title="All are redirects.",
    evidence="9 of 9.",
    meaning="",
    change="",
    runbook=None,
)
CASES = [
    (flow(queue_wait=0.0814, response_time=0.2454), "users_wait"),
    (flow(queue_wait=0.0), "users_wait"),
    (flow(queue_wait=None), "users_wait"),
    (flow(queue_wait=1.1, wait_is_floor=True), "users_wait"),
    (flow(response_time=None, requests=0, littles_law=None), "users_wait"),
    (flow(response_time=None, queue_wait=0.0), "users_wait"),
    (flow(refused=43.0, throughput=37.0), "served"),
    (flow(refused=0.0), "served"),
    (replace(SERVER, threads=replace(SERVER.threads, mean=1.0)), "served"),
    (queue(full=0.98), "served"),
    (flow(throughput=None), "served"),
    (replace(SERVER, window=replace(SERVER.window, exceptions=3, harakiris=1, reloads=2)), "served"),
    (with_waits(SERVER), "time"),
    (with_waits(SERVER, replace(KNOWN_WAITS, stuck=0.5)), "stuck"),
    (with_waits(SERVER, replace(KNOWN_WAITS, lasting=14.0)), "stuck"),
    (with_waits(flow(requests=0), waits({"backend": 8.0}, {"postgres": 8.0}, throughput=None)), "time"),
    (with_reason(SERVER, "no right: give the exporter one"), "time"),
    (with_reason(SERVER, "off: run the exporter with --waits"), "time"),
    (with_waits(SERVER, replace(KNOWN_WAITS, destinations=(POSTGRES,))), "outside"),
    (with_waits(SERVER), "outside"),
    (room(), "headroom"),
    (room(usable=1.6), "headroom"),
    (room(usable=1.0), "headroom"),
    (replace(room(usable=1.0), flow=replace(FLOW, waiting="noticed")), "headroom"),
    (room(sleeps=True, is_upper_bound=True), "headroom"),
    (room(sleeps=True, factor=1.0), "headroom"),
    (room(factor=None, first=None, far=("threads",)), "headroom"),
    (room(factor=None, first=None, far=(), no_requests=True), "headroom"),
    (room(factor=None, first=None, other=OtherLimit("event_loop", "one loop serves all.")), "headroom"),
    (with_objective(SERVER, objective(load_multiple=1.62, load_multiple_reached=True)), "objective"),
    (with_objective(SERVER, objective(load_multiple=1.8, load_multiple_reached=False, queue_wait=None)), "objective"),
    (with_objective(SERVER, objective(burn(300.0, 1.0), burn(3599.6, 1.0, lost=12), queue_wait=None)), "objective"),
    (with_objective(SERVER, objective(burn(59.0, 0.0), queue_wait=None, threshold=0.8, objective=0.995)), "objective"),
    (with_objective(SERVER, objective(burn(59.0, None, requests=37))), "objective"),
    (with_objective(SERVER, objective(unjudged="not judged: the wait is long")), "objective"),
    (queue(queue=40, limit=40, mean_queue=41.0, full=0.97, oldest_wait=4.1, name="tcp"), "queue"),
    (queue(queue=None, reason="hidden", name="tcp"), "queue"),
    (with_response_times(SERVER), "response"),
    (with_response_times(SERVER, None), "response"),
    (threads(busy=7, stuck=1, held=True, configured=40), "in_service"),
    (flow(observed=None), "in_service"),
    (replace(SERVER, routes=(EXPORT, ORDER, OTHER)), "routes"),
    (replace(SERVER, routes=()), "routes"),
    (with_response_times(SERVER), "queue_wait"),
    (queue(oldest_wait=0.812), "queue_wait"),
    (replace(SERVER, balance=BALANCE), "balance"),
    (replace(SERVER, host=replace(SERVER.host, cpus=2.0), cpu=CpuShares(own=0.46, idle=1.4, others=0.14)), "cpu"),
    (
        replace(
            SERVER,
            host=replace(
                SERVER.host,
                memory=MemorySection(
                    available=3 * 10**9, limited_by="host", per_worker=85 * 10**6, source="uss", more_workers=35
                ),
            ),
        ),
        "memory",
    ),
    (replace(SERVER, identity=IDENTITY), "identity"),
    (replace(SERVER, findings=(REDIRECTS,)), "note"),
    (replace(SERVER, findings=(REDIRECTS,), status="warning"), "note"),
    (replace(SERVER, state="down"), "served"),
    (replace(SERVER, state="down"), "users_wait"),
    (unreadable(), "verdict"),
    (replace(SERVER, balance=BALANCE, workers=(replace(FIRST, active=False, accepting=True), *OTHERS)), "balance"),
]
"""Documents, and the code of the line that golden page `lines.txt` has of each."""


def test_lines_read_as_on_their_page():
    """`UPDATE_GOLDEN=1 pytest tests/documents/test_lines.py` writes it: read the difference as an operator would."""
    page = "".join(f"{code}: {text(server, code) or '(no line)'}\n" for server, code in CASES)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page


HARM = Harm("clients_refused", "critical", "Clients are refused.", "41 of 40.")
CAUSE = FindingSection(
    code="threads", severity="warning", title="", evidence="", meaning="", change="", harms=(HARM,), runbook=None
)


def test_an_act_that_is_cut_says_for_how_many_workers_there_is_memory():
    """Its bracket is closed."""
    act = "Raise `processes` from 16 to 43 (of which there is room for 3 for certain"
    cause = replace(CAUSE, change=f"{act}: at most 180 MB each, 540 MB available): in bursts, all 16 threads are busy.")
    assert text(replace(SERVER, findings=(cause,)), "act") == f"{act})"


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


NOW = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def waits_of(requests: int, now: Waits | None) -> WaitFigures:
    """Ten seconds of 5.5 busy threads."""
    seconds = {"cpu": 10.0, "sleep": 5.0, "backend": 40.0}
    row = worker(1, requests, each=0.55)
    of = replace(window(10, row), waits=WaitWindow(10, 2.5, seconds, {"redis": 10.0, "postgres": 30.0}))
    return compute_waits(of, compute_flow(of), sample=now or NO_WAITS)


def test_most_threads_come_first():
    """Each state and backend has its part of a mean request."""
    waits = waits_of(100, NOW)
    assert [(row.state, row.threads, row.per_request) for row in waits.states] == [
        ("backend", 4, pytest.approx(0.4)),
        ("cpu", 1, pytest.approx(0.1)),
        ("sleep", 0.5, pytest.approx(0.05)),
    ]
    assert [(row.name, row.address, row.per_request) for row in waits.backends] == [
        ("postgres", "10.0.0.5:5432", pytest.approx(0.3)),
        ("redis", "*:6379", pytest.approx(0.1)),
    ]
    assert (waits.total, waits.disagreement) == (5.5, 0.25)


@pytest.mark.parametrize("now", [None, Waits(off="not permitted any more")])
def test_unknown_at_the_end(now):
    """Without addresses, the names and figures remain; without requests, times per request are null."""
    waits = waits_of(0, now)
    assert {row.per_request for row in [*waits.states, *waits.backends]} == {None}
    assert {row.address for row in waits.backends} == {""}


SECONDS = 20


def watched(names: tuple[str, ...] | None, seconds: int = SECONDS) -> ScriptedWatch:
    """A server with three busy threads of the first worker: two of the last route, one of `other`."""
    watch, server = ScriptedWatch(), Server(2, 4)
    for place in range(2 * seconds + 1):
        server.busy(3, 0)
        reading = server.read(place / 2)
        if names:
            last = len(names) - 1
            numbers = {1: {0: last, 1: 0, 2: last}}
            reading = replace(reading, routes=ServedRoutes(names, (1,) * len(names), numbers))
        watch.read(reading)
    return watch


def test_routes_are_listed_most_threads_first():
    """One without busy threads is left out; each has a column of the history. Off, both are null."""
    routes = watched(("other", "GET /idle", "POST /export")).document().routes
    assert routes
    assert [(row.route, row.threads, round(row.share, 3), row.in_service) for row in routes] == [
        ("POST /export", 2.0, 0.667, 2),
        ("other", 1.0, 0.333, 1),
    ]
    assert {row.oldest_seconds for row in routes} == {None}
    watch = watched(None)
    assert watch.document().routes is None
    assert watch.history().routes is None
    watch = watched(("other", "GET /idle", "POST /export"))
    history = watch.history(SECONDS, 5)
    assert history.routes.routes == ("other", "GET /idle", "POST /export")
    assert [len(column) for column in history.routes.threads] == [len(history.time)] * 3
    assert [set(column) for column in history.routes.threads] == [{1.0}, {0.0}, {2.0}]

"""Twenty random variations of each scenario whose requests only wait, simulated: the expected verdict still holds."""

import heapq
import random
from collections import deque
from collections.abc import Sequence

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from app.load import RETRY
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from tools.scenarios.checking import Seen, differences
from tools.scenarios.rows import ROWS
from tools.scenarios.run import counted, vary
from tools.scenarios.scenario import Load, Scenario
from uwsgi_headroom.analysis.figures import Known, compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.verdict import worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server

SOCKET = "app.sock"
QUEUE = 100


class _Areas(Struct):
    """Integrals over the window, and the requests that ended in it."""

    busy: float = 0.0
    waiting: float = 0.0
    all_busy: float = 0.0
    queue_full: float = 0.0
    requests: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def simulate(loads: Sequence[Load], processes: int, threads: int, lead: float, seconds: float, seed: int) -> Window:
    """Returns the window of a check over `seconds` that begins `lead` seconds after the loads."""
    chance = random.Random(seed)
    capacity, queue, clock = processes * threads, deque[tuple[float, int]](), 0.0
    free = [worker_id for worker_id in range(processes) for _ in range(threads)]
    areas = _Areas(requests=[0] * processes, seconds=[0.0] * processes)
    # (instant, order, what, load, worker): "arrives" for an open loop, "asks" for a client, "ends" for a request
    events: list[tuple[float, int, str, int, int]] = []
    in_flight, made, order = [0] * len(loads), [0] * len(loads), 0

    def at(instant: float, what: str, number: int, worker_id: int = -1) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (instant, order, what, number, worker_id))

    def begin(number: int) -> None:
        worker_id = free.pop(chance.randrange(len(free)))
        load = loads[number]
        at(clock + (load.io_ms + load.cpu_ms) / 1000, "ends", number, worker_id)

    def ask(number: int) -> None:
        made[number] += 1
        if free:
            begin(number)
        elif len(queue) <= QUEUE:
            queue.append((clock, number))
        elif loads[number].clients:  # refused
            at(clock + RETRY, "asks", number)
            return
        else:
            return
        in_flight[number] += 1

    for number, load in enumerate(loads):
        for _ in range(load.clients or 1):
            at(load.start, "asks" if load.clients else "arrives", number)
    end = lead + seconds
    while events:
        instant, _, what, number, worker_id = heapq.heappop(events)
        _integrate(areas, max(clock, lead), min(instant, end), capacity - len(free), capacity, len(queue))
        clock, load = instant, loads[number]
        if clock >= end:
            break
        if what == "ends":
            free.append(worker_id)
            in_flight[number] -= 1
            if clock >= lead:
                areas.requests[worker_id] += 1
                areas.seconds[worker_id] += (load.io_ms + load.cpu_ms) / 1000
            if queue:
                begin(queue.popleft()[1])
            if load.clients:
                at(clock + load.think_ms / 1000, "asks", number)
        elif not load.requests or made[number] < load.requests * (load.clients or 1):
            if what == "asks" or in_flight[number] < load.most:
                ask(number)
            if what == "arrives":
                at(clock + (0.5 + chance.random()) / load.rate, "arrives", number)
    return _window(areas, processes, seconds)


def _integrate(areas: _Areas, begin: float, end: float, busy: int, capacity: int, waiting: int) -> None:
    length = max(0.0, end - begin)
    areas.busy += length * busy
    areas.waiting += length * waiting
    areas.all_busy += length * (busy == capacity)
    areas.queue_full += length * (waiting >= QUEUE)


def _window(areas: _Areas, processes: int, seconds: float) -> Window:
    rows = (
        worker(
            number + 1,
            areas.requests[number],
            each=areas.seconds[number] / areas.requests[number] if areas.requests[number] else 0.0,
            cpu=0.001 * areas.requests[number],
            busy=areas.busy / processes,
        )
        for number in range(processes)
    )
    return replace(
        window(seconds, *rows, **{SOCKET: areas.waiting}),
        full_seconds=areas.all_busy,
        queue_full_seconds={SOCKET: areas.queue_full},
    )


VARIATIONS = 20


def can_be_simulated(row: Scenario) -> bool:
    """Whether the verdict depends only on threads and the queue."""
    server = row.server
    wrapped = server.before or server.cpus or server.quota or server.nginx
    plain = not (server.options or server.tcp_stats or server.bare or wrapped)
    only_waits = all(load.io_ms and not load.cpu_ms and load.path == "/" for load in row.loads)
    steady = not any(load.io_ms > 5000 for load in row.loads)  # otherwise the verdict is about the age of a request
    # The clients of the simulated queue do not leave.
    patient = not any(load.patience_ms and load.patience_ms <= load.io_ms for load in row.loads)
    return (
        bool(row.loads)
        and plain
        and only_waits
        and steady
        and patient
        and not (row.events or row.burners or row.as_nobody)
    )


SIMULATED = [row for row in ROWS if can_be_simulated(row)]


def see(row: Scenario, seed: int) -> Seen:
    """The result of a check on a simulated scenario, as far as it does not depend on processes."""
    loads = [counted(load, row.server) for load in row.loads]
    window = simulate(loads, row.server.processes, row.server.threads, row.lead, row.seconds, seed)
    waiting = round(window.queue_seconds[SOCKET] / window.seconds)
    server = Server(processes=row.server.processes, threads=row.server.threads, queue=waiting, cpus=64.0)
    reading = server.read(1000.0)
    figures = compute_figures(Known(window, describe_server(reading)))
    findings = collect_findings(figures)
    return Seen(
        outcome="ok" if (status := worst_status(findings)) == "ok" else status,
        exit_status=0,
        findings=tuple(
            {
                "code": finding.code,
                "severity": finding.severity,
                "title": finding.title,
                "evidence": finding.evidence,
                "meaning": finding.meaning,
                "change": finding.change,
            }
            for finding in findings
        ),
        limit=figures.headroom.first,
    )


@pytest.mark.parametrize("row", SIMULATED, ids=lambda row: row.name)
def test_variations_are_judged_as_their_row(row):
    """Other sizes, service times and arrivals at the same share of the load do not change the verdict."""
    for number in range(VARIATIONS):
        varied = vary(row, number)
        seen = see(varied, number)
        assert not list(differences(varied, seen)), (varied.server, varied.loads, seen)


def test_there_are_enough():
    """The simulated scenarios include quiet, busy and full servers with one thread and with several."""
    assert len(SIMULATED) >= 8
    assert {row.expected.outcome for row in SIMULATED} == {"ok", "warning", "critical"}

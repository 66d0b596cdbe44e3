"""What a window shows, and how harms are joined to the cause that explains them."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import describe, figures_of, findings_by_code, idle, judge, setup, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import connections_hold_threads
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import ROWS, Finding, Severity, collect_findings, find_harm, lock_waits
from uwsgi_headroom.analysis.findings.threads import find_change
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import UNKNOWN, Backlog, Options, Setup, SocketHolders

SLEEPING = {"sleep": 2.0}
"""What threads wait for that more of them would serve."""


A_ALONE: SocketHolders = {"a.sock": (1,), "b.sock": tuple(range(2, 11))}


def ten_sockets(queued: float, busy: float = 60.0, holders: SocketHolders = A_ALONE) -> dict[str, Finding]:
    """The first of ten single-threaded workers has a socket of its own, where so many requests wait on average; the
    threads of the others, which share one, are mostly free."""
    rows = [worker(number, 600, cpu=1.0, busy=busy if number == 1 else 12.0) for number in range(1, 11)]
    known = replace(setup("single"), socket_holders=holders, mapped=True)
    of = window(60, *rows, waits=SLEEPING, **{"a.sock": 60 * queued, "b.sock": 0.0})
    return findings_by_code(of, Server(processes=10, threads=1), setup=known)


@pytest.mark.parametrize(
    ("found", "code", "expected"),
    [
        (ten_sockets(6.0), "queue_wait", "critical"),  # 0.6 s
        (ten_sockets(0.0), "saturation", "warning"),
        (ten_sockets(0.0, 44.0), "saturation", None),
        (ten_sockets(0.0, 44.0), "queue_wait", None),
        (ten_sockets(1.0, 44.0), "queue_wait", "warning"),
        # Where a worker serves two sockets, that of a request is unknown, and so is the wait at each.
        (ten_sockets(1.0, holders={"a.sock": (1,), "b.sock": tuple(range(1, 11))}), "queue_wait", None),
        (ten_sockets(1.0, holders={"a.sock": (1,), "b.sock": tuple(range(1, 11))}), "saturation", "warning"),
    ],
)
def test_the_thresholds_are_those_of_a_server(found, code, expected):
    """Three quarters of its threads, or a wait that users notice, are a warning."""
    assert severity(found, code) == expected


@pytest.mark.parametrize("full", [0.0, 30.0])
def test_queues_with_equal_figures_are_told_apart(full):
    """Each is named where its figures are, so that no sentence stands twice."""
    backlogs = dict.fromkeys(("a.sock", "b.sock"), Backlog(60, 100, None))
    queues = {"queue_seconds": dict.fromkeys(backlogs, 3600.0), "queue_full_seconds": dict.fromkeys(backlogs, full)}
    found = collect_findings(figures_of(replace(idle(), **queues), describe(queues=backlogs)))
    texts = [each.evidence for finding in found for each in (finding, *finding.harms)]
    assert [sum(f"queue of {name}" in text for text in texts) for name in backlogs] == [1, 1]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("refused", [0, 6])
def test_drops_of_other_listeners_refuse_no_clients(refused):
    """A TCP queue at its limit refuses clients only if the kernel dropped connections of this server."""
    known = {"queue_seconds": {":8080": 600.0}, "queue_full_seconds": {":8080": 2.0}, "refused": refused}
    of = replace(idle(), overflows=6000, **known)
    assert ("clients_refused" in findings_by_code(of, queues={":8080": Backlog(10, 100, None)})) == (refused > 0)


def test_a_full_machine_beside_a_server_that_needs_little():
    """The server has no finding, and the kernel gives it a part of the CPUs, as of the four here."""
    of = replace(idle(), cpu=window(60, cpu=(0.03, 0.0, 1.97)).cpu)
    findings = list(judge(of).values())
    assert worst_status(findings) == "ok"
    sentence = "Headroom 6.4x until requests wait; 6.7x until CPUs run out."
    assert verdict_sentence(figures_of(of).headroom, findings) == sentence


@pytest.mark.parametrize(
    ("whole", "last", "is_slower"),
    [
        ((30.0, 900, 60.0), (5.0, 4, 38.0), True),
        ((30.0, 900, 60.0), (5.0, 150, 10.0), False),  # as before
        ((30.0, 900, 60.0), (5.0, 4, 15.0), False),  # slow requests beside free threads
        ((30.0, 20, 225.0), (5.0, 4, 38.0), False),  # slow all the time
    ],
)
def test_requests_become_slower(whole, last, is_slower):
    """A mean over such a step describes neither side: where most threads are in use since then, that part is judged."""

    def of(seconds: float, requests: int, busy: float) -> Figures:
        return figures_of(window(seconds, *(worker(n, requests, each=0.1, cpu=0.1, busy=busy) for n in (1, 2, 3, 4))))

    change = find_change(of(*whole), of(*last))
    assert bool(change) == is_slower
    assert not change or "a request occupies a thread for 9.5 s; on average over 30 s," in change.evidence


TWO = Server(processes=2, threads=4, cpus=8.0)


def diagnose(of: Window, server: Server = TWO, setup: Setup | None = None) -> list[Finding]:
    return collect_findings(figures_of(of, describe(server, **({"setup": setup} if setup else {}))))


def full(waits: dict[str, float] | None, *, queued: float = 30.0, refused: float = 0.0, **more: object) -> Window:
    """A minute of two workers whose four threads are all in service, while requests wait."""
    rows = (worker(number, 600, each=0.2, cpu=0.6, busy=240.0) for number in (1, 2))
    queues = {"queue_seconds": {"app.sock": 60 * queued}, "queue_full_seconds": {"app.sock": 60 * refused}}
    return replace(window(60, *rows, waits=waits, **more), full_seconds=60.0, **queues)


@pytest.mark.parametrize(
    ("scope", "kind"), [("worker", lock_waits.LOCK), ("file", lock_waits.LOCK_OF_ALL), (None, lock_waits.LOCK)]
)
def test_what_a_lock_permits(scope, kind):
    """Where it is known how much a lock is held, the finding has its limit, and says whether processes help."""
    lock = LockFigures(scope, 0.08, 0.6, 0.82, 83.0, 83.0, 83.0) if scope else None
    first, *_ = collect_findings(replace(figures_of(full({"lock": 8.0}), TWO), lock=lock))
    assert first.kind is kind
    assert ("At most 83" in first.evidence) == bool(scope)


@pytest.mark.parametrize(("waiting", "held"), [(300.0, True), (0.0, False)])
def test_clients_that_keep_their_connections(waiting, held):
    """Requests wait while uWSGI calls nearly all threads free, and the kernel sees them wait for clients: they wait for
    the next request of a connection. Slow clients would be in service."""
    rows = [worker(number, 60, each=0.05, cpu=0.1, busy=6.0) for number in (1, 2)]
    kept = window(60, *rows, waits={"client": 0.15, "sleep": 0.05}, **{"app.sock": waiting})
    assert connections_hold_threads(figures_of(kept, TWO)) is held
    grave = [(each.severity, "`http11-socket`" in each.change) for each in diagnose(kept) if each.severity != "info"]
    assert grave == [("critical", True)] * held


def test_the_option_that_keeps_connections():
    """It is the cause also where threads that wait for clients count as busy."""
    held = full({"client": 8.0})
    acts = [
        diagnose(held, setup=known)[0].change
        for known in (replace(UNKNOWN, options=Options(http11_socket=("?",))), UNKNOWN)
    ]
    assert ["Write `http-socket` in place of `http11-socket`" in act for act in acts] == [True, False]


def test_the_worst_harm_is_that_of_the_verdict():
    """A refusal comes before a wait, as harm or as the finding itself; full threads are a harm only while they hurt."""

    def found(code: str, severity: Severity = "critical", *harms: Finding) -> Finding:
        kind = next(row for row in ROWS if row.code == code)
        return Finding(code=code, severity=severity, title="It is.", evidence="So.", kind=kind, harms=harms)

    refused, waits, full = found("clients_refused"), found("queue_wait"), found("saturation", "warning")
    assert find_harm([found("saturation", "critical", waits, refused), found("exceptions")]) == "clients_refused"
    assert find_harm([found("application_lock", "warning", full)]) is None
    assert find_harm([found("exceptions"), waits]) is None
    assert find_harm([waits]) == "queue_wait"
    assert find_harm([]) is None

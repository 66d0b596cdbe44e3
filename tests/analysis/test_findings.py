"""Requests that wait although threads are free, stuck requests, and what else a window shows."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, describe, figures_of, findings_by_code, idle, judge, row, setup, severity
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, evenness
from uwsgi_headroom.analysis.findings.limits import find_change
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog, SocketHolders

SLEEPING = {"sleep": 2.0}
"""What threads wait for that more of them would serve."""


def one_full_worker(queued: float, busy: float = 60.0, **more: object) -> Window:
    """The first of three single-threaded workers is always busy."""
    rows = (worker(1, 600, cpu=1.0, busy=busy), *(worker(number, 300, cpu=1.0, busy=30.0) for number in (2, 3)))
    return replace(window(60, *rows, waits=SLEEPING, app=60 * queued), **more)


def of_mapped(of: Window, mapped: bool = True) -> dict[str, Finding]:
    known = {"setup": replace(setup("single"), mapped=True)} if mapped else {}
    return findings_by_code(of, Server(processes=3, threads=1), **known)


def test_shares_of_mapped_sockets():
    """Unequal ones are not harmless while requests wait at one of them."""
    waits = of_mapped(one_full_worker(4.0))
    assert [row(waits, code) for code in ("uneven", "unevenness_harmless")] == [evenness.OWN_SOCKET_WAITS, None]
    finding = of_mapped(one_full_worker(0.0))["unevenness_harmless"]
    assert "the listen queues of these sockets are nearly empty" in finding.meaning


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


def test_a_full_machine_beside_a_server_that_needs_little():
    """The server has no finding, and the kernel gives it a part of the CPUs, as of the four here."""
    of = replace(idle(), cpu=window(60, cpu=(0.03, 0.0, 1.97)).cpu)
    findings = list(judge(of).values())
    assert worst_status(findings) == "ok"
    sentence = "Headroom 6.4x until requests wait; 6.7x until CPUs run out."
    assert verdict_sentence(figures_of(of).headroom, findings) == sentence


def stuck(worker_id: int, *ages: int, **server: object) -> Server:
    """A server in which requests of a worker have been in service for so many seconds."""
    made = Server(**server)
    made[worker_id].request_starts = tuple(int(EPOCH + AT) - age for age in ages)
    return made


@pytest.mark.parametrize(
    ("ages", "seconds", "which"),
    [((290, 0), 300.0, None), ((290, 0), 290.0, "1"), ((40, 40), 30.0, ""), ((40, 40), 10.0, "1,3")],
)
def test_the_age_of_a_stuck_request_is_a_setting(ages, seconds, which):
    """Long polls on threads are no finding until they last longer than they are meant to. `pids --stuck` knows only the
    usual age, so with another one the numbers of the workers are in the command."""
    server = stuck(1, ages[0], threads=1)
    server[3].request_starts = (int(EPOCH + AT) - ages[1],)
    finding = judge(idle(), server, stuck_seconds=seconds).get("request_stuck")
    assert (finding is None) == (which is None)
    assert not finding or which in finding.change


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

"""Requests that wait although threads are free: advice and findings say why, if it is known."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import figures_of, findings_by_code, judge, row, setup, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, evenness, limits, queue
from uwsgi_headroom.analysis.findings.limits import find_change
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import SocketHolders

SLEEPING = {"sleep": 2.0}
"""What threads wait for that more of them would serve."""


def one_full_worker(queued: float, busy: float = 60.0, **more: object) -> Window:
    """The first of three single-threaded workers is always busy."""
    rows = (worker(1, 600, cpu=1.0, busy=busy), *(worker(number, 300, cpu=1.0, busy=30.0) for number in (2, 3)))
    return replace(window(60, *rows, waits=SLEEPING, app=60 * queued), **more)


def of_mapped(of: Window, mapped: bool = True) -> dict[str, Finding]:
    known = {"setup": replace(setup("single"), mapped=True)} if mapped else {}
    return findings_by_code(of, Server(processes=3, threads=1), **known)


@pytest.mark.parametrize(
    ("of", "mapped", "change"),
    [
        (one_full_worker(4.0), True, "Let the web server spread the load evenly over the sockets of `map-socket`"),
        (one_full_worker(4.0, full_seconds=20.0), False, "Raise `processes` from 3 to 15"),
        (one_full_worker(2.0, busy=30.0), True, "Run `py-spy dump"),  # it is not known why
        (one_full_worker(2.0, busy=30.0, full_seconds=3.0), True, "Raise `processes`"),
        # Requests of a full worker's own socket wait after a reload as well, and its end changes nothing.
        (one_full_worker(40.0, reloads=1), True, "Let the web server spread the load evenly"),
        (one_full_worker(40.0, reloads=1), False, "If requests waited while a full reload loaded the application"),
    ],
)
def test_a_mapped_socket_whose_worker_is_full(of, mapped, change):
    """More processes would take no request from that socket."""
    assert of_mapped(of, mapped)["queue_wait"].change.startswith(change)


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


def test_a_worker_is_judged_by_the_queue_of_its_own_socket():
    """Its users wait as long as they are served, and over all sockets the mean wait is 10 ms."""
    finding = next(iter(ten_sockets(queued=1.0).values()))
    said = [(each.kind, each.severity) for each in (finding, *finding.harms)]
    assert said == [(limits.SOCKET_IN_USE, "critical"), (queue.LONG_WAIT, "warning")]
    assert finding.title.endswith(": the only thread of worker 1 is busy.")
    assert "at a.sock, requests wait 100 ms on average" in finding.harms[0].evidence


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


def test_a_full_worker_is_no_cause_of_a_wait_at_another_socket():
    """Its own users find a thread."""
    finding = ten_sockets(8.0, 50.0, {"a.sock": tuple(range(2, 11)), "b.sock": (1,)})["queue_wait"]
    assert finding.title.endswith(": it is not known why.")
    assert "at a.sock" in finding.evidence


@pytest.mark.parametrize(
    ("requests", "busy", "reloads", "expected", "cause"),
    [
        (300, 15.0, 1, "warning", ": uWSGI was reloaded."),
        (300, 15.0, 3, "warning", ": uWSGI is reloaded again and again."),
        (300, 59.0, 1, "critical", ": all threads are busy."),
        (0, None, 1, "critical", ", and no request is completed: it is not known why."),
    ],
)
def test_a_wait_during_a_reload(requests, busy, reloads, expected, cause):
    """More processes would not shorten the time in which none of them is up."""
    waits = SLEEPING if busy == 59.0 else None
    of = window(60, *(worker(number, requests, busy=busy) for number in range(1, 5)), waits=waits, app=600.0)
    finding = findings_by_code(replace(of, reloads=reloads), Server(threads=1))["queue_wait"]
    assert finding.severity == expected
    assert finding.title.endswith(cause)
    assert ("Raise `processes`" in finding.change) == (busy == 59.0)


@pytest.mark.parametrize(
    ("requests", "each", "busy", "kind"),
    [
        (60, 0.7, 42.0, evenness.ONE_SLOW),
        (12, 9.0, 110.0, evenness.ONE_SLOW),
        (12, 0.7, 8.4, evenness.HARMLESS),  # by chance
        (20, 0.7, None, evenness.HARMLESS),
    ],
)
def test_a_slow_worker_is_not_called_harmless(requests, each, busy, kind):
    """A worker that holds up its few requests has a small share, and balancing would not save time."""
    others = (worker(number, 900, each=0.01, cpu=0.5) for number in (2, 3, 4))
    found = judge(window(60, worker(1, requests, each=each, cpu=0.5, busy=busy), *others))
    assert [row(found, code) for code in found if code.startswith("uneven")] == [kind]


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

"""Requests that wait although threads are free: advice and findings say why, if it is known."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import findings_by_code, row, setup, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, evenness
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

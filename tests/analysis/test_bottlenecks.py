"""Requests that wait although threads are free: advice and findings say why, if it is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.test_findings import AT, findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import Finding, limits, queue
from uwsgi_headroom.analysis.findings.limits import find_change
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Options, Setup, SocketHolders


def mapped(server: Server) -> HostFacts:
    return replace(server.read(AT).host, setup=Setup(Options(), 4096, "single", None, True))


SLEEPING = {"sleep": 2.0}
"""What threads wait for that more of them would serve."""


def one_full_worker(queued: float) -> Window:
    """The first of three single-threaded workers is always busy."""
    rows = (worker(1, 600, cpu=1.0, busy=60.0), *(worker(number, 300, cpu=1.0, busy=30.0) for number in (2, 3)))
    return window(60, *rows, waits=SLEEPING, **{"app.sock": 60 * queued})


def test_a_mapped_socket_whose_worker_is_full() -> None:
    """More processes would take no request from that socket, and unequal shares are not harmless."""
    server = Server(processes=3, threads=1)
    by_code = findings_by_code(one_full_worker(queued=4.0), server, host=mapped(server))
    assert by_code["queue_wait"].change.startswith(
        "Let the web server spread the load evenly over the sockets of `map-socket`"
    )
    assert "unevenness_harmless" not in by_code
    assert "a free thread cannot take a request that waits at the socket of another worker" in by_code["uneven"].meaning
    burst = window(
        60, *(worker(number, 300, cpu=1.0, busy=30.0) for number in (1, 2, 3)), waits=SLEEPING, **{"app.sock": 120.0}
    )
    assert findings_by_code(burst, server, host=mapped(server))["queue_wait"].title.endswith("it is not known why.")
    burst = replace(burst, full_seconds=3.0)
    assert findings_by_code(burst, server, host=mapped(server))["queue_wait"].change.startswith("Raise `processes`")
    shared = findings_by_code(replace(one_full_worker(queued=4.0), full_seconds=20.0), server)
    assert shared["queue_wait"].change.startswith("Raise `processes` from 3 to 15")


def ten_sockets(queued: float, busy: float = 60.0, holders: SocketHolders | None = None) -> dict[str, Finding]:
    """The first of ten single-threaded workers has a socket of its own, where so many requests wait on average; the
    threads of the others, which share one, are mostly free."""
    server = Server(processes=10, threads=1)
    rows = [worker(number, 600, cpu=1.0, busy=busy if number == 1 else 12.0) for number in range(1, 11)]
    made = window(60, *rows, waits=SLEEPING, **{"a.sock": 60 * queued, "b.sock": 0.0})
    setup = Setup(Options(), 4096, "single", holders or {"a.sock": (1,), "b.sock": tuple(range(2, 11))}, True)
    return findings_by_code(made, server, host=replace(server.read(AT).host, setup=setup))


def test_a_worker_is_judged_by_the_queue_of_its_own_socket() -> None:
    """Its users wait as long as they are served, and over all sockets the mean wait is 10 ms."""
    finding = next(iter(ten_sockets(queued=1.0).values()))
    assert finding.kind is limits.SOCKET_FULL
    assert finding.title.endswith(": the only thread of worker 1 is busy.")
    (harm,) = finding.harms
    assert harm.kind is queue.SHORT_WAIT
    assert "at a.sock, requests wait 100 ms on average" in harm.evidence


@pytest.mark.parametrize(
    ("queued", "busy", "code", "expected"),
    [
        (6.0, 60.0, "queue_wait", "critical"),  # 0.6 s
        (0.0, 60.0, "saturation", "warning"),
        (0.0, 44.0, None, None),
        (1.0, 44.0, "queue_wait", "warning"),
    ],
)
def test_the_thresholds_are_those_of_a_server(
    queued: float, busy: float, code: str | None, expected: str | None
) -> None:
    """Three quarters of its threads, or a wait that users notice, are a warning."""
    by_code = ten_sockets(queued, busy)
    assert (by_code[code].severity if code else None) == expected
    assert code or not [finding for finding in by_code.values() if finding.severity != "info"]


def test_a_full_worker_is_no_cause_of_a_wait_at_another_socket() -> None:
    """Its own users find a thread."""
    holders = {"a.sock": tuple(range(2, 11)), "b.sock": (1,)}
    finding = ten_sockets(queued=8.0, busy=50.0, holders=holders)["queue_wait"]
    assert finding.title == "Requests wait in the listen queue: it is not known why."
    assert "at a.sock" in finding.evidence


def test_a_worker_that_serves_two_sockets_is_judged_by_the_mean() -> None:
    """The socket of a request is then unknown, and so is the wait at each."""
    by_code = ten_sockets(queued=1.0, holders={"a.sock": (1,), "b.sock": tuple(range(1, 11))})
    assert "queue_wait" not in by_code
    assert by_code["saturation"].severity == "warning"


def test_a_reload_is_not_blamed_for_another_reason() -> None:
    """Requests of a full worker's own socket wait after the reload as well, and its end changes nothing."""
    server, reloaded = Server(processes=3, threads=1), replace(one_full_worker(queued=40.0), reloads=1)
    finding = findings_by_code(reloaded, server, host=mapped(server))["queue_wait"]
    assert finding.severity == "critical"
    assert "reloaded" not in finding.title
    assert finding.change.startswith("Let the web server spread the load evenly")
    finding = findings_by_code(reloaded, server)["queue_wait"]
    assert finding.severity == "warning"
    assert finding.title.endswith(": uWSGI was reloaded.")


def test_a_mapped_socket_where_nobody_waits() -> None:
    """The reason is not that other threads would serve the requests."""
    server = Server(processes=3, threads=1)
    finding = findings_by_code(one_full_worker(queued=0.0), server, host=mapped(server))["unevenness_harmless"]
    assert "the listen queues of these sockets are nearly empty" in finding.meaning


def test_a_wait_during_a_reload() -> None:
    """More processes would not shorten the time in which none of them is up."""
    rows = (worker(number, 300, busy=15.0) for number in range(1, 5))
    reloaded = replace(window(60, *rows, **{"app.sock": 600.0}), reloads=1)
    server = Server(threads=1)
    finding = findings_by_code(reloaded, server)["queue_wait"]
    assert "while a full reload loaded the application" in (finding.change or "")
    assert finding.title == "Requests wait in the listen queue: uWSGI was reloaded."
    assert finding.severity == "warning"
    often = findings_by_code(replace(reloaded, reloads=3), server)["queue_wait"]
    assert often.title == "Requests wait in the listen queue: uWSGI is reloaded again and again."
    assert often.change.startswith("Find out what reloads uWSGI: SIGHUP, ")
    full = replace(
        window(60, *(worker(number, 300, busy=59.0) for number in range(1, 5)), waits=SLEEPING, **{"app.sock": 600.0}),
        reloads=1,
    )
    finding = findings_by_code(full, server)["queue_wait"]
    assert "Raise `processes`" in (finding.change or "")
    assert finding.title == "Requests wait in the listen queue: all threads are busy."
    assert finding.severity == "critical"
    idle = replace(window(60, *(worker(number, 0) for number in range(1, 5)), **{"app.sock": 600.0}), reloads=1)
    finding = findings_by_code(idle, server)["queue_wait"]
    assert finding.title == "Requests wait, and no request is completed: it is not known why."
    assert finding.severity == "critical"


def test_a_slow_worker_is_not_called_harmless() -> None:
    """A worker that holds up its few requests has a small share, and balancing would not save time."""
    rows = (
        worker(1, 60, each=0.7, cpu=0.5, busy=42.0),
        *(worker(number, 900, each=0.01, cpu=0.5) for number in (2, 3, 4)),
    )
    by_code = findings_by_code(window(60, *rows))
    assert "unevenness_harmless" not in by_code
    assert by_code["uneven"].title == "Requests of worker 1 take much longer than requests of other workers."
    assert "take 70x as long as" in by_code["uneven"].evidence
    few = (worker(1, 20, each=0.7, cpu=0.5), *(worker(number, 900, each=0.01, cpu=0.5) for number in (2, 3, 4)))
    assert "unevenness_harmless" in findings_by_code(window(60, *few))
    slowest = window(60, worker(1, 12, each=9.0, cpu=0.5, busy=110.0), *few[1:])
    assert "take 900x as long as" in findings_by_code(slowest)["uneven"].evidence
    chance = window(60, worker(1, 12, each=0.7, cpu=0.5, busy=8.4), *few[1:])
    assert "unevenness_harmless" in findings_by_code(chance)


def test_requests_that_become_slower_within_the_window() -> None:
    """A mean over such a step describes neither side: where most threads are in use since then, that part is judged."""

    def of(seconds: float, requests: int, busy: float) -> Figures:
        rows = [worker(number, requests, each=0.1, cpu=0.1, busy=busy) for number in (1, 2, 3, 4)]
        record = describe_server(Server().read(AT))
        assert record
        return compute_figures(window(seconds, *rows), record)

    whole = of(30.0, 900, 60.0)
    change = find_change(whole, of(5.0, 4, 38.0))
    assert change
    assert change.evidence.startswith("In the last 5.0 s, a request occupies a thread for 9.5 s; on average over 30 s,")
    assert find_change(whole, of(5.0, 150, 10.0)) is None  # as before
    assert find_change(whole, of(5.0, 4, 15.0)) is None  # slow requests beside free threads
    assert find_change(of(30.0, 20, 225.0), of(5.0, 4, 38.0)) is None  # slow all the time

"""Requests that wait although threads are free: advice and findings say why, if it is known."""

from __future__ import annotations

from dataclasses import replace

from tests.analysis.test_findings import AT, findings_by_code
from tests.support.windows import window, worker
from tools.support.simulated_server import Server
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.record import Options, Setup


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
    assert by_code["queue_wait"].change.startswith("Spread the load over the sockets that `map-socket`")
    assert "unevenness_harmless" not in by_code
    assert "a free thread takes no request from another socket" in by_code["uneven"].meaning
    burst = window(
        60, *(worker(number, 300, cpu=1.0, busy=30.0) for number in (1, 2, 3)), waits=SLEEPING, **{"app.sock": 120.0}
    )
    assert findings_by_code(burst, server, host=mapped(server))["queue_wait"].title.endswith("the cause is not seen.")
    burst = replace(burst, full_seconds=3.0)
    assert findings_by_code(burst, server, host=mapped(server))["queue_wait"].change.startswith("Raise `processes`")
    shared = findings_by_code(replace(one_full_worker(queued=4.0), full_seconds=20.0), server)
    assert shared["queue_wait"].change.startswith("Raise `processes` from 3 to 15")


def test_a_reload_is_not_blamed_for_another_reason() -> None:
    """Requests of a full worker's own socket wait after the reload as well, and its end changes nothing."""
    server, reloaded = Server(processes=3, threads=1), replace(one_full_worker(queued=40.0), reloads=1)
    finding = findings_by_code(reloaded, server, host=mapped(server))["queue_wait"]
    assert finding.severity == "critical"
    assert "reloaded" not in finding.title
    assert finding.change.startswith("Spread the load")
    finding = findings_by_code(reloaded, server)["queue_wait"]
    assert finding.severity == "warning"
    assert finding.title.endswith(": uWSGI was reloaded.")


def test_a_mapped_socket_where_nobody_waits() -> None:
    """The reason is not that other threads would serve the requests."""
    server = Server(processes=3, threads=1)
    finding = findings_by_code(one_full_worker(queued=0.0), server, host=mapped(server))["unevenness_harmless"]
    assert finding.meaning.endswith("That is harmless: their listen queues are nearly empty.")


def test_a_wait_during_a_reload() -> None:
    """More processes would not shorten the time in which none of them is up."""
    rows = (worker(number, 300, busy=15.0) for number in range(1, 5))
    reloaded = replace(window(60, *rows, **{"app.sock": 600.0}), reloads=1)
    server = Server(threads=1)
    finding = findings_by_code(reloaded, server)["queue_wait"]
    assert "while a full reload loaded the application" in (finding.change or "")
    assert finding.title == "Requests wait in the listen queue: uWSGI was reloaded."
    assert finding.severity == "warning"
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
    assert finding.title == "Requests wait, and none is completed: the cause is not seen."
    assert finding.severity == "critical"


def test_a_slow_worker_is_not_called_harmless() -> None:
    """A worker that holds up its few requests has a small share, and balancing would not save time."""
    rows = (
        worker(1, 60, each=0.7, cpu=0.5, busy=42.0),
        *(worker(number, 900, each=0.01, cpu=0.5) for number in (2, 3, 4)),
    )
    by_code = findings_by_code(window(60, *rows))
    assert "unevenness_harmless" not in by_code
    assert by_code["uneven"].title == "Requests of worker 1 take much longer than those of the others."
    assert ": 70x the time" in by_code["uneven"].evidence
    few = (worker(1, 20, each=0.7, cpu=0.5), *(worker(number, 900, each=0.01, cpu=0.5) for number in (2, 3, 4)))
    assert "unevenness_harmless" in findings_by_code(window(60, *few))

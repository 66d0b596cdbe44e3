"""Findings name lines of code, where these are known and say something."""

from __future__ import annotations

import pytest

from tests.analysis.test_findings import idle
from tests.analysis.test_wait_findings import of_16_threads
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import CodeLook, CodeSight, Line, State

AT = 1000.0
AUDIT, QUERY, OTHER = "audit", "query_orders", "render"


def sight(
    thread: int, name: str, number: int, state: State, address: str = "", inside: Line | None = None, worker: int = 1
) -> CodeSight:
    return CodeSight(worker, thread, at(name, number), state, address, 1.0, inside)


def at(name: str, number: int) -> Line:
    return Line(name, "/srv/shop/orders.py", number)


def history(looks: int, *sights: CodeSight) -> CodeHistory:
    """A history of so many looks, one a second, that all saw the same."""
    found = CodeHistory()
    for second in range(looks):
        found.add(float(second), CodeLook(None, sights), 3.0)
    return found


def judged(window_: Window, code: CodeHistory, server: Server | None = None) -> dict[str, Finding]:
    reading = (server or Server(processes=2, threads=8, cpus=8.0)).read(AT)
    known = code.of(0.0, 60.0)
    findings = collect_findings(compute_figures(window_, describe_server(reading), code=known))
    return {finding.code: finding for finding in findings}


def test_the_lines_of_a_wait() -> None:
    """The evidence has the lines of the threads in that state, and no others; a cause says so if most are in one."""
    backend = [sight(place, QUERY, 3, "backend", "10.0.0.5:5432") for place in range(4)]
    code = history(30, *backend, sight(4, OTHER, 9, "backend"), sight(5, OTHER, 7, "cpu"))
    finding = judged(of_16_threads({"backend": 12.0}), code)["waits_for_backend"]
    where = (
        "Where these threads are in the code: 80 % in query_orders (shop/orders.py:3), 20 % in render "
        "(shop/orders.py:9)."
    )
    assert finding.evidence.endswith(where)
    assert finding.clause.endswith(", mostly in query_orders (shop/orders.py:3)")
    few = judged(of_16_threads({"backend": 12.0}), history(3, *backend))["waits_for_backend"]
    assert "in the code" not in few.evidence, "a few looks say nothing"


WAITING = (
    sight(1, AUDIT, 8, "lock", inside=at(AUDIT, 8)),
    sight(2, AUDIT, 8, "lock", inside=at(AUDIT, 8)),
)


@pytest.mark.parametrize(
    ("others", "holder"),
    [
        ([sight(3, QUERY, 3, "dns", "10.0.0.2:53", at(AUDIT, 9))], "query_orders (shop/orders.py:3) waiting for DNS"),
        ([sight(3, AUDIT, 9, "sleep", inside=at(AUDIT, 9))], "audit (shop/orders.py:9) sleeping"),
        ([sight(3, AUDIT, 7, "sleep", inside=at(AUDIT, 7))], ""),  # before the lock
        ([sight(3, OTHER, 9, "sleep")], ""),
        ([sight(3, AUDIT, 9, "sleep", inside=at(AUDIT, 9), worker=2)], ""),  # of another process
        ([sight(each, AUDIT, 9, "sleep", inside=at(AUDIT, 9)) for each in (3, 4)], ""),  # two cannot both have it
        ([], ""),
    ],
)
def test_who_has_a_lock(others: list[CodeSight], holder: str) -> None:
    """The holder is the one thread of the worker that is further down in the function in which others wait. Without
    one, or with several, nothing is said."""
    finding = judged(of_16_threads({"lock": 8.0}), history(30, *WAITING, *others))["application_lock"]
    assert "100 % in audit (shop/orders.py:8)" in finding.evidence
    assert ("that thread holds the lock" in finding.evidence) == bool(holder)
    if holder:
        assert finding.evidence.endswith(f"that thread holds the lock, and is in {holder}.")


@pytest.mark.parametrize(("also", "known"), [([], True), ([sight(3, OTHER, 9, "sleep", worker=2)], False)])
def test_stuck_requests_by_their_line(also: list[CodeSight], known: bool) -> None:
    """A thread that stays in one function for as long as requests are stuck has the one of its worker; where more
    threads stay than requests are stuck, it is not known which has it."""
    server = Server()
    server[2].request_starts = (int(EPOCH + AT) - 45, int(EPOCH + AT) - 5)
    stays = sight(1, "export", 88, "backend", "10.0.0.5:5432", worker=2)
    code = CodeHistory()
    for second in range(40):
        goes_on = sight(2, f"{OTHER}_{second % 2}", 9, "cpu", worker=2)
        code.add(float(second), CodeLook(None, (stays, goes_on, *also)), 3.0)
    finding = judged(idle(), code, server)["request_stuck"]
    where = " In the code, 1 stuck request is in the function export (shop/orders.py:88), waiting for 10.0.0.5:5432."
    assert finding.evidence.endswith(where) == known
    assert ("In the code" in finding.evidence) == known

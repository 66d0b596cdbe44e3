"""Static files that workers serve: named where they hold the threads, and kept out of the mean request."""

from __future__ import annotations

import pytest

from tests.analysis.test_findings import AT, findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.findings.static_files import STATIC_FILES
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server


def files(held: float | None = 3.8, *, static: int = 450, other: int = 50, queued: float = 9.0) -> Window:
    """A minute of two workers with two threads each, of which files hold so many, and others a few."""
    busy = None if held is None else 60 * held / 2 + other * 0.02
    rows = (worker(number, static + other, each=0.02, static=static, cpu=0.5, busy=busy) for number in (1, 2))
    return window(60, *rows, waits={"client": held or 0.1, "cpu": 0.03}, **{"app.sock": 60 * queued})


def judged(window_: Window) -> dict[str, Finding]:
    return findings_by_code(window_, Server(processes=2, threads=2, cpus=8.0))


def test_files_that_hold_the_threads() -> None:
    """They are the cause of the wait, once: slow clients are those who read them."""
    by_code = judged(files())
    finding = by_code["queue_wait"]
    assert (finding.kind, finding.severity) == (STATIC_FILES, "critical")
    assert "3.8 of 4 threads" in finding.evidence
    assert finding.settings == (("offload-threads", 2),)
    assert "slow_clients" not in by_code


@pytest.mark.parametrize(("held", "takes_much"), [(0.1, False), (1.2, True), (3.8, True)])
def test_files_while_nobody_waits(held: float, takes_much: bool) -> None:
    """They are good to know, with something to change if they take many threads."""
    finding = judged(files(held, queued=0.0))["static_files"]
    assert (finding.severity, bool(finding.change), bool(finding.settings)) == ("info", takes_much, takes_much)


def test_counters_that_contradict_each_other() -> None:
    """More files than requests, or files without a request, as no uWSGI writes them, raise nothing."""
    assert "static_files" not in judged(files(0.1, static=50, other=-50, queued=0.0))
    assert judged(files(0.1, static=100, other=-20, queued=0.0))["static_files"].evidence.startswith("100 % of 160")


@pytest.mark.parametrize(("static", "other"), [(0, 500), (249, 251), (10, 5)])
def test_servers_that_serve_no_files(static: int, other: int) -> None:
    """Where most requests are others, or there are hardly any, it is no finding."""
    assert "static_files" not in judged(files(0.1, static=static, other=other, queued=0.0))


def test_unknown_threads() -> None:
    """With stats-no-cores it is not known what they hold."""
    assert "threads" not in judged(files(None, queued=0.0))["static_files"].evidence


def test_one_basis_for_a_mean_request() -> None:
    """The time of a mean request is that of requests that uWSGI measures: what threads do for files is not in it."""
    record = describe_server(Server(processes=2, threads=2).read(AT))
    assert record is not None
    hidden = compute_figures(files(), record).waits
    assert hidden is not None
    assert (hidden.per_request, hidden.backends_per_request) == (None, None)
    shown = compute_figures(files(0.001, static=10, other=490), record)
    assert shown.waits is not None
    assert shown.waits.per_request is not None
    assert sum(shown.waits.per_request.values()) == pytest.approx(shown.flow.response_time)

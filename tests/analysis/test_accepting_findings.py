"""Workers that take no request although some wait: what keeps them from accepting is named, and no capacity advised."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, describe, judge, said
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import causes
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Silence


def waiting(idle: float | None = 30.0) -> Window:
    """A minute of four idle workers while three requests wait; idle: seconds in which a thread was free meanwhile."""
    rows = (worker(number, 50, each=0.05, cpu=0.1, busy=3.0) for number in range(1, 5))
    return replace(window(60, *rows, app=180.0), idle_queue_seconds=idle)


def prefork(**more: int | None) -> Server:
    return Server(processes=4, threads=1, queue=3, **more)


@pytest.mark.parametrize(
    ("holder", "is_stopped", "kind", "command"),
    [
        (102, True, causes.HOLDER_STOPPED, "`kill -CONT 102`"),
        (103, False, causes.HOLDER_ACCEPTS_NOTHING, "`kill -KILL 103`"),  # uWSGI starts another worker
        (999, False, causes.HOLDER_GONE, "Reload uWSGI"),  # a process that is no worker never released it
        (None, True, causes.IDLE_AND_STOPPED, "`kill -CONT 102`"),
        (None, False, causes.ACCEPT_NOTHING, "py-spy"),  # nothing is known of the cause
    ],
)
def test_what_keeps_workers_from_accepting(holder, *, is_stopped, kind, command):
    """The worker that holds the lock is named with its PID, but not for scrapers."""
    server = prefork(accept_lock=holder)
    server[2].stopped = is_stopped
    first, *_ = judge(waiting(), server).values()
    assert (first.kind, first.severity, first.settings) == (kind, "critical", ())
    assert command in first.change
    assert "`processes`" not in first.change
    assert (f"(PID {holder})" in first.title) == (holder is not None)
    assert str(holder) not in "".join(first.public)


@pytest.mark.parametrize(
    ("reason", "is_stopped", "act"), [("timeout", True, "`kill -CONT 7`"), ("truncated", False, "`/proc/7/wchan`")]
)
def test_a_master_that_does_not_answer(reason, is_stopped, act):
    """A ticket with what to do for each reason; none while its stats answer."""
    record = describe(prefork())
    silence = Silence(AT, 7, is_stopped, reason, "no answer", 3)
    found = judge(waiting(0.0), replace(record, silence=silence))
    assert said(found, "master_silent") == (causes.MASTER_SILENT, "warning")
    assert act in found["master_silent"].change
    assert " 7" not in found["master_silent"].public.act
    assert "master_silent" not in judge(waiting(0.0), record)


@pytest.mark.parametrize("slow", [False, True])
def test_stats_that_are_empty(slow):
    """Requests without an end hold threads: they are the cause of waiting for clients, and the headroom is unknown. One
    of four seconds in a minute is no finding."""
    record = replace(describe(prefork()), silence=Silence(AT, 7, False, "empty", "no answer", 3))
    assert said(judge(waiting(2.0 * slow), record), "unfinished_requests")[0] == causes.UNFINISHED
    for seconds, is_found in ((4.0, False), (12.0, True)):
        found = judge(waiting(0.0), replace(record, silence=None, empty_seconds=seconds))
        assert ("unfinished_requests" in found) == is_found

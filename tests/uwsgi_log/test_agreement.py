"""A line of the log counts as proven if a counter or a process agrees with it within five seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.support.simulated_server import Server
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import LogMessage
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.uwsgi_log.log import AGREE_SECONDS, MOST_EVENTS, Agreement, Batch, Line, UwsgiLog
from uwsgi_headroom.uwsgi_log.scan import Seen


class Watched:
    """A simulated server whose readings and lines are compared."""

    def __init__(self) -> None:
        self.server = Server(socket="127.0.0.1:3031")
        self.opens = 0
        self.agreement = Agreement(read_opens=lambda _pid: self.opens)
        self.note(0.0)

    def reading(self, at: float) -> Reading:
        reading = self.server.read(at)
        return replace(reading, host=replace(reading.host, master_pid=99))

    def note(self, at: float) -> None:
        self.agreement.note(self.reading(at))

    def hear(self, at: float, seen: Seen, count: int = 1) -> Line:
        line = Line(at, seen, count)
        self.agreement.hear(line)
        return line


def test_a_process_that_is_gone_agrees() -> None:
    """The line names the process of a worker that is no longer there; another process proves nothing."""
    watched = Watched()
    pid = watched.server[2].pid
    watched.server.respawn(2, 1.0)
    watched.note(1.0)
    line = watched.hear(1.0, Seen("killed_by_signal", worker=2, pid=pid, signal=11))
    forged = watched.hear(1.0, Seen("killed_by_signal", worker=1, pid=watched.server[1].pid, signal=11))
    unknown = watched.hear(1.0, Seen("killed_by_signal", worker=1, pid=1, signal=11))
    assert [watched.agreement.count(each, 1.0) for each in (line, forged, unknown)] == [1, 0, 0]
    late = watched.hear(1.0 + AGREE_SECONDS + 1, Seen("killed_by_signal", pid=pid, signal=11))
    assert watched.agreement.count(late, late.at) == 0


def test_the_line_may_come_first() -> None:
    """A process may be seen to be gone after its line was read, also before uWSGI's master has noticed."""
    watched = Watched()
    line = watched.hear(1.0, Seen("worker_died", worker=2, pid=watched.server[2].pid))
    assert watched.agreement.count(line, 1.0) == 0
    watched.server.kill(2)
    watched.note(2.0)
    assert watched.agreement.count(line, 2.0) == 1


def test_one_growth_of_a_counter_proves_one_line() -> None:
    """A forged line more than the counter has grown is not proven, however often it is asked about."""
    watched = Watched()
    line = watched.hear(1.0, Seen("harakiri", worker=1), 5)
    watched.server[1].harakiris += 1
    watched.note(1.0)
    assert watched.agreement.count(line, 1.0) == 1
    watched.note(2.0)
    assert watched.agreement.count(line, 2.0) == 0


@pytest.mark.parametrize(("opens", "proven"), [(0, 0), (400, 1), (300, 1), (250, 0), (900, 0)])
def test_refused_requests_agree_with_accepted_connections(opens: int, proven: int) -> None:
    """As many connections must have come without a request as requests are said to be refused."""
    watched = Watched()
    watched.server.serve(1, 100)
    watched.opens = 100 + opens
    watched.note(1.0)
    line = watched.hear(1.0, Seen("head_too_large", limit=4096), 400)
    watched.note(2.5)
    assert watched.agreement.count(line, 2.5) == 0, "too early"
    watched.note(3.5)
    assert watched.agreement.count(line, 3.5) == 400 * proven
    watched.opens += 400 * (1 - proven)
    watched.note(5.0)
    assert watched.agreement.count(line, 5.0) == 0, "judged once"


def test_a_single_forged_refusal_is_not_proven() -> None:
    """Where every connection brought its request, none was refused."""
    watched = Watched()
    watched.server.serve(1, 100)
    watched.opens = 100
    watched.note(1.0)
    line = watched.hear(1.0, Seen("head_too_large"))
    watched.note(3.1)
    assert watched.agreement.count(line, 3.1) == 0


@pytest.mark.parametrize(("each", "proven"), [(0.0, 10), (0.01, 0)])
def test_requests_that_take_no_time_agree(each: float, proven: int) -> None:
    """A missing plugin answers at once, and is counted."""
    watched = Watched()
    watched.server.serve(1, 10, each=each)
    watched.note(1.0)
    assert watched.agreement.count(watched.hear(1.0, Seen("modifier_unavailable", limit=5), 10), 1.0) == proven


@pytest.mark.parametrize(("instant", "proven"), [(10, 10), (9, 0)])
def test_a_request_that_takes_time_hides_no_others(instant: int, proven: int) -> None:
    """As one that a busy machine interrupts, or one of another kind, a moment before or after."""
    watched = Watched()
    for at, requests, each in ((1.0, 3, 1.0), (2.0, instant, 0.0001), (3.0, 1, 0.2)):
        watched.server.serve(1, requests, each)
        watched.note(at)
    assert watched.agreement.count(watched.hear(3.0, Seen("modifier_unavailable", limit=5), 10), 3.0) == proven


@pytest.mark.parametrize(
    ("calls", "respawns", "proven"), [(90, False, 10), (94, False, 6), (100, False, 0), (90, True, 0), (None, False, 0)]
)
def test_requests_that_call_no_application_agree(calls: int | None, respawns: bool, proven: int) -> None:
    """uWSGI counts a request with a body above `limit-post`, and its application counts none: among others, too. A new
    process counts its calls from 0 on, and those of PHP are not counted."""
    watched = Watched()
    watched.server[1].calls = None if calls is None else 0
    watched.note(0.5)
    watched.server.serve(1, 100, each=0.1)
    watched.server[1].calls = calls
    if respawns:
        watched.server.respawn(1, 1.0)
    watched.note(1.0)
    assert watched.agreement.count(watched.hear(1.0, Seen("body_too_large"), 10), 1.0) == proven


def test_what_no_fact_can_show_is_never_proven() -> None:
    """Some messages have no counter."""
    watched = Watched()
    watched.server.respawn(1, 1.0)
    watched.note(1.0)
    assert watched.agreement.count(watched.hear(1.0, Seen("disk_full")), 1.0) == 0


def test_a_reload_is_no_growth() -> None:
    """A full reload sets uWSGI's counters to 0."""
    watched = Watched()
    watched.server[1].harakiris = 7
    watched.note(1.0)
    watched.server.reload(2.0)
    watched.note(2.0)
    assert watched.agreement.count(watched.hear(2.0, Seen("harakiri", worker=1)), 2.0) == 0


class Log(UwsgiLog):
    """The log of a simulated server, without a file; `events` are those that it added."""

    def __init__(self) -> None:
        super().__init__("/nonexistent")
        self.server = Server()
        self.events: list[tuple[str, str, tuple[int, ...], int]] = []
        self.note(self.server.read(0.0))

    def hear(self, at: float, *seen: Seen) -> None:
        batch = Batch(lines=len(seen))
        batch.seen.update(seen)
        self.take(batch, at, lambda *event: self.events.append(event))


def test_a_window_has_its_messages() -> None:
    """A window has the counts, the workers and the signals of its messages, and how many are proven."""
    log = Log()
    pid = log.server[2].pid
    log.hear(1.0, Seen("killed_by_signal", worker=2, pid=pid, signal=11), Seen("killed_by_signal", worker=1, signal=9))
    log.server.respawn(2, 2.0)
    log.note(log.server.read(2.0))
    log.hear(100.0, Seen("head_too_large", limit=4096))
    first, later = log.record(0.0, 10.0).messages, log.record(60.0, 120.0).messages
    assert first == {"killed_by_signal": LogMessage(2, 1, (1, 2), (9, 11))}
    assert later == {"head_too_large": LogMessage(1, 0, limit=4096)}
    assert log.totals.messages == {"killed_by_signal": 2, "head_too_large": 1}
    assert log.totals.lines == 3


def test_events_name_the_worker_and_the_process() -> None:
    """An event has the worker and the PID; a worker that does not exist is not named."""
    log = Log()
    log.hear(1.0, Seen("killed_by_signal", worker=2, pid=4711, signal=11))
    log.hear(1.0, Seen("killed_by_signal", worker=77, pid=1, signal=11))
    assert log.events == [
        ("uWSGI's log: worker 2 was killed by signal 11 (SIGSEGV).", "Process 4711.", (2,), 1),
        ("uWSGI's log: a worker was killed by signal 11 (SIGSEGV).", "Process 1.", (), 1),
    ]


def test_a_log_full_of_different_messages_makes_few_events() -> None:
    """The application cannot displace all other events of the journal."""
    log = Log()
    for limit in range(1000):
        log.hear(1.0, Seen("processes_limited", limit=limit))
    assert len(log.events) == MOST_EVENTS[0]
    assert log.totals.messages == {"processes_limited": 1000}


def test_pending_lines_are_bounded() -> None:
    """A hostile log takes no more memory than its bounds."""
    log = Log()
    for pid in range(5000):
        log.hear(1.0, Seen("killed_by_signal", pid=pid, signal=11))
    assert len(log._pending) <= 2000
    log.note(log.server.read(7.0))
    assert len(log._pending) == 0
    assert len(log._bins["killed_by_signal"]) == 1


def test_an_application_that_is_missing_agrees() -> None:
    """A worker that accepts requests without an application agrees with the message about it."""
    log = Log()
    reading = log.server.read(1.0)
    assert isinstance(reading.snapshot, Snapshot)
    assert all(not worker.apps for worker in reading.snapshot.workers)
    log.hear(1.0, Seen("application_not_loaded", place="KeyError at shop/wsgi.py:3"))
    log.note(reading)
    (message,) = log.record(0.0, 5.0).messages.values()
    assert (message.agreed, message.place) == (1, "KeyError at shop/wsgi.py:3")

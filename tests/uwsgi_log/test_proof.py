"""A line of the log is proven by a process that is gone, a counter that has grown, or a state, within five seconds."""

import pytest
from msgspec.structs import replace

from tests.support.simulated_server import Server
from uwsgi_headroom.record import UNKNOWN, LogMessage, Options
from uwsgi_headroom.uwsgi_log.log import MOST_EVENTS, PROOF_SECONDS, LogBatch, LogLine, Proofs, UwsgiLog
from uwsgi_headroom.uwsgi_log.scan import Found


class Watched:
    """A simulated server; worker 1 has 100 calls of its application. logs_requests: each request has a line."""

    def __init__(self, *, logs_requests=True):
        self.setup = replace(UNKNOWN, options=Options(logs_requests=logs_requests))
        self.server = Server()
        self.server.serve(1, 100)
        self.server[1].calls = 100
        self.proofs = Proofs()
        self.note(0.0)

    def note(self, at):
        reading = self.server.read(at)
        self.proofs.note(replace(reading, host=replace(reading.host, setup=self.setup)))

    def count(self, at, seen, count=1):
        return self.proofs.count(LogLine(at, seen, count), at)


def served(requests, calls, *, static=0, routed=0, respawns=False, logs_requests=True):
    """The first worker has served more. calls: of its application; static, routed: without; respawns: others."""
    watched = Watched(logs_requests=logs_requests)
    watched.server.serve(1, requests)
    first = watched.server[1]
    first.calls = None if calls is None else 100 + calls
    first.static_requests, first.routed_requests = static, routed
    if respawns:
        watched.server.respawn(1, 1.0)
    watched.note(1.0)
    return watched


def test_a_process_that_is_gone_is_a_proof():
    """Of a line that names it, read before or after its end. Some messages have no proof."""
    watched = Watched()
    pid, alive = watched.server[2].pid, watched.server[1].pid
    line = LogLine(0.5, Found("worker_died", worker=2, pid=pid), 1)
    assert watched.proofs.count(line, 0.5) == 0
    watched.server.kill(2)
    watched.note(1.0)
    assert watched.proofs.count(line, 1.0) == 1
    assert watched.count(1.0, Found("disk_full")) == 0
    watched.server.respawn(2, 1.0)
    watched.note(1.0)
    assert watched.count(1.0, Found("killed_by_signal", worker=2, pid=pid, signal=11)) == 1
    assert watched.count(1.0, Found("killed_by_signal", worker=1, pid=alive, signal=11)) == 0
    assert watched.count(1.0, Found("killed_by_signal", worker=1, pid=1, signal=11)) == 0
    assert watched.count(2.0 + PROOF_SECONDS, Found("killed_by_signal", pid=pid, signal=11)) == 0


def test_one_growth_of_a_counter_proves_one_line():
    watched = Watched()
    seen = Found("harakiri", worker=1, pid=watched.server[1].pid)
    watched.server[1].harakiris += 1
    watched.note(1.0)
    assert watched.count(1.0, seen._replace(pid=1), 5) == 0, "no worker's PID"
    assert watched.count(1.0, seen, 5) == 1
    watched.note(2.0)
    assert watched.count(2.0, seen, 4) == 0
    # A reload is no growth.
    watched = Watched()
    watched.server[1].harakiris = 7
    watched.note(1.0)
    watched.server.reload(2.0)
    watched.note(2.0)
    watched.proofs._facts.popleft()
    assert watched.count(2.0, Found("harakiri", worker=1)) == 0


@pytest.mark.parametrize(
    ("calls", "without", "proven"),
    [
        (90, {}, 10),
        (94, {}, 6),
        (100, {}, 0),
        (90, {"respawns": True}, 0),  # calls of a new process begin at 0
        (None, {}, 0),  # those of PHP are not counted
        (80, {"static": 15, "routed": 5}, 0),  # a client that gets files, or that a rule of routing answers
    ],
)
@pytest.mark.parametrize("code", ["body_too_large", "modifier_unavailable", "empty_request"])
def test_requests_that_call_no_application_are_a_proof(calls, without, proven, code):
    """uWSGI counts a refused request, and its application none."""
    watched = served(100, calls, **without)
    assert watched.count(1.0, Found(code), 10) == proven
    assert watched.count(1.0, Found("bad_packet"), 10) == 0, "one request without a call proves one line"


def test_requests_in_service_are_no_requests_without_a_call():
    """uWSGI counts a call when it begins, and a request when it ends."""
    watched = Watched()
    watched.server[1].calls = 104
    watched.server.busy(4, *[0] * (len(watched.server.slots) - 1))
    watched.note(0.5)
    watched.proofs._facts.popleft()
    watched.server.serve(1, 4)
    watched.server.busy(*[0] * len(watched.server.slots))
    watched.note(1.0)
    assert watched.count(1.0, Found("modifier_unavailable", limit=5), 4) == 0


def failed(watched, calls, size=90, application=0, requests=0):
    return Found("status_5xx", pid=watched.server[1].pid, request=(application, calls, requests, size))


def test_the_line_of_a_request_has_the_numbers_of_its_worker():
    """Its PID, and the calls of its application before and after it."""
    watched = served(20, 20)
    assert [watched.count(1.0, failed(watched, calls)) for calls in (99, 100, 110, 120, 121)] == [0, 1, 1, 1, 0]
    assert watched.count(1.0, failed(watched, 110)._replace(pid=1)) == 0
    assert watched.count(1.0, failed(watched, 110)._replace(pid=watched.server[2].pid)) == 0
    assert watched.count(1.0, failed(watched, 110, application=7)) == 0
    assert watched.count(1.0, Found("status_5xx", pid=watched.server[1].pid)) == 0
    watched = served(20, 20, logs_requests=False)  # a client that knows these numbers makes up any line
    assert watched.count(1.0, failed(watched, 110)) == 0
    # uWSGI counts no calls of PHP. Its own counter of all requests may be a little behind.
    watched = served(20, None)
    numbers = (98, 99, 110, 120, 121)
    assert [watched.count(1.0, failed(watched, -1, 9, -1, number)) for number in numbers] == [0, 1, 1, 1, 0]


def test_lines_of_requests_are_no_more_than_requests():
    """A forged line is one too many, or has wrong numbers, or more bytes than were sent."""
    watched = served(20, 20)
    assert watched.count(1.0, failed(watched, 110), 30) == 20
    assert watched.count(1.0, failed(watched, 111)) == 0
    watched = served(20, 20)
    watched.proofs.use("requests", 1.0, 18)
    assert watched.count(1.0, failed(watched, 110), 20) == 2
    watched = served(20, 20)
    assert watched.count(1.0, failed(watched, 110, size=900), 3) == 2
    assert watched.count(1.0, failed(watched, 110, size=3000)) == 0


@pytest.mark.parametrize(("code", "counter"), [("body_not_buffered", "read_errors"), ("body_timeout", "exceptions")])
def test_a_request_that_uwsgi_ends_itself_is_counted(code, counter):
    """A body that it cannot buffer is a read error; one that comes too slowly raises an exception."""
    watched = Watched()
    setattr(watched.server[1], counter, 2)
    watched.note(1.0)
    assert watched.count(1.0, Found(code), 5) == 2


def test_lines_that_come_without_readings_are_bounded():
    watched, log = Watched(), Log()
    for turn in range(5000):
        watched.proofs.use("requests", float(turn), 7)
        log.hear(1.0, Found("killed_by_signal", pid=turn, signal=11))
    assert len(watched.proofs._used["requests"]) <= 1000
    assert len(log._pending) <= 2000
    log.note(log.server.read(7.0))
    assert len(log._pending) == 0
    assert len(log._bins["killed_by_signal"]) == 1


class Log(UwsgiLog):
    def __init__(self):
        super().__init__("/nonexistent")
        self.server = Server()
        self.events = []
        self.note(self.server.read(0.0))

    def hear(self, at, *seen):
        batch = LogBatch(lines=len(seen))
        batch.seen.update(seen)
        self.take(batch, at, lambda *event: self.events.append(event))


def test_a_window_has_its_messages():
    log = Log()
    pid = log.server[2].pid
    killed = Found("killed_by_signal", worker=2, pid=pid, signal=11)
    log.hear(1.0, killed, Found("killed_by_signal", worker=1, signal=9))
    log.server.respawn(2, 2.0)
    log.note(log.server.read(2.0))
    log.hear(100.0, Found("head_too_large", limit=4096))
    first, later = log.record(0.0, 10.0).messages, log.record(60.0, 120.0).messages
    assert first == {"killed_by_signal": LogMessage(2, 1, (1, 2), (9, 11))}
    assert later == {"head_too_large": LogMessage(1, 0, limit=4096)}
    assert log.totals.messages == {"killed_by_signal": 2, "head_too_large": 1}
    assert log.totals.lines == 3


def test_events_name_the_worker_and_the_process():
    log = Log()
    log.hear(1.0, Found("killed_by_signal", worker=2, pid=4711, signal=11))
    log.hear(1.0, Found("killed_by_signal", worker=77, pid=1, signal=11))
    assert log.events == [
        ("uWSGI's log: worker 2 was killed by signal 11 (SIGSEGV).", "Process 4711.", (2,), 1),
        ("uWSGI's log: a worker was killed by signal 11 (SIGSEGV).", "Process 1.", (), 1),
    ]
    # The application cannot displace all other events of the journal.
    log = Log()
    for limit in range(1000):
        log.hear(1.0, Found("processes_limited", limit=limit))
    assert len(log.events) == MOST_EVENTS[0]
    assert log.totals.messages == {"processes_limited": 1000}


def test_an_application_that_is_missing_is_a_proof():
    log = Log()
    reading = log.server.read(1.0)
    assert all(not worker.apps for worker in reading.snapshot.workers)
    log.hear(1.0, Found("application_not_loaded", place="KeyError at shop/wsgi.py:3"))
    log.note(reading)
    (message,) = log.record(0.0, 5.0).messages.values()
    assert (message.agreed, message.place) == (1, "KeyError at shop/wsgi.py:3")


def test_the_last_exception_of_a_chain_is_named():
    """Each has a traceback, and the last one is that of the application; a more frequent one comes first."""
    log = Log()
    chain = ("ConnectionRefusedError ECONNREFUSED at redis/connection.py:16", "ConnectionError at shop/cart.py:9")
    for place in chain:
        log.hear(1.0, Found("traceback", place=place))
    assert log.record(0.0, 2.0).messages["traceback"].place == chain[1]
    log.hear(1.0, Found("traceback", place=chain[0]))
    assert log.record(0.0, 2.0).messages["traceback"].place == chain[0]

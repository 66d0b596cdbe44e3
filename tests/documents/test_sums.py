"""Every sum adds up: the parts of a document, and the figures that `check` and `top` write beside their sum."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from tests.support.top_screen import lines, screen_model
from tests.support.written_durations import DURATION, Written, check_sum, read_durations
from uwsgi_headroom.check import reports
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.documents.schema import ServerDocument as Document
from uwsgi_headroom.record import Destination, State, Waits
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.words.formats import duration

POSTGRES = Destination("backend", ("10.0.0.5:5432",))
UNNAMED = Destination("backend", ("10.0.0.6:80",))


class Second(Struct, frozen=True):
    """What a server does in a second. requests: of each of two workers, with the seconds that each takes."""

    requests: tuple[int, int]
    each: float
    static: int
    busy: tuple[int, int]
    queue: int
    sleeping: float
    waiting: float

    @property
    def waits(self) -> Waits:
        """Most of those that wait for a backend do so for one that is configured."""
        threads: dict[State, float] = {"sleep": self.sleeping, "backend": self.waiting, "cpu": 0.3, "disk": 0.001}
        named = 0.8 * self.waiting
        found = {POSTGRES: named, UNNAMED: self.waiting - named}
        return Waits(threads=threads, backends={"postgres": named}, destinations=found, busy=sum(self.busy))


SECONDS = st.builds(
    Second,
    requests=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    each=st.sampled_from([0.0004, 0.0123, 0.0994, 0.182, 1.26]),
    static=st.sampled_from([0, 0, 0, 5]),
    busy=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    queue=st.sampled_from([0, 0, 3, 40]),
    sleeping=st.floats(0, 4),
    waiting=st.floats(0, 4),
)


def watched(course: Sequence[Second]) -> Document:
    """The document of a server that does this, again and again for eight seconds."""
    server = Server(2, 4)

    def second(number: int) -> None:
        now = course[number % len(course)]
        for worker_id, requests in enumerate(now.requests, 1):
            server.serve(worker_id, requests, now.each, cpu=0.0005)
        slot = server[1]
        slot.requests, slot.static_requests = slot.requests + now.static, slot.static_requests + now.static
        server.busy(*now.busy)
        server.queue, server.waits = now.queue, now.waits

    return ScriptedWatch(slo=Slo(1.0, 0.99)).seconds(server, 8, second).document()


def check_document(server: Document) -> None:
    """The figures of the API, the page and `check --json`."""
    flow, window = server.flow, server.window
    assert server.balance
    requests = [worker.window_requests or 0 for worker in server.workers]
    assert sum(requests) == flow.requests
    assert flow.throughput == pytest.approx(flow.requests / window.seconds)
    if flow.requests:
        assert sum(worker.share or 0.0 for worker in server.workers) == pytest.approx(1)
    if flow.response_time is None or flow.queue_wait is None:
        assert flow.total_time is None
    else:
        assert flow.total_time == flow.response_time + flow.queue_wait
        queued = sum(socket.mean_queue or 0.0 for socket in server.sockets)
        if flow.wait_is_floor:  # Little's law leaves out that many still wait, and its wait is longer
            assert flow.queue_wait <= min(window.seconds, queued / (flow.throughput or 1.0)) * (1 + 1e-9)
        else:
            assert queued == pytest.approx(flow.queue_wait * (flow.throughput or 0.0))
    if server.occupancy:
        assert sum(server.occupancy.shares) == pytest.approx(1)
    for burn in server.objective.windows if server.objective else ():
        if burn.share is not None:
            assert burn.slow + burn.waited + burn.lost + burn.refused == pytest.approx(burn.share * burn.requests)
    check_waits(server)


def check_waits(server: Document) -> None:
    """States add up to the threads in service and to the response time; backends and destinations to their state."""
    waits, flow = server.waits, server.flow
    assert flow
    threads = {state.state: state.threads for state in waits.states}
    assert sum(threads.values()) == pytest.approx(waits.total)
    outside = threads.get("backend", 0.0)
    assert sum(each.threads for each in waits.destinations) == pytest.approx(outside, abs=0.02)
    assert sum(each.threads for each in waits.backends) <= outside + 1e-9
    times = [state.per_request for state in waits.states]
    known = [time for time in times if time is not None]
    if flow.response_time is not None and known:
        assert sum(known) == pytest.approx(flow.response_time)
        found = [each.per_request or 0.0 for each in waits.destinations]
        assert sum(found) == pytest.approx(dict(zip(threads, times, strict=True)).get("backend") or 0.0, rel=0.02)


def find(text: str, pattern: str) -> list[Written]:
    """The durations in what a pattern finds; none if it is not there."""
    found = re.search(pattern, re.sub(r"\s+", " ", text))
    return read_durations(found[0]) if found else []


def check_texts(server: Document) -> None:
    """The words of `check` and of `top`, whose sums have the same parts in the same order: in the queue, in service."""
    text = "\n".join(reports.render_lines(server, everything=True))
    screen = "\n".join(lines(screen_model(server), Navigation(view="workers", server=(0, "shop")), 160, 60))
    felt = r"users wait +([^;]*?) in service"  # without a semicolon, it is of this line
    if whole := find(text, felt):
        *parts, last = whole[1:] or whole
        assert re.search(rf"{duration(sum(part.seconds for part in (*parts, last)))} ?(?:=|in service)", text)
        assert not parts or find(text, rf"queue wait (?:at least )?{DURATION}") == parts
        assert find(screen, felt) == whole
    section = re.search(r"^  time .*(?:\n {15}.*)*", text, re.MULTILINE)
    if section and "per request" in section[0] and whole:
        # After the parts, a line says what the threads in `backend` wait for, which are parts of a part.
        check_sum(last, read_durations(re.split(rf"backend {DURATION}: ", section[0])[0]))


@settings(max_examples=25, deadline=None)
@given(st.lists(SECONDS, min_size=1, max_size=4))
@example([Second((0, 0), 0.0004, 0, (0, 0), 3, 0.0, 0.0)])  # nothing is served: there is no sum
def test_parts_add_up_to_the_whole(course):
    """Whatever a server does, no face shows parts that miss their sum by more than they are rounded."""
    server = watched(course)
    check_document(server)
    check_texts(server)

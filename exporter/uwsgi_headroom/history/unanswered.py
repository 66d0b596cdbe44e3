"""Counts requests that end at once without an answer: requests for which uWSGI has no plugin, or that are not valid.

uWSGI calls the plugin of a request's modifier. If that plugin is not loaded, it closes the connection, counts the
request like any other, and its statistics show nothing but what did not happen: no byte was sent (`tx` counts heads and
bodies of all answers), no time was spent, and no application was called, which uWSGI counts for Python, Perl and Ruby.
A request whose application fails has a head, or an exception. Not counted are, therefore: requests with an exception, a
write error or a read error, those that a rule of the internal routing ended, which may want to send nothing, static
files, and those that ended their worker (`reload-on-exception` counts no exception).

uWSGI counts the bytes of a request some microseconds after the request. So requests count once another sample shows no
bytes either. Where other requests are answered all the time, none count: the number is a lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

from uwsgi_headroom.history.totals import INSTANT, Totals
from uwsgi_headroom.stats.server import Worker


class _Served(NamedTuple):
    """What all workers have done. requests: those that should have brought an answer; calls: of applications, which a
    respawn may set to 0."""

    requests: int
    calls: int
    seconds: float
    sent_bytes: int


class Unanswered:
    """Adds the requests of one server that end without an answer."""

    def __init__(self) -> None:
        self._workers: tuple[Worker, ...] = ()
        self._served: _Served | None = None
        self._pending = 0

    def add(self, totals: Totals, workers: tuple[Worker, ...], *, joined: bool) -> None:
        """Add a sample. joined: whether uWSGI's counters went on since the last one."""
        before = self._served
        if workers is not self._workers:  # an unchanged document has the same
            self._workers, self._served = workers, _sum(workers)
        now = self._served
        if now is None:
            totals.unanswered, self._pending = None, 0
            return
        totals.unanswered = totals.unanswered or 0
        if before is None or not joined or now.sent_bytes != before.sent_bytes:
            self._pending = 0
            return
        totals.unanswered += self._pending
        requests = now.requests - before.requests - max(0, now.calls - before.calls)
        seconds = now.seconds - before.seconds
        self._pending = requests if requests > 0 and seconds <= INSTANT * requests else 0


def _sum(workers: tuple[Worker, ...]) -> _Served | None:
    """What the workers have done; None if that is not known of each."""
    requests, calls, seconds, sent = 0, 0, 0.0, 0
    for worker in workers:
        if (
            worker.requests is None
            or worker.running_time is None
            or worker.transmitted_bytes is None
            or worker.static_requests is None
            or worker.routed_requests is None
            or worker.write_errors is None
            or worker.read_errors is None
        ):
            return None
        errors = (worker.exceptions or 0) + (worker.respawns or 0) + worker.write_errors + worker.read_errors
        requests += worker.requests - worker.static_requests - worker.routed_requests - errors
        calls += sum([app.requests or 0 for app in worker.apps])
        seconds += worker.running_time
        sent += worker.transmitted_bytes
    return _Served(requests, calls, seconds, sent) if workers else None

"""The finding about static files that uWSGI's workers serve.

uWSGI counts such a request, but not its time (`running_time`, since 2.0.5). So where most requests are files, the mean
response time is that of the few others, and the busy threads that running time does not explain serve files, or send
them to clients that read slowly.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.wait_states import MOSTLY_FILES
from uwsgi_headroom.analysis.worker_states import ASYNC, name_slots

ENOUGH = 50
"""Fewer requests in a window show no share."""

HOLD_MUCH, HOLD_MOST = 0.25, 0.5
"""From these fractions of the threads on, files take what other requests could use, and most of what there is."""


STATIC_FILES = Kind(
    code="static_files",
    severity="warning or info",
    title="Most requests are for static files, which uWSGI's workers serve themselves.",
    evidence="{files:percent} of {requests:request} are for static files"
    "[held? , and occupy {held:mean} of {threads:threads} threads on average][wait? ; {wait}].",
    meaning="uWSGI does not measure the time of static files: the response times shown are those of other requests.",
    act="[takes_much? Let the web server in front of uWSGI serve the static files.]",
    then="[takes_much? Alternatively, set `offload-threads` to 2: offload threads then send the files, and a slow "
    "client does not hold a thread of a worker.]",
    clause="[warning? static files hold the threads]",
    replaces=("slow_clients",),
    runbook="UwsgiConcurrencyNearCapacity",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about static files."""
    requests = figures.flow.requests
    files = min(requests, sum(worker.static_requests for worker in figures.window.workers))
    held = _count_held(figures)
    share = held / figures.threads if held is not None and figures.threads else 0.0
    if not files or files < MOSTLY_FILES * requests or (requests < ENOUGH and share < HOLD_MUCH):
        return
    yield STATIC_FILES.found(
        figures,
        worse=share >= HOLD_MOST and shows_a_limit(figures.flow),
        files=files / requests,
        requests=requests,
        held=held,
        threads=figures.threads,
        wait=waiting_clause(figures.flow),
        takes_much=share >= HOLD_MUCH,
        settings=(("offload-threads", 2),) * (share >= HOLD_MUCH),
    )


def _count_held(figures: Figures) -> float | None:
    """The mean number of threads that serve files: busy ones without those that running time explains; None if it is
    not known."""
    busy, timed = figures.flow.observed, figures.flow.littles_law
    if busy is None or timed is None or name_slots(figures.server) == ASYNC:
        return None
    return max(0.0, busy - timed)

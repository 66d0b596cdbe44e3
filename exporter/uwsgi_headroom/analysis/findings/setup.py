"""Findings about the setup of uWSGI: wasted capacity, and hidden figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.settings import review_server
from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu
from uwsgi_headroom.words.template import Private

UNIX_SOCKET_ROOM = 219_264
"""The size in bytes of a document that a UNIX socket accepts before its writer blocks (measured, Linux defaults)."""

_MOST_SETTINGS = 3

BUSY = 0.3
"""At or above this CPU use (CPU seconds per second), a worker suffers from sharing its only CPU with another worker."""


SHARE_ONE_CPU = Kind(
    code="workers_share_one_cpu",
    role="setting",
    severity="warning or info",
    title="{sharing} workers are each restricted to one CPU that another worker also uses.",
    evidence="The affinity mask of each of these workers has only one CPU, which another worker has, too.",
    meaning="Workers on the same CPU wait for one another, even if other CPUs are idle.",
    act="Remove `cpu-affinity`.",
    then="Alternatively, choose its value so that `processes` x `cpu-affinity` is at most the number of CPUs. In a "
    "container, uWSGI counts the host's CPUs, not the container's.",
    runbook="UwsgiCpuBound",
)
LARGE_DOCUMENT = Kind(
    code="large_document",
    role="setting",
    severity="info",
    title="The stats document is larger than the buffer of a UNIX socket.",
    evidence="Its size is {kilobytes} kB; the buffer of a UNIX socket has room for {room} kB.",
    meaning="If a client reads only a part of the stats document, uWSGI's master process waits for this client. "
    "Meanwhile, it neither restarts workers nor reloads uWSGI.",
    act="Set `stats-minified` and `stats-no-metrics`.",
    then="Alternatively, serve `stats` on 127.0.0.1: the buffer of a TCP socket holds 4 MB.",
)
THUNDER_LOCK = Kind(
    code="thunder_lock",
    severity="info",
    title="`thunder-lock` is on.",
    evidence="uWSGI's stats show the lock that this option creates.",
    meaning="`thunder-lock` spreads the requests evenly over the workers. In one measurement with threads, "
    "`thunder-lock` reduced the throughput by a tenth.",
    act="Run a load test with `thunder-lock` and one without it, and compare the throughput.",
)
SETTINGS_HURT = Kind(
    code="settings_hurt",
    role="setting",
    severity="info",
    title="Some settings of this uWSGI will cause trouble later.",
    evidence="{titles}",
    act="Run `uwsgi-headroom review[which?  {which}]`: it prints the lines to add to uWSGI's configuration.",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about the setup of uWSGI."""
    server = figures.server
    if sharing := count_workers_sharing_one_cpu(server):
        yield SHARE_ONE_CPU.found(figures, sharing=sharing, worse=_is_busy(figures))
    if server.document_bytes > UNIX_SOCKET_ROOM:
        yield LARGE_DOCUMENT.found(figures, kilobytes=server.document_bytes // 1000, room=UNIX_SOCKET_ROOM // 1000)
    if server.thunder_lock and (figures.configured or 0) > len(server.workers):
        yield THUNDER_LOCK.found(figures)
    warnings = [advice.title for advice in review_server(server) or () if advice.severity == "warning"]
    if warnings:
        which = shlex.quote(server.address) if server.address else ""
        yield SETTINGS_HURT.found(figures, titles=" ".join(warnings[:_MOST_SETTINGS]), which=Private(which))


def _is_busy(figures: Figures) -> bool:
    """Whether a worker uses enough CPU to compete with another one for the CPU that they share."""
    return any((worker.interpreter_load or 0.0) >= BUSY for worker in figures.balance.workers)

"""Findings about the setup of uWSGI: wasted capacity, and hidden figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.settings import review_server
from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu

UNIX_SOCKET_ROOM = 219_264
"""The size in bytes of a document that a UNIX socket accepts before its writer blocks (measured, Linux defaults)."""

_MOST_SETTINGS = 3

BUSY = 0.3
"""At or above this CPU use (CPU seconds per second), a worker suffers from sharing its only CPU with another worker."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about the setup of uWSGI."""
    sharing = count_workers_sharing_one_cpu(figures.server)
    if sharing:
        yield Finding(
            code="workers_share_one_cpu",
            severity="warning" if _is_busy(figures) else "info",
            title=f"{sharing} workers are each restricted to one CPU that another worker also uses.",
            evidence="The affinity mask of each of these workers has only one CPU, which is also the only CPU of "
            "another worker.",
            meaning="Workers on the same CPU wait for one another, even if other CPUs are idle.",
            change="Remove `cpu-affinity`, or choose its value so that `processes` x `cpu-affinity` is at most the "
            "number of CPUs. In a container, uWSGI counts the host's CPUs, not the container's.",
        )
    if figures.server.processes_off:
        yield Finding(
            code="no_process_facts",
            severity="info",
            title="The CPU use, memory and affinity of the workers are not visible.",
            evidence=f"{figures.server.processes_off[0].upper()}{figures.server.processes_off[1:]}.",
            meaning="The load of the interpreters, the CPU headroom and the effect of uneven shares of the requests "
            "are therefore unknown.",
        )
    if figures.configured is None and figures.server.workers:
        yield Finding(
            code="no_threads",
            severity="info",
            title="uWSGI does not report its threads.",
            evidence="uWSGI's stats do not list the threads: `stats-no-cores` is set.",
            meaning="The number of busy threads, the age of requests and the capacity are therefore unknown.",
            change="Remove `stats-no-cores`, unless this would make the stats document very large.",
        )
    if figures.server.document_bytes > UNIX_SOCKET_ROOM:
        yield Finding(
            code="large_document",
            severity="info",
            title="The stats document is larger than the buffer of a UNIX socket.",
            evidence=f"Its size is {figures.server.document_bytes // 1000} kB; the buffer of a UNIX socket "
            f"has room for {UNIX_SOCKET_ROOM // 1000} kB.",
            meaning="If a client reads only a part of the stats document, uWSGI's master process waits for this "
            "client. Meanwhile, it neither restarts workers nor reloads uWSGI.",
            change="Set `stats-minified` and `stats-no-metrics`. Alternatively, serve `stats` on 127.0.0.1: the buffer "
            "of a TCP socket holds 4 MB.",
        )
    if figures.server.thunder_lock and (figures.configured or 0) > len(figures.server.workers):
        yield Finding(
            code="thunder_lock",
            severity="info",
            title="`thunder-lock` is on.",
            evidence="uWSGI's stats show the lock that this option creates.",
            meaning="`thunder-lock` spreads the requests evenly over the workers. In one measurement with threads, "
            "`thunder-lock` reduced the throughput by a tenth.",
            change="Run a load test with `thunder-lock` and one without it, and compare the throughput and the "
            "response times.",
        )
    yield from _settings(figures)


def _settings(figures: Figures) -> Iterator[Finding]:
    """What `review` warns of, in one finding: none of it is urgent."""
    server = figures.server
    warnings = [advice for advice in review_server(server) or () if advice.severity == "warning"]
    which = f" {shlex.quote(server.address)}" if server.address else ""
    if warnings:
        yield Finding(
            code="settings_hurt",
            severity="info",
            title="Some settings of this uWSGI will cause trouble later.",
            evidence=" ".join(advice.title for advice in warnings[:_MOST_SETTINGS]),
            change=f"Run `uwsgi-headroom review{which}`: it prints the lines to add to uWSGI's configuration.",
        )


def _is_busy(figures: Figures) -> bool:
    """Whether a worker uses enough CPU to compete with another one for the CPU that they share."""
    return any((worker.interpreter_load or 0.0) >= BUSY for worker in figures.balance.workers)

"""Findings about listen queues: refused clients, and waiting requests."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.advice import Advice, advise_capacity
from uwsgi_headroom.analysis.bottlenecks import waits_for_a_reload
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.clients import wait_too_long
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.littles_law import judge_waiting
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog, is_tcp
from uwsgi_headroom.words.formats import (
    counted,
    counted_or_no,
    duration,
    fine_percent,
    in_queue,
    least,
    mean_count,
    percent,
)

FULL = (0.05, 0.0)
"""A queue that is at its limit for at least the first fraction of the time refuses many clients; above the second one,
it refuses some."""

FILLING = 0.5
"""At or above this mean length, as a fraction of the limit, a queue may overflow in the next burst."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about listen queues."""
    window = figures.window
    queues = figures.server.queues
    for name, backlog in queues.items():
        area = window.queue_seconds.get(name)
        if backlog.limit and area is not None and window.observed_seconds:
            full = window.queue_full_seconds[name] / window.observed_seconds
            mean = area / window.observed_seconds
            if full > FULL[1] and not (is_tcp(name) and window.overflows == 0):
                yield _refused(figures, name, full, mean, backlog)
            elif mean >= FILLING * backlog.limit:
                yield _filling(figures, name, mean, backlog)
    yield from _wait(figures)
    yield from _tracked(figures)
    for name, backlog in queues.items():
        if backlog.queue is None:
            yield Finding(
                code="queue_not_measurable",
                severity="info",
                title=f"The listen queue of {name} cannot be measured.",
                evidence=f"{(backlog.reason or '')[:1].upper()}{(backlog.reason or '')[1:]}.",
                meaning="It is not known whether requests wait in this queue. uWSGI itself reports the length of a "
                "queue only for TCP sockets.",
            )


def _tracked(figures: Figures) -> Iterator[Finding]:
    """The finding about the table of tracked connections. It counts drops for other reasons as well, and of all
    programs, so it only may be what this server's clients feel."""
    tracked, dropped = figures.server.tracked, figures.window.untracked or 0
    if tracked is None:
        return
    used, (near, full) = tracked.entries / tracked.most, TRACKED
    is_full = dropped > 0 and used >= full
    if not is_full and used < near:
        return
    many, part = MANY_DROPPED
    yield Finding(
        code="connections_tracked",
        severity="critical" if is_full and dropped >= max(many, part * figures.flow.requests) else "warning",
        title="The kernel may have dropped new connections: its table of tracked connections was full."
        if is_full
        else "The kernel's table of tracked connections is nearly full.",
        evidence=f"{tracked.entries:,} of {tracked.most:,} entries ({percent(used)}) are in use; in the last "
        f"{duration(figures.window.seconds)}, the kernel dropped {counted_or_no(dropped, 'packet')} (counted over all "
        "programs in the network namespace).",
        meaning="While the table is full, the kernel drops the first packet (SYN) of each new connection. Clients send "
        "this packet again after one second, and then after two more. New connections to backends also wait. Entries "
        "of closed connections stay in the table for two minutes.",
        change=f"Raise the kernel's limit with `sysctl -w net.netfilter.nf_conntrack_max={2 * tracked.most}`. "
        "Alternatively, let clients reuse their connections (keep-alive), or turn off tracking for uWSGI's connections "
        "(NOTRACK).",
    )


TRACKED = (0.9, 0.75)
"""How full the table has to be: to be near its limit, and to be blamed for dropped packets, since entries may have
expired since they were dropped."""

MANY_DROPPED = (3, 0.01)
"""From this number of dropped packets on, and this part of the requests, users feel it: as for lost requests."""


def _refused(figures: Figures, name: str, full: float, mean: float, backlog: Backlog) -> Finding:
    window, of = figures.window, f" of {name}" if len(figures.server.queues) > 1 else ""
    is_full = "is full" if full >= FULL[0] else "is full at times"
    if is_tcp(name):
        counted_ = _count_drops(window)
        title = f"Clients are turned away at {name}, whose listen queue {is_full}."
        meaning = (
            "If the kernel drops a connection, the client tries again after one second, and then after two more. The "
            "client gets its response late, or not at all."
        )
    else:
        counted_ = "how many were refused is not known"
        title = f"Clients are refused at {name}, whose listen queue {is_full}."
        meaning = (
            "A web server in front gets `Resource temporarily unavailable`, and responds with status 502. The kernel "
            "does not count these refusals."
        )
    return Finding(
        code="clients_refused",
        severity="critical" if full >= FULL[0] else "warning",
        title=title,
        evidence=f"The queue{of} ({backlog.limit} connections) was full for "
        f"{fine_percent(full) if full < 0.001 else percent(full)} of the last {duration(window.seconds)}, and held "
        f"{in_queue(mean, backlog.limit)} connections on average ({in_queue(backlog.queue or 0, backlog.limit)} now); "
        f"{counted_}.",
        meaning=meaning,
        **_add_to_queue(figures, backlog)._asdict(),
    )


def _count_drops(window: Window) -> str:
    """How often the kernel dropped a connection to this server, and how often it may have been another's."""
    if window.overflows is None:
        return "it is not known how often the kernel dropped a connection"
    if window.refused is None:  # of an earlier version's history
        return (
            f"the kernel dropped {counted(window.overflows, 'connection')} (counted over all TCP listeners in the "
            "network namespace)"
        )
    others = window.overflows - window.refused
    rest = f", and {others} more that may belong to other TCP listeners in the network namespace" if others else ""
    return f"in these {duration(window.seconds)}, the kernel dropped {counted(window.refused, 'connection')}{rest}"


def _filling(figures: Figures, name: str, mean: float, backlog: Backlog) -> Finding:
    of = f" of {name}" if len(figures.server.queues) > 1 else ""
    return Finding(
        code="queue_filling",
        severity="warning",
        title=f"The listen queue of {name} is filling.",
        evidence=f"On average, {mean_count(mean)} connections wait in the queue{of}, which is "
        f"{percent(mean / (backlog.limit or 1))} of the {backlog.limit} that it can hold; {backlog.queue} wait{of} "
        "now.",
        meaning="When a listen queue is full, clients of a UNIX socket are refused, and clients of a TCP socket have "
        "to retry.",
        **_add_to_queue(figures, backlog)._asdict(),
    )


def advise_longer_queue(figures: Figures) -> str:
    """What a longer queue would help against, and how to raise the limit of the fullest one."""
    full, area = figures.window.queue_full_seconds, figures.window.queue_seconds
    name = max(full, key=lambda name: (full[name], area.get(name, 0.0)), default=None)
    backlog = figures.server.queues.get(name or "")
    return _longer_queue(figures, backlog) if backlog else ""


def _add_to_queue(figures: Figures, backlog: Backlog) -> Advice:
    """More capacity, and then a longer queue."""
    advice = advise_capacity(figures)
    return advice._replace(change=f"{advice.change} {_longer_queue(figures, backlog)}")


def _longer_queue(figures: Figures, backlog: Backlog) -> str:
    """How to raise the limit. The kernel caps `listen` at net.core.somaxconn; if both are known, the text names the
    smaller."""
    if wait_too_long(figures):
        return (
            "Do not raise `listen`: most clients have already left when their request is served, and a longer queue "
            "would only make clients wait longer."
        )
    somaxconn = figures.server.setup.somaxconn
    if somaxconn is None or backlog.limit is None:
        now = "" if backlog.limit is None else f" (the lower of the two is now {backlog.limit})"
        how = f"first raise net.core.somaxconn, and then `listen`, which cannot exceed it{now}"
    elif backlog.limit < somaxconn:
        how = f"raise `listen` from {backlog.limit} (at most to net.core.somaxconn, which is {somaxconn})"
    else:
        how = f"raise net.core.somaxconn from {somaxconn}, and then `listen`"
    return f"If the queue fills only in bursts, {how}."


def _longest(figures: Figures) -> str:
    """How long the slowest of a hundred requests wait, as a part of a sentence; empty if that is not known."""
    p99 = figures.queue_waits.percentiles.get(0.99) if figures.queue_waits else None
    return f" (1 of 100 at least {duration(p99.seconds)})" if p99 and p99.seconds is not None else ""


def _wait(figures: Figures) -> Iterator[Finding]:
    flow, socket = figures.longest_wait
    waiting, longest = judge_waiting(flow), "" if socket or flow.wait_is_floor else _longest(figures)
    if waiting in (None, "none"):
        return
    at = f" at {socket}" if socket else ""
    over, reloaded = f"Over the last {duration(figures.window.seconds)}{at}", waits_for_a_reload(figures)
    title, evidence = (
        "Requests wait, and no request is completed.",
        f"{over}, {mean_count(flow.queue_length or 0)} requests wait on average.",
    )
    if flow.queue_wait is not None:
        served, wait = flow.response_time, least(duration(flow.queue_wait), flow.wait_is_floor)
        compared = f", and are then in service for {duration(served)}" if served else ""
        title, evidence = (
            "Requests wait in the listen queue.",
            f"{over}, requests wait {wait} on average{longest}{compared}.",
        )
    yield Finding(
        code="queue_wait",
        severity="critical" if waiting == "severe" and not reloaded else "warning",
        title=title,
        evidence=evidence,
        meaning="The time that users wait is the sum of the wait in the queue and the time in service. uWSGI's own "
        "response times do not include the wait in the queue.",
        **advise_capacity(figures)._asdict(),
    )

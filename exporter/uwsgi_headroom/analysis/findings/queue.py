"""Findings about listen queues: refused clients, and waiting requests."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from uwsgi_headroom.analysis.bottlenecks import waits_for_a_reload
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.clients import wait_too_long
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.limits import advise
from uwsgi_headroom.analysis.littles_law import judge_waiting
from uwsgi_headroom.record import Backlog, is_tcp
from uwsgi_headroom.words.formats import fine_percent, in_queue, percent
from uwsgi_headroom.words.template import Facts, fill

FULL = (0.05, 0.0)
"""A queue that is at its limit for at least the first fraction of the time refuses many clients; above the second one,
it refuses some."""

FILLING = 0.5
"""At or above this mean length, as a fraction of the limit, a queue may overflow in the next burst."""

TRACKED = (0.9, 0.75)
"""How full the table has to be: to be near its limit, and to be blamed for dropped packets, since entries may have
expired since they were dropped."""

MANY_DROPPED = (3, 0.01)
"""From this number of dropped packets on, and this part of the requests, users feel it: as for lost requests."""

LONGER_QUEUE = (
    "[too_long? Do not raise `listen`: most clients have already left when their request is served, and a longer queue "
    "would only make clients wait longer.][not too_long, listen? If the queue fills only in bursts, raise `listen` "
    "from {listen:plain} (at most to net.core.somaxconn, which is {somaxconn:plain}).][not too_long, lower? If the "
    "queue fills only in bursts, raise net.core.somaxconn and then `listen`: the lower of the two is now "
    "{lower:plain}.]"
)
"""What a longer queue would help against. The kernel caps `listen` at net.core.somaxconn."""

QUEUE_FULL = Kind(
    code="clients_refused",
    role="harm",
    severity="critical or warning",
    title="Clients are refused at {name}, whose listen queue is full[warning?  at times].",
    evidence="The queue of {name} ({limit} connections) was full for {full} of the last {seconds:duration}, and held "
    "{mean} connections on average ({now} now)[tcp, dropped? ; the kernel dropped {dropped:connection}][tcp, others? , "
    "and {others} more that may belong to other TCP listeners].",
    meaning="[tcp? When the kernel drops a connection, the client tries again after one second, and then after two "
    "more: it gets its response late, or not at all.][not tcp? A web server in front gets `Resource temporarily "
    "unavailable`, and responds with status 502. The kernel does not count these refusals.]",
    act="{advice}",
    then="{longer}",
    page_after=75,
    runbook="UwsgiListenQueueOverflowing",
    waiting=1,
)
QUEUE_FILLS = replace(
    QUEUE_FULL,
    code="queue_filling",
    waiting=3,
    severity="warning",
    title="The listen queue of {name} is filling.",
    evidence="On average, {mean:mean} connections ({now} now) wait in the queue of {name}, which is {part:percent} of "
    "the {limit} that it can hold.",
    meaning="When a listen queue is full, clients of a UNIX socket are refused, and clients of a TCP socket have to "
    "retry.",
)

NOTHING_COMPLETED = Kind(
    code="queue_wait",
    role="harm",
    severity="critical",
    title="Requests wait, and no request is completed.",
    evidence="Over the last {seconds:duration}[socket?  at {socket}], {waiting:mean} requests wait on average.",
    meaning="The time that users wait is the sum of the wait in the queue and the time in service. uWSGI's own "
    "response times do not include the wait in the queue.",
    act="{advice}",
    page_after=0,
    runbook="UwsgiQueueWaitHigh",
    waiting=2,
)
LONG_WAIT = replace(
    NOTHING_COMPLETED,
    severity="critical or warning",
    title="Requests wait in the listen queue.",
    evidence="Over the last {seconds:duration}[socket?  at {socket}], requests wait [is_floor? at least ]"
    "{mean:duration} on average[slowest?  (1 of 100 at least {slowest:duration})][served? , and are then in service "
    "for {served:duration}].",
    page_after=600,
)

TABLE_DROPS = Kind(
    code="connections_tracked",
    role="harm",
    severity="critical or warning",
    title="The kernel may have dropped new connections: its table of tracked connections was full.",
    evidence="{entries} of {most} entries ({used:percent}) are in use; in the last {seconds:duration}, the kernel "
    "dropped {dropped:packet} (of all programs in the network namespace).",
    meaning="While the table is full, the kernel drops the first packet (SYN) of each new connection. Clients send "
    "this packet again after one second, and then after two more. New connections to backends also wait. Entries of "
    "closed connections stay in the table for two minutes.",
    act="Raise the kernel's limit with `sysctl -w net.netfilter.nf_conntrack_max={more:plain}`.",
    then="Alternatively, let clients reuse their connections (keep-alive), or turn off tracking for uWSGI's "
    "connections (NOTRACK).",
)
TABLE_NEAR = replace(
    TABLE_DROPS,
    role="limit",
    severity="warning",
    title="The kernel's table of tracked connections is nearly full.",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about listen queues."""
    window, queues = figures.window, figures.server.queues
    for name, backlog in queues.items():
        area = window.queue_seconds.get(name)
        if backlog.limit and area is not None and window.observed_seconds:
            full = window.queue_full_seconds[name] / window.observed_seconds
            mean = area / window.observed_seconds
            if full > FULL[1] and not (is_tcp(name) and window.overflows == 0):
                yield _refused(figures, name, full, mean, backlog)
            elif mean >= FILLING * backlog.limit:
                yield QUEUE_FILLS.found(
                    figures,
                    name=name,
                    mean=mean,
                    part=mean / backlog.limit,
                    limit=backlog.limit,
                    now=backlog.queue,
                    longer=_longer_queue(figures, backlog),
                    **advise(figures),
                )
    yield from _wait(figures)
    yield from _tracked(figures)


def _refused(figures: Figures, name: str, full: float, mean: float, backlog: Backlog) -> Finding:
    overflows, refused = figures.window.overflows, figures.window.refused
    dropped = refused if overflows and refused is not None else overflows  # an earlier history has only the sum
    return QUEUE_FULL.found(
        figures,
        tcp=is_tcp(name),
        dropped=dropped,
        others=((overflows or 0) - (dropped or 0)) or None,
        worse=full >= FULL[0],
        name=name,
        limit=backlog.limit,
        full=fine_percent(full) if full < 0.001 else percent(full),
        seconds=figures.window.seconds,
        mean=in_queue(mean, backlog.limit),
        now=in_queue(backlog.queue or 0, backlog.limit),
        longer=_longer_queue(figures, backlog),
        **advise(figures),
    )


def advise_longer_queue(figures: Figures) -> str:
    """What a longer queue would help against, and how to raise the limit of the fullest one."""
    full, area = figures.window.queue_full_seconds, figures.window.queue_seconds
    name = max(full, key=lambda name: (full[name], area.get(name, 0.0)), default=None)
    backlog = figures.server.queues.get(name or "")
    return _longer_queue(figures, backlog) if backlog else ""


def _longer_queue(figures: Figures, backlog: Backlog) -> str:
    """How to raise the limit."""
    most, limit = figures.server.setup.somaxconn, backlog.limit or 0
    is_lower = most is not None and limit < most
    lower = limit if most is None else min(limit, most)
    facts: Facts = {"listen": is_lower and limit, "somaxconn": most, "lower": not is_lower and lower}
    facts["too_long"] = wait_too_long(figures)
    return fill(LONGER_QUEUE, facts)


def _wait(figures: Figures) -> Iterator[Finding]:
    flow, socket = figures.longest_wait
    waiting, seconds = judge_waiting(flow), figures.window.seconds
    if waiting in (None, "none"):
        return
    if flow.queue_wait is None:
        facts: Facts = {"seconds": seconds, "socket": socket, "waiting": flow.queue_length or 0}
        yield NOTHING_COMPLETED.found(figures, facts, **advise(figures))
        return
    waits = figures.queue_waits if not socket and not flow.wait_is_floor else None
    slowest = waits.percentiles.get(0.99) if waits else None
    yield LONG_WAIT.found(
        figures,
        worse=waiting == "severe" and not waits_for_a_reload(figures),
        seconds=seconds,
        socket=socket,
        is_floor=flow.wait_is_floor,
        mean=flow.queue_wait,
        slowest=slowest.seconds if slowest else None,
        served=flow.response_time or None,
        **advise(figures),
    )


def _tracked(figures: Figures) -> Iterator[Finding]:
    """The finding about the table of tracked connections. It counts drops for other reasons as well, and of all
    programs, so it only may be what this server's clients feel."""
    tracked, dropped = figures.server.tracked, figures.window.untracked or 0
    if tracked is None:
        return
    used, (near, full), (many, part) = tracked.entries / tracked.most, TRACKED, MANY_DROPPED
    is_full = dropped > 0 and used >= full
    if not is_full and used < near:
        return
    is_felt = dropped >= max(many, part * figures.flow.requests)
    yield (TABLE_DROPS if is_full else TABLE_NEAR).found(
        figures,
        worse=is_full and is_felt,
        entries=tracked.entries,
        most=tracked.most,
        used=used,
        seconds=figures.window.seconds,
        dropped=dropped,
        more=2 * tracked.most,
    )

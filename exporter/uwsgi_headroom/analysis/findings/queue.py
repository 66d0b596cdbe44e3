"""Findings about listen queues: clients that are refused or wait, and the objective that waiting misses."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import waits_for_a_reload
from uwsgi_headroom.analysis.demand import count_dropped, was_full
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.clients import wait_too_long
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.threads import advise
from uwsgi_headroom.analysis.littles_law import SEVERE, judge_waiting
from uwsgi_headroom.analysis.objective import SLOW_BURN, Burn
from uwsgi_headroom.analysis.percentiles import find_percentile
from uwsgi_headroom.analysis.worker_states import are_stopped_when_idle
from uwsgi_headroom.record import Backlog, is_tcp
from uwsgi_headroom.words.formats import chosen, fine_percent, in_queue, percent
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

_USED_UP = 1.0
"""Burn rate above which the budget of a month lasts less than a month."""

WAITED = "too slow only because of the wait in the listen queue"
"""What requests were that only this wait made miss the objective."""

OPENED_SHORT = "its socket was opened with a shorter queue than `listen`"

LONGER_QUEUE = (
    "[opened? Raise `Backlog=` in the socket's systemd unit. uWSGI's `listen` ({asked:plain}) has no effect on "
    "a socket that another program opened, here for {limit:plain} connections.][not opened, too_long? Do not raise "
    "`listen`: most clients have already left when their request is served, and a longer queue would only make clients "
    "wait longer.]"
    "[not opened, not too_long, listen? If the queue fills only in bursts, raise `listen` from {listen:plain} (at most "
    "to net.core.somaxconn, which is {somaxconn:plain}).][not opened, not too_long, lower? If the queue fills only in "
    "bursts, raise net.core.somaxconn and then `listen`: the lower of the two is now {lower:plain}.]"
)
"""What a longer queue would help against. The kernel caps `listen` at net.core.somaxconn."""

QUEUE_FULL = Kind(
    code="clients_refused",
    role="harm",
    severity="critical or warning",
    title="Clients are refused at {name}, whose listen queue is full[warning?  at times].",
    evidence="The queue[several?  of {name}] ({limit} connections) was full for {full} of the last {seconds:duration}, "
    "and held {mean} on average ({now} now)[tcp, dropped? ; the kernel dropped {dropped:connection}][tcp, others? , "
    "and {others} more that may belong to other TCP listeners].",
    meaning="[tcp? When the kernel drops a connection, the client tries again after one second, and then after two "
    "more.][not tcp? A web server in front gets `Resource temporarily unavailable`, and responds with status 502.]",
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
    evidence="On average, {mean:mean} connections ({now} now) wait in the queue of {name}: {part:percent} of {limit}.",
    meaning="When it is full, clients of a UNIX socket are refused, and clients of a TCP socket have to retry.",
)

NOTHING_COMPLETED = Kind(
    code="queue_wait",
    role="harm",
    severity="critical",
    title="Requests wait, and no request is completed.",
    evidence="Over the last {seconds:duration}[socket?  at {socket}], {waiting:mean} requests wait on average.",
    meaning="Users wait for both the queue and the service. uWSGI's own response times do not include the queue.",
    act="{advice}",
    page_after=0,
    runbook="UwsgiQueueWaitHigh",
    waiting=2,
)
FEW_WAIT = replace(NOTHING_COMPLETED, page_after=60)
FEW = 2.0
"""Below this mean number of requests that wait, none that is completed may be one that takes long, on a quiet server:
the page comes a minute later."""
LONG_WAIT = replace(
    NOTHING_COMPLETED,
    severity="critical or warning",
    title="Requests wait in the listen queue.",
    evidence="Over the last {seconds:duration}[socket?  at {socket}], requests wait [wait_is_floor? at least ]"
    "{queue_wait:duration} on average[slowest?  (1 of 100 at least {slowest:duration})][served? , and are then in "
    "service for {served:duration}].",
    page_after=600,
)
STAND_UNCOUNTED = replace(
    LONG_WAIT,
    severity="warning",
    evidence="Over the last {seconds:duration}[socket?  at {socket}], {waiting:mean} requests wait on average.",
)

TABLE_DROPS = Kind(
    code="connections_tracked",
    role="harm",
    severity="critical or warning",
    title="The kernel may have dropped new connections: its table of tracked connections was full.",
    evidence="{entries} of {most} entries ({used:percent}) are in use; in the last {seconds:duration}, the kernel "
    "dropped {dropped:packet} (of all programs in the network namespace).",
    meaning="While the table is full, the kernel drops the first packet (SYN) of each new connection. Clients send it "
    "again after one second, and then after two more. New connections to backends also wait. Closed ones stay in the "
    "table for two minutes.",
    act="Raise the kernel's limit with `sysctl -w net.netfilter.nf_conntrack_max={more:plain}`.",
    then="Alternatively, let clients keep their connections (keep-alive), or turn off tracking for uWSGI (NOTRACK).",
)
TABLE_NEAR = replace(
    TABLE_DROPS, role="limit", severity="warning", title="The kernel's table of tracked connections is nearly full."
)

BURNS = Kind(
    code="objective_missed",
    role="harm",
    severity="critical, warning or info",
    title="More than the permitted {permitted} of requests were slower than {threshold}, lost or refused.",
    evidence="Of {requests} requests in the last {seconds:duration}, {share:fine_percent} missed the objective (burn "
    "rate {rate:mean}; in the last {short:duration}: {short_rate:mean}).[slow?  {slow} {slow:was|were} too "
    "slow.][waited?  {waited} {waited:was|were} too slow only because of the wait in the listen queue.][lost?  {lost} "
    "{lost:was|were} lost.][refused?  {refused} {refused:was|were} refused.]",
    meaning="The error budget is the share of requests that may miss the objective. At this rate, a month's budget "
    "lasts {lasts:duration}.",
    act="[for_slow? If another finding is about threads, interpreters, CPU or a backend, follow its advice.]"
    "[for_waited? Follow the advice of the finding about the listen queue, or about busy threads.]"
    "[for_killed? Find out what the requests that `harakiri` killed waited for.]"
    "[for_lost? Check uWSGI's log for the reason why workers exited while they served requests.]"
    "[for_refused? Follow the advice of the finding about the full listen queue.]",
    then="[for_slow? Without such a finding, find out what the slow requests wait for.][for_waited? A larger `listen` "
    "would make requests wait longer.][for_killed? `harakiri` killed {for_killed:worker} with all of their requests.]",
    runbook="UwsgiErrorBudgetBurning",
    waiting=6,
)


def find(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    for name, backlog in figures.server.queues.items():
        area = window.queue_seconds.get(name)
        if backlog.limit and area is not None and window.observed_seconds:
            full, mean = window.queue_full_seconds[name] / window.observed_seconds, area / window.observed_seconds
            facts: Facts = {"name": name, "limit": backlog.limit, "longer": _longer_queue(figures, backlog)}
            if full > FULL[1] and was_full(window, name):
                facts |= _describe_refusals(figures, name, full, mean, backlog)
                is_over = (backlog.queue or 0) < FILLING * backlog.limit
                yield QUEUE_FULL.found(figures, facts, worse=full >= FULL[0], is_over=is_over, **advise(figures))
            elif mean >= FILLING * backlog.limit:
                facts |= {"mean": mean, "part": mean / backlog.limit, "now": backlog.queue}
                yield QUEUE_FILLS.found(figures, facts, **advise(figures))
    yield from _wait(figures)
    yield from _tracked(figures)


def _describe_refusals(figures: Figures, name: str, full: float, mean: float, backlog: Backlog) -> Facts:
    overflows = figures.window.overflows
    dropped = overflows and count_dropped(figures.window)
    return {
        "tcp": is_tcp(name),
        "several": len(figures.server.queues) > 1,
        "dropped": dropped,
        "others": ((overflows or 0) - (dropped or 0)) or None,
        "full": fine_percent(full) if full < 0.001 else percent(full),
        "mean": in_queue(mean, backlog.limit),
        "now": in_queue(backlog.queue or 0, backlog.limit),
    }


def find_fullest(figures: Figures) -> Backlog | None:
    """The queue that was full for the longest time."""
    full, area = figures.window.queue_full_seconds, figures.window.queue_seconds
    name = max(full, key=lambda name: (full[name], area.get(name, 0.0)), default=None)
    return figures.server.queues.get(name or "")


def advise_longer_queue(figures: Figures) -> str:
    """What a longer queue would help against, and how to raise the fullest one's limit."""
    backlog = find_fullest(figures)
    return _longer_queue(figures, backlog) if backlog else ""


def is_opened_short(figures: Figures, backlog: Backlog) -> bool:
    """Whether the queue of a socket is shorter than uWSGI and the kernel allow: so uWSGI has not opened it."""
    setup = figures.server.setup
    return (backlog.limit or inf) < min(setup.options.listen or 0, setup.somaxconn or 0)


def _longer_queue(figures: Figures, backlog: Backlog) -> str:
    most, limit = figures.server.setup.somaxconn, backlog.limit or 0
    lower = limit if most is None else min(limit, most)
    is_lower = most is not None and limit < most
    facts: Facts = {"listen": is_lower and limit, "somaxconn": most, "lower": not is_lower and lower}
    facts |= {"opened": is_opened_short(figures, backlog), "asked": figures.server.setup.options.listen, "limit": limit}
    return fill(LONGER_QUEUE, facts | {"too_long": wait_too_long(figures)})


def _wait(figures: Figures) -> Iterator[Finding]:
    flow, socket = figures.longest_wait
    waiting = judge_waiting(flow)
    is_start = are_stopped_when_idle(figures) and (flow.queue_wait or inf) < SEVERE[0]  # a request waits for workers
    if waiting in (None, "none") or is_start:
        return
    if flow.queue_wait is None:
        number = flow.queue_length or 0.0
        row = FEW_WAIT if number < FEW else NOTHING_COMPLETED
        row = STAND_UNCOUNTED if flow.requests is None else row
        yield row.found(figures, socket=socket, waiting=number, **advise(figures))
        return
    waits = (not socket and not flow.wait_is_floor and figures.queue_waits) or None
    slowest = find_percentile(waits, 0.99)
    yield LONG_WAIT.found(
        figures,
        flow,
        worse=waiting == "severe" and not waits_for_a_reload(figures),
        socket=socket,
        slowest=getattr(slowest, "seconds", None),
        served=flow.response_time or None,
        **advise(figures),
    )


def _tracked(figures: Figures) -> Iterator[Finding]:
    """The finding about the table of tracked connections, which this server's clients may feel."""
    tracked, dropped = figures.server.tracked, figures.window.untracked or 0
    if tracked is None:
        return
    used, (near, full), (many, part) = tracked.entries / tracked.most, TRACKED, MANY_DROPPED
    is_full = dropped > 0 and used >= full
    if is_full or used >= near:
        worse = is_full and dropped >= max(many, part * figures.flow.completed)
        row = TABLE_DROPS if is_full else TABLE_NEAR
        yield row.found(figures, tracked, more=2 * tracked.most, used=used, dropped=dropped, worse=worse)


def find_missed(figures: Figures) -> Iterator[Finding]:
    objective = figures.objective
    if objective is None or objective.unjudged:
        return
    rates = [burn.rate for burn in objective.windows if burn.rate is not None]
    if len(rates) < len(objective.windows) or min(rates) <= _USED_UP:
        return
    short, long = objective.windows[0], objective.windows[-1]
    yield BURNS.found(
        figures,
        _advise(figures, short) | {name: round(number) or None for name, number in _count(long).items()},
        long,
        worse=(min(rates) >= SLOW_BURN) + (objective.level == "fast"),
        permitted=fine_percent(1 - objective.objective),
        threshold=chosen(objective.threshold),
        short=short.seconds,
        short_rate=rates[0],
        lasts=30 * 86400 / rates[-1],
    )


def _count(burn: Burn) -> dict[str, float]:
    return {"slow": burn.slow, "waited": burn.waited, "lost": burn.lost, "refused": burn.refused}


def _advise(figures: Figures, burn: Burn) -> Facts:
    numbers, killed = _count(burn), figures.window.harakiris
    most = max(numbers, key=lambda reason: numbers[reason])
    facts: Facts = {f"for_{reason}": reason == most for reason in numbers}
    return facts | {"for_lost": most == "lost" and not killed, "for_killed": most == "lost" and (killed or None)}

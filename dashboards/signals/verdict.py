"""What the exporter judges of servers, and what their users feel: the first row of a dashboard, as on its page."""

from __future__ import annotations

from dashboards.signal import BY_SERVER, FLEET, IDENTITY, ONE, PER_SECOND, WINDOW, Scope, Series, signal, with_service

RANKS = {"down": 4, "critical": 3, "warning": 2, "unknown": 1, "ok": 0}
"""The verdicts of `uwsgi_verdict_info`, the worst first in a table."""
FELT = {
    "clients_refused": 0.9,
    "queue_wait|queue_filling|saturation|cheaper_does_not_scale": 0.6,
    "objective_missed": 0.3,
}
"""What users feel, among servers of one verdict: who is refused comes before who waits."""

_TCP = r'socket=~"([^/@\\\\].*)?:[0-9]+"'
"""Matches TCP sockets: names of UNIX sockets begin with /, @ or a backslash."""
_INFO, _SINCE = "uwsgi_verdict_info", "uwsgi_verdict_since_time_seconds"


_FINDINGS = "uwsgi_finding_since_time_seconds"
_ON = f"on ({', '.join(IDENTITY)})"


def _since(scope: Scope) -> str:
    """When each verdict began, in milliseconds; 0 where that was before the exporter watched the server."""
    info = scope.of(_INFO)
    return f"({info} * 0 + {_ON} group_left () 1000 * {scope.of(_SINCE)}) or {info} * 0"


def _with(verdict: str, *more: str) -> str:
    """The servers with a verdict."""
    return FLEET.of(_INFO, f'verdict="{verdict}"', *more)


VERDICT = signal(
    "Verdict",
    "none",
    """What the exporter's judge finds, and what to do, as `uwsgi-headroom check` and the exporter's page say it.""",
    Series(
        f"max by (verdict, title, act) (1000 * {ONE.of(_FINDINGS)} * {_ON} group_left (verdict) {ONE.of(_INFO)})"
        f"\nor on () max by (verdict) ({_since(ONE)})",
        "Since",
        now=True,
    ),
)
_FELT = [
    f"{RANKS[name] + more} * " + _with(name, f'harm=~"{codes}"')
    for name in ("critical", "warning")
    for codes, more in FELT.items()
]
_RANKED = "\nor ".join([*_FELT, *(f"{rank} * {_with(name)}" for name, rank in RANKS.items())])
_PAGES, _TICKETS = (FLEET.of(_FINDINGS, f'urgency="{urgency}"') for urgency in ("page", "ticket"))
_WORST = f"topk by ({', '.join(IDENTITY)}) (1, {_PAGES} or ({_TICKETS} unless {_ON} {_PAGES})) ^ 0"
"""One finding of each server that has any, with the value 1: a page before a ticket, and then the latest."""
_LABELS = BY_SERVER.replace(")", ", verdict, title, act)")
_FOUND = f"(({_RANKED}) * {_ON} group_left (title, act) {_WORST} or {_ON} ({_RANKED}))"
RANKED = Series(f"sort_desc(max {_LABELS} ({with_service(_FOUND)}))", "Rank", now=True)
"""Each server with its verdict and a finding, the worst first."""

NUMBERS = signal(
    "Servers by verdict",
    "none",
    "How many servers have which verdict of the exporter; the table below says why, and what to do.",
    *(Series(f"count({_with(name)})", name, now=True) for name in ("down", "critical", "warning", "ok")),
)

_SERVICE = f"max({ONE.of('uwsgi_mean_response_time_seconds', WINDOW)})"
_QUEUE = f"max({ONE.of('uwsgi_queue_wait_seconds', WINDOW)})"
USERS_WAIT = signal(
    "Users wait",
    "s",
    """Mean time of a request from its arrival in the listen queue to its end: the wait in the queue, and the time in
    service, without static files. Only the time in service, if the queue cannot be measured; empty if no request is
    served.""",
    Series(f"{_SERVICE} + {_QUEUE} or {_SERVICE}", "users wait", now=True),
    Series(_QUEUE, "in the queue", now=True),
    Series(_SERVICE, "in service", now=True),
)
_FULL = f"sum({ONE.over('uwsgi_socket_queue_full_seconds_total', '5m', _TCP)})"
SERVED = signal(
    "Served",
    PER_SECOND,
    """Requests completed per second, and connections that were refused: those that found a TCP queue full, of all
    listeners of the network namespace, while a TCP queue of this server was full. Nobody counts what UNIX sockets
    refuse.""",
    Series(f"max({ONE.of('uwsgi_throughput_requests_per_second', WINDOW)})", "served", now=True),
    Series(f"sum({ONE.over('uwsgi_listen_overflows_total', '5m')}) and on () {_FULL} > 0", "refused", now=True),
)
_LONGEST = f"max({ONE.of('uwsgi_socket_queue_length')})"
_FIT = f"max({ONE.of('uwsgi_socket_max_queue_length')} > 0)"
QUEUE = signal(
    "Queue",
    "none",
    """Connections that wait in the longest listen queue now, how many fit, and for which part of the last 5 minutes a
    queue was full. Empty if the queue cannot be measured: the exporter's page shows the reason.""",
    Series(f"clamp_max({_LONGEST}, scalar({_FIT})) or {_LONGEST}", "wait", now=True),
    Series(_FIT, "fit", now=True),
    Series(
        f"max({ONE.over('uwsgi_socket_queue_full_seconds_total', '5m')})"
        f" / max({ONE.over('uwsgi_exporter_observed_seconds_total', '5m')}) and {_LONGEST}",
        "full",
        now=True,
    ),
)

"""Alerts about listen queues, where requests wait until a uWSGI thread takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts import waiting
from alerts.more_capacity import HOW_MUCH, LIMIT_CLIENTS, more_capacity
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    DURATION,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    TENTH,
    WHOLE,
    answer,
    if_any,
    of_dot,
    percent,
    value,
)

TCP = r"([^/@\\\\].*)?:[0-9]+"
"""Quoted regular expression for names of TCP sockets; names of UNIX sockets begin with /, @ or a backslash."""

SOCKET = "{{ $labels.socket }}"

LIMIT = '{{ $socket := printf "%q" $labels.socket }}' + answer("uwsgi_socket_max_queue_length{socket=$socket,$self}")

LONGER_QUEUE = (
    "Raise `listen` only to absorb short bursts: a longer queue does not make uWSGI serve more requests. If "
    "net.core.somaxconn limits the queue, raise it before `listen`: `uwsgi-headroom check` shows which of the two is "
    "the limit."
)


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `queue.yaml`."""
    return [
        Group(
            "uwsgi-headroom queue", [_filling(t), *_overflowing(t), *_wait_high(t), _wait_of_few(t), _not_measurable(t)]
        )
    ]


def _rate(counter: str, window: str) -> str:
    """The growth of a counter of each queue, divided by the time that samples cover."""
    return (
        f"rate({counter}[{window}])"
        f" / ignoring (socket) group_left () (rate(uwsgi_exporter_observed_seconds_total[{window}]) > 0)"
    )


def _filling(t: Thresholds) -> Alert:
    w = t.window
    mean, wait = _rate("uwsgi_socket_queue_seconds_total", w), f"server:uwsgi_queue_wait_seconds:ratio_rate{w}{{$self}}"
    return Alert(
        alert="UwsgiListenQueueFilling",
        expr=f"{mean} / (uwsgi_socket_max_queue_length > 0) >= {t.queue_filling}",
        hold=t.queue_filling_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the listen queue of {SOCKET} is {percent()} full on average",
        acts=(more_capacity(t), HOW_MUCH, LONGER_QUEUE),
        evidence=f"Over the last {w}, the listen queue was {percent()} full on average. It holds at most {LIMIT} "
        "connections, and the next burst may overflow it."
        + if_any(wait, f" On average, a request waits {of_dot(DURATION)} in the listen queue."),
        dashboard=SERVER_DASHBOARD,
    )


def _overflowing(t: Thresholds) -> Sequence[Alert]:
    """A ticket for any time at the limit, a page for `queue_full` of the time."""
    ticket = _full(t, "> 0", t.queue_full_ticket_range)
    page = _full(t, f">= {t.queue_full}", t.queue_full_range)
    title = (
        f"uWSGI {SERVER} on {INSTANCE} turns clients away: the listen queue of {SOCKET} is full for {percent(WHOLE)} "
        "of the time"
    )
    return [ticket, replace(page, severity="critical", summary=title)]


def _full(t: Thresholds, part: str, within: str) -> Alert:
    """An alert on the time at the limit. The kernel counts TCP connections that full queues drop, for all listeners of
    a network namespace together: where this count is known, it must have grown too. UNIX sockets have no such count.
    """
    queue = "socket=$socket,$self"
    dropped = f"increase(uwsgi_listen_overflows_total{{$self}}[{within}])"
    return Alert(
        alert="UwsgiListenQueueOverflowing",
        expr=f"""
{_rate("uwsgi_socket_queue_full_seconds_total", within)} {part}
unless (
  uwsgi_socket_queue_full_seconds_total{{socket=~"{TCP}"}}
  and ignoring (socket) increase(uwsgi_listen_overflows_total[{within}]) == 0
)""",
        hold=t.queue_full_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the listen queue of {SOCKET} was full for {percent(TENTH)} of the last "
        f"{within}",
        acts=(
            more_capacity(t),
            HOW_MUCH,
            LONGER_QUEUE,
        ),
        evidence=f"The listen queue is full: its limit is {LIMIT} connections (the kernel admits one more), and "
        f"{answer(f'uwsgi_socket_queue_length{{{queue}}}')} wait in it now. "
        f'{{{{ if match "^{TCP}$" $labels.socket }}}}In the last {within}, the kernel dropped '
        f"{answer(dropped, WHOLE)} new connections (counted over all TCP listeners in the network namespace). A client "
        "whose connection was dropped tries again after a second or more.{{ else }}The kernel does not count "
        "connections that a UNIX socket refuses. When nginx is refused, it logs `Resource temporarily unavailable` and "
        "responds with status 502; other programs that connect to the socket wait in connect().{{ end }}"
        + if_any(
            f"server:uwsgi_queue_wait_seconds:ratio_rate{t.window}{{$self}}",
            f" Requests that enter the queue wait {of_dot(DURATION)} in it on average.",
        ),
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _wait_high(t: Thresholds) -> Sequence[Alert]:
    """A ticket if users notice the wait, a page if the wait is most of their time."""
    served = f"server:uwsgi_response_time_seconds:ratio_rate{t.window}{{$self}}"
    reserve = 'sum(uwsgi_workers{state=~"cheap|never_spawned",$self}) > 0'
    ticket = Alert(
        alert="UwsgiQueueWaitHigh",
        expr=waiting.noticed(t),
        hold=t.queue_wait_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: requests wait {value(DURATION)} on average in the listen queue",
        acts=(
            more_capacity(t),
            if_any(
                reserve,
                "Let cheaper mode spawn the {{ . | first | value }} workers that it keeps in reserve: raise `cheaper` "
                "or `cheaper-initial`, lower `cheaper-overload`, or check whether `cheaper-rss-limit-soft` prevents "
                "new workers. ",
            )
            + HOW_MUCH,
            LIMIT_CLIENTS,
        ),
        evidence=if_any(waiting.many_wait(t, "{$self}"), "This wait is a lower bound: many requests still wait. ")
        + f"After the wait in the listen queue, requests are in service for {answer(served, DURATION)} on average. "
        "Users wait for the sum of both times; uWSGI's own response times leave out the wait in the listen queue.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )
    title = (
        f"uWSGI {SERVER} on {INSTANCE} is slow for its users: requests wait {value(DURATION)} in the listen "
        f"queue, and are then in service for {answer(served, DURATION)}"
    )
    return [ticket, replace(ticket, expr=waiting.severe(t), keep=t.load_keep, severity="critical", summary=title)]


def _wait_of_few(t: Thresholds) -> Alert:
    """A ticket for a long wait of some requests, which a mean over all of them hides: bursts. The exporter follows
    requests in the queues, and knows how long each waited."""
    percentile = "uwsgi_queue_wait_percentile_seconds"
    return Alert(
        alert="UwsgiQueueWaitOfFew",
        expr=f'max without (window, percentile) ({percentile}{{percentile="95"}}) >= {t.queue_wait_severe_seconds}',
        hold=t.queue_wait_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: one in twenty requests waits {value(DURATION)} or longer in the listen "
        "queue",
        acts=(
            f"Run {CHECK}: it says whether the threads are occupied by bursts, a reload or one kind of long request.",
            more_capacity(t),
            "If the bursts come from one client, such as a job that starts on the hour, spread this client's requests "
            "over time, or rate-limit the client.",
        ),
        evidence=f"Half of the requests wait less than {_percentile('50')} in the listen queue, and one in a hundred "
        f"waits {_percentile('99')} or longer. The oldest request that is in the queue now has waited "
        f"{answer('max(uwsgi_listen_queue_oldest_wait_seconds{$self})', DURATION)} so far. The mean wait of all "
        "requests hides the long waits of a few.",
        dashboard=SERVER_DASHBOARD,
    )


def _percentile(percentile: str) -> str:
    """A percentile of the wait of the alert's server."""
    return answer(f'max(uwsgi_queue_wait_percentile_seconds{{percentile="{percentile}",$self}})', DURATION)


def _not_measurable(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiQueueNotMeasurable",
        expr="count without (socket) (uwsgi_socket_queue_measurable == 0)",
        hold=t.queue_not_measurable_hold,
        severity="info",
        summary=f"uWSGI {SERVER} on {INSTANCE}: {value()} of its listen queues cannot be measured",
        acts=(
            f"Run {CHECK}: like the exporter's web page, it shows why the queue cannot be measured.",
            "If the exporter runs in another container or on another host than uWSGI, run the exporter in uWSGI's "
            "network namespace.",
            "Let the exporter read `stats` over a UNIX socket: the exporter then knows that uWSGI's processes run on "
            "its own host.",
        ),
        evidence="If a queue cannot be measured, nobody knows whether requests wait in it, and no alert about this "
        "queue can fire. uWSGI's own figure does not help: for a UNIX socket, uWSGI always reports an empty queue.",
        dashboard=SERVER_DASHBOARD,
    )

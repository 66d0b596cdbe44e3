"""Alerts about listen queues: where requests wait before uWSGI sees them."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, WHOLE, answer, asked, percent, value

TCP = r"([^/@\\\\].*)?:[0-9]+"
"""Names of TCP sockets, as a regular expression in quotes: those of UNIX ones begin with / or @ or a backslash."""

SOCKET = "{{ $labels.socket }}"

LIMIT = '{{ $socket := printf "%q" $labels.socket }}' + answer("uwsgi_socket_max_queue_length{socket=$socket,$self}")

MORE_CAPACITY = (
    "Add capacity: where CPU is left, more `processes` (or `threads`, where requests mostly wait); the dashboard says "
    "what gives out first. A longer queue (`listen`, and net.core.somaxconn before it) helps against bursts alone."
)


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `queue.yaml`."""
    return [Group("uwsgi-headroom queue", [_filling(t), _overflowing(t), _wait_high(t), _not_measurable(t)])]


def _mean(window: str) -> str:
    """Mean length of each queue over the time that samples cover, of its limit."""
    return (
        f"rate(uwsgi_socket_queue_seconds_total[{window}])"
        f" / ignoring (socket) group_left () (rate(uwsgi_exporter_observed_seconds_total[{window}]) > 0)"
        " / (uwsgi_socket_max_queue_length > 0)"
    )


def _filling(t: Thresholds) -> Alert:
    w = t.window
    return Alert(
        alert="UwsgiListenQueueFilling",
        expr=f"{_mean(w)} >= {t.queue_filling}",
        hold=t.queue_filling_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the listen queue of {SOCKET} is {percent()} full.",
        description=f"Over {w}, that part of the "
        + LIMIT
        + " connections that fit was waiting on average, and the next burst may find the queue full."
        f"{{{{ with {asked(f'server:uwsgi_queue_wait_seconds:ratio_rate{w}{{$self}}')} }}}} A request waits "
        "{{ . | first | value | humanizeDuration }} before uWSGI sees it.{{ end }}\n" + MORE_CAPACITY,
        dashboard=SERVER_DASHBOARD,
    )


def _overflowing(t: Thresholds) -> Alert:
    """A full TCP queue is counted by the kernel, for all listeners of a network namespace together: where there is the
    count, it must have grown too. Of UNIX sockets nothing is counted. That a queue is half full on average, as well,
    sets an overload apart from bursts that two looks happened to meet.
    """
    r = t.queue_full_range
    return Alert(
        alert="UwsgiListenQueueOverflowing",
        expr=f"""
max_over_time(uwsgi_socket_queue_length[{r}]) >= (uwsgi_socket_max_queue_length > 0)
and {_mean(r)} >= {t.queue_filling}
unless (
  uwsgi_socket_queue_length{{socket=~"{TCP}"}}
  and ignoring (socket) increase(uwsgi_listen_overflows_total[{r}]) == 0
)""",
        hold=t.queue_full_hold,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the listen queue of {SOCKET} is full, and turns requests away.",
        description=f"{value()} connections wait where {LIMIT} fit. "
        f'{{{{ if match "^{TCP}$" $labels.socket }}}}The kernel drops new ones, whose clients try again after a '
        f"second and more: {answer(f'increase(uwsgi_listen_overflows_total{{$self}}[{r}])', WHOLE)} times in {r}, "
        "over all TCP listeners there."
        "{{ else }}nginx gets `Resource temporarily unavailable` and answers 502; other clients are held in connect()."
        "{{ end }}"
        f"{{{{ with {asked(f'server:uwsgi_queue_wait_seconds:ratio_rate{t.window}{{$self}}')} }}}} Those let in "
        "wait {{ . | first | value | humanizeDuration }}.{{ end }}\n"
        + MORE_CAPACITY
        + " If every thread waits for the same thing (a database), free that first.",
        dashboard=SERVER_DASHBOARD,
    )


def _wait_high(t: Thresholds) -> Alert:
    w = t.window
    wait, served = f"server:uwsgi_queue_wait_seconds:ratio_rate{w}", f"server:uwsgi_response_time_seconds:ratio_rate{w}"
    return Alert(
        alert="UwsgiQueueWaitHigh",
        expr=f"{wait} >= {t.queue_wait_seconds} and {wait} >= {t.queue_wait_ratio} * {served}",
        hold=t.queue_wait_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a request waits {value('humanizeDuration')} before uWSGI sees it.",
        description=f"It is then in service for {answer(f'{served}{{$self}}', 'humanizeDuration')}, which is all that "
        "uWSGI's own response times show; users wait for both.\n" + MORE_CAPACITY,
        dashboard=SERVER_DASHBOARD,
    )


def _not_measurable(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiQueueNotMeasurable",
        expr="count without (socket) (uwsgi_socket_queue_measurable == 0)",
        hold=t.queue_not_measurable_hold,
        severity="info",
        summary=f"uWSGI {SERVER} on {INSTANCE}: {value()} of its listen queues cannot be measured.",
        description="Requests that wait there are seen by nobody: not by uWSGI, which says 0 for UNIX sockets, and not "
        "here; alerts on the queue stay silent.\n"
        f"The exporter's page, http://{INSTANCE}/, says why. Mostly the exporter runs in another container or on "
        "another host: run it in uWSGI's network namespace, and let it read `stats` over a UNIX socket.",
        dashboard=SERVER_DASHBOARD,
    )

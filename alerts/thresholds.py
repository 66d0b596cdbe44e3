"""All thresholds and windows of the rules, each with a reason to change it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any


def knob(default: Any, why: str) -> Any:
    """A field of `Thresholds`: its shipped value, what it does and when to change it."""
    return field(default=default, metadata={"why": why})


@dataclass(frozen=True)
class Thresholds:
    """Durations are in Prometheus' notation (`5m`); a ratio of 1 is the whole."""

    window: str = knob(
        "5m",
        "The window of all rates; it is part of every recorded name. At least four scrape intervals. A longer "
        "window steadies the figures of servers with few requests, and delays every alert.",
    )
    instance_labels: str = knob(
        "instance, pod, node",
        "Labels that distinguish the machines of one service, comma separated; the remaining labels name the "
        "service. Add those that your relabelling puts on targets.",
    )
    exporter_job: str = knob(
        "uwsgi.*",
        "Regular expression for the scrape jobs of the exporters. The alert on an exporter that is down uses it.",
    )
    grafana: str = knob(
        "",
        "Address of your Grafana, such as https://grafana.example.org. Without one, alerts have no link to a "
        "dashboard.",
    )
    runbooks: str = knob(
        "http://{{ $labels.instance }}/runbooks",
        "Where runbook links lead. By default, to the exporter itself, which serves them as pages. If people cannot "
        "reach exporters, name the folder of your own copy of the files.",
    )
    down_hold: str = knob(
        "2m",
        "How long a server must be unreadable before it is a page. Keep it longer than a full reload takes to load "
        "your application.",
    )
    down_flapping_range: str = knob(
        "10m",
        "A server that was down for more than half of this range counts as down, even if it came back in between: a "
        "server that restarts in a loop is never down for long.",
    )
    forgotten_range: str = knob(
        "6h",
        "How long a server is reported as down after an exporter without a history file has restarted and not found "
        "it: such an exporter forgets what it saw before. Lower it where servers are often removed together with a "
        "restart.",
    )
    missing_hold: str = knob(
        "15m", "How long an exporter must watch nothing, or leave servers out, before it is a ticket."
    )
    exporter_down_hold: str = knob(
        "5m",
        "How long an exporter must be unreachable before it is a ticket. Keep it longer than an update of its host "
        "takes.",
    )
    sampler_gap: float = knob(
        0.1,
        "Fraction of the time without samples, while the server was up, that is a ticket. Above it, figures made "
        "from samples are less accurate than documented.",
    )
    sampler_gap_range: str = knob(
        "15m", "The range of that fraction. Raise it to tolerate a busy spell of the exporter's host."
    )
    sampler_gap_hold: str = knob("15m", "How long samples must be missing before it is a ticket.")
    queue_filling: float = knob(
        0.5,
        "Mean length of a listen queue, as a fraction of its limit, at which the next burst may overflow it. As in "
        "`check`. Lower it where the limit is high: half of 4096 is a long wait.",
    )
    queue_filling_hold: str = knob("5m", "How long a queue must be filling before it is a ticket.")
    queue_full: float = knob(
        0.05,
        "Fraction of the time that a listen queue is at its limit, and refuses clients, that is a page; any "
        "fraction above 0 is a ticket. As in `check`.",
    )
    queue_full_range: str = knob(
        "2m", "The range of that fraction. At least four scrape intervals, so that every evaluation has data."
    )
    queue_full_hold: str = knob(
        "3m",
        "How long a queue must be full before it is a page. One burst is over after `queue_full_range`, so keep it "
        "longer.",
    )
    queue_full_ticket_range: str = knob(
        "15m",
        "A queue that was at its limit within this range is a ticket. The ticket stays open until the queue was below "
        "its limit for the whole range.",
    )
    queue_wait_seconds: float = knob(
        0.1,
        "Mean wait in the listen queue, in seconds, that users notice however long a request takes. As in `check`. "
        "Raise it for services whose answers take seconds anyway.",
    )
    queue_wait_least_seconds: float = knob(
        0.02,
        "Mean wait in seconds below which users do not notice the queue, however short a request is. A smaller "
        "difference between the response times of workers is not noticed either. As in `check`. Lower it for services "
        "that answer at once.",
    )
    queue_wait_ratio: float = knob(
        0.25,
        "Mean wait divided by the response time at which users notice the queue, between the two thresholds above: 25 "
        "ms for requests of 100 ms. Usable headroom ends there. As in `check`. Lower it where no queue should ever "
        "form.",
    )
    queue_wait_severe_seconds: float = knob(
        0.5, "Mean wait in seconds that is a page, if it is severe relative to the response time too. As in `check`."
    )
    queue_wait_severe_ratio: float = knob(
        1.0,
        "Mean wait divided by the response time that is severe: users spend most of their time in the queue. As in "
        "`check`.",
    )
    queue_wait_hold: str = knob(
        "10m", "How long requests must wait before it is a ticket or a page. The wait after a reload is neither."
    )
    queue_not_measurable_hold: str = knob("6h", "How long a queue must be unmeasurable before it is reported.")
    burn_page_1h: float = knob(
        14.4,
        "Burn rate over 1h and the last 5m that is a page: the share of bad requests divided by the share that the "
        "objective permits. At 14.4, an hour uses 2 % of the budget of 30 days. As in `check`. Lower it for objectives "
        "below 93 %, which cannot burn that fast.",
    )
    burn_page_6h: float = knob(
        6.0, "Burn rate over 6h and the last 30m that is a page: 5 % of the budget. Raise it if such a page can wait."
    )
    burn_ticket_1d: float = knob(3.0, "Burn rate over 1d and the last 2h that is a ticket: 10 % of the budget.")
    burn_ticket_3d: float = knob(
        1.0,
        "Burn rate over 3d and the last 6h that is a ticket: 10 % of the budget. Raise it if your users do not mind a "
        "missed objective, or better lower the objective.",
    )
    burn_requests: int = knob(
        100,
        "Fewest requests in the short window of a burn rate: one slow request of a few is no trend. As in `check`. "
        "Lower it for servers with few requests that all matter.",
    )
    burn_hold: str = knob(
        "2m", "How long the budget must burn before it is reported. It is short, because the windows are averages."
    )
    stuck_seconds: float = knob(
        120.0,
        "Age at which a request in service counts as stuck. nginx gives up after 60 s, so its client has gone. "
        "Raise it where long requests are intended: web sockets, long polling, downloads. For a single server, set "
        "`stuck` in the exporter instead.",
    )
    stuck_many: float = knob(
        0.5, "Fraction of the threads that are stuck that is a page: many requests find no thread. As in `check`."
    )
    stuck_hold: str = knob("2m", "How long a request must be stuck before it is a ticket.")
    standstill_range: str = knob(
        "1m",
        "If no request is completed within this range while requests wait, the server stands still. At least two "
        "scrape intervals, so that every evaluation has data. Keep it and the hold together longer than a full reload "
        "takes to load your application.",
    )
    standstill_hold: str = knob(
        "1m",
        "How long a server must stand still, or half of its threads be stuck, before it is a page. If requests "
        "wait, and all threads have been stuck for more than 30 s each, the server counts as standing still at once.",
    )
    paused_hold: str = knob(
        "2m", "How long all workers must be paused before it is a ticket. Keep it longer than a deploy pauses them for."
    )
    vassal_hold: str = knob(
        "5m",
        "How long an emperor must throttle vassals before it is a ticket. Keep it longer than a deploy of a "
        "vassal takes.",
    )
    harakiris: int = knob(
        1,
        "Number of workers ended by harakiri within `harakiri_range` that is a ticket. Even one has lost requests. "
        "Raise it where harakiri is your way to end slow requests.",
    )
    harakiri_range: str = knob(
        "1h", "The range in which harakiris are counted. The ticket stays open until the range has passed without one."
    )
    harakiri_hold: str = knob(
        "1m", "How long the count must stand before it is a ticket. It is short, because the harm is done."
    )
    lost: int = knob(
        3, "Number of requests lost within `lost_range` that is a page, if `lost_part` is reached too. As in `check`."
    )
    lost_part: float = knob(
        0.01,
        "Fraction of all requests lost that is a page; a single lost request is a ticket. As in `check`. Raise it "
        "where a proxy retries lost requests.",
    )
    lost_range: str = knob(
        "15m", "The range in which lost requests are counted. The alert stays until the range has passed without one."
    )
    lost_hold: str = knob(
        "1m", "How long the count must stand before it is reported. It is short, because the harm is done."
    )
    no_application_hold: str = knob(
        "1m",
        "How long workers must run without their application before it is reported. Keep it longer than the "
        "application takes to load.",
    )
    unanswered: int = knob(
        3,
        "It is a page if so many requests end without an answer in each of two consecutive ranges of "
        "`unanswered_range`, and `unanswered_part` is reached too. As in `check`.",
    )
    unanswered_part: float = knob(
        0.01,
        "Fraction of all requests that must be without an answer as well. As in `check`. Raise it where "
        "clients send such requests and are not meant to get an answer.",
    )
    unanswered_range: str = knob(
        "2m", "The range in which they are counted. At least four scrape intervals. Raise it to be woken later."
    )
    respawns: int = knob(
        5,
        "Respawns of one worker within `respawn_range` that are a loop: one a minute, as in `check`. Those of full "
        "reloads do not count.",
    )
    respawn_served: float = knob(
        50.0,
        "Requests that a worker serves between respawns, on average, from which they count as recycling "
        "(`max-requests`, `reload-on-rss`) and not as a loop. As in `check`. Raise it if your workers crash after more "
        "requests; keep it below your `max-requests`.",
    )
    respawns_cheaper: int = knob(
        20,
        "The same as `respawns` while cheaper mode keeps workers in reserve. Cheaper mode ends and spawns the same "
        "worker again, but hardly every 15 s: four a minute are a loop, as in `check`.",
    )
    respawn_range: str = knob("5m", "The range in which respawns are counted.")
    respawn_workers: float = knob(
        0.5,
        "Fraction of the workers in a respawn loop that is a page. With fewer, the others serve, and it is a ticket.",
    )
    respawn_hold: str = knob(
        "5m",
        "How long the loop must go on before it is reported. At least `respawn_range`, or a loop that has ended "
        "would page.",
    )
    exceptions: float = knob(
        0.01, "Fraction of the requests with an unhandled exception that is a ticket. As in `check`."
    )
    exceptions_least: int = knob(
        10,
        "Number of exceptions within `exceptions_range` below which there is no ticket: at night, one may be half "
        "of the requests.",
    )
    exceptions_range: str = knob("15m", "The range in which exceptions and requests are counted.")
    exceptions_hold: str = knob("5m", "How long exceptions must be too many before it is a ticket.")
    memory_growth: float = knob(
        0.1,
        "Growth of a worker's resident memory in `memory_growth_hours`, twice in a row, that is a leak. As in `check`.",
    )
    memory_growth_bytes: float = knob(
        16e6, "Least growth in bytes each time, as in `check`: a small worker grows by a tenth without a leak."
    )
    memory_growth_hours: int = knob(
        3,
        "Hours for each of the two periods of growth. The first hour after a spawn does not count, because caches "
        "fill. Raise it where they take longer. Only a worker that lives more than twice as long is judged.",
    )
    memory_growth_hold: str = knob("15m", "How long memory must grow like this before it is a ticket.")
    uneven_ratio: float = knob(
        1.5,
        "Hot ratio (1 is even) at which uneven workers are a ticket. Lower it for services that must be fast "
        "throughout. There is no reason to raise it, because it counts under load only.",
    )
    uneven_utilization: float = knob(
        0.25,
        "Fraction of the threads busy from which unevenness counts. Below it, uneven shares are normal: uWSGI is "
        "nearly idle. Raise it if the ticket comes for servers that are fast enough.",
    )
    uneven_interpreter: float = knob(
        0.5,
        "Interpreter load from which unevenness counts although few threads are busy: from half a CPU on, requests "
        "in one worker meet at its lock. As in `check`.",
    )
    uneven_concurrency: float = knob(
        1.2,
        "Mean number of requests in service from which unevenness counts at all. One client that sends one request "
        "after another makes 1.0 at most and never waits for a thread.",
    )
    uneven_hold: str = knob(
        "15m", "How long workers must be uneven before it is a ticket. Raise it to ignore batch jobs."
    )
    hot_worker_ratio: float = knob(
        1.25,
        "Multiple of its even share at which a saturated worker counts as hot. Shares of 68 % and 32 % over two "
        "workers are a ratio of 1.36, which was measured to hurt.",
    )
    hot_worker_slower: float = knob(
        1.5,
        "Multiple of the less busy workers' response time at which a saturated worker is a page, if users notice the "
        "difference (`queue_wait_least_seconds`). As in `check`. Lower it where every request has to be fast.",
    )
    hot_worker_idle: float = knob(
        1.0,
        "A saturated worker is a page if so many threads, on average, are idle in other workers whose interpreters are "
        "not full. With none, the server is full rather than uneven, which is another page.",
    )
    hot_worker_hold: str = knob(
        "5m", "How long a worker must be saturated before it is a page. Raise it for batch work."
    )
    load_keep: str = knob(
        "10m",
        "How long alerts about load stay after their condition has ended. Load around the threshold, and the gap in "
        "the counters after a reload, must not resolve a page and send it again.",
    )
    interpreter_full: float = knob(
        0.85,
        "Interpreter load at which a worker's threads mostly wait for its lock. As in `check`. Raise it where "
        "extensions release the lock, so that a worker can use more than one CPU.",
    )
    near_capacity: float = knob(
        0.9,
        "Mean fraction of the threads busy at which threads are the limit: random arrivals then find all of them "
        "busy much of the time. It is a page if requests wait as in `queue_wait_seconds`; otherwise "
        "UwsgiHeadroomLow has the ticket. Workers that cheaper mode keeps in reserve count as free. As in `check`. "
        "Raise it for batch servers whose clients can wait.",
    )
    near_capacity_hold: str = knob(
        "10m",
        "How long the server must be near capacity before it is a page: twice the time in which the mean forgets a "
        "burst.",
    )
    headroom_low: float = knob(
        1.25,
        "It is a ticket if the headroom was below this for more than 5 % of the time in `headroom_range`. Raise it "
        "where load jumps, or where new capacity takes long to get.",
    )
    headroom_range: str = knob("1h", "The range of that headroom. A server that is younger is not judged.")
    headroom_hold: str = knob("10m", "How long headroom must be low before it is a ticket.")
    forecast_range: str = knob(
        "28d",
        "How far a forecast looks back. Use whole weeks, because of weekends, and no more than your Prometheus keeps.",
    )
    forecast_days: int = knob(14, "Daily figures that a forecast needs: with two weekends, a weekend is not a trend.")
    forecast_significance: float = knob(
        4.0,
        "t-statistic that a trend needs: its slope divided by the slope's standard error. At 4, steady load shows a "
        "trend by chance once in a thousand forecasts; at 2, once in twenty.",
    )
    forecast_horizon_days: int = knob(28, "How far a forecast looks ahead. No further than it looks back.")
    forecast_hold: str = knob(
        "1h", "How long a forecast must stand before it is reported. Daily figures change once a day."
    )
    cpu_full: float = knob(0.9, "Fraction of the CPUs available to the workers whose use is a ticket. As in `check`.")
    cpu_least: float = knob(
        0.05,
        "Fraction of the usable CPUs below which the workers cannot lack CPU, however busy the host is. As in `check`. "
        "There is hardly a reason to lower it: every idle server of a busy host would raise a ticket.",
    )
    cpu_wait_threads: float = knob(
        1.0,
        "It is a ticket that other programs use the CPUs if so many threads, on average, wait for a CPU. Raise it "
        "where requests may be slow.",
    )
    bound_hold: str = knob(
        "15m",
        "How long interpreters or CPUs must be full, or threads wait for a lock or for slow clients, before it is a "
        "ticket. Raise it to ignore batch jobs.",
    )
    lock_threads: float = knob(
        1.0,
        "Mean number of threads that wait for a lock of the application, or for clients, below which it is no ticket. "
        "As in `check`.",
    )
    clients_slow: float = knob(
        0.25,
        "Fraction of the threads that wait for slow clients that is a ticket. As in `check`. Raise it for servers that "
        "stream to their clients.",
    )
    cpu_throttled: float = knob(
        0.25,
        "Fraction of the periods of a CPU quota in which it stopped the workers that is a ticket, if requests wait for "
        "a CPU or in the listen queue. As in `check`. Raise it where short delays do not matter.",
    )
    shared_cpu_load: float = knob(
        0.3,
        "CPU use of the busiest worker (in CPUs) from which workers that are pinned to one CPU are a ticket. As in "
        "`check`. Below, they hardly ever meet there.",
    )
    shared_cpu_hold: str = knob("15m", "How long workers must be pinned to one CPU before it is a ticket.")
    rejected: int = knob(
        3, "Requests refused within `rejected_range`, as uWSGI's log says, that are a ticket. As in `check`."
    )
    rejected_part: float = knob(
        0.01,
        "Fraction of all requests that must be refused as well. As in `check`. Raise it for servers that scanners "
        "reach directly.",
    )
    rejected_range: str = knob("15m", "The range in which refused requests are counted.")
    rejected_hold: str = knob(
        "1m", "How long the count must stand before it is a ticket. It is short, because the harm is done."
    )
    connection_shared_threads: float = knob(
        0.05,
        "It is a ticket if so many threads, on average, wait for an answer over a connection that workers share. As in "
        "`check`.",
    )
    connection_shared_hold: str = knob("5m", "How long requests must use such a connection before it is a ticket.")
    descriptors: float = knob(
        0.8,
        "Fraction of its file descriptors that a worker has open that is a ticket. As in `check`. Raise it if workers "
        "are meant to hold many connections.",
    )
    descriptors_hold: str = knob("5m", "How long a worker must have so many open before it is a ticket.")
    loop_held: float = knob(
        0.5,
        "Fraction of the time in which calls hold the event loop of a worker with coroutines that is a ticket. As in "
        "`check`. Lower it for services that must be fast throughout.",
    )
    loop_held_hold: str = knob(
        "5m", "How long a loop must be held so much before it is a ticket. Raise it to ignore batch jobs."
    )
    deploy_hold: str = knob(
        "1m",
        "How long a deploy must be judged worse before it is a ticket. The exporter allows for judging a deploy again "
        "and again, so a longer time makes its verdict no more certain.",
    )
    usual_slower: float = knob(
        0.2,
        "It is a ticket if requests take longer by this fraction than at the same hour of the 14 days before. How much "
        "these days differ from each other counts as well. Raise it where an objective is set.",
    )
    usual_hold: str = knob("30m", "How long that must last before it is a ticket.")
    output_blocked_threads: float = knob(
        0.9, "It is a ticket if so many threads, on average, are blocked in a write to a full pipe. As in `check`."
    )
    output_blocked_part: float = knob(
        0.5,
        "Fraction of all threads in service that must wait for a pipe, or for a lock, as well. Lower it to hear of a "
        "single worker among many.",
    )
    output_blocked_hold: str = knob("2m", "How long threads must be blocked before it is a ticket.")

    @property
    def window_seconds(self) -> float:
        """The window's length in seconds: `1m30s` is 90."""
        units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
        return sum(int(count) * units[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", self.window))


def changed(thresholds: Thresholds, assignments: Sequence[str]) -> Thresholds:
    """Returns the thresholds with each `NAME=VALUE` applied. Raises ValueError with a sentence about the error."""
    known = {threshold.name: type(getattr(thresholds, threshold.name)) for threshold in fields(thresholds)}
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or name not in known:
            raise ValueError(f"{assignment!r}: expected NAME=VALUE with one of {', '.join(known)}")
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise ValueError(f"{assignment!r}: {value!r} is not a number") from error
    return replace(thresholds, **values)

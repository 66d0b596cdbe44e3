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
        "What rates are over, and a part of every recorded name. At least four scrape intervals; longer steadies the "
        "figures of servers with few requests, and makes every alert later.",
    )
    instance_labels: str = knob(
        "instance, pod, node",
        "Labels that tell the machines of one service apart, comma separated: what is left names a service. Add what "
        "your relabelling puts on targets.",
    )
    exporter_job: str = knob(
        "uwsgi.*", "Regular expression of the scrape jobs that the exporters are in, for the alert on one being down."
    )
    grafana: str = knob("http://localhost:3000", "Address of your Grafana, for the links in alerts.")
    runbooks: str = knob(
        "http://{{ $labels.instance }}/runbooks",
        "Where runbook links lead: as shipped to the exporter itself, which serves them as pages. Name the folder of "
        "your own copy of the files where people cannot reach exporters.",
    )
    down_hold: str = knob(
        "2m", "How long a server cannot be read before it is a page. Longer than a full reload takes to load your app."
    )
    down_flapping_range: str = knob(
        "10m",
        "A server that came and went within this, and was down for more than half of it, counts as down: one that "
        "is restarted in a loop is never down for long.",
    )
    exporter_down_hold: str = knob(
        "5m", "How long an exporter cannot be scraped before it is a ticket. Longer than an update of its host takes."
    )
    sampler_gap: float = knob(
        0.1,
        "Part of the time, beyond that in which the server was down, without samples: from here, what is made from "
        "samples misses more than their own error.",
    )
    sampler_gap_range: str = knob("15m", "What that part is of. Longer forgives a busy spell of the exporter's host.")
    sampler_gap_hold: str = knob("15m", "How long samples are missing before it is a ticket.")
    queue_filling: float = knob(
        0.5,
        "Mean length of a listen queue, of its limit, from which the next burst may overflow it. As in `check`. Lower "
        "it where the limit is high: half of 4096 is a long wait.",
    )
    queue_filling_hold: str = knob("5m", "How long a queue is filling before it is a ticket.")
    queue_full: float = knob(
        0.05,
        "Part of the time at its limit from which a listen queue refuses so many clients that it is a page; any part "
        "is a ticket. As in `check`.",
    )
    queue_full_range: str = knob(
        "2m", "What that part is of. At least four scrape intervals, so that every evaluation knows the part."
    )
    queue_full_hold: str = knob(
        "3m", "How long that goes on before it is a page: one burst is over in `queue_full_range`, so keep it longer."
    )
    queue_full_ticket_range: str = knob(
        "15m", "A queue that was at its limit within this is a ticket, which stays open until it was not for so long."
    )
    queue_wait_seconds: float = knob(
        0.1,
        "Mean wait in the listen queue from which users notice it, in seconds. As in `check`. Lower it for services "
        "that answer at once.",
    )
    queue_wait_ratio: float = knob(
        0.25,
        "Mean wait over response time from which it is the queue that users notice. As in `check`. Lower it where no "
        "queue should ever form.",
    )
    queue_wait_severe_seconds: float = knob(
        0.5,
        "Mean wait in seconds from which it is a page, if it is severe against the response time too. As in `check`.",
    )
    queue_wait_severe_ratio: float = knob(
        1.0,
        "Mean wait over response time from which it is severe: users wait for most of their time in the queue. As in "
        "`check`.",
    )
    queue_wait_hold: str = knob(
        "10m", "How long requests wait before it is a ticket, or a page: the wait after a reload is neither."
    )
    queue_not_measurable_hold: str = knob("6h", "How long a queue cannot be measured before it is told.")
    stuck_seconds: float = knob(
        120.0,
        "Age from which a request in service is stuck. nginx gives up after 60 s, so nobody waits for it any more. "
        "Raise it where long requests are meant: web sockets, long polling, downloads.",
    )
    stuck_many: float = knob(
        0.5, "Part of the threads that are stuck from which it is a page: many requests find none. As in `check`."
    )
    stuck_hold: str = knob("2m", "How long there is one before it is a ticket, or half of the threads before a page.")
    harakiris: int = knob(
        1,
        "Workers ended by harakiri within `harakiri_range` that are a ticket. One has lost requests; raise it where "
        "harakiri is how you end slow ones.",
    )
    harakiri_range: str = knob("1h", "What they are counted over: the ticket stays open until none came for so long.")
    harakiri_hold: str = knob("1m", "How long that is so before it is a ticket: it has happened, so there is no doubt.")
    lost: int = knob(
        3, "Requests lost within `lost_range`, at least, that are a page, if they are `lost_part` too. As in `check`."
    )
    lost_part: float = knob(
        0.01,
        "Part of all requests that were lost from which it is a page; a single one is a ticket. As in `check`. Raise "
        "it where a proxy sends lost requests again.",
    )
    lost_range: str = knob("15m", "What lost requests are counted over: the alert stays until none came for so long.")
    lost_hold: str = knob("1m", "How long that is so before it is reported: it has happened, so there is no doubt.")
    no_application_hold: str = knob(
        "1m", "How long workers run without their application before it is reported: longer than it takes to load."
    )
    respawns: int = knob(
        5,
        "Respawns of one worker within `respawn_range`, without those of full reloads, that are a loop: one a minute. "
        "As in `check`.",
    )
    respawn_served: float = knob(
        50.0,
        "Requests that a worker serves between respawns, on average, from which they are recycling (`max-requests`, "
        "`reload-on-rss`) and no loop. As in `check`. Raise it if yours crash after more; keep it below your "
        "`max-requests`.",
    )
    respawns_cheaper: int = knob(
        20,
        "As `respawns`, while cheaper mode keeps workers in reserve: it ends and spawns the same worker again, but "
        "hardly every 15 s.",
    )
    respawn_range: str = knob("5m", "What respawns are counted over.")
    respawn_workers: float = knob(
        0.5, "Part of the workers that are in a loop from which it is a page; with fewer, others serve: a ticket."
    )
    respawn_hold: str = knob(
        "5m", "How long the loop goes on before it is reported: not less than `respawn_range`, or one that ended pages."
    )
    exceptions: float = knob(
        0.01, "Part of the requests that raise out of the application from which it is a ticket. As in `check`."
    )
    exceptions_least: int = knob(
        10, "Exceptions within `exceptions_range` below which it is none: at night, one may be half of the requests."
    )
    exceptions_range: str = knob("15m", "What exceptions and requests are counted over.")
    exceptions_hold: str = knob("5m", "How long they are too many before it is a ticket.")
    memory_growth: float = knob(
        0.1,
        "Growth of a worker's resident memory in `memory_growth_hours`, twice in a row, that is a leak. As in `check`.",
    )
    memory_growth_bytes: float = knob(
        16e6, "And at least so many bytes each time, as in `check`: small workers grow by a tenth for nothing."
    )
    memory_growth_hours: int = knob(
        3,
        "Hours in which it grows so much, two times over. The first hour after a spawn does not count, when caches "
        "fill. Raise it where they take longer; a worker must live for over twice as long to be judged.",
    )
    memory_growth_hold: str = knob("15m", "How long that is so before it is a ticket.")
    uneven_ratio: float = knob(
        1.5,
        "Hot ratio (1 is even) from which uneven workers are a ticket. Lower it for services that must be fast "
        "throughout; there is no reason to raise it, because it counts under load alone.",
    )
    uneven_utilization: float = knob(
        0.25,
        "Part of the threads that is busy from which unevenness counts; with less, uneven shares are how an "
        "idle uWSGI works. Raise it if the ticket comes for servers that are fast enough.",
    )
    uneven_interpreter: float = knob(
        0.5,
        "CPU a second of an interpreter from which unevenness counts although few threads are busy: from half a core "
        "on, requests in one worker meet at its lock. As in `check`.",
    )
    uneven_concurrency: float = knob(
        1.2,
        "Requests in service at once, on average, from which unevenness counts at all: one client that sends one "
        "request after the other makes 1.0 at most, and waits for nobody, however uneven and however fast.",
    )
    uneven_hold: str = knob("15m", "How long workers are uneven before it is a ticket: longer ignores batch jobs.")
    hot_worker_ratio: float = knob(
        1.25,
        "Times its fair share from which a saturated worker is one that takes too much. 68/32 % over two workers is "
        "1.36 and was measured to hurt.",
    )
    hot_worker_slower: float = knob(
        1.5,
        "Times the response time of the calm workers from which a saturated worker is a page. As in `check`. Lower it "
        "where every request has to be fast.",
    )
    hot_worker_idle: float = knob(
        1.0,
        "Threads of workers with room that idle, on average, for a saturated worker to be a page: with none, the "
        "server is full rather than uneven, which is another page.",
    )
    hot_worker_hold: str = knob("5m", "How long a worker is saturated before it is a page. Raise it for batch work.")
    load_keep: str = knob(
        "10m",
        "How long alerts about load stay once they fired, though the condition is gone: load about the threshold, and "
        "the gap in the counters that a reload makes, must not resolve a page and send it again.",
    )
    interpreter_full: float = knob(
        0.85,
        "CPU a second of one interpreter from which its threads mostly wait for its lock. As in `check`. Raise it "
        "where extensions release the lock, which lets a worker use more than one CPU.",
    )
    near_capacity: float = knob(
        0.9,
        "Part of the threads that is busy, on average, from which they are the limit: random arrivals find all of them "
        "busy much of the time. It is a page where requests wait as `queue_wait_seconds` says, and UwsgiHeadroomLow's "
        "ticket elsewhere. Threads of workers that cheaper mode keeps in reserve count as free. As in `check`. Raise "
        "it for batch servers whose clients do not mind waiting.",
    )
    near_capacity_hold: str = knob(
        "10m", "How long it is near capacity before it is a page: twice the time in which a mean forgets a burst."
    )
    headroom_low: float = knob(
        1.25,
        "Factor by which load could still grow, in the worst twentieth of an hour, below which it is a ticket. Raise "
        "it where load jumps, or new capacity takes long to have.",
    )
    headroom_range: str = knob("1h", "What the worst twentieth is of. A server younger than that is not judged.")
    headroom_hold: str = knob("10m", "How long headroom is low before it is a ticket.")
    forecast_range: str = knob(
        "28d",
        "How far a forecast looks back. Whole weeks, because of weekends; not beyond what your Prometheus keeps.",
    )
    forecast_days: int = knob(
        14, "Daily figures that a forecast needs at least: two weekends, so that none is a trend."
    )
    forecast_significance: float = knob(
        4.0,
        "t-statistic of the trend, its slope over the slope's standard error, that a forecast needs. At 4, chance "
        "makes a trend of steady load once in a thousand; 2 would be once in twenty.",
    )
    forecast_horizon_days: int = knob(28, "How far a forecast looks ahead: no further than it looks back.")
    forecast_hold: str = knob("1h", "How long a forecast stands before it is told: daily figures move once a day.")
    cpu_full: float = knob(
        0.9, "Part of the CPUs that the workers may use which is used, from which it is a ticket. As in `check`."
    )
    bound_hold: str = knob("15m", "How long interpreters or CPUs are full before it is a ticket.")
    shared_cpu_hold: str = knob("15m", "How long workers are pinned to one CPU before it is a ticket.")

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

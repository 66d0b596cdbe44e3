"""The server as a whole and its workers, from uWSGI's own stats: states, options, capacity, applications and log."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from uwsgi_headroom.analysis.figures import count_ceiling
from uwsgi_headroom.analysis.findings import Held
from uwsgi_headroom.analysis.worker_states import count_harmful_now, find_without_application
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.events import KINDS
from uwsgi_headroom.metrics.family import (
    ObservedServer,
    Rows,
    Scrape,
    Slot,
    Subjects,
    add_up,
    each_found,
    each_observation,
    each_slot,
    label_set,
)
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.raw import App
from uwsgi_headroom.stats.server import STATES
from uwsgi_headroom.uwsgi_log.log import LogTotals
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.words.states import NO_CAUSE


def _count_events(server: Observation) -> dict[str, int]:
    """Events by kind, 0 included; messages need a log, and judgements of a deploy need one."""
    counts: dict[str, int] = {kind: server.events.get(kind, 0) for kind in KINDS}
    if server.log is None:
        del counts["log_message"]
    if server.deploy_worse is None:
        del counts["deploy_judged"]
    return counts


def _name_verdict(server: Observation) -> dict[tuple[str, str, str], int] | None:
    """The labels of a verdict: of a server, and of what is down. An emperor or a router that is up has none."""
    if not server.reading:
        return {("down", "down", "down"): 1}
    verdict = server.verdict
    return {(verdict.status, verdict.code or NO_CAUSE, verdict.harm or NO_CAUSE): 1} if server.server else None


def _find_since(server: Observation) -> float | None:
    if not server.reading:
        return server.down_since
    return server.verdict.since if server.server else None


OBSERVATION: Rows[Observation] = {
    "uwsgi_up": (
        "Whether the stats server was read in the last 5 s (or in three sampling intervals, if longer); 0 at once if "
        "nothing listens there. The exporter's page and its log give the reason for a 0.",
        lambda server: server.reading is not None and not server.is_silent,
    ),
    "uwsgi_found": (
        "1 for a server that is neither configured nor run by an enabled unit of systemd, and for a vassal that its "
        "Emperor starts on demand: while it is down, it has no metrics, and no alert fires. Absent for all others.",
        lambda server: 1 if server.is_optional else None,
    ),
    "uwsgi_verdict_info{verdict,cause,harm}": (
        "The verdict (ok, warning, critical, unknown or down) of the last minute, as alerts have it. cause is the code "
        "of the worst finding (docs/severity.md), harm the code of the finding that says what users notice of it; both "
        "can also be down or none. Always 1.",
        _name_verdict,
    ),
    "uwsgi_verdict_since_time_seconds": (
        "Since when the verdict has been the same, whatever its cause, in epoch seconds. Absent if that was before "
        "the exporter began to watch the server.",
        _find_since,
    ),
    "uwsgi_judged_time_seconds": (
        "When the exporter last judged the server, in epoch seconds. Absent until it has judged it.",
        lambda server: server.judged_at if server.reading else None,
    ),
    "uwsgi_events_total{kind}": ("Events by kind: the events that the page, the API and `top` show.", _count_events),
    "uwsgi_deploy_worse{quantity}": (
        "Whether requests take longer (time), use more CPU time (cpu) or fail more often (errors), or memory grows "
        "(memory), since the last reload or restart: 1 if that is certain (docs/deploys.md). Absent without one in the "
        "last day.",
        lambda server: server.deploy_worse,
    ),
}


READING: Rows[Reading] = {
    "uwsgi_server_info{version,kind}": (
        "Version of uWSGI and the kind of stats server (server, emperor or router); always 1.",
        lambda reading: {(reading.snapshot.version, reading.snapshot.kind): 1},
    ),
    "uwsgi_scrape_duration_seconds": (
        "Duration of the last read of the stats server, from connecting to the last byte.",
        lambda reading: reading.read_seconds,
    ),
    "uwsgi_stats_document_size_bytes": (
        "Size of the stats document. Above 219 kB on a UNIX socket, a client that stops reading blocks uWSGI's master.",
        lambda reading: reading.document_bytes or None,
    ),
}


def each_alert(scrape: Scrape) -> Subjects[Held]:
    """What alerts read: the problems of each server, at most MOST_ALERTS of them."""
    return [
        (label_set(**labels, **_label_alert(held), urgency="page" if held.is_page else "ticket"), held)
        for labels, observation in scrape.observations
        if observation.reading
        for held in observation.alerts
    ]


def _label_alert(held: Held) -> dict[str, str]:
    named, words = held.named, held.named.public
    labels = {
        "code": named.code,
        "title": _shorten(words.title or f"{named.code.replace('_', ' ').capitalize()}."),
        "act": _shorten(words.act),
        "evidence": _shorten(words.evidence),
    }
    return labels if named.worker_id is None else {**labels, "worker_id": str(named.worker_id)}


_MOST_BYTES = 200
"""Of a text in a label: each is in every scrape."""


def _shorten(text: str) -> str:
    """The text, or its beginning: names in it may be long."""
    data = text.encode()
    return text if len(data) <= _MOST_BYTES else f"{data[: _MOST_BYTES - 3].decode(errors='ignore')}..."


ALERT: Rows[Held] = {
    "uwsgi_finding_since_time_seconds": (
        "When a finding that needs action began, in epoch seconds: at most five per server, the worst first. "
        "urgency: page or ticket. title, act and evidence are sentences, fixed while it is a page; worker_id is "
        "set if it is about one worker.",
        lambda held: held.since,
    ),
}


SERVER: Rows[ObservedServer] = {
    "uwsgi_source_info{source}": (
        "Where figures come from: uWSGI's stats; or the kernel, without what only uWSGI counts and without series of "
        "workers (docs/turn-on-stats.md). Always 1.",
        lambda server: {server.snapshot.source: 1},
    ),
    "uwsgi_last_reload_time_seconds": (
        "When all workers last loaded the application, in epoch seconds: uWSGI's start, a full reload, or the "
        "replacement of all workers. Absent if the exporter has seen none of these, and no worker still had its first "
        "process when the exporter first read the server.",
        lambda server: server.observation.loaded_at,
    ),
    "uwsgi_workers{state}": (
        "Worker slots by state: uWSGI's own states, and starting (not yet accepting), gone (ended, not yet respawned), "
        "never_spawned (cheaper's reserve).",
        lambda server: {**dict.fromkeys(STATES, 0), **Counter(worker.state for worker in server.snapshot.workers)},
    ),
    "uwsgi_signal_queue_length": (
        "Bytes of uWSGI signals waiting for a worker.",
        lambda server: server.snapshot.signal_queue,
    ),
    "uwsgi_thunder_lock": (
        "Whether thunder-lock is on: the lock spreads requests evenly over the workers, at a cost in throughput.",
        lambda server: server.snapshot.thunder_lock,
    ),
    "uwsgi_host_facts_available": (
        "Whether the server's processes are proven to be processes of this host; if 0, process and affinity metrics "
        "are absent and the exporter's page says why.",
        lambda server: server.reading.host.off is None,
    ),
    "uwsgi_harakiri_seconds": (
        "The `harakiri` option: uWSGI kills a worker whose request takes longer; 0 means never. Absent unless known to "
        "be set.",
        lambda server: server.record.setup.options.harakiri,
    ),
    "uwsgi_listen_backlog_limit": (
        "The `listen` option: the length of a listen queue that uWSGI requests from the kernel, capped by "
        "net.core.somaxconn. Absent unless known to be set.",
        lambda server: server.record.setup.options.listen,
    ),
    "uwsgi_settings_reviewed": (
        "1 if the review of settings knows all of uWSGI's options; 0 if it knows only some, and so gives no advice "
        "about missing options. Absent if no options are known.",
        lambda server: server.record.setup.options.complete if server.advice is not None else None,
    ),
    "uwsgi_settings_advice{rule}": (
        "What a rule of `uwsgi-headroom review` (docs/settings.md) says about the settings: 2 if they will cause "
        "trouble, 1 if they may. Absent for rules that have nothing to say.",
        lambda server: {each.rule: 1 + (each.severity == "warning") for each in server.advice or ()},
    ),
}


def _name_app(app: App) -> tuple[str, str]:
    return str(app.app_id), app.mountpoint


def _find_slowest(server: ObservedServer) -> dict[tuple[str, str], int]:
    slowest: dict[tuple[str, str], int] = {}
    for app in chain.from_iterable(worker.apps for worker in server.snapshot.workers):
        if app.startup_seconds is not None:
            slowest[_name_app(app)] = max(app.startup_seconds, slowest.get(_name_app(app), 0))
    return slowest


each_slot_with_several = each_found(each_slot, lambda slot: slot if len(slot.worker.apps) > 1 else None)
"""Only the workers with several applications: the requests of a single one are those of the worker."""

APPLICATION: Rows[ObservedServer] = {
    "uwsgi_app_startup_time_seconds{app_id,mountpoint}": (
        "How long the application took to load in the slowest worker, in whole seconds. A reload takes longer.",
        _find_slowest,
    ),
    "uwsgi_workers_without_application": (
        "Workers that take requests without having loaded the application that the configuration names: uWSGI answers "
        "with status 500. Absent if the configuration names none or cannot be read.",
        lambda server: len(known[1]) if (known := find_without_application(server.record)) else None,
    ),
}

APPLICATIONS_OF_WORKER: Rows[Slot] = {
    "uwsgi_worker_app_requests_total{app_id,mountpoint}": (
        "Requests passed to the application, counted when they start.",
        lambda slot: add_up(slot.worker.apps, _name_app, lambda app: app.requests),
    ),
    "uwsgi_worker_app_exceptions_total{app_id,mountpoint}": (
        "Exceptions that escaped the application.",
        lambda slot: add_up(slot.worker.apps, _name_app, lambda app: app.exceptions),
    ),
}


each_log = each_found(each_observation, lambda observation: observation.log)

LOG: Rows[LogTotals] = {
    "uwsgi_log_messages_total{message}": (
        "Lines of uWSGI's log with a known message, by message, since the exporter started; docs/log.md has them all. "
        "A lower bound while bytes are skipped. The application can write such lines too. Absent until the first one.",
        lambda log: dict(sorted(log.messages.items())),
    ),
    "uwsgi_log_lines_total": (
        "Lines of uWSGI's log that were read, known or not. Absent if no log is configured.",
        lambda log: log.lines,
    ),
    "uwsgi_log_skipped_bytes_total": (
        "Bytes of uWSGI's log that were not read, because it grew by more than 5 MB a second, or reading all logs took "
        "more than 2 % of a CPU. Absent if no log is configured.",
        lambda log: log.skipped_bytes,
    ),
    "uwsgi_log_up": (
        "Whether uWSGI's log is read: 0 if there is no such file, if it is no regular file, if the exporter's user may "
        "not read it, or if `journalctl` does not run. Absent if no log is configured.",
        lambda log: log.is_read,
    ),
}


def sum_of_workers(server: ObservedServer, name: str) -> int | None:
    """The sum of a field of the workers; None if uWSGI omits it."""
    return sum_if_all_known([getattr(worker, name) for worker in server.snapshot.workers])


def _count_stuck(server: ObservedServer) -> int | None:
    if sum_of_workers(server, "threads") is None:
        return None
    return count_harmful_now(server.record, server.observation.stuck_seconds)


THREADS: Rows[ObservedServer] = {
    "uwsgi_threads_configured": (
        "Configured capacity: threads of all worker slots, including those that cheaper mode has not spawned.",
        lambda server: sum_of_workers(server, "threads"),
    ),
    "uwsgi_threads_available": (
        "Available capacity: threads of workers that are up and accepting, as uWSGI reports. While a full reload waits "
        "for requests to end, uWSGI still counts the workers that serve these requests, although they take no other; "
        "so does this metric, but `check` and the API then say 0.",
        lambda server: sum_of_workers(server, "available_threads"),
    ),
    "uwsgi_threads_ceiling": (
        "The most threads that can serve: those available plus those of workers that cheaper mode keeps in reserve.",
        lambda server: count_ceiling(server.record.workers),
    ),
    "uwsgi_threads_busy": (
        "Threads serving a request at the moment of the read.",
        lambda server: sum_if_all_known([server.reading.busy_threads(worker) for worker in server.snapshot.workers]),
    ),
    "uwsgi_threads_stuck": (
        f"Threads whose request has been in service for longer than {STUCK_SECONDS:.0f} s, or what `stuck` is set to.",
        _count_stuck,
    ),
}
"""Absent with stats-no-cores, which hides threads."""


def _find_oldest_age(slot: Slot) -> float | None:
    if not slot.worker.request_starts or slot.reading.process_is_missing(slot.worker):
        return None
    return max(0.0, slot.reading.time - min(slot.worker.request_starts))


WORKER: Rows[Slot] = {
    "uwsgi_worker_requests_total": (
        "Requests completed, summed over the worker's threads. A full reload resets this counter, a respawn does not.",
        lambda slot: slot.worker.requests,
    ),
    "uwsgi_worker_running_time_seconds_total": (
        "Time spent in completed requests by all threads, added when a request ends. Its rate is concurrency by "
        "Little's law.",
        lambda slot: slot.worker.running_time,
    ),
    "uwsgi_worker_static_requests_total": (
        "Requests that uWSGI itself answered with a file; they count as requests but add no running time.",
        lambda slot: slot.worker.static_requests,
    ),
    "uwsgi_worker_threads": (
        "Threads that serve requests when the worker is up (async cores if uWSGI is asynchronous).",
        lambda slot: slot.worker.threads,
    ),
    "uwsgi_worker_accepting": (
        "Whether the worker takes requests: its process exists, has started, and is neither cheaped nor paused.",
        lambda slot: slot.worker.accepting,
    ),
    "uwsgi_worker_exceptions_total": (
        "Exceptions that escaped the application to uWSGI. A framework that turns errors into responses hides them.",
        lambda slot: slot.worker.exceptions,
    ),
    "uwsgi_worker_harakiri_total": (
        "Times uWSGI killed the worker because a request took longer than harakiri. All requests in the worker are "
        "then lost, and uWSGI does not count them.",
        lambda slot: slot.worker.harakiris,
    ),
    "uwsgi_worker_respawns_total": ("Spawns of the worker, including the first.", lambda slot: slot.worker.respawns),
    "uwsgi_worker_signals_total": ("uWSGI signals handled.", lambda slot: slot.worker.signals),
    "uwsgi_worker_transmitted_bytes_total": (
        "Bytes of response headers and bodies sent.",
        lambda slot: slot.worker.transmitted_bytes,
    ),
    "uwsgi_worker_last_spawn_time_seconds": (
        "Time of the worker's last spawn, in epoch seconds.",
        lambda slot: slot.worker.last_spawn,
    ),
    "uwsgi_worker_busy_threads": (
        "Threads serving a request at the moment of the read.",
        lambda slot: slot.reading.busy_threads(slot.worker),
    ),
    "uwsgi_worker_oldest_request_age_seconds": (
        "Age of the oldest request in service, precise to about a second; absent while there is none.",
        _find_oldest_age,
    ),
}

CLIENTS: Rows[ObservedServer] = {
    "uwsgi_write_errors_total": (
        "Responses that uWSGI could not write, because the client had left; of all workers. Each also counts as an "
        "exception. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "write_errors"),
    ),
    "uwsgi_read_errors_total": (
        "Request bodies that uWSGI could not read, because the client had left or sent nothing for `socket-timeout`; "
        "of all workers. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "read_errors"),
    ),
    "uwsgi_routed_requests_total": (
        "Requests that a rule of uWSGI's internal routing ended; of all workers. Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "routed_requests"),
    ),
    "uwsgi_offloaded_requests_total": (
        "Requests whose response an offload thread of uWSGI sends, so that the worker is free sooner; of all workers. "
        "Absent with stats-no-cores.",
        lambda server: sum_of_workers(server, "offloaded_requests"),
    ),
}

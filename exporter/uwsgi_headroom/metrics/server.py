"""The server as a whole: whether it is up, its version and options, the states of its workers, its
applications and its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.deploys.judgement import SUBJECTS
from uwsgi_headroom.analysis.findings import Held
from uwsgi_headroom.analysis.settings import review_server
from uwsgi_headroom.analysis.worker_states import find_without_application
from uwsgi_headroom.journal.events import KINDS, Kind
from uwsgi_headroom.journal.recorder import Verdict
from uwsgi_headroom.metrics.family import LabelSet, Scrape, counter, gauge, label_each, label_set, labels_of, summed
from uwsgi_headroom.stats.server import STATES
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.words.states import NO_CAUSE


def _may_happen(kind: Kind, observation: Observation) -> bool:
    """Whether a server may have events of a kind: messages need a log, and judgements of a deploy need one."""
    return {"log_message": observation.log, "deploy_judged": observation.deploy_worse}.get(kind, True) is not None


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    read = [
        (labels, observation, observation.reading) for labels, observation in scrape.observations if observation.reading
    ]
    yield gauge(
        "uwsgi_up",
        "Whether the stats server was read in the last 5 s (or in three sampling intervals, if longer); 0 at once if "
        "nothing listens there. The exporter's page and its log give the reason for a 0.",
        [(labels, 1.0 if observation.reading else 0.0) for labels, observation in scrape.observations],
    )
    yield from _verdicts(scrape)
    yield from _findings(scrape)
    yield gauge(
        "uwsgi_server_info",
        "Version of uWSGI and the kind of stats server (server, emperor or router); always 1.",
        [
            (labels_of(observation, version=reading.snapshot.version, kind=reading.snapshot.kind), 1.0)
            for _, observation, reading in read
        ],
    )
    yield gauge(
        "uwsgi_scrape_duration_seconds",
        "Duration of the last read of the stats server, from connecting to the last byte.",
        [(labels, reading.read_seconds) for labels, _, reading in read],
    )
    yield gauge(
        "uwsgi_stats_document_size_bytes",
        "Size of the stats document. Above 219 kB on a UNIX socket, a client that stops reading blocks uWSGI's master.",
        [(labels, reading.document_bytes) for labels, _, reading in read],
    )
    yield counter(
        "uwsgi_events_total",
        "Events by kind: the events that the page, the API and `top` show.",
        [
            (labels, observation.events.get(kind, 0))
            for _, observation in scrape.observations
            for labels, kind in zip(label_each(observation, "kind", KINDS), KINDS, strict=True)
            if _may_happen(kind, observation)
        ],
    )
    yield gauge(
        "uwsgi_deploy_worse",
        "Whether requests take longer (time), use more CPU time (cpu) or fail more often (errors), or memory grows "
        "(memory), since the last reload or restart: 1 if that is certain (docs/deploys.md). Absent without one in the "
        "last day.",
        [
            (labels, float(observation.deploy_worse[subject]))
            for _, observation in scrape.observations
            if observation.deploy_worse is not None
            for labels, subject in zip(label_each(observation, "quantity", SUBJECTS), SUBJECTS, strict=True)
        ],
    )
    yield gauge(
        "uwsgi_last_reload_time_seconds",
        "When all workers last loaded the application, in epoch seconds: uWSGI's start, a full reload, or the "
        "replacement of all workers. Absent if the exporter has seen none of these, and no worker still had its first "
        "process when the exporter first read the server.",
        [(server.labels, server.observation.loaded_at) for server in scrape.servers],
    )
    states = [(server, Counter(worker.state for _, worker in server.workers)) for server in scrape.servers]
    yield gauge(
        "uwsgi_workers",
        "Worker slots by state: uWSGI's own states, and starting (not yet accepting), gone (ended, not yet "
        "respawned), never_spawned (cheaper's reserve).",
        [
            (labels, count[state])
            for server, count in states
            for labels, state in zip(label_each(server.observation, "state", STATES), STATES, strict=True)
        ],
    )
    yield gauge(
        "uwsgi_signal_queue_length",
        "Bytes of uWSGI signals waiting for a worker.",
        [(server.labels, server.snapshot.signal_queue) for server in scrape.servers],
    )
    yield gauge(
        "uwsgi_thunder_lock",
        "Whether thunder-lock is on: the lock spreads requests evenly over the workers, at a cost in throughput.",
        [(server.labels, server.snapshot.thunder_lock) for server in scrape.servers],
    )
    yield gauge(
        "uwsgi_host_facts_available",
        "Whether the server's processes are proven to be processes of this host; if 0, process and affinity metrics "
        "are absent and the exporter's page says why.",
        [(server.labels, server.reading.host.off is None) for server in scrape.servers],
    )
    options = [(server.labels, setup.options) for server in scrape.servers if (setup := server.reading.host.setup)]
    yield gauge(
        "uwsgi_harakiri_seconds",
        "The `harakiri` option: uWSGI kills a worker whose request takes longer; 0 means never. Absent unless known to "
        "be set.",
        [(labels, known.harakiri) for labels, known in options],
    )
    yield gauge(
        "uwsgi_listen_backlog_limit",
        "The `listen` option: the length of a listen queue that uWSGI requests from the kernel, capped by "
        "net.core.somaxconn. Absent unless known to be set.",
        [(labels, known.listen) for labels, known in options],
    )
    reviews = [(server, review_server(server.record)) for server in scrape.servers]
    yield gauge(
        "uwsgi_settings_reviewed",
        "1 if the review of settings knows all of uWSGI's options; 0 if it knows only some, and so gives no advice "
        "about missing options. Absent if no options are known.",
        [
            (server.labels, float(server.record.setup.options.complete))
            for server, advice in reviews
            if advice is not None
        ],
    )
    yield gauge(
        "uwsgi_settings_advice",
        "What a rule of `uwsgi-headroom review` (docs/settings.md) says about the settings: 2 if they will cause "
        "trouble, 1 if they may. Absent for rules that have nothing to say.",
        [
            (labels_of(server.observation, rule=each.rule), 2.0 if each.severity == "warning" else 1.0)
            for server, advice in reviews
            for each in advice or ()
        ],
    )


def _verdicts(scrape: Scrape) -> Iterator[Metric]:
    """The verdict of each server, but not of an emperor or a router: one series, of few labels' values."""
    judged: list[tuple[Observation, Verdict | None, float | None]] = [
        (server.observation, server.observation.verdict, server.observation.verdict.since) for server in scrape.servers
    ]
    judged += [
        (observation, None, observation.down_since) for _, observation in scrape.observations if not observation.reading
    ]
    yield gauge(
        "uwsgi_verdict_info",
        "The verdict (ok, warning, critical, unknown or down) of the last minute, as alerts have it. cause is "
        "the code of the worst finding (docs/severity.md), harm the code of the finding that says what users notice of "
        "it; both can also be down or none. Always 1.",
        [(_label_verdict(observation, verdict), 1.0) for observation, verdict, _ in judged],
    )
    yield gauge(
        "uwsgi_verdict_since_time_seconds",
        "Since when the verdict has been what it is, whatever its cause, in epoch seconds. Absent if that was before "
        "the exporter began to watch the server.",
        [(labels_of(observation), since) for observation, _, since in judged],
    )


def _findings(scrape: Scrape) -> Iterator[Metric]:
    """What alerts read: the problems of each server, at most MOST_ALERTS of them."""
    read = [observation for _, observation in scrape.observations if observation.reading]
    yield gauge(
        "uwsgi_finding_since_time_seconds",
        "Since when a finding that needs action holds, in epoch seconds: at most five of a server, the worst first. "
        "urgency: page or ticket. title, act and evidence are sentences that are fixed when it begins; worker_id is "
        "there if one worker is meant.",
        [
            (_label_finding(observation, held, is_page=is_page), held.since)
            for observation in read
            for held, is_page in observation.alerts
        ],
    )
    yield gauge(
        "uwsgi_judged_time_seconds",
        "When the exporter last judged the server, in epoch seconds. Absent until it has judged it.",
        [(labels_of(observation), observation.judged_at) for observation in read],
    )


def _label_finding(observation: Observation, held: Held, *, is_page: bool) -> LabelSet:
    named, words = held.named, held.named.public
    worker = {} if named.worker_id is None else {"worker_id": str(named.worker_id)}
    return labels_of(
        observation,
        code=named.code,
        urgency="page" if is_page else "ticket",
        title=_shorten(words.title or f"{named.code.replace('_', ' ').capitalize()}."),
        act=_shorten(words.act),
        evidence=_shorten(words.evidence),
        **worker,
    )


_MOST_BYTES = 200
"""Of a text in a label: each is in every scrape."""


def _shorten(text: str) -> str:
    """The text, or its beginning: names in it may be long."""
    data = text.encode()
    return text if len(data) <= _MOST_BYTES else f"{data[: _MOST_BYTES - 3].decode(errors='ignore')}..."


def _label_verdict(observation: Observation, verdict: Verdict | None) -> LabelSet:
    """The labels of a verdict; None if the server is down."""
    if verdict is None:
        return labels_of(observation, verdict="down", cause="down", harm="down")
    return labels_of(observation, verdict=verdict.status, cause=verdict.code or NO_CAUSE, harm=verdict.harm or NO_CAUSE)


def application_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of applications in the workers. Requests appear only with several: a single application's are
    those of its worker."""
    slowest: dict[str, tuple[LabelSet, int]] = {}
    for server in scrape.servers:
        for worker in server.snapshot.workers:
            for app in worker.apps:
                labels = labels_of(server.observation, app_id=str(app.app_id), mountpoint=app.mountpoint)
                seconds = app.startup_seconds
                if seconds is not None and seconds >= slowest.get(labels.text, (labels, 0))[1]:
                    slowest[labels.text] = (labels, seconds)
    yield gauge(
        "uwsgi_app_startup_time_seconds",
        "Whole seconds the application took to load in the slowest worker. Clients wait at least as long on a reload.",
        slowest.values(),
    )
    yield gauge(
        "uwsgi_workers_without_application",
        "Workers that take requests without having loaded the application that the configuration names: uWSGI answers "
        "with status 500. Absent if the configuration names none or cannot be read.",
        [
            (server.labels, len(known[1]))
            for server in scrape.servers
            if (known := find_without_application(server.record))
        ],
    )
    several = [
        (label_set(**labels, app_id=str(app.app_id), mountpoint=app.mountpoint), app)
        for server in scrape.servers
        for labels, worker in server.workers
        if len(worker.apps) > 1
        for app in worker.apps
    ]
    yield counter(
        "uwsgi_worker_app_requests_total",
        "Requests passed to the application, counted when they start.",
        summed((labels, app.requests) for labels, app in several),
    )
    yield counter(
        "uwsgi_worker_app_exceptions_total",
        "Exceptions that escaped the application.",
        summed((labels, app.exceptions) for labels, app in several),
    )


def uwsgi_log_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of uWSGI's log: known messages, and how much of it was read; none if no log is configured."""
    logs = [(labels, observation, observation.log) for labels, observation in scrape.observations if observation.log]
    if not logs:
        return
    yield counter(
        "uwsgi_log_messages_total",
        "Lines of uWSGI's log with a known message, by message, since the exporter started; docs/log.md has them all. "
        "A lower bound while bytes are skipped. The application can write such lines too. Absent until the first one.",
        [
            (labels_of(observation, message=code), count)
            for _, observation, log in logs
            for code, count in sorted(log.messages.items())
        ],
    )
    yield counter(
        "uwsgi_log_lines_total",
        "Lines of uWSGI's log that were read, known or not. Absent if no log is configured.",
        [(labels, log.lines) for labels, _, log in logs],
    )
    yield counter(
        "uwsgi_log_skipped_bytes_total",
        "Bytes of uWSGI's log that were not read, because it grew by more than 5 MB a second, or reading all logs took "
        "more than 2 % of a CPU. Absent if no log is configured.",
        [(labels, log.skipped_bytes) for labels, _, log in logs],
    )
    yield gauge(
        "uwsgi_log_up",
        "Whether uWSGI's log is read: 0 if there is no such file, if it is no regular file, if the exporter's user may "
        "not read it, or if `journalctl` does not run. Absent if no log is configured.",
        [(labels, float(log.is_read)) for labels, _, log in logs],
    )

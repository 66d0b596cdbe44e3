"""uWSGI's crons, identified by position and schedule, because a command may contain a secret."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats import Cron


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every cron of the scrape."""
    crons = [
        (labels_of(server.observation, cron=str(place), schedule=crontab_schedule(cron)), cron)
        for server in scrape.servers
        for place, cron in enumerate(server.snapshot.crons, 1)
    ]
    yield gauge(
        "uwsgi_cron_running",
        "Whether the command is running.",
        [(labels, cron.pid > 0) for labels, cron in crons],
    )
    yield gauge(
        "uwsgi_cron_start_time_seconds",
        "Start time of the running command, in epoch seconds; absent while the command is not running.",
        [(labels, cron.started_at or None) for labels, cron in crons],
    )


def crontab_schedule(cron: Cron) -> str:
    """Write a schedule as in crontab(5): uWSGI's -1 becomes `*`, its -N becomes `*/N`."""
    fields = (cron.minute, cron.hour, cron.day, cron.month, cron.week)
    return " ".join(str(field) if field >= 0 else "*" if field == -1 else f"*/{-field}" for field in fields)

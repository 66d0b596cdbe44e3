"""Recommendations from the whole range: clients refused, requests killed or lost, objectives missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from uwsgi_headroom.analysis.advice import add_capacity
from uwsgi_headroom.analysis.findings import queue, workers
from uwsgi_headroom.analysis.findings.finding import SEVERITIES, Finding
from uwsgi_headroom.report.model import ServerData
from uwsgi_headroom.report.review.model import ObjectiveUse, Users
from uwsgi_headroom.report.review.outlook_model import Recommendation
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.remedies import URGENCY, recommendation
from uwsgi_headroom.report.review.windows import figures_at
from uwsgi_headroom.words.formats import counted, duration, factor, fine_percent


def find_killed(peaks: Peaks) -> Iterator[Recommendation]:
    """Harakiris over the whole range."""
    found: list[tuple[Finding, str]] = []
    for server in peaks.service.servers:
        places = np.flatnonzero(np.isfinite(server.requests) & np.isfinite(server.busy))
        if len(places) and np.nansum(server.harakiris[places]):
            judged = workers.find(figures_at(server, places))
            found += [(finding, server.server) for finding in judged if finding.code == "harakiri"]
    if found:
        finding, name = min(found, key=lambda pair: SEVERITIES.index(pair[0].severity))
        yield recommendation(
            "harakiri",
            URGENCY[finding.severity],
            finding.title,
            finding.change,
            tuple(server for _, server in found),
            f"Over the range, on {name}: {finding.evidence} {finding.meaning}",
        )


def find_lost(users: Users) -> Iterator[Recommendation]:
    """Requests that were lost, except where harakiri explains it."""
    if not users.lost or users.lost < 1 or users.harakiris:
        return
    part = users.lost / (users.requests + users.lost)
    critical = users.lost >= workers.MANY_LOST[0] and part >= workers.MANY_LOST[1]
    yield recommendation(
        "requests_lost",
        "act" if critical else "plan",
        f"At least {counted(round(users.lost), 'request')} were in service when their worker ended.",
        "See uWSGI's log for `died, killed by signal`, and `dmesg` for `Out of memory`.",
        (),
        f"Over the range, {fine_percent(part)} of all requests, not by `harakiri`.",
    )


def find_refused(peaks: Peaks, users: Users) -> Iterator[Recommendation]:
    if not users.queue_full:
        return
    full = [(float(np.nanmean(each.queue_full)), each) for each in peaks.service.servers if _ever(each)]
    worst = max(full, key=lambda pair: pair[0])[1]
    figures = {server.server: figures for server, figures in peaks.present}.get(worst.server)
    dropped = "" if users.overflows is None else f" The kernels dropped {users.overflows:,.0f} TCP connections."
    yield recommendation(
        "clients_refused",
        "act" if users.queue_full >= queue.FULL[0] else "plan",
        "Listen queues were full, and clients refused or left to try again.",
        add_capacity(figures)
        if figures
        else "See first what the threads wait for. Raise `listen` only against short bursts.",
        tuple(server.server for _, server in full),
        f"Over the range, the listen queue of {worst.server} was at its limit for {fine_percent(users.queue_full)} of "
        f"the time.{dropped}",
    )


def _ever(server: ServerData) -> bool:
    return bool(np.nansum(server.queue_full) > 0)


def find_missed(objective: ObjectiveUse, others: Sequence[Recommendation]) -> Iterator[Recommendation]:
    if objective.budget <= 1:
        return
    before = any(each.judgement == "act" for each in others)
    yield recommendation(
        "objective_missed",
        "act",
        f"{fine_percent(objective.bad)} of the requests were slower than {duration(objective.threshold)} or lost, "
        f"where the objective permits {fine_percent(1 - objective.objective)}.",
        "Do first what this page recommends with the same urgency."
        if before
        else "Look at what slow requests wait for (section 5), and at the hours in which they are slow (section 3).",
        (),
        f"Over the range, {objective.bad * objective.requests:,.0f} of {objective.requests:,.0f} requests: "
        f"{factor(objective.budget)} of the error budget.",
    )

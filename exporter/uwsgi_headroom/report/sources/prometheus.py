"""Loads the data of a review from a Prometheus: finds the servers, then asks piece by piece, the latest days first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import ceil

import numpy as np

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.model import STEP, ReviewData
from uwsgi_headroom.report.sources.answers import Answers
from uwsgi_headroom.report.sources.explain import PrometheusError
from uwsgi_headroom.report.sources.from_answers import make_server_data
from uwsgi_headroom.report.sources.no_servers import explain_no_servers
from uwsgi_headroom.report.sources.problems import describe_clock, list_problems
from uwsgi_headroom.report.sources.progress import Progress
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi
from uwsgi_headroom.report.sources.questions import WINDOWS, choose_window, list_questions
from uwsgi_headroom.report.sources.selection import refuse_too_many, select_servers
from uwsgi_headroom.report.sources.server_series import ServerSeries, find_servers, select_by_any
from uwsgi_headroom.report.sources.time_range import TimeRange

PIECE = 7 * 86400.0
"""Seconds of a range that are asked for at once: 672 values of a series."""

TOGETHER = 8
"""The most servers that are asked for at once: 4 workers each are 32 series, or 100 by wait state. Scraped every 15 s,
these have 4 million samples in a piece; Prometheus refuses queries of more than 50 million."""


def load_prometheus(
    api: PrometheusApi,
    find_range: Callable[[float], TimeRange],
    *,
    servers: Sequence[str] = (),
    services: Sequence[str] = (),
    progress: Progress = lambda _done, _of, _what: None,
) -> ReviewData:
    """The data of the servers and services of these names, or of all. If Prometheus fails after a part of the range,
    the data is partial. find_range: makes the range of the present time by the clock of Prometheus (epoch seconds).
    Raises HeadroomError if there is nothing to review."""
    progress(0, 1, "find the servers")
    span = find_range(api.read_clock())
    found = find_servers(api, span.since, span.until)
    if not found:
        raise explain_no_servers(api, span)
    chosen = select_servers(found, servers, services)
    answers = Answers(round((span.until - span.since) / STEP))
    refuse_too_many(chosen, answers.quarters)
    failure = _ask_all(api, chosen, span, answers, progress)
    time = np.asarray(span.since + STEP * np.arange(1, answers.quarters + 1), dtype=np.float64)
    data = [make_server_data(server, answers.of(server), time, STEP + ceil(server.interval)) for server in chosen]
    if not any(np.isfinite(server.requests).any() for server in data):
        raise HeadroomError(
            f"{api.url}: no quarter of an hour was sampled for at least half of it from {span.show()}",
            ["A review needs half an hour at least: try again later, or a longer --range."],
        )
    problems = [failure, describe_clock(api.clock_ahead, "Prometheus"), *list_problems(data, span.zone)]
    problems += [f"Prometheus warned: {warning}" for warning in api.warnings]
    return ReviewData(
        servers=tuple(data),
        since=span.since,
        until=span.until,
        source=f"Prometheus {api.url}",
        time_zone=span.zone,
        queries=api.log.queries(),
        problems=tuple(problem for problem in problems if problem),
        partial=bool(failure),
    )


def _ask_all(
    api: PrometheusApi, chosen: Sequence[ServerSeries], span: TimeRange, answers: Answers, progress: Progress
) -> str:
    """Fill the answers, the latest piece of the range first. Returns why it ended early, or an empty text. Raises
    PrometheusError if not even the latest piece is complete."""
    window = _find_window(api, span)
    groups = list(_group(chosen))
    pieces = list(_cut(answers.quarters))
    steps = len(pieces) * sum(len(list_questions(group[0].interval, window)) for group in groups)
    done = 0
    for first, last in pieces:
        complete = []
        for group in groups:
            for question in list_questions(group[0].interval, window):
                progress(done, steps, question.name.replace("_", " "))
                done += 1
                begin = span.since + first * STEP + question.step
                end = span.since + last * STEP
                expression = question.expression(select_by_any(group))
                try:
                    series = api.query_range(expression, question.expression("..."), begin, end, question.step)
                except PrometheusError as error:
                    if last == answers.quarters:
                        raise
                    days = (answers.quarters - last) * STEP / 86400
                    return f"Only the last {days:.3g} days are here, the rest is missing: {error}."
                complete.append((question, group, series))
        for question, group, series in complete:
            answers.add(question, group, series, first)
    progress(steps, steps, "done")
    return ""


def _find_window(api: PrometheusApi, span: TimeRange) -> str | None:
    """The window of the percentiles to use, of those that exist at the end of some day."""
    day = 86400.0
    first = min(span.until, span.since + day)
    last = first + (span.until - first) // day * day
    found = api.query_range(WINDOWS, WINDOWS, first, last, day)
    found += api.query_range(WINDOWS, WINDOWS, span.until, span.until, day)
    return choose_window(sorted({series.labels.get("window", "") for series in found}))


def _group(servers: Sequence[ServerSeries]) -> Iterator[Sequence[ServerSeries]]:
    """Servers that are scraped equally often, a few at a time."""
    ordered = sorted(servers, key=lambda server: (ceil(server.interval), server.name))
    for _, same in groupby(ordered, key=lambda server: ceil(server.interval)):
        equal = list(same)
        yield from (equal[start : start + TOGETHER] for start in range(0, len(equal), TOGETHER))


def _cut(quarters: int) -> Iterator[tuple[int, int]]:
    """Pieces of the range, as the first quarter and the last one (exclusive), the latest first."""
    size = round(PIECE / STEP)
    for last in range(quarters, 0, -size):
        yield max(0, last - size), last

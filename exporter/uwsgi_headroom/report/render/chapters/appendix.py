"""Section 10: the appendix: queries, data quality, definitions with their sources."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.document import UNKNOWN, Block, Heading, Items, Table, Text, seconds, share
from uwsgi_headroom.report.review.sections import Review, ServerQuality
from uwsgi_headroom.report.review.wording import moment_words
from uwsgi_headroom.words.formats import duration

INTRODUCTION = "Where the figures are from, how complete they are, and what the words mean."

MOST_QUERIES = 60

_DEFINITIONS = (
    ("response time", "Mean time in service of a request inside uWSGI, without the listen queue and static files."),
    (
        "concurrency, threads in service",
        "Mean number of requests in service at once, from samples. Little's law gives the same from throughput times "
        "response time (J. D. C. Little, Operations Research 9 (3), 1961).",
    ),
    (
        "utilization, headroom",
        "Use over capacity; headroom is its inverse, the factor by which load can grow until a limit is reached: all "
        "of it is in use (P. J. Denning, J. P. Buzen, Computing Surveys 10 (3), 1978). It holds as long as the mix of "
        "requests does not change.",
    ),
    (
        "interpreter",
        "CPython in one worker process. Its lock lets one thread compute at a time, so a worker can use one CPU for "
        f"Python: load 1. From {REACHED:g} on it counts as saturated, which is where eight computing threads end up.",
    ),
    ("first limit", "The limit with the smallest headroom, or the cause of others that are reached."),
    ("available, configured", "Threads of workers that accept requests; threads of all workers."),
    (
        "queue wait",
        "Mean time in the listen queue: its mean length over throughput, by Little's law. Not in the response time.",
    ),
    (
        "objective, error budget",
        "The share of requests that should finish within a threshold; the budget is the share that may not (The Site "
        "Reliability Workbook, chapter 5). Lost and refused requests count as bad."
        " The mean wait in the listen queue is part of a request's time.",
    ),
    (
        "hot ratio",
        "Workers times the largest share of requests of one of them. Up to the noise floor it is chance "
        "(docs/glossary.md).",
    ),
    (
        "daily peak, quarter hour that counts",
        "The quarter hour of a day with most threads of the service in service. The busiest of all counts for the "
        "verdict, among those with the present threads and CPUs; if it has over 1.25 times the 95th percentile of the "
        "other days, it stands out as an incident does, and the busiest one that does not stand out counts.",
    ),
    (
        "one server lost",
        "The others take its requests in proportion to their own, so their utilization grows by that factor.",
    ),
    (
        "forecast",
        "Daily peaks by weekly pattern and median slope (H. Theil, 1950; P. K. Sen, Journal of the American "
        "Statistical Association 63, 1968), of the days with the present threads and CPUs.",
    ),
)


def write(review: Review, zone: ZoneInfo) -> Iterator[Block]:
    yield Heading("Data quality")
    if review.problems:
        yield Items(review.problems)
    yield Table(
        heads=("server", "service", "host", "measured", "first", "last", "longest gaps", "not known"),
        rows=[_quality(each, zone) for each in review.quality],
        caption="Measured: share of the range that was sampled.",
        numbers=(3,),
    )
    yield Heading("Queries")
    yield Text(f"Source: {review.source}.")
    queries = review.data.queries
    if queries:
        yield Table(
            heads=("query", "answers", "time"),
            rows=[(f"`{query.text}`", str(query.answers), seconds(query.seconds)) for query in queries[:MOST_QUERIES]],
            numbers=(1, 2),
        )
    if len(queries) > MOST_QUERIES:
        yield Text(f"And {len(queries) - MOST_QUERIES} more.")
    yield Heading("Definitions")
    yield Table(heads=("word", "meaning"), rows=_DEFINITIONS)


def _quality(each: ServerQuality, zone: ZoneInfo) -> tuple[str, ...]:
    gaps = [f"{duration(end - start)} from {moment_words(start, zone)}" for start, end in each.gaps]
    return (
        each.server,
        each.service or UNKNOWN,
        each.host or UNKNOWN,
        share(each.covered),
        UNKNOWN if each.first is None else moment_words(each.first, zone),
        UNKNOWN if each.last is None else moment_words(each.last, zone),
        "; ".join(gaps) or "none",
        ", ".join(each.unknown) or "nothing",
    )

"""Loads the data of a review, makes the review, and writes it."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from uwsgi_headroom.report.columns import ReviewData
from uwsgi_headroom.report.render import write_review
from uwsgi_headroom.report.request import Format, ReportRequest
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.sources.history_file import load_history_files
from uwsgi_headroom.report.sources.progress import Progress, ProgressLine
from uwsgi_headroom.report.sources.prometheus import load_prometheus
from uwsgi_headroom.report.sources.prometheus_api import HttpPost, PrometheusApi, make_endpoint
from uwsgi_headroom.report.sources.selection import find_range, find_zone
from uwsgi_headroom.terminal_text import print_lines

WRITTEN, PARTIAL = 0, 3

_MOST_PROBLEMS = 8
"""Problems that are printed; the report has all of them."""


def write_report(request: ReportRequest, name: Format) -> int:
    """Write the review that was asked for in this format, and return the exit status. Raises HeadroomError."""
    with ProgressLine(sys.stderr, terminal=sys.stderr.isatty()) as line:
        data = load_data(request, line.show)
        line.show(1, 1, "compute and draw")
        out = Path(request.out)
        write_review(build_review(data), out, name)
    problems = [*data.problems[:_MOST_PROBLEMS]]
    if more := len(data.problems) - len(problems):
        problems.append(f"{more} more are in the report.")
    print_lines((f"uwsgi-headroom: {problem}" for problem in problems), sys.stderr)
    if out.is_file():  # not /dev/stdout
        print_lines([f"{'partial report' if data.partial else 'report'} written: {out}"])
    return PARTIAL if data.partial else WRITTEN


def load_data(request: ReportRequest, progress: Progress) -> ReviewData:
    """The data of a request. Raises ConfigError if an option is wrong, and HeadroomError if there is no data."""
    span_at = partial(find_range, request.seconds, request.until, find_zone(request.time_zone))
    if request.prometheus is None:
        load = partial(load_history_files, [Path(path) for path in request.history])
    else:
        endpoint = make_endpoint(
            request.prometheus,
            user=request.user,
            password_file=request.password_file,
            token_file=request.token_file,
            headers=request.headers,
            ca_file=request.ca_file,
        )
        span_at(time.time())  # a wrong time is reported before any query
        load = partial(load_prometheus, PrometheusApi(HttpPost(endpoint)))
    return load(span_at, servers=request.servers, services=request.services, progress=progress)

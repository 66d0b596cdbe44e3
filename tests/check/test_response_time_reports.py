"""Percentiles, the objective and routes in the reports of `check`."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.check.documents import busy_server
from tests.check.test_reports import PERFORMANCE
from tests.support.documents_with_times import (
    RESPONSE_TIMES,
    SHORT,
    objective,
    percentiles,
    with_objective,
    with_response_times,
)
from uwsgi_headroom.check import reports
from uwsgi_headroom.check.reports import render_report
from uwsgi_headroom.check.request import Threshold, Thresholds
from uwsgi_headroom.documents.response_times import Objective, ResponseTimes
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.waits import Route


@pytest.mark.parametrize(
    ("server", "figures"),
    [
        (with_response_times(busy_server()), "response_time_p95=0.483s;0.8;2;0 response_time_p99=0.91s;;1;0"),
        (
            with_response_times(busy_server(), percentiles(SHORT, msgspec.structs.replace(SHORT, share=0.95))),
            "response_time_p95=U;0.8;2;0 response_time_p99=U;;1;0",
        ),
        (with_response_times(busy_server(), None), "response_time_p95=U;0.8;2;0 response_time_p99=U;;1;0"),
        (
            with_objective(with_response_times(busy_server()), objective()),
            "response_time_p95=0.483s;0.8;2;0 response_time_p99=0.91s;;1;0 objective_missed_share=0.018;;;0;1 "
            "objective_burn_rate=1.8;;;0",
        ),
        (
            with_objective(with_response_times(busy_server()), objective(unjudged="not judged: the wait is long")),
            "response_time_p95=0.483s;0.8;2;0 response_time_p99=0.91s;;1;0 objective_missed_share=U;;;0;1 "
            "objective_burn_rate=U;;;0",
        ),
    ],
)
def test_a_plugins_line_has_percentiles_and_the_objective(server: Server, figures: str) -> None:
    """A percentile that samples do not show is unknown, never its bound; an objective has figures if there is one."""
    limits = Thresholds(max_p95=Threshold(0.8, 2.0), max_p99=Threshold(None, 1.0))
    line = render_report([server], limits)
    assert line.endswith(f" {figures}")
    assert all(PERFORMANCE.fullmatch(figure) for figure in line.partition(" | ")[2].split())


def test_percentiles_and_the_objective_in_the_report() -> None:
    """The mean is beside the percentiles; the words say what is measured; no line is too long."""
    server = with_objective(
        with_response_times(busy_server()), objective(load_multiple=1.6, load_multiple_reached=True)
    )
    text = "\n".join(reports.render_lines(server))
    assert (
        "  response     mean 50 ms, p50 under 160 ms, p90 300 ms (250 to 330),\n"
        "               p95 480 ms (450 to 520), p99 910 ms (800 ms to 1.2 s); inside\n"
        "               uWSGI, percentiles estimated from 5 samples a second\n"
        "  queue wait   1.0 ms in the listen queue\n"
        "  objective    99 % within 1 s: 1.8 % missed it in the last hour (burn rate 1.8,\n"
        "               0.2 in the last 5 min), queue wait 2.0 ms; p95 reaches 1 s at\n"
        "               1.6x today's load\n" in text
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_server_without_percentiles_has_the_mean_among_what_users_wait() -> None:
    """A document of an exporter 1.0.0, or one of a server with stats-no-cores, has no line of percentiles."""
    server = with_response_times(busy_server(), None)
    assert server.flow
    old = msgspec.structs.replace(server, flow=msgspec.structs.replace(server.flow, total_time=None))
    text = "\n".join(reports.render_lines(old))
    assert "  users wait   51 ms = 1.0 ms in the listen queue + 50 ms in service\n" in text
    assert "  response  " not in text
    assert "  objective " not in text


def test_json_has_the_response_times_and_the_objective_of_the_api() -> None:
    """The sections are those of the API, unchanged."""
    server = with_objective(with_response_times(busy_server()), objective())
    whole = json.loads(reports.render_json([server], single=True))
    assert msgspec.convert(whole["response_times"], ResponseTimes) == RESPONSE_TIMES
    assert msgspec.convert(whole["objective"], Objective) == objective()


def test_routes_in_the_report() -> None:
    """They hold busy threads; a path of a stranger is escaped; small ones are counted; without routes is no line."""
    routes = (
        Route(route="POST /export\x1b[2J", threads=4.9, share=0.61, in_service=5, oldest_seconds=14.0),
        Route(route="GET /orders/{id}", threads=1.6, share=0.2, in_service=0, oldest_seconds=None),
        Route(route="other", threads=0.1, share=0.01, in_service=0, oldest_seconds=None),
    )
    server = msgspec.structs.replace(busy_server(), routes=routes)
    text = "\n".join(reports.render_lines(server))
    assert (
        "  routes       POST /export\\x1b[2J 61 % of the busy threads, oldest 14 s;\n"
        "               GET /orders/{id} 20 %; 1 more\n" in text
    )
    for none in (None, ()):
        idle = msgspec.structs.replace(server, routes=none)
        assert not any(line.startswith("  routes") for line in reports.render_lines(idle))

"""Titles of findings do not change from window to window while the load is steady."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from tests.frozen.pages import list_rows
from tests.support.simulated_server import Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server

MEASURED = {"amount", "bytes", "duration", "factor", "fine_percent", "mean", "percent", "rate", "times"}
"""Formats of measured figures. (`chosen` writes what somebody has set.)"""

STEADY = {"was_down": "of an outage that is over"}
"""Figures in titles that do not change with each request, and why."""


def test_no_title_has_a_measured_figure() -> None:
    """A title, or the clause of a block's title, writes no figure that changes with each request."""
    kinds = [kind for rows in list_rows().values() for kind in rows.values()]
    written = {(kind.code, how) for kind in kinds for how in re.findall(r"\{\w+:(\w+)\}", kind.title + kind.clause)}
    assert {code for code, how in written if how in MEASURED} == STEADY.keys()


def with_more(before: Window, part: float) -> Window:
    """A later window of the same steady load, by chance with a little more work."""
    more = 1 + part
    rows = [
        msgspec.structs.replace(
            each,
            requests=round(each.requests * more),
            running_time=each.running_time and each.running_time * more,
            busy_seconds=each.busy_seconds and each.busy_seconds * more,
            cpu_seconds=each.cpu_seconds and each.cpu_seconds * more,
        )
        for each in before.workers
    ]
    return replace(before, workers=tuple(rows))


def titles(judged: Window, server: Server) -> list[str]:
    """The titles of a window's findings, in their order."""
    figures = compute_figures(judged, describe_server(server.read(1000.0)))
    return [finding.title for finding in collect_findings(figures)]


SATURATED = window(60.0, *(worker(each, 500, each=0.1, cpu=59.0 if each < 3 else 1.0, busy=10.0) for each in (1, 2, 3)))
FULL = window(60.0, *(worker(each, 600, each=1.0, cpu=28.0, busy=440.0) for each in (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("load", "server"),
    [
        (the_example(), Server(cpus=4.0)),
        (the_harmless_one(), Server(cpus=4.0)),
        (SATURATED, Server(processes=3, cpus=8.0)),
        (FULL, Server(cpus=2.0)),
    ],
)
@pytest.mark.parametrize("part", [-0.02, 0.01, 0.02])
def test_titles_of_a_steady_load_do_not_change(load: Window, server: Server, part: float) -> None:
    """Two windows of one load, which differ by chance, have the same titles in the same order."""
    before = titles(load, server)
    assert before
    assert titles(with_more(load, part), server) == before

"""The demo's line of figures."""

from __future__ import annotations

import pytest

from app import status_line

METRICS = """\
# HELP uwsgi_worker_request_share The worker's part.
uwsgi_worker_request_share{server="demo",window="5m",worker_id="1"} 0.75
uwsgi_worker_request_share{window="5m",worker_id="2",server="demo"} 0.25
uwsgi_worker_request_share{server="another",window="5m",worker_id="1"} 1.0
uwsgi_concurrency{method="littles_law",server="demo",window="1m"} 9.0
uwsgi_concurrency{method="observed",server="demo",window="1m"} 3.04
uwsgi_concurrency{method="observed",server="demo",window="5m"} 8.0
uwsgi_headroom_ratio{limit="threads",server="demo",window="1m"} 10.5
uwsgi_headroom_ratio{limit="hottest_interpreter",server="demo",window="1m"} 2.5
uwsgi_threads_available{server="demo"} 32.0
"""


def test_figures_are_those_of_the_demo():
    """Shares, concurrency and the least headroom, of this server and no other."""
    line = "shares 75%/25%; concurrency 3.0 of 32 threads; headroom 2.5x, then hottest interpreter"
    assert status_line.status_line(METRICS) == line


@pytest.mark.parametrize("metrics", ["", "up 1\n", METRICS.replace("uwsgi_concurrency{", "x{")])
def test_no_figures_are_no_line(metrics):
    """What is not there yet is not shown as 0."""
    assert status_line.status_line(metrics) is None

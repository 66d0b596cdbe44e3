"""The utilization that the chart's autoscaler uses, evaluated by Prometheus' own engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.files import CHART
from tests.support import promtool

LABELS = 'namespace="shop",server="app"'
POD = f"{LABELS},pod="


def expression() -> str:
    """The template's expression with the labels filled in."""
    text = (CHART / "templates" / "_autoscaling.tpl").read_text()
    found = re.search(r'define "uwsgi-headroom.utilization" -}}\n.*? -}}\n(.*?){{- end }}', text, re.DOTALL)
    return re.sub(r" ?{{- \$labels -?}} ?", LABELS, found[1])


def pod(name: str, *, headroom: dict[str, float], busy: float, wait: float | None, rate: float) -> dict[str, float]:
    """The samples of a pod with 32 threads."""
    labels = f'{POD}"{name}"'
    window = f'{labels},window="1m"'
    samples = {f'uwsgi_headroom_ratio{{{window},limit="{limit}"}}': factor for limit, factor in headroom.items()}
    samples |= {
        f"uwsgi_up{{{labels}}}": 1.0,
        f"uwsgi_threads_available{{{labels}}}": 32.0,
        f'uwsgi_concurrency{{{window},method="observed"}}': busy,
        f'uwsgi_concurrency{{{window},method="littles_law"}}': busy,
        f"uwsgi_throughput_requests_per_second{{{window}}}": rate,
    }
    return samples | ({} if wait is None else {f"uwsgi_queue_wait_seconds{{{window}}}": wait})


CALM = pod("a", headroom={"threads": 4, "cpu": 2, "hottest_interpreter": 1.25}, busy=8, wait=0, rate=100)
OVERLOADED = pod("b", headroom={"threads": 1, "interpreters": 2}, busy=32, wait=0.16, rate=100)
IDLE = pod("c", headroom={}, busy=0.1, wait=None, rate=0.5)
STUCK = pod("d", headroom={"threads": 1}, busy=32, wait=None, rate=0)
DOWN = {f'uwsgi_up{{{POD}"e"}}': 0.0}
OTHER = {'uwsgi_up{namespace="shop",server="other",pod="f"}': 1.0}


@pytest.mark.parametrize(
    ("samples", "utilization"),
    [
        (CALM, {"a": 0.5}),
        (OVERLOADED, {"b": 1.5}),
        (IDLE, {"c": 0.0}),
        (STUCK, {"d": 1.0}),
        (CALM | DOWN | OTHER, {"a": 0.5}),
        (DOWN, {}),
    ],
    ids=["calm", "overloaded", "idle", "stuck", "another is down", "all are down"],
)
def test_utilization_of_pods(tmp_path: Path, samples: dict[str, float], utilization: dict[str, float]) -> None:
    """The first limit counts, but not an uneven spread; a queue counts beyond 1; a pod without data has none."""
    wanted = [{"labels": f'{{namespace="shop", pod="{name}"}}', "value": value} for name, value in utilization.items()]
    series = {name: f"{value}x8" for name, value in samples.items()}
    asked = {"expr": expression(), "eval_time": "1m", "exp_samples": wanted}
    assert promtool.evaluate(tmp_path, series, "15s", [asked]) == ""

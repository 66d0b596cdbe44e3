"""Scrapes, and the growth between two of them."""

import pytest

from tools.bench.accuracy.judge import RULES
from tools.bench.accuracy.scrapes import Scrape, Span, window

TEXT = """\
# HELP uwsgi_worker_requests_total Requests.
# TYPE uwsgi_worker_requests_total counter
uwsgi_worker_requests_total{{server="bench",worker_id="1"}} {first}
uwsgi_worker_requests_total{{server="bench",worker_id="2"}} {second}
uwsgi_exporter_observed_seconds_total{{server="bench"}} {observed}
uwsgi_exporter_sample_gap_seconds_total{{server="bench"}} 0.5
"""


def scrape(received: float, first: int, second: int, observed: float) -> Scrape:
    return Scrape(received, TEXT.format(first=first, second=second, observed=observed))


def test_span() -> None:
    """Growth is by worker and in total, over the time between the two readings by the exporter's clock."""
    span = Span(scrape(100.0, 10, 20, 3.5), scrape(111.0, 40, 20, 13.5))
    assert span.seconds == 10.0
    assert span.growth("uwsgi_worker_requests_total") == 30
    assert span.by_worker("uwsgi_worker_requests_total") == {1: 30, 2: 0}


def test_instants() -> None:
    """The response that came soonest after its reading determines the times of all readings."""
    scrapes = [scrape(100.2, 0, 0, 3.5), scrape(110.01, 0, 0, 13.5)]
    assert window(Span(*scrapes), scrapes) == pytest.approx((100.01, 110.01))


def test_rules_name_each_gauge_once() -> None:
    """No gauge has two rules, and gauges with a label have one rule for each of its values."""
    names = [(rule.gauge, rule.fixed) for rule in RULES]
    assert len(names) == len(set(names))

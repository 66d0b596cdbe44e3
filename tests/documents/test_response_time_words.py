"""Percentiles and objectives in words: no number that the data do not hold."""

from __future__ import annotations

import pytest

from tests.support.documents_with_times import LONG, RESPONSE_TIMES, SHORT, UNSHARP, burn, objective, percentiles
from uwsgi_headroom.documents.response_times import Objective, Percentile, ResponseTimes
from uwsgi_headroom.documents.sentences import describe_objective, describe_percentile, list_percentiles

BOUND = Percentile(share=0.95, seconds=None, low=0.0, high=0.24, under=0.24)


@pytest.mark.parametrize(
    ("percentile", "text"),
    [
        (LONG, "480 ms (450 to 520)"),
        (Percentile(share=0.99, seconds=0.91, low=0.8, high=1.2), "910 ms (800 ms to 1.2 s)"),
        (Percentile(share=0.9, seconds=0.2, low=0.0, high=0.35), "200 ms (up to 350 ms)"),
        (SHORT, "under 160 ms"),
        (Percentile(share=0.5, seconds=None, low=0.0, high=0.3, under=0.16), "under 160 ms (up to 300 ms)"),
        (Percentile(share=0.99, seconds=123.4, low=101.0, high=139.0), "2 min (100 s to 2 min 20 s)"),
    ],
)
def test_a_percentile_with_its_interval(percentile: Percentile, text: str) -> None:
    """Two digits; an interval that begins below what samples show has no lower end; a unit is written once."""
    assert describe_percentile(percentile) == text


@pytest.mark.parametrize(
    ("section", "short", "texts"),
    [
        (RESPONSE_TIMES, True, ["p50 under 160 ms", "p90 300 ms (250-330)", "p95 480 ms", "p99 910 ms"]),
        (
            percentiles(SHORT, UNSHARP, LONG, requests=70),
            False,
            ["p50 under 160 ms", "p90 300 ms (250 to 330)", "p95 480 ms (450 to 520)", "p99 - (only 70 requests)"],
        ),
        (
            percentiles(LONG, requests=20),
            True,
            ["p50 to p90 - (only 20 requests)", "p95 480 ms", "p99 - (only 20 requests)"],
        ),
        (percentiles(requests=1), False, ["p50 to p99 - (only 1 request)"]),
        (
            percentiles(BOUND, Percentile(share=0.99, seconds=0.21, low=0.0, high=0.3)),
            True,
            ["p50 to p90 - (only 2,400 requests)", "p95 under 240 ms", "p99 under 300 ms"],
        ),
        (
            percentiles(BOUND, Percentile(share=0.99, seconds=0.21, low=0.19, high=0.3)),
            False,
            ["p50 to p90 - (only 2,400 requests)", "p95 under 240 ms", "p99 190 ms to 300 ms"],
        ),
    ],
)
def test_percentiles_of_a_server(section: ResponseTimes, short: bool, texts: list[str]) -> None:
    """Only estimates of two sampling intervals and more go without their interval; the others say why there is none.
    No percentile is written as less than the bound of a lower one."""
    assert list(list_percentiles(section, short=short)) == texts


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (
            objective(burn(300.0, 0.018), burn(310.0, 0.018), load_multiple=1.62, load_multiple_reached=True),
            "99 % within 1 s: 1.8 % missed it in the last 5 min 10 s (burn rate 1.8), queue wait 2.0 ms; p95 reaches "
            "1 s at 1.6x today's load",
        ),
        (
            objective(load_multiple=1.8, load_multiple_reached=False, queue_wait=None),
            "99 % within 1 s: 1.8 % missed it in the last hour (burn rate 1.8, 0.2 in the last 5 min); p95 stays under "
            "1 s up to 1.8x today's load (the most seen in the last hour)",
        ),
        (
            objective(burn(300.0, 1.0), burn(3599.6, 1.0, lost=12), queue_wait=None),
            "99 % within 1 s: 100 % missed it in the last hour, 12 lost with their worker (burn rate 100, 100 in "
            "the last 5 min)",
        ),
        (
            objective(burn(59.0, 0.0), queue_wait=None, threshold=0.8, objective=0.995),
            "99.5 % within 800 ms: none missed it in the last 59 s (burn rate 0.0)",
        ),
        (objective(burn(59.0, None, requests=37)), "99 % within 1 s, not judged: only 37 requests in the last 59 s"),
        (objective(unjudged="not judged: the wait is long"), "99 % within 1 s, not judged: the wait is long"),
    ],
)
def test_an_objective(section: Objective, text: str) -> None:
    """What was missed, how fast that uses the budget, and at what load it would be missed; or why it is not judged."""
    assert describe_objective(section).replace("\u00a0", " ") == text

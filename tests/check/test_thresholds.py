"""The effect of the user's own thresholds on a verdict."""

import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.support.documents_with_times import RESPONSE_TIMES, SHORT, percentiles, with_response_times
from uwsgi_headroom.analysis.percentiles import Percentile
from uwsgi_headroom.check.request import NO_THRESHOLDS, Threshold, Thresholds
from uwsgi_headroom.check.thresholds import apply_thresholds, refuse_too_short
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError


def with_flow(server: ServerDocument, **figures: object) -> ServerDocument:
    return replace(server, flow=replace(server.flow, **figures))


def with_headroom(server: ServerDocument, **figures: object) -> ServerDocument:
    return replace(server, headroom=replace(server.headroom, **figures))


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Threshold(2.0, 1.2), "critical"),
        (Threshold(2.0), "warning"),
        (Threshold(None, 1.0), "ok"),
        (Threshold(1.1), "ok"),
    ],
)
def test_headroom_below_its_minimum(limits, status):
    """The status is that of the limit that headroom is below, and the verdict names the option."""
    server = apply_thresholds(with_headroom(busy_server(), factor=1.1), Thresholds(min_headroom=limits))
    assert server.status == status
    decided = server.verdict.startswith("Headroom is 1.1x: --min-headroom wants ")
    assert decided == (status != "ok")


SLOW = Threshold(0.1, 2.0)
FULL = "The listen queue is full."


@pytest.mark.parametrize(
    ("before", "flow", "limits", "status", "verdict"),
    [
        (
            "ok",
            {"queue_wait": 0.25},
            Thresholds(max_queue_wait=SLOW),
            "warning",
            "Requests wait 250 ms in the listen queue: --max-queue-wait allows 100 ms.",
        ),
        (
            "ok",
            {"response_time": 3.0},
            Thresholds(max_response_time=SLOW),
            "critical",
            "Requests take 3.0 s on average: --max-response-time allows 2 s.",
        ),
        (
            "ok",
            {"queue_wait": 0.25, "response_time": 3.0},
            Thresholds(max_queue_wait=SLOW, max_response_time=SLOW),
            "critical",
            "Requests take 3.0 s on average: --max-response-time allows 2 s.",
        ),
        (
            "ok",
            {"queue_wait": None},
            Thresholds(max_queue_wait=SLOW),
            "unknown",
            "--max-queue-wait cannot be judged: its figure is not known here.",
        ),
        ("critical", {"queue_wait": 0.25}, Thresholds(max_queue_wait=SLOW), "critical", FULL),
        ("warning", {"queue_wait": 0.25}, Thresholds(max_queue_wait=SLOW), "warning", FULL),
        ("warning", {"queue_wait": None}, Thresholds(max_queue_wait=SLOW), "warning", FULL),
    ],
)
def test_the_gravest_decides(before, flow, limits, status, verdict):
    """An exceeded threshold never makes a verdict better; one as grave adds a finding and keeps the verdict. A verdict
    that would be ok becomes unknown if the figure of a threshold is unknown."""
    judged = apply_thresholds(with_flow(replace(busy_server(), status=before, verdict=FULL), **flow), limits)
    assert (judged.status, judged.verdict) == (status, verdict)
    exceeded = [figure for figure in ("response_time", "queue_wait") if (flow.get(figure) or 0.0) > 0.1]
    assert [finding.code for finding in judged.findings][: len(exceeded)] == [f"threshold_{name}" for name in exceeded]


@pytest.mark.parametrize(
    ("requests", "limits", "status"),
    [
        (0, Threshold(1), "warning"),
        (0, Threshold(10, 1), "critical"),
        (1, Threshold(1), "ok"),
        (5, Threshold(10, 1), "warning"),
    ],
)
def test_too_few_requests(requests, limits, status):
    """Also where none came, and so no other figure is known."""
    server = with_flow(with_headroom(busy_server(), factor=None), requests=requests)
    assert apply_thresholds(server, Thresholds(min_requests=limits)).status == status


def test_an_idle_server_is_within_every_limit():
    """Without thresholds, nothing changes."""
    idle = with_flow(with_headroom(busy_server(), factor=None, far=("threads",)), requests=0, queue_wait=None)
    idle = with_flow(idle, response_time=None)
    limits = Thresholds(Threshold(2.0), Threshold(0.1), Threshold(0.1))
    assert apply_thresholds(idle, limits).status == "ok"
    idle = with_response_times(with_flow(busy_server(), requests=0), None)
    assert apply_thresholds(idle, Thresholds(max_p95=Threshold(0.4), max_p99=Threshold(0.4))).status == "ok"
    server = busy_server()
    assert apply_thresholds(server, NO_THRESHOLDS) == server


@pytest.mark.parametrize(
    ("limits", "status"),
    [(Threshold(0.4, 2.0), "warning"), (Threshold(None, 0.45), "critical"), (Threshold(0.5), "ok")],
)
def test_a_percentile_above_its_maximum(limits, status):
    """The estimate counts; its interval is the evidence."""
    judged = apply_thresholds(with_response_times(busy_server()), Thresholds(max_p95=limits))
    assert judged.status == status
    found = [finding for finding in judged.findings if finding.code == "threshold_p95"]
    assert [finding.evidence for finding in found] == (
        [] if status == "ok" else ["Inside uWSGI, estimated from samples: 480 ms (450 to 520)."]
    )
    if status == "warning":
        assert judged.verdict == "The 95th percentile of response times is 480 ms: --max-p95 allows 400 ms."


def test_a_percentile_within_its_maximum_without_an_estimate():
    """`under 160 ms` is less than any maximum that is judged."""
    section = percentiles(SHORT, replace(SHORT, share=0.95))
    judged = apply_thresholds(with_response_times(busy_server(), section), Thresholds(max_p95=Threshold(0.4)))
    assert judged.status == "ok"
    shown = percentiles(Percentile(share=0.95, seconds=None, low=0.0, high=0.02, under=0.02))
    short = with_response_times(busy_server(), shown)
    assert apply_thresholds(short, Thresholds(max_p95=Threshold(0.1))).status == "ok"
    assert apply_thresholds(short, Thresholds(max_p95=Threshold(0.01))).status == "unknown"


@pytest.mark.parametrize(
    ("section", "limits", "why"),
    [
        (None, Thresholds(max_p95=Threshold(0.4)), "--max-p95 cannot be judged: its figure is not known here."),
        (
            percentiles(requests=3),
            Thresholds(max_p95=Threshold(0.4)),
            "--max-p95 cannot be judged: it needs 20 requests, and there were 3 requests.",
        ),
        (
            percentiles(requests=3),
            Thresholds(max_p99=Threshold(0.4)),
            "--max-p99 cannot be judged: it needs 100 requests, and there were 3 requests.",
        ),
        (
            RESPONSE_TIMES,
            Thresholds(max_p95=Threshold(0.3, 2.0)),
            "--max-p95 cannot be judged: the server is sampled every 200 ms, which shows times from 400 ms on.",
        ),
    ],
)
def test_a_percentile_that_cannot_be_judged(section, limits, why):
    """Too few requests, a maximum below two sampling intervals, or no percentiles: not within the limits."""
    judged = apply_thresholds(with_response_times(busy_server(), section), limits)
    assert (judged.status, judged.verdict) == ("unknown", why)


def test_a_maximum_that_the_sampling_rate_cannot_judge_is_refused():
    """The message names the option and the least value; two sampling intervals are enough."""
    refuse_too_short(Thresholds(max_p95=Threshold(0.4), max_p99=Threshold(None, 5.0)), 5.0)
    with pytest.raises(ConfigError, match=r"--max-p99: 300ms cannot be judged with 5 samples .* least is 400ms"):
        refuse_too_short(Thresholds(max_p99=Threshold(0.3, 5.0)), 5.0)

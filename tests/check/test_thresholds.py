"""The effect of the user's own thresholds on a verdict."""

from __future__ import annotations

import msgspec
import pytest

from tests.check.documents import busy_server
from uwsgi_headroom.check.apply_thresholds import apply_thresholds
from uwsgi_headroom.check.thresholds import NO_THRESHOLDS, Threshold, Thresholds
from uwsgi_headroom.documents.schema import Server


def with_flow(server: Server, **figures: object) -> Server:
    assert server.flow
    return msgspec.structs.replace(server, flow=msgspec.structs.replace(server.flow, **figures))


def with_headroom(server: Server, **figures: object) -> Server:
    assert server.headroom
    return msgspec.structs.replace(server, headroom=msgspec.structs.replace(server.headroom, **figures))


def test_without_thresholds_nothing_changes() -> None:
    """The document equals the exporter's."""
    server = busy_server()
    assert apply_thresholds(server, NO_THRESHOLDS) == server


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Threshold(2.0, 1.2), "critical"),
        (Threshold(2.0), "warning"),
        (Threshold(None, 1.0), "ok"),
        (Threshold(1.1), "ok"),
    ],
)
def test_headroom_below_its_minimum(limits: Threshold, status: str) -> None:
    """The status is that of the limit that headroom is below, and the verdict names the option."""
    server = apply_thresholds(with_headroom(busy_server(), factor=1.1), Thresholds(min_headroom=limits))
    assert server.status == status
    decided = server.verdict.startswith("Headroom is 1.1x: --min-headroom wants ")
    assert decided == (status != "ok")


def test_a_wait_above_its_maximum() -> None:
    """An exceeded threshold is a finding, sorted by severity with the others."""
    server = with_flow(busy_server(), queue_wait=0.25)
    judged = apply_thresholds(server, Thresholds(max_queue_wait=Threshold(0.1, 2.0)))
    assert (judged.status, judged.verdict) == (
        "warning",
        "Requests wait 250 ms in the listen queue: --max-queue-wait allows 100 ms.",
    )
    assert [finding.code for finding in judged.findings if finding.severity == "warning"] == ["threshold_queue_wait"]


def test_requests_that_take_too_long() -> None:
    """The mean response time has a threshold too."""
    server = with_flow(busy_server(), response_time=3.0)
    judged = apply_thresholds(server, Thresholds(max_response_time=Threshold(0.1, 2.0)))
    assert (judged.status, judged.verdict) == (
        "critical",
        "Requests take 3.0 s on average: --max-response-time allows 2.0 s.",
    )


def test_a_threshold_never_makes_a_verdict_better() -> None:
    """A critical server stays critical, with its own verdict."""
    server = msgspec.structs.replace(busy_server(), status="critical", verdict="The listen queue is full.")
    judged = apply_thresholds(with_flow(server, queue_wait=0.25), Thresholds(max_queue_wait=Threshold(0.1)))
    assert (judged.status, judged.verdict) == ("critical", "The listen queue is full.")


def test_a_figure_that_is_not_known_is_not_within_its_limits() -> None:
    """A verdict that would be ok becomes unknown if the figure of a threshold is unknown."""
    server = with_flow(busy_server(), queue_wait=None)
    judged = apply_thresholds(server, Thresholds(max_queue_wait=Threshold(0.1)))
    assert (judged.status, judged.verdict) == (
        "unknown",
        "--max-queue-wait cannot be judged: its figure is not known here.",
    )


def test_an_idle_server_is_within_every_limit() -> None:
    """Without requests none waits, and far limits are enough headroom."""
    idle = with_flow(with_headroom(busy_server(), factor=None, far=("threads",)), requests=0, queue_wait=None)
    idle = with_flow(idle, response_time=None)
    limits = Thresholds(Threshold(2.0), Threshold(0.1), Threshold(0.1))
    assert apply_thresholds(idle, limits).status == "ok"

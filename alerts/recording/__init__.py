"""Recorded series: the figures of `uwsgi_headroom.analysis`, over the counters that Prometheus holds.

Names are level:metric:operations. A level is made from the one before it, numerators and denominators apart: the
response time of a service is all the time over all the requests, never a mean of means. What samples make (busy-thread
and queue seconds) is divided by the time that samples cover, so that a gap does not look like idleness. What cannot be
known is absent, never 0 and never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.recording import server, service, worker
from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `recording.yaml`: one, because later rules are made from earlier ones."""
    return [Group("uwsgi-headroom recording", [*worker.rules(t), *server.rules(t), *service.rules(t)])]

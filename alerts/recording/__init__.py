"""Recorded series: the figures of `uwsgi_headroom.analysis`, computed from the counters in Prometheus.

Names are level:metric:operations. Each level is computed from the one below it, numerators and denominators separately:
the response time of a service is the sum of the times divided by the sum of the requests, never a mean of means. Totals
from samples (busy-thread, queue and wait seconds) are divided by the time that samples cover, so that a gap does not
count as idle time. Unknown values are absent, never 0 and never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.recording import response_times, server, service, waits, worker
from alerts.rule import Group
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `recording.yaml`: only one, because later rules use earlier ones."""
    modules = (worker, server, service, waits, response_times)
    return [Group("uwsgi-headroom recording", [rule for module in modules for rule in module.rules(t)])]

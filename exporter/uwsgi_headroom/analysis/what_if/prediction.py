"""What a prediction says: the output of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.analysis.what_if.measured import Measured, Observed
from uwsgi_headroom.analysis.what_if.setting import Setting

Resource = Literal["threads", "interpreters", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """The fraction of each resource in use, 0 to 1: threads in service; interpreter locks held, on average over the
    workers; CPUs, with those that other programs use."""

    threads: float
    interpreters: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLoad:
    """A setting under one load.

    load: as a multiple of the peak. throughput: the requests per second that arrive.
    sustained: whether the setting serves all of them. If not, the queue grows without end: no times are given, and
        `utilization` is that of the most that it serves.
    response_time, p95: seconds in service. p95 is None if the observed one is unknown.
    queue_wait: mean seconds in the listen queue. total_p95: the 95th percentile of both together.
    """

    load: float
    throughput: float
    sustained: bool
    response_time: float | None
    p95: float | None
    queue_wait: float | None
    total_p95: float | None
    utilization: Utilization

    @property
    def total_time(self) -> float | None:
        """Mean seconds from the arrival in the listen queue to the response."""
        if self.response_time is None or self.queue_wait is None:
            return None
        return self.response_time + self.queue_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction for one setting.

    most_throughput: requests per second, at which `limit` is used up.
    at: in the order of the loads that were asked for.
    memory: bytes that all workers take together. fits: whether the memory available now is enough. None if unknown.
    """

    setting: Setting
    most_throughput: float
    limit: Resource
    at: tuple[AtLoad, ...]
    memory: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The model against what was observed: the observed setting at an observed load, in `observed`.

    throughput, response_time, p95: as the model has them, in requests per second and seconds. Errors are relative: 0.1
    means that the model is 10 % above what was observed. They are None if that was not observed, or if the model was
    fitted to it, so that agreement would prove nothing; that of the throughput also if all that arrived was served.
    """

    observed: Observed
    throughput: float
    response_time: float
    p95: float | None
    throughput_error: float | None
    response_time_error: float | None
    p95_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Predictions of settings, and how far to trust them.

    today: the prediction of the observed setting, at the same loads. check: that setting at the load it was observed
        at: at the peak if its response time is known, else in the window.
    demands_measured: whether the demands of a request come from wait states, not only from CPU and response time.
    cautions: sentences about what the model cannot know here.
    """

    measured: Measured
    today: Prediction
    check: Check
    predictions: tuple[Prediction, ...]
    demands_measured: bool
    cautions: tuple[str, ...]

"""Judges percentiles of response times by the user's thresholds, as far as samples can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from uwsgi_headroom.check.thresholds import Threshold, Thresholds
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.config.slo import INTERVALS
from uwsgi_headroom.documents.response_time_words import describe_percentile, percentile_name
from uwsgi_headroom.documents.response_times import Percentile, find_percentile
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import counted, duration

_SLACK = 0.9
"""Sampling is never exactly as fast as configured."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A percentile and its limits. percentile: None if it is not known; unknown: why it cannot be judged, as the end of
    a sentence, or empty."""

    share: float
    limits: Threshold
    percentile: Percentile | None
    unknown: str = ""

    @property
    def name(self) -> str:
        """Such as `p95`."""
        return percentile_name(self.share)

    @property
    def option(self) -> str:
        """The option that sets the limits."""
        return f"--max-{self.name}"

    @property
    def seconds(self) -> float | None:
        """The estimate; None if it is not known, or shorter than samples show."""
        return self.percentile.seconds if self.percentile and not self.unknown else None

    @property
    def sentence(self) -> str:
        """The percentile in a sentence without its end."""
        figure = describe_percentile(self.percentile, interval=False) if self.percentile else "not known"
        return f"The {100 * self.share:.0f}th percentile of response times is {figure}"

    @property
    def evidence(self) -> str:
        """The estimate with its interval."""
        if self.percentile is None:
            return ""
        return f"Inside uWSGI, estimated from samples: {describe_percentile(self.percentile)}."


def list_figures(server: Server, thresholds: Thresholds) -> Iterator[Figure]:
    """List the percentiles for which there is a threshold."""
    for share, limits in _list_limits(thresholds):
        percentile = find_percentile(server.response_times, share)
        yield Figure(share, limits, percentile, _why_unknown(server, share, limits, percentile))


def refuse_too_short(thresholds: Thresholds, samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND) -> None:
    """Raise ConfigError if a threshold is too short for the sampling rate."""
    needed = INTERVALS / samples_per_second
    for share, limits in _list_limits(thresholds):
        if limits.least is not None and limits.least < needed - 1e-9:
            raise ConfigError(
                f"--max-{percentile_name(share)}: {limits.least * 1000:g}ms cannot be judged with "
                f"{samples_per_second:g} samples per second; the least is {math.ceil(needed * 1000)}ms, two times "
                "between samples: raise it, or ask an exporter with more samples per second"
            )


def _list_limits(thresholds: Thresholds) -> Iterator[tuple[float, Threshold]]:
    for share, limits in ((0.95, thresholds.max_p95), (0.99, thresholds.max_p99)):
        if limits.least is not None:
            yield share, limits


def _why_unknown(server: Server, share: float, limits: Threshold, percentile: Percentile | None) -> str:
    section = server.response_times
    if section is None:
        return "its figure is not known here"
    if limits.least is not None and limits.least < _SLACK * INTERVALS * section.interval:
        return (
            f"the server is sampled every {duration(section.interval)}, which shows times from "
            f"{duration(INTERVALS * section.interval)} on"
        )
    if percentile is None:
        return f"it needs {1 / (1 - share):.0f} requests, and there were {counted(section.requests, 'request')}"
    return ""

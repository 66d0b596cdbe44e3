"""What is observed and what is predicted: loads of the demo's application, and settings of uWSGI."""

from __future__ import annotations

from dataclasses import dataclass

from tools.bench.clients import Kind
from uwsgi_headroom.analysis.what_if import Setting, parse_setting

OBSERVED = parse_setting("4x4")
"""The one setting that is observed, for each workload."""

LOADS = (0.5, 0.8)
"""As parts of the most throughput that was measured for the setting."""


@dataclass(frozen=True)
class Workload:
    """Requests, the rate at which OBSERVED is watched, and the settings that are predicted."""

    name: str
    kinds: tuple[Kind, ...]
    rate: float
    settings: tuple[Setting, ...]


def _settings(*texts: str) -> tuple[Setting, ...]:
    return tuple(map(parse_setting, texts))


WORKLOADS = (
    Workload(
        "mix: 60 % /mixed (12 ms of CPU, 120 ms of waiting), 20 % computing (30 ms), 20 % /slow (200 ms)",
        (
            Kind(0.6, "/mixed?cpu_ms={cpu}&io_ms={io}", cpu=12, io=120, spread=0.8),
            Kind(0.2, "/mixed?cpu_ms={cpu}", cpu=30, spread=0.5),
            Kind(0.2, "/slow?s={s}", io=200, spread=0.8),
        ),
        54,
        _settings("1x8", "1x16", "2x8", "8x2", "8x1", "16x1", "4x1", "2x2"),
    ),
    Workload(
        "/fib: computing only, for about 10, 25 or 45 ms",
        (Kind(0.6, "/fib/24"), Kind(0.25, "/fib/26"), Kind(0.15, "/fib/27")),
        40,
        _settings("1x8"),
    ),
    Workload(
        "/slow: waiting only, from 30 to 270 ms",
        (Kind(1, "/slow?s={s}", io=150, spread=0.8),),
        50,
        _settings("8x1"),
    ),
)

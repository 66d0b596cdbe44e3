"""Conditions for a lack of CPU: `lacks_cpu` and the floor of `uwsgi_headroom.analysis.shortages` in PromQL.

A busy host alone is no trouble of a server that hardly uses CPU: every idle server on it would raise an alert.
"""

from __future__ import annotations

from alerts import waiting
from alerts.levels import by_server
from alerts.thresholds import Thresholds


def lacks(t: Thresholds) -> str:
    """The idle CPUs of servers that use CPU while hardly any is idle."""
    w = t.window
    idle = f"rate(uwsgi_cpu_available_idle_seconds_total[{w}]) <= {round(1 - t.cpu_full, 6):g} * uwsgi_cpus_usable"
    return f"{idle}\nand {used(t)} >= {t.cpu_least:g} * uwsgi_cpus_usable"


def used(t: Thresholds) -> str:
    """The CPUs that the workers use, of servers none of whose workers uses them to look for a free async core."""
    w = t.window
    polling = by_server("count", f"worker:uwsgi_polling_cpus:rate{w}")
    return f"(rate(uwsgi_cpu_used_by_workers_seconds_total[{w}]) unless {polling})"


def is_felt(t: Thresholds) -> str:
    """Servers that use at least as much CPU as all other programs, or whose requests wait: for a CPU, or in the listen
    queue. The rest have enough CPU, whichever program uses it."""
    w = t.window
    own, others = (f"rate(uwsgi_cpu_used_by_{who}_seconds_total[{w}])" for who in ("workers", "others"))
    return f"({own} unless {own} < {others})\nor {_waits(t)}"


def is_throttled(t: Thresholds) -> str:
    """The part of the periods of a CPU quota in which it stopped the workers, of servers whose requests wait."""
    return f"{throttled(t.window)} >= {t.cpu_throttled}\nand ({_waits(t)})"


def throttled(w: str, labels: str = "") -> str:
    """The part of the periods of a CPU quota in which it stopped the workers."""
    stopped, periods = (f"rate(uwsgi_cpu_quota_{what}_total{labels}[{w}])" for what in ("throttled_periods", "periods"))
    return f"{stopped} / ({periods} > 0)"


def _waits(t: Thresholds) -> str:
    """Servers whose requests wait: for a CPU, or in the listen queue."""
    ready = f'server:uwsgi_wait_threads:ratio_rate{t.window}{{state="cpu_wait"}} >= {t.cpu_wait_threads:g}'
    return f"sum without (state) ({ready})\nor {waiting.noticed(t)}"


def hardly_uses(t: Thresholds, within: str) -> str:
    """Servers that used hardly any CPU at every moment of a range."""
    most = f"max_over_time(rate(uwsgi_cpu_used_by_workers_seconds_total[{t.window}])[{within}:1m])"
    return f"{most} < {t.cpu_least:g} * uwsgi_cpus_usable"

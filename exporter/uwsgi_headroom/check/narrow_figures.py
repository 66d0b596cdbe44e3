"""Writes figures in few columns, for tables: the digits of `words.formats`, without spaces where there is no room."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.words import formats

UNKNOWN = "-"

_TIME_COLUMNS = 6


def percent(part: float | None) -> str:
    """Write a share: 0.43 is `43%`, 0.0766 is `7.7%`."""
    return UNKNOWN if part is None else formats.percent(part).replace(" ", "")


def age(seconds: float | None) -> str:
    """Write an age: 12 is `12s`, 90 is `90s`, 600 is `10m`; below 10 s, whole seconds are enough."""
    if seconds is None:
        return UNKNOWN
    return f"{formats.fixed(seconds)}s" if seconds < 9.5 else formats.narrow_duration(seconds)


def size(count: float | None) -> str:
    """Write bytes: 52,000,000 is `52M`, 1,200,000,000 is `1.2G`; of memory that shrinks: `-52M`."""
    if count is None:
        return UNKNOWN
    sign = "-" if count < 0 else ""
    return sign + formats.byte_size(abs(count)).removesuffix("B").replace(" ", "")


def number(value: float | None) -> str:
    """Write a count: 12,345 is `12345`; a million and more is in millions: `12.3M`."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if value < 1e6 else f"{value / 1e6:.1f}M" if value < 1e9 else f"{value / 1e9:.1f}G"


def rate(value: float | None) -> str:
    """Write requests per second: `62.4`, `12345`."""
    return UNKNOWN if value is None else formats.amount(value).replace(",", "")


def seconds_of(value: float | None) -> str:
    """Write a response time in at most six columns: 0.0672 is `67 ms`, 150 is `2.5m`."""
    if value is None:
        return UNKNOWN
    return formats.fit_duration(value, _TIME_COLUMNS)


def cpu_ranges(cpus: Sequence[int]) -> str:
    """Write CPUs as the kernel does: [0, 1, 2, 5] is `0-2,5`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1][1:] = [cpu]
        else:
            spans.append([cpu])
    return ",".join("-".join(map(str, span)) for span in spans)

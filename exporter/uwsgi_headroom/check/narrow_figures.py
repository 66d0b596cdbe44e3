"""Finds fields of documents, and writes figures in few columns: the digits of `words.formats`, without spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uwsgi_headroom.words import formats

UNKNOWN = "-"


def find_field(document: object, place: str) -> Any:
    """A field of a document, such as `flow.queue_wait`; None without its section."""
    for name in place.split("."):
        document = getattr(document, name, None)
    return document


def _or_unknown(write: Callable[[float], str]) -> Callable[[float | None], str]:
    """Make a function that writes also what is not known."""

    def written(value: float | None) -> str:
        return UNKNOWN if value is None else write(value)

    return written


@_or_unknown
def percent(part: float) -> str:
    """Write a share: 0.43 is `43%`, 0.0766 is `7.7%`."""
    return formats.percent(part).replace(" ", "")


@_or_unknown
def age(seconds: float) -> str:
    """Write an age: 12 is `12s`, 90 is `90s`, 600 is `10m`; below 10 s, whole seconds are enough."""
    return f"{formats.fixed(seconds)}s" if seconds < 9.5 else formats.narrow_duration(seconds)


@_or_unknown
def size(count: float) -> str:
    """Write bytes: 52,000,000 is `52M`, 1,200,000,000 is `1.2G`; of memory that shrinks: `-52M`."""
    return "-" * (count < 0) + formats.byte_size(abs(count)).removesuffix("B").replace(" ", "")


@_or_unknown
def number(value: float) -> str:
    """Write a count: 12,345 is `12345`; a million and more is in millions: `12.3M`."""
    if value < 1e6:
        return f"{value:.0f}"
    return f"{value / 1e6:.1f}M" if value < 1e9 else f"{value / 1e9:.1f}G"


@_or_unknown
def rate(value: float) -> str:
    """Write requests per second: `62.4`, `12345`, `1.2M`."""
    return formats.amount(value).replace(",", "") if value < 1e6 else number(value)


@_or_unknown
def seconds_of(value: float) -> str:
    """Write a response time in at most six columns: 0.0672 is `67 ms`, 150 is `2.5m`."""
    return formats.fit_duration(value, 6)


def cpu_ranges(cpus: Sequence[int]) -> str:
    """Write CPUs as the kernel does: [0, 1, 2, 5] is `0-2,5`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1][1:] = [cpu]
        else:
            spans.append([cpu])
    return ",".join("-".join(map(str, span)) for span in spans)

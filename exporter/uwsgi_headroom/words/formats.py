"""Formats figures for people."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NUMBERS = 8
"""The most workers that a sentence lists; readers skip a longer list."""


def percent(part: float) -> str:
    """A fraction as a percentage: 0.43 is `43 %`."""
    return f"{100 * part:.0f} %"


def fine_percent(part: float) -> str:
    """A fraction as a percentage with two digits: 0.018 is `1.8 %`, 0.0004 is `0.04 %`, 0.123 is `12 %`."""
    return f"{float(f'{100 * part:.2g}'):g} %"


def duration(seconds: float) -> str:
    """Seconds in a suitable unit: 0.0672 is `67 ms`, 1.5 is `1.5 s`, 90 is `90 s`, 600 is `10 min`, 10,000 is `2.8 h`,
    10**6 is `12 days`."""
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"


def figure(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, never as a power of ten: 62.41 is `62.4`, 12,583 is `12,600`."""
    return f"{float(f'{value:.{digits}g}'):,.15g}"


def factor(value: float) -> str:
    """A factor: 1.52 is `1.5x`, 12.3 is `12x`."""
    return f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def megabytes(count: float) -> str:
    """Bytes as MB: 12,345,678 is `12 MB`."""
    return f"{count / 1e6:.0f} MB"


def byte_size(count: float) -> str:
    """Bytes in MB or GB: 180,000,000 is `180 MB`, 1,200,000,000 is `1.2 GB`, 4,200,000 is `4.2 MB`."""
    if count < 9.95e6:
        return f"{count / 1e6:.1f} MB"
    if count < 999.5e6:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB" if count < 9.95e9 else f"{count / 1e9:.0f} GB"


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 worker`, `2 workers`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def repeated(count: int) -> str:
    """How often: `once`, `2 times`."""
    return "once" if count == 1 else f"{count} times"


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """A noun with numbers: `worker 1`, `workers 1, 2 and 3`. At most MOST_NUMBERS are listed: `workers 1, 2, 3, 4, 5,
    6, 7, 8 and 5 more`."""
    shown = [str(number) for number in numbers[:MOST_NUMBERS]]
    if len(numbers) > MOST_NUMBERS:
        shown.append(f"{len(numbers) - MOST_NUMBERS:,} more")
    *most, last = shown
    return f"{noun}s {', '.join(most)} and {last}" if most else f"{noun} {last}"

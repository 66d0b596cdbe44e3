"""Formats figures for people: one rule for each kind of figure, the same in `check`, `top`, the report and the page.

`web/static/format.js` has the same rules for the page; `tests/words/vectors.json` holds both to them. The rules:

* Figures are rounded half up, as they were measured and not as a rounded figure: 0.125 is `13 %`.
* A figure has two or three digits, so it changes its unit where rounding would write four: 999.6 ms is `1.0 s`.
* Below 10 a measured figure has one decimal, 0 has none: `6.7 ms`, `67 ms`, `1.2 GB`, `7.7 %`, `12x`.
* A figure that somebody chose, such as a threshold, is written as exactly as it was chosen (`chosen`).

A column that is too narrow leaves out spaces and separators, and shortens the unit, but keeps the digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

MOST_NUMBERS = 8
"""The most workers that a sentence lists; readers skip a longer list."""

_MOST_EXACT = 1e15
"""Above this a figure has no decimals anyway."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


def fixed(value: float, decimals: int = 0, *, grouped: bool = False) -> str:
    """A number with so many decimals, rounded half up: 2.5 is `3`. Python's own formats round 2.5 to `2`, but
    browsers write `3`. grouped: with commas between thousands."""
    comma = "," if grouped else ""
    if not abs(value) < _MOST_EXACT:
        return f"{value:{comma}.{decimals}f}"
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):{comma}f}"


def duration(seconds: float) -> str:
    """A measured duration: `0 ms` below 0.05 ms, 0.0067 is `6.7 ms`, 0.0672 is `67 ms`, 0.9996 is `1.0 s`, 90 is
    `90 s`. From two minutes on, with the next smaller unit below ten: 180 is `3 min`, 150 is `2 min 30 s`, 750 is
    `13 min`, 10,000 is `2 h 47 min`, 10**6 is `12 d`."""
    milliseconds = 1000 * seconds
    if milliseconds < 0.05:
        return "0 ms"
    if milliseconds < 999.5:
        return f"{_two_digits(milliseconds)} ms"
    if seconds < _LEAST_LONG:
        return f"{_two_digits(seconds)} s"
    form = _long_form(seconds)
    size, unit, smaller, _ = form
    if seconds < 10 * size - smaller / 2:
        return _in_two_units(int(fixed(seconds / smaller)) * smaller, form)
    return f"{fixed(seconds / size, grouped=True)} {unit}"


_LEAST_LONG = 119.5
"""Seconds from which on a duration is written in minutes."""

_Form = tuple[float, str, float, str]
_LONG: tuple[_Form, ...] = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1.0, "s"))
"""The units of long durations, and the next smaller one of each."""


def _long_form(seconds: float) -> _Form:
    days, hours, minutes = _LONG
    return minutes if seconds / _MINUTE < 119.5 else hours if seconds / _HOUR < 47.5 else days


def _in_two_units(seconds: float, form: _Form) -> str:
    size, unit, smaller, smaller_unit = form
    whole, rest = divmod(seconds, size)
    return f"{whole:.0f} {unit}{f' {rest / smaller:.0f} {smaller_unit}' if rest else ''}"


def whole(parts: Iterable[float]) -> str:
    """The sum of durations, of the parts as they are written, which a reader may add up: of 81.4 ms and 245.4 ms, which
    are written as `81 ms` and `245 ms`, it is `326 ms`."""
    written = _PART.findall(" ".join(map(duration, parts)))
    return duration(sum(float(number.replace(",", "")) * _UNITS[unit] for number, unit in written))


_PART = re.compile(r"([\d,.]+) (ms|s|min|h|d)\b")
_UNITS = {"ms": 0.001, "s": 1.0, "min": _MINUTE, "h": _HOUR, "d": _DAY}


def narrow_duration(seconds: float) -> str:
    """A measured duration of at most five characters, for a narrow column: `67ms`, `12s`, `2.5m`, `2.8h`, `12d`."""
    if seconds < _LEAST_LONG:
        return duration(seconds).replace(" ", "")
    size, unit, *_ = _long_form(seconds)
    return f"{_two_digits(seconds / size).removesuffix('.0')}{unit[0]}"


def fit_duration(seconds: float, columns: int) -> str:
    """A measured duration, narrow if it does not fit into so many columns: 150 is `2 min 30 s` or `2.5m`."""
    text = duration(seconds)
    return text if len(text) <= columns else narrow_duration(seconds)


def least(text: str, is_floor: bool) -> str:
    """A figure, such as `18 s`, or `at least 18 s` if it is a lower bound."""
    return f"at least {text}" if is_floor else text


def chosen(seconds: float) -> str:
    """A duration that somebody chose, as exact as it was written: 0.25 is `250 ms`, 1.25 is `1.25 s`, 180 is `3 min`,
    125 is `2 min 5 s`, 3,725 is `62 min 5 s`."""
    for form in _LONG:
        if seconds >= 2 * form[0] and seconds % form[2] == 0:
            return _in_two_units(seconds, form)
    return f"{significant(1000 * seconds, 6)} ms" if seconds < 1 else f"{significant(seconds, 6)} s"


def percent(part: float) -> str:
    """A fraction as a percentage: 0.43 is `43 %`, 0.0766 is `7.7 %`, 0 is `0 %`."""
    return f"{_two_digits(100 * part) if part else '0'} %"


def fine_percent(part: float, digits: int = 2) -> str:
    """A fraction as a percentage with so many digits, for shares that are compared with a small one, such as an error
    budget: 0.018 is `1.8 %`, 0.0004 is `0.04 %`, 0.123 is `12 %`. What is estimated may be far below one request."""
    return "under 0.00001 %" if 0 < part < 1e-7 else f"{significant(100 * part, digits)} %"


def factor(value: float) -> str:
    """A factor: 1.52 is `1.5x`, 12.3 is `12x`."""
    return f"{_two_digits(value)}x"


def amount(value: float) -> str:
    """A number with three digits, or all of its whole part: 0.123 is `0.123`, 8.3 is `8.30`, 62.41 is `62.4`, 12,345.6
    is `12,346`."""
    size = abs(value)
    decimals = 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return fixed(value, decimals, grouped=True)


def signed_percent(part: float) -> str:
    """A relative difference with its sign: 0.034 is `+3.4 %`, -0.2 is `-20 %`."""
    return f"{'+' if part >= 0 else ''}{percent(part)}"


def in_queue(waiting: float, limit: int | None) -> str:
    """How many connections wait in a listen queue: at most as many as fit, since Linux lets one more in."""
    fitting = waiting if limit is None else min(waiting, limit)
    return str(fitting) if isinstance(fitting, int) else mean_count(fitting)


def rate(value: float) -> str:
    """A rate per second: 62.41 is `62.4/s`."""
    return f"{amount(value)}/s"


def mean_count(value: float) -> str:
    """A mean count: 4.82 is `4.8`, 123.4 is `123`."""
    return fixed(value, 1 if abs(value) < 99.95 else 0, grouped=True)


def mean_threads(value: float | None) -> str:
    """A mean number of threads, beside which other means stand: 8 is `8`, 7.62 is `7.6`, and unknown is `0`."""
    return mean_count(value or 0.0).removesuffix(".0")


def significant(value: float, digits: int) -> str:
    """A number with at most so many digits, without zeros at its end and never as a power of ten: 0.0400 is `0.04`."""
    number = Decimal(value)
    if not number or not number.is_finite():
        return f"{value:g}"
    rounded = number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1), ROUND_HALF_UP)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def figure(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, never as a power of ten: 62.41 is `62.4`, 12,583 is `12,600`."""
    return f"{float(significant(value, digits)):,.15g}"


def byte_size(count: float) -> str:
    """Bytes in powers of 1000: 800 is `800 B`, 4,200,000 is `4.2 MB`, 180,000,000 is `180 MB`, 1,200,000,000 is
    `1.2 GB`."""
    units = ("B", "kB", "MB", "GB", "TB")
    place = 0
    while count >= 999.5 and place < len(units) - 1:
        count, place = count / 1000, place + 1
    return f"{_two_digits(count) if place else fixed(count)} {units[place]}"


LONGEST_FUNCTION = 50
"""In characters: of a longer name, the end is written."""


def signed_duration(seconds: float) -> str:
    """A change of a duration: `+21 ms`."""
    return f"{'+' if seconds >= 0 else '-'}{duration(abs(seconds))}"


def short_function(function: str) -> str:
    return function if len(function) <= LONGEST_FUNCTION else f"...{function[3 - LONGEST_FUNCTION :]}"


def code_place(function: str, file: str, line: int) -> str:
    """A line of code, with the last two parts of the path: `query_orders (shop/orders.py:3)`."""
    return f"{short_function(function)} ({'/'.join(file.split('/')[-2:])}:{line})"


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 worker`, `2 workers`, `1,200 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def repeated(count: int) -> str:
    """How often: `once`, `2 times`."""
    return "once" if count == 1 else f"{count:,} times"


def listed(texts: Sequence[str], most: int = 1_000_000) -> str:
    """A list in a sentence: `A`, `A and B`, `A, B and C`; beyond `most` of them, `A, B and 5 more`."""
    more = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    *first, last = [*texts[:most], *more]
    return f"{', '.join(first)} and {last}" if first else last


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """A noun with numbers: `worker 1`, `workers 1, 2 and 3`. At most MOST_NUMBERS are listed: `workers 1, 2, 3, 4, 5,
    6, 7, 8 and 5 more`."""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {listed([str(number) for number in numbers], MOST_NUMBERS)}"


def name_pids(proven: Iterable[int | None], placeholder: str = "PID") -> str:
    """The PIDs in a command, which a person pastes as root. proven: the PID of each process on this host, if the kernel
    proves that the process is one of this uWSGI; else None, and the placeholder stands for it, because a stats document
    can name any process. (`kill -1` would signal every process.)"""
    return " ".join(dict.fromkeys(str(pid) if pid and pid > 1 else placeholder for pid in proven))


def _two_digits(value: float) -> str:
    """A number with one decimal below 10, and none from there on."""
    return fixed(value, 1 if abs(value) < 9.95 else 0, grouped=True)

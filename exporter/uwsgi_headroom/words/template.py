"""Fills the sentences of a row with facts.

* `{name}`: a text, or a number with commas. `{name:FORMAT}`: a figure, by a name in FORMATS.
* `{count:request}`: `1 request`, `2 requests`. `{ids:worker}`: `worker 1`, `workers 1 and 2`.
* `{count:is|are}`: the first word for one, the second for any other number; of a list, for its length.
* `[name? text]`: a part that is there if this fact is known: not None, not False, not empty; `[not name? text]`: if it
  is not. `[name, not other? text]`: if all of this holds. No part is within another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from uwsgi_headroom.words import formats

Fact = str | int | float | Sequence[int] | Sequence[str] | None


class Private(NamedTuple):
    """A fact that people who may only scrape must not read, such as a path, and what they read instead."""

    fact: Fact
    instead: str = ""


Facts = dict[str, Fact | Private]


def _cpus(count: float) -> str:
    """Format a number of CPUs. It may be measured, so it is rounded: 1.98 becomes 2."""
    number = f"{count:.1f}".removesuffix(".0")
    return f"{number} CPU{'s' * (number != '1')}"


FORMATS: Mapping[str, Callable[..., str]] = {
    "amount": formats.amount,
    "bytes": formats.byte_size,
    "chosen": formats.chosen,
    "cpus": _cpus,
    "duration": formats.duration,
    "factor": formats.factor,
    "cpu": "{:.2f}".format,  # CPU seconds per second
    "list": formats.listed,
    "mean": formats.mean_count,
    "percent": formats.percent,
    "fine_percent": formats.fine_percent,
    "plain": str,  # of options, without commas
    "rate": formats.rate,
    "threads": formats.mean_threads,
    "times": formats.repeated,
}

_PART = re.compile(r"\[((?:not )?\w+(?:, (?:not )?\w+)*)\? ([^][]*)\]")
_FACT = re.compile(r"\{(\w+)(?::([^{}]+))?\}")


def names_in(template: str) -> set[str]:
    """The facts that a template needs. Raises ValueError for other braces or brackets."""
    left = _FACT.sub("", _PART.sub(r"\2", template))
    if "{" in left or "}" in left or _PART.search(_PART.sub(r"\2", template)):
        raise ValueError(template)
    conditions = {name for match in _PART.finditer(template) for name, _ in _split(match[1])}
    return conditions | {match[1] for match in _FACT.finditer(template)}


def _split(conditions: str) -> list[tuple[str, bool]]:
    """The names of facts, and whether each must be known; otherwise it must not be."""
    return [(each.removeprefix("not "), not each.startswith("not ")) for each in conditions.split(", ")]


def fill(template: str, facts: Mapping[str, Fact | Private], *, public: bool = False) -> str:
    """The sentence, valid text. public: whether people read it who may only scrape."""

    def part(match: re.Match[str]) -> str:
        holds = (_is_known(_show(facts[name], public=public)) == known for name, known in _split(match[1]))
        return match[2] * all(holds)

    def fact(match: re.Match[str]) -> str:
        return _write(_show(facts[match[1]], public=public), match[2])

    return _FACT.sub(fact, _PART.sub(part, template)).encode(errors="backslashreplace").decode()


def _show(fact: Fact | Private, *, public: bool) -> Fact:
    if isinstance(fact, Private):
        return fact.instead if public else fact.fact
    return fact


def _is_known(fact: Fact) -> bool:
    return fact is not None and fact is not False and fact not in ("", (), [])


def _write(fact: Fact, how: str | None) -> str:
    if how is None:
        return f"{fact:,}" if isinstance(fact, int) else str(fact)
    if how in FORMATS:
        return FORMATS[how](fact)
    number = fact if isinstance(fact, int) else len(fact) if isinstance(fact, Sequence) else 0
    if "|" in how:
        return how.split("|")[number != 1]
    if isinstance(fact, Sequence):
        return formats.numbered(how, [int(each) for each in fact])
    return formats.counted(number, how)

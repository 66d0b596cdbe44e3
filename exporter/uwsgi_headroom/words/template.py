"""Fills the sentences of a row with facts.

* `{name}`: a text, or a number with commas. `{name:FORMAT}`: a figure, by a name in FORMATS.
* `{count:request}`: `1 request`, `2 requests`. `{ids:worker}`: `worker 1`, `workers 1 and 2`.
* `{count:is|are}`: the first word for one, the second for any other number; of a list, for its length.
* `[name? text]`: a part that is there if this fact is known: not None, not False, not empty. No part is within another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from uwsgi_headroom.words import formats

Fact = str | int | float | Sequence[int] | Sequence[str] | None


class Private(NamedTuple):
    """A text that people who may only scrape must not read, such as a path, and what they read instead."""

    text: str
    instead: str = ""


Facts = dict[str, Fact | Private]

FORMATS: Mapping[str, Callable[..., str]] = {
    "amount": formats.amount,
    "bytes": formats.byte_size,
    "chosen": formats.chosen,
    "duration": formats.duration,
    "factor": formats.factor,
    "list": formats.listed,
    "mean": formats.mean_count,
    "percent": formats.percent,
    "fine_percent": formats.fine_percent,
    "plain": str,  # of options, which are written without commas
    "rate": formats.rate,
    "threads": formats.mean_threads,
    "times": formats.repeated,
}

_PART = re.compile(r"\[(\w+)\? ([^][]*)\]")
_FACT = re.compile(r"\{(\w+)(?::([^{}]+))?\}")


def names_in(template: str) -> set[str]:
    """The facts that a template needs. Raises ValueError for braces or brackets that are no part of a fact."""
    left = _FACT.sub("", _PART.sub(r"\2", template))
    if "{" in left or "}" in left or _PART.search(_PART.sub(r"\2", template)):
        raise ValueError(template)
    return {match[1] for match in (*_PART.finditer(template), *_FACT.finditer(template))}


def fill(template: str, facts: Mapping[str, Fact | Private], *, public: bool = False) -> str:
    """The sentence. public: whether people read it who may only scrape."""

    def part(match: re.Match[str]) -> str:
        return match[2] if _is_known(_show(facts[match[1]], public=public)) else ""

    def fact(match: re.Match[str]) -> str:
        return _write(_show(facts[match[1]], public=public), match[2])

    return _FACT.sub(fact, _PART.sub(part, template))


def _show(fact: Fact | Private, *, public: bool) -> Fact:
    if isinstance(fact, Private):
        return fact.instead if public else fact.text
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

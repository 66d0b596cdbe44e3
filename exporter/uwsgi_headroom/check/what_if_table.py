"""Writes a what-if for a person: a table of settings, the model's error, and what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.documents.what_if import PredictedLoad, PredictedSetting, WhatIf
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.words.formats import amount, byte_size, duration, rate
from uwsgi_headroom.words.states import LIMITS as LIMIT_WORDS

_TOO_MUCH = "too much"
_HEAD = "  {:<10}{:>9}  {:<12}"
_TIMES = "{:>9}{:>9}"
_MEMORY = "{:>9}"


def render_what_if(document: WhatIf, width: int) -> Iterator[str]:
    """Write the section; for a refusal, its reason."""
    if document.refusal is not None:
        yield from wrap(f"What if: not known. {document.refusal}", width)
        return
    today = [document.today] if document.today and not any(each.is_observed for each in document.predictions) else []
    rows = [*today, *document.predictions]
    loads = rows[0].loads if rows else ()
    yield "What if (times with the wait in the listen queue; *: the observed setting)"
    yield (
        _HEAD.format("", "most", "limited")
        + "".join(f"{f'at {rate(at.throughput)}':>18}" for at in loads)
        + _MEMORY.format("")
    ).rstrip()
    head = "".join(_TIMES.format("mean", "p95") for _ in loads)
    yield _HEAD.format("setting", "req/s", "by") + head + _MEMORY.format("memory")
    for row in rows:
        yield _row(row).rstrip()
    yield ""
    sentences = [document.check.sentence] if document.check else []
    sentences += [row.memory_sentence for row in rows if row.memory_sentence]
    for sentence in (*sentences, *document.cautions):
        yield from wrap(sentence, width, "  ", "  ")


def _row(row: PredictedSetting) -> str:
    name = f"{row.setting}{'*' if row.is_observed else ''}"
    memory = "-" if row.memory is None else byte_size(row.memory)
    times = "".join(_TIMES.format(*_times(at)) for at in row.loads)
    return (
        _HEAD.format(name, amount(row.most_throughput), LIMIT_WORDS[row.limit].short) + times + _MEMORY.format(memory)
    )


def _times(at: PredictedLoad) -> tuple[str, str]:
    if not at.sustained or at.total_time is None:
        return _TOO_MUCH, ""
    return duration(at.total_time), "-" if at.total_p95 is None else duration(at.total_p95)

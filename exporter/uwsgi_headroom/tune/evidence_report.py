"""Writes the evidence of a search as Markdown, and its table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.experiment.results import spread
from uwsgi_headroom.tune.recommendation import Recommendation
from uwsgi_headroom.tune.search.evidence import Evidence
from uwsgi_headroom.words.formats import byte_size, duration, figure

HEAD = ("setting", "runs", "requests/s", "range", "mean", "p99", "memory", "CPUs", "lock wait", "hot ratio")

LEGEND = (
    "\\*: recommended. 4x8 is 4 processes with 8 threads each. Figures are medians over the runs of a setting; range: "
    "the lowest and the highest requests/s. mean, p99: response times as the clients see them. CPUs: used by the "
    "server. lock wait: threads that wait for their Python interpreter, on average. hot ratio: the busiest process's "
    "share of the requests, as a multiple of an even share."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a report says of the task. lines: one sentence each. changed: the changed lines of the ini file."""

    title: str
    lines: Sequence[str]
    changed: str
    has_chart: bool


def list_rows(evidence: Evidence, chosen: Variant | None) -> list[tuple[str, ...]]:
    """A row of figures for each variant, in the order of HEAD; the chosen one has a mark."""
    return [_row(variant, evidence, variant == chosen) for variant in evidence.variants]


def render_table(evidence: Evidence, chosen: Variant | None) -> list[str]:
    """The table for a terminal, in columns."""
    rows = [HEAD, *list_rows(evidence, chosen)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def render_markdown(found: Recommendation, evidence: Evidence, described: Described) -> str:
    """The whole report."""
    return "\n".join(_list_lines(found, evidence, described)) + "\n"


def _list_lines(found: Recommendation, evidence: Evidence, described: Described) -> Iterator[str]:
    yield from (f"# {described.title}", "", f"**{found.headline}**", "", *_paragraph(found.reasons))
    if described.changed:
        yield from ("```diff", described.changed.rstrip("\n"), "```", "")
    yield from ("## What was run", "", *_paragraph(described.lines))
    if described.has_chart:
        yield from ("![Requests per second of each setting: median and range](runs.svg)", "")
    yield f"| {' | '.join(HEAD)} |"
    yield f"| {' | '.join(['---', *['---:'] * (len(HEAD) - 1)])} |"
    for row in list_rows(evidence, found.chosen):
        yield f"| {' | '.join(row)} |"
    yield from ("", LEGEND, "", "## Why", "")
    yield from (f"{number}. {sentence}" for number, sentence in enumerate(evidence.decisions, 1))
    yield from ("", "## What the result depends on", "")
    yield from (f"* {sentence}" for sentence in found.cautions)


def _paragraph(sentences: Iterable[str]) -> list[str]:
    text = " ".join(sentences)
    return [text, ""] if text else []


def _row(variant: Variant, evidence: Evidence, is_chosen: bool) -> tuple[str, ...]:
    outcomes = evidence.of(variant)
    good = [outcome for outcome in outcomes if outcome.answers]
    rates = [outcome.answers.throughput for outcome in good if outcome.answers]
    rate = spread(rates) if rates else None
    return (
        f"{variant.name}{' *' if is_chosen else ''}",
        str(len(outcomes)),
        figure(rate.median, 4) if rate else "failed",
        f"{figure(rate.low, 4)} to {figure(rate.high, 4)}" if rate and rate.number > 1 else "",
        _middle(good, lambda outcome: outcome.answers and outcome.answers.mean, duration),
        _middle(good, lambda outcome: outcome.answers and outcome.answers.p99, duration),
        _middle(good, lambda outcome: outcome.memory, byte_size),
        _middle(good, lambda outcome: outcome.server_cpu, "{:.2f}".format),
        _middle(good, _lock_wait, "{:.1f}".format),
        _middle(good, lambda outcome: outcome.observed and outcome.observed.hot_ratio, "{:.2f}".format),
    )


def _lock_wait(outcome: Outcome) -> float | None:
    seen = outcome.observed
    if seen is None or not (seen.interpreter_waits or seen.waits):
        return None
    return sum(seen.interpreter_waits.values()) if seen.interpreter_waits else seen.waits.get("interpreter_lock", 0.0)


def _middle(outcomes: Sequence[Outcome], find: Callable[[Outcome], object], show: Callable[[float], str]) -> str:
    values = [value for outcome in outcomes if isinstance(value := find(outcome), (int, float))]
    return show(median(values)) if values else ""

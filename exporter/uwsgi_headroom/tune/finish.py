"""Writes the result of a search into its directory, and sums it up for the terminal.

The directory with the result of a `tune`: what is written there, and in which files.

Writes the evidence of a search as Markdown, and its table for a terminal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.tune.application.application import Application
from uwsgi_headroom.tune.application.ini import Ini, reread
from uwsgi_headroom.tune.application.ini_edit import edit_ini, make_diff
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.chart import draw_bars
from uwsgi_headroom.tune.experiment.results import Outcome, Spread, spread
from uwsgi_headroom.tune.plan import Plan
from uwsgi_headroom.tune.recommendation import Recommendation, recommend
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


RUNS, MEASURED, REPORT, INI, DIFF, CHART = (
    *("runs.jsonl", "measured.ini", "report.md", "recommended.ini", "recommended.diff", "runs.svg"),
)


class OutputDirectory:
    """Ini files may hold passwords, so files are readable by their owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        """Write a file. Raises HeadroomError if that is impossible: the disk is full."""
        path = self.path / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
        except OSError as error:
            raise HeadroomError(f"{path} cannot be written: {error.strerror}") from None


def open_output(given: str | None) -> OutputDirectory:
    """Make the directory, unless it is that of an interrupted tune. Raises ConfigError if it holds something else, and
    HeadroomError if it cannot be made or written."""
    path = Path(given) if given else Path(time.strftime("tune-%Y%m%d-%H%M%S"))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {entry.name for entry in path.iterdir()}
    except FileExistsError:
        raise ConfigError(f"--output: {path} is not a directory") from None
    except OSError as error:
        raise HeadroomError(f"{path} cannot be made: {error.strerror}") from None
    if REPORT in names:
        raise ConfigError(f"--output: {path} has the result of an earlier tune: give another directory")
    if names - {RUNS, MEASURED, INI, DIFF, CHART}:
        raise ConfigError(f"--output: {path} holds other files: give an empty or a new directory")
    if not os.access(path, os.W_OK | os.X_OK):
        raise HeadroomError(f"{path} cannot be written: permission denied")
    return OutputDirectory(path.absolute())


WIDTH = 100


def finish(chosen: Variant, plan: Plan, evidence: Evidence, output: OutputDirectory) -> list[str]:
    """Write all files, and return the lines for the terminal. Raises HeadroomError if a file cannot be written."""
    application, task = plan.application, plan.task
    found = recommend(chosen, evidence, task.load, task.cpus, has_ini=application.ini is not None, off=application.off)
    notes: list[str] = []
    diff = changed = ""
    if application.ini is None:
        output.write(INI, make_ini(application, chosen))
    elif found.changes:
        after = edit_ini(application.ini, chosen)
        diff = make_diff(application.ini.text, after, application.ini.path)
        changed = make_diff(application.ini.text, after, application.ini.path, context=0)
        notes += _check_edit(application.ini, after, chosen)
        output.write(INI, after)
        output.write(DIFF, diff)
    has_chart, note = _draw(evidence, output)
    described = Described(
        title=f"Tuning of {application.name}",
        lines=(*plan.list_lines(), time.strftime("Written on %Y-%m-%d at %H:%M.")),
        changed=changed,
        has_chart=has_chart,
    )
    output.write(REPORT, render_markdown(found, evidence, described))
    step = _name_next_step(found, application, output)
    return list(_list_written(found, evidence, diff, [*notes, *note], step, output.path / REPORT))


def make_ini(application: Application, chosen: Variant) -> str:
    """A whole ini file for an application that was given without one."""
    words = chosen.list_words("127.0.0.1:8000")
    options = [word.removeprefix("--").partition("=") for word in words]
    lines = [f"{name} = {value or 'true'}" for name, _, value in options]
    return "\n".join(
        [
            application.text.rstrip("\n"),
            "master = true",
            "need-app = true",
            "die-on-term = true",
            *lines,
            "; For stats, once it runs: `uwsgi-headroom discover` prints lines that it has tried.",
            "",
        ]
    )


def _check_edit(ini: Ini, after: str, chosen: Variant) -> list[str]:
    """A sentence if the edited file does not give the chosen variant: an included file has the last word."""
    if reread(ini, after).present == chosen:
        return []
    return [
        f"A file that {ini.path.name} includes sets processes, threads or another of these options after it: change "
        f"them there to get {chosen.name}."
    ]


def _draw(evidence: Evidence, output: OutputDirectory) -> tuple[bool, list[str]]:
    if find_spec("matplotlib") is None:
        return False, ["There is no chart, because matplotlib is not installed (extra `tune`)."]
    rows: dict[str, Spread] = {}
    for variant in evidence.variants:
        rates = [outcome.answers.throughput for outcome in evidence.of(variant) if outcome.answers]
        if rates:
            rows[variant.name] = spread(rates)
    path = output.path / CHART
    try:
        draw_bars(path, title="Requests per second: median and range", unit="requests/s", rows=rows)
    except OSError as error:
        raise HeadroomError(f"{path} cannot be written: {error.strerror or error}") from None
    return True, []


def _name_next_step(found: Recommendation, application: Application, output: OutputDirectory) -> str:
    if application.ini is None:
        return (
            f"The ini file is {output.path / INI}: set http-socket and stats to addresses of yours before you use it."
        )
    if not found.changes:
        return "Nothing has to be changed."
    return (
        f"Nothing was changed. To apply it, copy the changed lines to {application.ini.path}, reload uWSGI, and watch "
        "it with uwsgi-headroom check."
    )


def _list_written(
    found: Recommendation, evidence: Evidence, diff: str, notes: list[str], next_step: str, evidence_path: Path
) -> Iterator[str]:
    yield from ("", *wrap(found.headline, WIDTH))
    yield from wrap(" ".join(found.reasons), WIDTH)
    if diff:
        yield from ("", *diff.rstrip("\n").split("\n"))
    yield from ("", *render_table(evidence, found.chosen), "", "Why:")
    for sentence in evidence.decisions:
        yield from wrap(sentence, WIDTH, "  * ", "    ")
    yield "What the result depends on:"
    for sentence in [*found.cautions, *notes]:
        yield from wrap(sentence, WIDTH, "  * ", "    ")
    yield from ("", *wrap(next_step, WIDTH), f"The evidence, and what the columns mean: {evidence_path}")

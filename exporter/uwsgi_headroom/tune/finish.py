"""Writes the result of a search into its directory: the ini file, its difference, the report, the chart.

The same result is summed up for the terminal. Nothing outside of the directory is changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from uwsgi_headroom import extras
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.tune.application.application import Application
from uwsgi_headroom.tune.application.ini import Ini, edit_ini, make_diff, reread
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome, draw_bars, spread
from uwsgi_headroom.tune.plan import Plan
from uwsgi_headroom.tune.recommendation import Recommendation, recommend
from uwsgi_headroom.tune.search.evidence import Evidence
from uwsgi_headroom.words.formats import byte_size, duration, figure

WIDTH = 100
"""Columns of the text on a terminal."""


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
    has_chart = not extras.find_missing(["matplotlib"])
    if has_chart:
        _draw(evidence, output.path / CHART)
    else:
        notes.append(f"There is no chart. It needs {extras.describe_missing(['matplotlib'])}")
    report = _write_report(found, plan, evidence, changed, has_chart=has_chart)
    output.write(REPORT, "".join(f"{line}\n" for line in report))
    step = _name_next_step(found, application, output)
    return list(_list_written(found, evidence, diff, notes, step, output.path / REPORT))


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


def _draw(evidence: Evidence, path: Path) -> None:
    rates = {variant.name: _list_rates(evidence.of(variant)) for variant in evidence.variants}
    rows = {name: spread(measured) for name, measured in rates.items() if measured}
    try:
        draw_bars(path, title="Requests per second: median and range", unit="requests/s", rows=rows)
    except OSError as error:
        raise HeadroomError(f"{path} cannot be written: {error.strerror or error}") from None


def _list_rates(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.answers.throughput for outcome in outcomes if outcome.answers]


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
    found: Recommendation, evidence: Evidence, diff: str, notes: list[str], next_step: str, report: Path
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
    yield from ("", *wrap(next_step, WIDTH), f"The evidence, and what the columns mean: {report}")


HEAD = ("setting", "runs", "requests/s", "range", "mean", "p99", "memory", "CPUs", "lock wait", "hot ratio")

LEGEND = (
    "\\*: recommended. 4x8 is 4 processes with 8 threads each. Figures are medians over the runs of a setting; range: "
    "the lowest and the highest requests/s. mean, p99: response times as the clients see them. CPUs: used by the "
    "server. lock wait: threads that wait for their Python interpreter, on average. hot ratio: the busiest process's "
    "share of the requests, as a multiple of an even share."
)


def render_table(evidence: Evidence, chosen: Variant | None) -> list[str]:
    rows = [HEAD, *_list_rows(evidence, chosen)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def _list_rows(evidence: Evidence, chosen: Variant | None) -> list[tuple[str, ...]]:
    """A row of figures for each variant, in the order of HEAD; the chosen one has a mark."""
    return [_row(variant, evidence, variant == chosen) for variant in evidence.variants]


def _row(variant: Variant, evidence: Evidence, is_chosen: bool) -> tuple[str, ...]:
    outcomes = evidence.of(variant)
    good = [outcome for outcome in outcomes if outcome.answers]
    rate = spread(_list_rates(good)) if good else None
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


def _write_report(
    found: Recommendation, plan: Plan, evidence: Evidence, changed: str, *, has_chart: bool
) -> Iterator[str]:
    """The report in lines of Markdown. changed: the changed lines of the ini file."""
    yield from (f"# Tuning of {plan.application.name}", "", f"**{found.headline}**", "", *_paragraph(found.reasons))
    if changed:
        yield from ("```diff", changed.rstrip("\n"), "```", "")
    written = time.strftime("Written on %Y-%m-%d at %H:%M.")
    yield from ("## What was run", "", *_paragraph([*plan.list_lines(), written]))
    if has_chart:
        yield from ("![Requests per second of each setting: median and range](runs.svg)", "")
    yield f"| {' | '.join(HEAD)} |"
    yield f"| {' | '.join(['---', *['---:'] * (len(HEAD) - 1)])} |"
    for row in _list_rows(evidence, found.chosen):
        yield f"| {' | '.join(row)} |"
    yield from ("", LEGEND, "", "## Why", "")
    yield from (f"{number}. {sentence}" for number, sentence in enumerate(evidence.decisions, 1))
    yield from ("", "## What the result depends on", "")
    yield from (f"* {sentence}" for sentence in found.cautions)


def _paragraph(sentences: Iterable[str]) -> list[str]:
    text = " ".join(sentences)
    return [text, ""] if text else []


RUNS, MEASURED, CHART = "runs.jsonl", "measured.ini", "runs.svg"
REPORT, INI, DIFF = "report.md", "recommended.ini", "recommended.diff"


class OutputDirectory:
    """The directory with the result. Ini files may hold passwords: only the owner of a file can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        """Write a file. Raises HeadroomError if that is impossible: the disk is full."""
        path = self.path / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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
        if path.lstat().st_uid != os.geteuid():  # who could have the files written elsewhere
            raise ConfigError(f"--output: {path} belongs to another user: give another directory")
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

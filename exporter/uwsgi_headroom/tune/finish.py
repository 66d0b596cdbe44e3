"""Writes the result of a search into its directory, and sums it up for the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.tune.application.application import Application
from uwsgi_headroom.tune.application.ini import Ini, reread
from uwsgi_headroom.tune.application.ini_edit import edit_ini, make_diff
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.evidence_report import Described, render_markdown, render_table
from uwsgi_headroom.tune.experiment.chart import draw_bars
from uwsgi_headroom.tune.experiment.results import Spread, spread
from uwsgi_headroom.tune.output import CHART, DIFF, INI, REPORT, OutputDirectory
from uwsgi_headroom.tune.plan import Plan
from uwsgi_headroom.tune.recommendation import Recommendation, recommend
from uwsgi_headroom.tune.search.evidence import Evidence

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
    return list(_list_lines(found, evidence, diff, [*notes, *note], step, output.path / REPORT))


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


def _list_lines(
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

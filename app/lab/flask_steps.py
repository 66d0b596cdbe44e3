"""E1: five steps on one Flask application, from the baseline to a module compiled by Cython."""

from __future__ import annotations

from app.lab import affinity, published
from app.lab.experiment import (
    NONE,
    Experiment,
    Length,
    Results,
    Section,
    failures,
    load_label,
    plan_runs,
    render_table,
    show,
    spreads,
)
from app.lab.figures import Finding, compare_change, mean_ms, order, ratio, server_cpus, throughput, times
from app.lab.programs import Machine, Programs
from tools.lab_environment import COMPILED, compiled_module
from uwsgi_headroom.tune.chart import draw_bars
from uwsgi_headroom.tune.load import Load
from uwsgi_headroom.tune.results import Spread
from uwsgi_headroom.tune.series import Planned
from uwsgi_headroom.tune.setup import Setup

KEY = "E1"
AB, OWN = "ab, 500 clients", "own clients, closed loop"
PATH = "/9000"
SHORT_LIFETIME = 3
"""Seconds after which the control of step 4 recycles a worker, so that it happens in a run."""

BASELINE = ("--http", "127.0.0.1:{port}", "--module", "app.api:app")
PARALLEL = ("--processes", "4", "--threads", "2", "--enable-threads")
QUIET = ("--disable-logging",)
RECYCLE = ("--max-worker-lifetime", str(published.E1_LIFETIME))
RECYCLE_SOON = ("--min-worker-lifetime", "1", "--max-worker-lifetime", str(SHORT_LIFETIME))
COMPILED_APP = ("--http", "127.0.0.1:{port}", "--module", "app.lab.applications.compiled:application")

NAMES = {step.number: f"{step.number} {step.name}" for step in published.STEPS}
SOON = f"4b lifetime of {SHORT_LIFETIME} s"


def plan(programs: Programs, _: Machine, length: Length) -> list[Planned]:
    """Returns the runs. Without Cython, step 5 is left out; without ab, its load."""
    seconds = length.seconds(8)
    loads = {AB: Load(paths=(PATH,), clients=published.E1_CLIENTS, tool="ab", seconds=seconds, timeout=90)}
    if "ab" in programs.missing or length.full:
        own = {OWN: Load(paths=(PATH,), clients=32, seconds=seconds)}
        loads = own if "ab" in programs.missing else loads | own
    return plan_runs(KEY, _setups(programs), loads, length.repetitions)


def _setups(programs: Programs) -> list[Setup]:
    options = {
        NAMES[1]: BASELINE,
        NAMES[2]: (*BASELINE, *PARALLEL),
        NAMES[3]: (*BASELINE, *PARALLEL, *QUIET),
        NAMES[4]: (*BASELINE, *PARALLEL, *QUIET, *RECYCLE),
        SOON: (*BASELINE, *PARALLEL, *QUIET, *RECYCLE_SOON),
    }
    setups = [programs.uwsgi_setup(KEY, name, chosen) for name, chosen in options.items()]
    module = compiled_module(programs.lab)
    if module and COMPILED not in programs.missing:
        chosen = (*COMPILED_APP, *PARALLEL, *QUIET, *RECYCLE)
        setups.append(programs.uwsgi_setup(KEY, NAMES[5], chosen, str(module.parent)))
    return setups


def report(results: Results) -> Section:
    """Reports the steps under each load that was run, and the claims."""
    lines = [
        f"`GET {PATH}` of the demo's Flask application: 22 Fibonacci numbers as JSON. uWSGI's `http` router is in"
        " front, as published. Every step also has a master and a stats server, so that the exporter can watch; the"
        " published baseline has neither. The published runs made 5,000 requests; these run for a fixed time.",
    ]
    findings: list[Finding] = []
    pictures: dict[str, str] = {}
    for name in (AB, OWN):
        load = load_label(KEY, name)
        found = spreads(results.runs, [*NAMES.values(), SOON], load, throughput)
        errors = failures(results.runs, [*NAMES.values(), SOON], load)
        if found or errors:
            lines += ["", f"**{name}**", "", *_table(results, load), *errors]
        if found:
            file = f"e1-{name.split()[0].strip(',')}.svg"
            beside = {NAMES[step.number]: step.throughput for step in published.STEPS if NAMES[step.number] in found}
            title = f"E1: requests per second, {name}"
            draw_bars(results.pictures / file, title=title, unit="requests/s", rows=found, beside=beside)
            pictures[file] = title
            findings += _steps(found)
            findings += _recycling(results, load, found)
            findings += _cython(results, load, found)
    findings += affinity.processes_share_a_cpu(results, KEY, NAMES[2])
    return Section(lines=lines, findings=findings, pictures=pictures)


def _table(results: Results, load: str) -> list[str]:
    head = ["step", "uWSGI options added", "published req/s", "here req/s", "published mean ms", "here mean ms", "CPUs"]
    steps = {NAMES[step.number]: step for step in published.STEPS}
    rows = []
    for name in (*list(NAMES.values())[:4], SOON, NAMES[5]):
        step, runs = steps.get(name), results.runs
        if runs.of(name, load):
            rows.append(
                [
                    name,
                    step.added if step else f"instead of step 4: `max-worker-lifetime = {SHORT_LIFETIME}`",
                    f"{step.throughput:,.0f}" if step else NONE,
                    show(runs.spread(name, load, throughput)),
                    f"{step.mean_ms:,.0f}" if step else NONE,
                    show(runs.spread(name, load, mean_ms)),
                    show(runs.spread(name, load, server_cpus), 2),
                ]
            )
        elif name == NAMES[5] and COMPILED in results.machine.missing:
            rows.append([name, "left out: " + results.machine.missing[COMPILED], *[NONE] * 5])
    return render_table(head, rows)


def _steps(found: dict[str, Spread]) -> list[Finding]:
    """Compares each step with the one before it, as published."""
    findings = []
    for before, after in zip(published.STEPS, published.STEPS[1:], strict=False):
        first, second = found.get(NAMES[before.number]), found.get(NAMES[after.number])
        if first and second:
            name = f"Throughput, step {after.number} ({after.name})"
            findings.append(compare_change(name, after.throughput / before.throughput, first, second))
    return findings


def _recycling(results: Results, load: str, found: dict[str, Spread]) -> list[Finding]:
    """Tests whether recycled workers add throughput: were any recycled?"""
    seconds = published.E1_REQUESTS / published.STEPS[3].throughput
    findings = []
    starts = affinity.starts_per_run(results.directory, KEY, NAMES[4])
    if seconds < published.E1_LIFETIME and starts:
        text = (
            f"Recycling: the published 5,000 requests took {seconds:.1f} s, and a worker's lifetime was"
            f" {published.E1_LIFETIME} s, so no worker was recycled while they were made. Here step 4 started"
            f" {starts:g} workers in a run, of 4 configured."
        )
        findings.append(Finding("differs" if starts <= 4 else "open", text))
    soon = affinity.starts_per_run(results.directory, KEY, SOON)
    if soon and soon > 4 and NAMES[3] in found and SOON in found:
        words = {1: "raised", -1: "lowered", 0: "did not change"}[order(found[NAMES[3]], found[SOON])]
        beyond = "" if words != "did not change" else " beyond the ranges of the runs"
        text = (
            f"Recycling that does happen (lifetime {SHORT_LIFETIME} s, {soon:g} workers started in a run) {words} the"
            f" throughput{beyond}: {times(ratio(found[SOON], found[NAMES[3]]))} of step 3."
        )
        findings.append(Finding("agrees" if words == "raised" else "differs", text))
    return findings


def _cython(results: Results, load: str, found: dict[str, Spread]) -> list[Finding]:
    """Says how much of a request the compiled function can be."""
    timed = results.machine.fibonacci
    used = results.runs.spread(NAMES[4], load, lambda run: 1e6 * (run.server_cpu or 0) / (throughput(run) or 1))
    if "compiled" not in timed or NAMES[5] not in found or not used or not used.median:
        return []
    plain, compiled = timed["interpreted"] * 1e6, timed["compiled"] * 1e6
    part = 100 * (plain - compiled) / used.median
    text = (
        f"Cython: a call takes {plain:.2f} µs interpreted and {compiled:.2f} µs compiled, of {used.median:,.0f} µs of"
        f" CPU that a request takes in step 4. So the compiled module can save {part:.1f} % here; published was"
        f" {100 * (published.STEPS[4].throughput / published.STEPS[3].throughput - 1):.0f} %."
    )
    return [Finding("agrees" if part > 4 else "differs", text)]


EXPERIMENT = Experiment(key=KEY, title="Every microsecond out of uWSGI", plan=plan, report=report)

"""E1: five steps on one Flask application, from the baseline to a module compiled by Cython."""

from __future__ import annotations

import re

from app.lab import affinity, published
from app.lab.clients import Load
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
from app.lab.figures import (
    Finding,
    change_words,
    compare_change,
    machine_cpus,
    mean_ms,
    order,
    p99_ms,
    ratio,
    server_cpus,
    throughput,
    times,
)
from app.lab.programs import Machine, Programs
from app.lab.results import Setup, Spread
from app.lab.run import Planned
from tools.prepare import COMPILED, compiled_module

KEY = "E1"
AB, OWN = "500 clients", "32 clients"
PATH = "/9000"
SHORT_LIFETIME = 2
"""Seconds after which the control of step 4 recycles a worker, so that it happens in a run."""

QUEUE = 1024
"""Connections that may wait: uWSGI's default of 100 overflows with 500 clients, and then the kernel's retries, a second
and more later, decide the throughput. One setup keeps the default, as published."""

ALL_CPUS = 0.9
"""The part of the machine's CPUs from which more processes find none that is idle."""

WARM_UP, SECONDS = 0.5, 2.5
"""Short: clients open a connection for each request, and the router another, so that a kernel that tracks connections
keeps some 16,000 entries a second, each for two minutes."""
REPETITIONS = 4

BASELINE = ("--http", "127.0.0.1:{port}", "--module", "app.api:app")
PARALLEL = ("--processes", "4", "--threads", "2", "--enable-threads")
QUIET = ("--disable-logging",)
RECYCLE = ("--max-worker-lifetime", str(published.E1_LIFETIME))
RECYCLE_SOON = ("--min-worker-lifetime", "1", "--max-worker-lifetime", str(SHORT_LIFETIME))
COMPILED_APP = ("--http", "127.0.0.1:{port}", "--module", "app.lab.applications.compiled:application")

NAMES = {step.number: f"{step.number} {step.name}" for step in published.STEPS}
SOON = f"4b lifetime of {SHORT_LIFETIME} s"
DEFAULT_QUEUE = "1b listen queue of 100"
IN_ORDER = (NAMES[1], DEFAULT_QUEUE, *(NAMES[number] for number in (2, 3, 4)), SOON, NAMES[5])
BESIDES = {
    SOON: f"`max-worker-lifetime = {SHORT_LIFETIME}` in place of step 4",
    DEFAULT_QUEUE: "uWSGI's default `listen`",
}


def plan(programs: Programs, _: Machine, length: Length) -> list[Planned]:
    """The runs. Without Cython, step 5 is left out."""
    loads = {AB: Load(paths=(PATH,), clients=published.E1_CLIENTS, warm_up=WARM_UP, seconds=SECONDS)}
    if length.full:
        loads[OWN] = Load(paths=(PATH,), clients=32, warm_up=WARM_UP, seconds=SECONDS)
    return plan_runs(KEY, _setups(programs), loads, REPETITIONS * (2 if length.full else 1))


def _setups(programs: Programs) -> list[Setup]:
    options = {
        NAMES[1]: BASELINE,
        NAMES[2]: (*BASELINE, *PARALLEL),
        NAMES[3]: (*BASELINE, *PARALLEL, *QUIET),
        NAMES[4]: (*BASELINE, *PARALLEL, *QUIET, *RECYCLE),
        SOON: (*BASELINE, *PARALLEL, *QUIET, *RECYCLE_SOON),
    }
    queue = ("--listen", str(QUEUE))
    setups = [programs.uwsgi_setup(KEY, name, (*chosen, *queue)) for name, chosen in options.items()]
    setups.append(programs.uwsgi_setup(KEY, DEFAULT_QUEUE, BASELINE))
    module = compiled_module(programs.lab)
    if module and COMPILED not in programs.missing:
        chosen = (*COMPILED_APP, *PARALLEL, *QUIET, *RECYCLE, *queue)
        setups.append(programs.uwsgi_setup(KEY, NAMES[5], chosen, str(module.parent)))
    return setups


def report(results: Results) -> Section:
    """Reports the steps under each load that was run, and the claims."""
    lines = [
        f"`GET {PATH}` of the demo's Flask application: 22 Fibonacci numbers as JSON. uWSGI's `http` router is in"
        " front, as published. Every step also has a master and a stats server, so that the exporter can watch; the"
        " published baseline has neither. The published runs made 5,000 requests; these run for a fixed time. `listen`"
        f" is {QUEUE} except in 1b, so that the clients fit into the queue.",
    ]
    findings: list[Finding] = []
    for name in (AB, OWN):
        load = load_label(KEY, name)
        found = spreads(results.runs, IN_ORDER, load, throughput)
        errors = failures(results.runs, IN_ORDER, load)
        if found or errors:
            lines += ["", f"**{name}**", "", *_table(results, load), *errors, *_cpu_bound(results, load)]
        findings += [*_steps(found), *_queue(results, load, found)]
        findings += [*_recycling(results, found), *_cython(results, load, found)]
    findings += affinity.processes_share_a_cpu(results, KEY, NAMES[2])
    return Section(lines=lines, findings=findings)


def _cpu_bound(results: Results, load: str) -> list[str]:
    """Says why processes cannot add throughput, if the first step uses all CPUs already."""
    used, cpus = results.runs.spread(NAMES[1], load, machine_cpus), results.machine.cpus
    if not used or used.median < ALL_CPUS * cpus:
        return []
    text = (
        f"Step 1 already keeps {used.median:.2f} of {cpus} CPUs busy: one process that runs Python, uWSGI's router and"
        " the clients. So no step can gain by using more CPUs on this machine."
    )
    return ["", text]


def _table(results: Results, load: str) -> list[str]:
    head = [
        *("step", "uWSGI options added", "published req/s", "here req/s", "published mean ms", "here mean ms"),
        *("here p99 ms", "server's CPUs", "machine's CPUs"),
    ]
    steps = {NAMES[step.number]: step for step in published.STEPS}
    rows = []
    for name in IN_ORDER:
        step, runs = steps.get(name), results.runs
        if runs.of(name, load):
            rows.append(
                [
                    name,
                    step.added if step else BESIDES[name],
                    f"{step.throughput:,.0f}" if step else NONE,
                    show(runs.spread(name, load, throughput)),
                    f"{step.mean_ms:,.0f}" if step else NONE,
                    show(runs.spread(name, load, mean_ms)),
                    show(runs.spread(name, load, p99_ms)),
                    show(runs.spread(name, load, server_cpus), 2),
                    show(runs.spread(name, load, machine_cpus), 2),
                ]
            )
        elif name == NAMES[5] and COMPILED in results.machine.missing:
            rows.append([name, "left out: " + results.machine.missing[COMPILED], *[NONE] * 7])
    return render_table(head, rows)


def _steps(found: dict[str, Spread]) -> list[Finding]:
    """Compares each step with the one before it, as published."""
    findings = []
    for before, after in zip(published.STEPS, published.STEPS[1:], strict=False):
        first, second = found.get(NAMES[before.number]), found.get(NAMES[after.number])
        if first and second:
            subject = f"throughput of step {after.number}, {after.name}"
            findings.append(compare_change(subject, after.throughput / before.throughput, first, second))
    return findings


def _queue(results: Results, load: str, found: dict[str, Spread]) -> list[Finding]:
    """Says what uWSGI's default listen queue does under this load, by the exporter's verdict."""
    runs = results.runs.of(DEFAULT_QUEUE, load)
    longest = [
        results.runs.spread(name, load, lambda run: run.answers.longest if run.answers else None)
        for name in (NAMES[1], DEFAULT_QUEUE)
    ]
    if not runs or not longest[0] or not longest[1] or NAMES[1] not in found:
        return []
    verdicts = " ".join(
        dict.fromkeys(re.sub(r"127\.0\.0\.1:\d+", "the server", run.observed.verdict) for run in runs if run.observed)
    )
    sign = order(found[NAMES[1]], found[DEFAULT_QUEUE])
    text = (
        f"With 500 clients, a queue of 100 instead of {QUEUE} {change_words(sign, 'throughput')}:"
        f" {times(ratio(found[DEFAULT_QUEUE], found[NAMES[1]]))}; the slowest request took {longest[1].median:.1f} s"
        f" instead of {longest[0].median:.1f} s. The exporter said in the runs: {verdicts}"
    )
    return [Finding("beside", "the default listen queue, which the published runs had", text)]


def _recycling(results: Results, found: dict[str, Spread]) -> list[Finding]:
    """Tests whether recycled workers add throughput: were any recycled?"""
    seconds = published.E1_REQUESTS / published.STEPS[3].throughput
    subject = "the claim that recycling workers adds throughput"
    findings = []
    starts = affinity.starts_per_run(results.directory, KEY, NAMES[4])
    if starts and found:
        text = (
            f"The published 5,000 requests took {seconds:.1f} s, less than the lifetime of {published.E1_LIFETIME} s,"
            f" so no worker was recycled while they were made. Here a run of step 4 started {starts:g} workers, of 4"
            f" configured{': nothing was recycled' if starts <= 4 else ''}."
        )
        findings.append(Finding("differs" if starts <= 4 else "open", subject, text))
    soon = affinity.starts_per_run(results.directory, KEY, SOON)
    if soon > 4 and NAMES[3] in found and SOON in found:
        sign = order(found[NAMES[3]], found[SOON])
        text = (
            f"With a lifetime of {SHORT_LIFETIME} s, a run started {soon:g} workers. It"
            f" {change_words(sign, 'throughput of step 3')}: {times(ratio(found[SOON], found[NAMES[3]]))}."
        )
        findings.append(Finding("agrees" if sign > 0 else "differs", "workers that really are recycled", text))
    return findings


def _cython(results: Results, load: str, found: dict[str, Spread]) -> list[Finding]:
    """Says how much of a request the compiled function can be."""
    timed = results.machine.fibonacci
    used = results.runs.spread(NAMES[4], load, lambda run: 1e6 * (run.server_cpu or 0) / (throughput(run) or 1))
    if "compiled" not in timed or NAMES[5] not in found or not used or not used.median:
        return []
    plain, compiled = timed["interpreted"] * 1e6, timed["compiled"] * 1e6
    gain = published.STEPS[4].throughput / published.STEPS[3].throughput - 1
    part = (plain - compiled) / used.median
    text = (
        f"A call takes {plain:.2f} µs interpreted and {compiled:.2f} µs compiled, of {used.median:,.0f} µs of CPU that"
        f" a request takes in step 4. So compiling can save {100 * part:.1f} % of a request here; the published gain"
        f" was {100 * gain:.0f} %."
    )
    return [Finding("agrees" if part > gain / 2 else "differs", "what Cython can save", text)]


EXPERIMENT = Experiment(key=KEY, title="Every microsecond out of uWSGI", plan=plan, report=report)

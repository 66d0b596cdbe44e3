"""E2: does uWSGI use several CPUs with several processes, and what do threads add to a CPU-bound application?"""

from __future__ import annotations

from app.lab import published
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
    interpreter_wait,
    mean_ms,
    order,
    ratio,
    server_cpus,
    throughput,
    times,
    verdict_of,
)
from app.lab.programs import Machine, Programs
from app.lab.results import Setup, Spread
from app.lab.run import Planned

KEY = "E2"
FOUR, TWO = "4 clients, closed loop", "2 clients, closed loop"
SHAPES = {
    f"{processes}x{threads}": (processes, threads)
    for processes, threads in ((1, 1), (2, 1), (4, 1), (1, 4), (2, 4), (4, 4))
}
TWO_AT_ONCE = ("1x1", "4x1")
"""The shapes whose response time was published for two requests at once."""

OF_ALL = 0.85
"""CPUs in use at this part of what the processes can use count as all of it: the clients need some too."""


def plan(programs: Programs, machine: Machine, length: Length) -> list[Planned]:
    seconds = length.seconds(8)
    path = (f"/fib/{machine.fib_n}",)
    four = {FOUR: Load(paths=path, clients=published.E2_CLIENTS, seconds=seconds)}
    two = {TWO: Load(paths=path, clients=2, seconds=seconds)}
    plan = plan_runs(KEY, [_setup(programs, name) for name in SHAPES], four, length.repetitions)
    return plan + plan_runs(KEY, [_setup(programs, name) for name in TWO_AT_ONCE], two, length.repetitions)


def _setup(programs: Programs, name: str) -> Setup:
    processes, threads = SHAPES[name]
    served = ("--http-socket", "127.0.0.1:{port}", "--module", "app.api:app", "--disable-logging")
    # `threads = 1` would start the interpreter with its lock in use, which the published application did not.
    chosen = ("--threads", str(threads)) if threads > 1 else ()
    return programs.uwsgi_setup(KEY, name, (*served, "--processes", str(processes), *chosen))


def report(results: Results) -> Section:
    machine, load = results.machine, load_label(KEY, FOUR)
    lines = [
        f"Every request computes naive fib({machine.fib_n}), {machine.fib_seconds:.2f} s of CPU here; published was"
        f" fib({published.E2_N}), {published.E2_SECONDS} s. Four clients in a closed loop, as in `ab -n 60 -c 4`, for a"
        f" fixed time. 2x4 is 2 processes with 4 threads each. This machine has {machine.cpus} CPUs, the published"
        " one 8.",
        "",
        *_table(results, load),
        *failures(results.runs, SHAPES, load),
    ]
    found = spreads(results.runs, SHAPES, load, throughput)
    findings = [*_processes(found, machine.cpus), *_cpus(results, load), *_threads(found)]
    if two := _two_at_once(results):
        findings.append(two)
    return Section(lines=lines, findings=findings)


def _table(results: Results, load: str) -> list[str]:
    head = [
        *("processes x threads", "published req/s", "here req/s", "published mean s", "here mean s"),
        *("published CPUs at 100 %", "here CPUs in use", "threads waiting for an interpreter"),
    ]
    there = {f"{row.processes}x1": row for row in published.PROCESSES}
    rows = []
    for name in SHAPES:
        row, runs = there.get(name), results.runs
        rows.append(
            [
                name,
                f"{row.throughput:.2f}" if row else NONE,
                show(runs.spread(name, load, throughput), 1),
                f"{row.mean_ms / 1000:.1f}" if row else NONE,
                show(runs.spread(name, load, lambda run: (mean_ms(run) or 0) / 1000 or None), 2),
                str(row.cpus) if row else NONE,
                show(runs.spread(name, load, server_cpus), 2),
                show(runs.spread(name, load, interpreter_wait), 1),
            ]
        )
    return render_table(head, rows)


def _processes(found: dict[str, Spread], cpus: int) -> list[Finding]:
    """Compares 2 and 4 processes with 1, as far as this machine has the CPUs."""
    findings = []
    first = published.PROCESSES[0]
    for row in published.PROCESSES[1:]:
        before, after = found.get("1x1"), found.get(f"{row.processes}x1")
        if not before or not after:
            continue
        subject = f"throughput of {row.processes} processes beside 1"
        there = row.throughput / first.throughput
        if row.processes <= cpus or before.low <= 0:
            findings.append(compare_change(subject, there, before, after))
        else:
            text = (
                f"{times(ratio(after, before))} on {cpus} CPUs; published {there:.2f}x on 8 CPUs. More than"
                f" {cpus}x cannot be reached here."
            )
            findings.append(Finding("open", subject, text))
    return findings


def _cpus(results: Results, load: str) -> list[Finding]:
    """Compares the CPUs in use with the number of processes."""
    used = spreads(results.runs, [f"{row.processes}x1" for row in published.PROCESSES], load, server_cpus)
    reached = {
        row.processes: value.median / min(row.processes, results.machine.cpus)
        for row in published.PROCESSES
        if (value := used.get(f"{row.processes}x1"))
    }
    if not reached:
        return []
    shown = ", ".join(f"{used[f'{number}x1'].median:.2f} with {number}" for number in reached)
    text = f"The server used {shown} processes, on {results.machine.cpus} CPUs. Published: one CPU a process."
    if min(reached.values()) >= OF_ALL:
        return [Finding("agrees", "CPUs in use", f"{text} Each process uses one, as far as there are CPUs.")]
    return [Finding("differs", "CPUs in use", text)]


def _threads(found: dict[str, Spread]) -> list[Finding]:
    """Tests the claim that threads made this application slower."""
    findings = []
    for processes in (1, 2, 4):
        before, after = found.get(f"{processes}x1"), found.get(f"{processes}x4")
        if before and after and before.low > 0:
            sign = order(before, after)
            subject = (
                f"the claim that threads slow this application down, with {processes} process{'es' * (processes > 1)}"
            )
            text = f"4 threads instead of 1 {change_words(sign, 'throughput')}: {times(ratio(after, before))}."
            findings.append(Finding(verdict_of(sign, -1), subject, text))
    return findings


def _two_at_once(results: Results) -> Finding | None:
    """Compares two requests at once on 1 and on 4 processes; None if this load was not run."""
    load = load_label(KEY, TWO)
    one, four = (results.runs.spread(name, load, mean_ms) for name in TWO_AT_ONCE)
    if not one or not four:
        return None
    return compare_change("response time of two requests at once, 4 processes beside 1", 3.9 / 7.2, one, four)


EXPERIMENT = Experiment(key=KEY, title="Processes and CPUs", plan=plan, report=report)

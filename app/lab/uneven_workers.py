"""E4: workers x threads, thunder-lock, and what uneven workers cost when an interpreter is saturated."""

from __future__ import annotations

from app.lab import affinity
from app.lab.clients import Load
from app.lab.experiment import Experiment, Length, Results, Section, failures, load_label, plan_runs
from app.lab.programs import Machine, Programs
from app.lab.results import Setup
from app.lab.run import Planned
from app.lab.unevenness import compare_costly_case, compare_interpreters, compare_shapes, compare_thunder_lock
from app.lab.worker_tables import clients_table, published_table, waits_table

KEY = "E4"
CPU_MS, IO_MS = 30, 100
"""Of a request: the costly case of docs/design.md on 2 CPUs."""
RATE = 40.0
"""Requests a second: 1.2 CPUs of work, so that 2 CPUs have some to spare."""
FEW_CLIENTS = 6
"""Of a closed loop: at 130 ms a request 1.4 CPUs of work, more than one interpreter can do and less than 2 CPUs."""
CLIENTS = 9
"""Of the closed loop of the full run, as in the costly case."""
OPEN, ONE_INTERPRETER, CLOSED = f"{RATE:g} a second", f"{FEW_CLIENTS} clients", f"{CLIENTS} clients"

GRID = {"4x8": (4, 8), "4x1": (4, 1), "8x1": (8, 1), "8x4": (8, 4)}
INTERPRETERS = {"1x16": (1, 16), "2x8": (2, 8)}
LOCK, PINNED = ", thunder-lock", "4x8, cpu-affinity"
UNEVEN, EVEN = "2x8, 7 of 9 to one worker", "2x8, in turn"
NAMES = [*(name + lock for name in GRID for lock in ("", LOCK)), PINNED, UNEVEN, EVEN]


def plan(programs: Programs, _: Machine, length: Length) -> list[Planned]:
    """Returns the runs: the grid and the costly case at one rate, the interpreters with few clients."""
    seconds = length.seconds(13)  # in less, the calm worker has too few requests for the cost of unevenness
    path = (f"/mixed?cpu_ms={CPU_MS}&io_ms={IO_MS}",)
    loads = {OPEN: Load(paths=path, rate=RATE, seconds=seconds)}
    if length.full:
        loads[CLOSED] = Load(paths=path, clients=CLIENTS, seconds=seconds)
    few = {ONE_INTERPRETER: Load(paths=path, clients=FEW_CLIENTS, seconds=seconds)}
    binding = [_shared_socket(programs, name, *shape) for name, shape in INTERPRETERS.items()]
    return [
        *plan_runs(KEY, list(_setups(programs)), loads, length.repetitions),
        *plan_runs(KEY, binding, few, length.repetitions),
    ]


def _setups(programs: Programs) -> list[Setup]:
    grid = [
        _shared_socket(programs, name + lock, *shape, *(("--thunder-lock",) if lock else ()))
        for name, shape in GRID.items()
        for lock in ("", LOCK)
    ]
    pinned = _shared_socket(programs, PINNED, *GRID["4x8"], "--cpu-affinity", "1")
    return [*grid, pinned, _routed(programs, UNEVEN, "aaaabaaab"), _routed(programs, EVEN, "ab")]


def _shared_socket(programs: Programs, name: str, processes: int, threads: int, *more: str) -> Setup:
    """Returns a uWSGI whose workers all accept from one socket."""
    served = ("--http-socket", "127.0.0.1:{port}", "--module", "app.api:app", "--disable-logging")
    shape = ("--processes", str(processes), "--threads", str(threads))
    return programs.uwsgi_setup(KEY, name, (*served, *shape, *more))


def _routed(programs: Programs, name: str, turns: str) -> Setup:
    """Returns a uWSGI of 2x8 whose router gives the requests to workers `a` and `b` in these turns."""
    router = (
        "--http",
        "127.0.0.1:{port}",
        *(word for turn in turns for word in ("--http-to", f"{{directory}}/{turn}")),
    )
    sockets = ("--socket", "{directory}/a", "--socket", "{directory}/b", "--map-socket", "0:1", "--map-socket", "1:2")
    served = ("--module", "app.api:app", "--disable-logging", "--processes", "2", "--threads", "8")
    return programs.uwsgi_setup(KEY, name, (*router, *sockets, *served))


def report(results: Results) -> Section:
    """Reports the tables, the published figures, and what the exporter's figures say about them."""
    lines = [
        f"`/mixed?cpu_ms={CPU_MS}&io_ms={IO_MS}`: {CPU_MS} ms of CPU, then a wait of {IO_MS} ms. The load *{OPEN}* is"
        f" the same for all setups: requests at even intervals, {RATE * CPU_MS / 1000:.1f} CPUs of work, here on"
        f" {results.machine.cpus}. 4x8 is 4 workers with 8 threads each. In *{UNEVEN}* and *{EVEN}* uWSGI's router"
        " gives each worker its requests in a fixed order: the costly case made certain. Shares, hot ratio, waits"
        " ([states](waits.md#states), threads on average), the load of the busiest interpreter (1 is saturated), the"
        " cost of unevenness and headroom are the exporter's own figures.",
        "",
        *published_table(),
    ]
    for name, setups in ((OPEN, NAMES), (CLOSED, NAMES), (ONE_INTERPRETER, list(INTERPRETERS))):
        load = load_label(KEY, name)
        if any(run.load == load for run in results.runs.outcomes):
            lines += ["", f"**{name}**", "", *clients_table(results.runs, load, setups)]
            lines += [*failures(results.runs, setups, load), "", *waits_table(results.runs, load, setups)]
    load, few = load_label(KEY, OPEN), load_label(KEY, ONE_INTERPRETER)
    findings = [
        *compare_shapes(results, load, CPU_MS + IO_MS, RATE),
        *compare_thunder_lock(results, load, list(GRID), LOCK),
        *compare_interpreters(results, few),
        *compare_costly_case(results, load, UNEVEN, EVEN),
        *affinity.guess_about_busiest(results, "4x8"),
        *affinity.pinned_workers(results, load, KEY, "4x8", PINNED),
    ]
    return Section(lines=lines, findings=findings)


EXPERIMENT = Experiment(key=KEY, title="Uneven workers", plan=plan, report=report)

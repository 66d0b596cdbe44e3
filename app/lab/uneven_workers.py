"""E4: workers x threads, thunder-lock, and what uneven workers cost when an interpreter is saturated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

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
    show_share,
)
from app.lab.figures import (
    Finding,
    Runs,
    Verdict,
    change_words,
    concurrency,
    cost,
    error_rate,
    hot_ratio,
    interpreter_load,
    interpreter_wait,
    largest_share,
    least_share,
    mean_ms,
    order,
    p99_ms,
    ratio,
    response_ms,
    server_cpus,
    throughput,
    times,
    verdict_of,
    wait_of_hottest,
)
from app.lab.programs import Machine, Programs
from app.lab.results import Outcome, Setup, Spread
from app.lab.run import Planned
from uwsgi_headroom.analysis.capacity import REACHED

KEY = "E4"
CPU_MS, IO_MS = 30, 100
"""Of a request: the costly case of docs/dev/design.md on 2 CPUs."""
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
    """The runs: the grid and the costly case at one rate, the interpreters with few clients."""
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

SPARE = 0.9
"""A server that uses less than this part of the CPUs leaves some to spare."""
NEAR = 0.1
"""The exporter's cost is near the truth if the two differ by this at most."""
NEARLY_EVEN = 1.1
"""Up to this hot ratio shares are even: with some hundred requests a worker, chance alone makes it as large."""


def compare_shapes(results: Results, load: str, alone_ms: float, rate: float) -> list[Finding]:
    """Compares 8x1 with 4x8, then changes one of the two numbers at a time. alone_ms: a request without queueing."""
    findings = []
    runs = results.runs
    before, after = (runs.spread(name, load, hot_ratio) for name in ("4x8", "8x1"))
    there = [shape.workers * shape.shares[1] for shape in published.SHAPES]
    if before and after:
        sign = order(before, after)
        text = (
            f"8x1 instead of 4x8 {change_words(sign, 'hot ratio')}: {before.median:.2f} to {after.median:.2f};"
            f" published {there[0]:.2f} to {there[1]:.2f}."
        )
        findings.append(Finding(verdict_of(sign, -1), "shares of 4x8 and 8x1", text))
    findings += _response_after(results, load)
    for first, second, words in (
        ("4x8", "4x1", "fewer threads, as many workers"),
        ("4x1", "8x1", "more workers, as many threads each"),
        ("8x1", "8x4", "more threads, as many workers"),
    ):
        one, two = runs.spread(first, load, mean_ms), runs.spread(second, load, mean_ms)
        if one and two:
            sign = order(one, two)
            workers, threads = (int(part) for part in second.split("x"))
            text = f"It {change_words(sign, 'mean response time')}: {one.median:,.0f} to {two.median:,.0f} ms."
            if workers * threads * 1000 < rate * alone_ms:
                text += (
                    f" {second} has {workers * threads} threads, and {rate:g} requests a second of {alone_ms:g} ms need"
                    f" {rate * alone_ms / 1000:.1f}: the threads are the limit."
                )
            findings.append(Finding("beside", f"{first} to {second}, {words}", text))
    return findings


def _response_after(results: Results, load: str) -> list[Finding]:
    """Compares the response times of 4x8 and 8x1. The interpreter effect is not claimed from them on few CPUs."""
    before, after = (results.runs.spread(name, load, mean_ms) for name in ("4x8", "8x1"))
    if not before or not after:
        return []
    sign = order(before, after)
    changed = change_words(sign, "mean response time")
    text = f"8x1 instead of 4x8 {changed}: {before.median:,.0f} to {after.median:,.0f} ms."
    if results.machine.cpus < 4:
        text += (
            f" With {results.machine.cpus} CPUs the four interpreters of 4x8 cannot all be busy: the CPUs bind before"
            " an interpreter does. So this pair says nothing about interpreters; 1x16 and 2x8 do."
        )
    return [Finding(verdict_of(sign, -1), "response time at the same load, 4x8 and 8x1", text)]


def compare_thunder_lock(results: Results, load: str, shapes: list[str], lock: str) -> list[Finding]:
    """Says whether thunder-lock makes shares even, and what it does to response times."""
    evened, response = [], []
    verdicts = set()
    for name in shapes:
        without, with_lock = (results.runs.spread(setup, load, hot_ratio) for setup in (name, name + lock))
        if without and with_lock:
            if max(without.median, with_lock.median) > NEARLY_EVEN:
                verdicts.add(order(without, with_lock))
            evened.append(f"{name} {without.median:.2f} to {with_lock.median:.2f}")
        slow, fast = (results.runs.spread(setup, load, mean_ms) for setup in (name, name + lock))
        if slow and fast and order(slow, fast):
            response.append(f"{name} {slow.median:,.0f} to {fast.median:,.0f} ms")
    if not evened:
        return []
    text = f"Hot ratio without and with it: {', '.join(evened)}."
    changed = ", ".join(response)
    if not verdicts:
        text += " All were even without it."
    text += f" Mean response times that changed beyond the ranges of the runs: {changed or 'none'}."
    verdict: Verdict = "differs" if 1 in verdicts else "agrees" if -1 in verdicts else "open"
    return [Finding(verdict, "`thunder-lock` makes shares more even, as this project's documents say", text)]


def compare_interpreters(results: Results, load: str) -> list[Finding]:
    """Compares 16 threads of one interpreter with those of two, under a closed loop."""
    runs = results.runs
    one, two = (runs.spread(name, load, throughput) for name in ("1x16", "2x8"))
    means = [runs.spread(name, load, mean_ms) for name in ("1x16", "2x8")]
    loaded, used = runs.spread("1x16", load, interpreter_load), runs.spread("1x16", load, server_cpus)
    waits = [runs.spread(name, load, interpreter_wait) for name in ("1x16", "2x8")]
    if not one or not two or not means[0] or not means[1] or not loaded or not used:
        return []
    subject = "one interpreter limits 16 threads, two serve more"
    words = {1: "serves more", -1: "serves less", 0: "serves as much, within the ranges of the runs"}[order(one, two)]
    text = (
        f"2x8 {words}, {two.median:.1f} requests/s, 1x16 {one.median:.1f}"
        f" ({times(ratio(two, one))}), mean {means[1].median:,.0f} and {means[0].median:,.0f} ms. The interpreter"
        f" of 1x16 was loaded to {loaded.median:.2f}; the server used {used.median:.2f} of {results.machine.cpus} CPUs."
    )
    if waits[0] and waits[1]:
        text += f" Threads waiting for an interpreter: {waits[0].median:.1f} with 1x16, {waits[1].median:.1f} with 2x8."
        more_waits = order(waits[0], waits[1]) < 0
    else:
        text += " What threads wait for could not be read."
        more_waits = False
    if order(one, two) > 0 and loaded.median >= REACHED and more_waits:
        return [Finding("agrees", subject, f"{text} The interpreter is the limit, and our figures say so.")]
    return [Finding("open" if order(one, two) > 0 else "differs", subject, text)]


def compare_costly_case(results: Results, load: str, uneven: str, even: str) -> list[Finding]:
    """Compares the cost of unevenness, as the exporter computes it, with what evening out saved."""
    runs = results.runs
    slow, fast = runs.spread(uneven, load, mean_ms), runs.spread(even, load, mean_ms)
    loaded, used = runs.spread(uneven, load, interpreter_load), runs.spread(uneven, load, server_cpus)
    if not slow or not fast or not loaded or not used:
        return []
    findings = []
    waits = runs.spread(uneven, load, wait_of_hottest)
    waiting = f" {waits.median:.1f} of its 8 threads waited for it." if waits else ""
    text = (
        f"With 7 of 9 requests to one worker the mean was {slow.median:,.0f} ms, in turn {fast.median:,.0f} ms."
        f" The hot interpreter was loaded to {loaded.median:.2f}, the server used {used.median:.2f} of"
        f" {results.machine.cpus} CPUs.{waiting}"
    )
    explained = loaded.median >= REACHED and used.high < SPARE * results.machine.cpus
    sign = order(fast, slow)
    subject = "a hot interpreter costs before threads or CPUs run out"
    findings.append(Finding(verdict_of(sign, 1) if explained else "open", subject, text))
    said = runs.spread(uneven, load, cost)
    inside = [runs.spread(name, load, response_ms) for name in (uneven, even)]
    if said and inside[0] and inside[1] and inside[0].low > 0:
        findings.append(_compare_cost(said, ratio(inside[1], inside[0])))
    return findings


def _compare_cost(said: Spread, left: Spread) -> Finding:
    """Compares the exporter's cost of unevenness with the truth.

    said: the cost, 0 to 1. left: response time with even workers, as a part of that with uneven ones.
    """
    saved = Spread(1 - left.median, 1 - left.high, 1 - left.low, left.number)
    text = (
        f"The exporter said {100 * said.median:.0f} % ({100 * said.low:.0f} to"
        f" {100 * said.high:.0f} %) of the response time in uWSGI; evening out saved {100 * saved.median:.0f} %"
        f" ({100 * saved.low:.0f} to {100 * saved.high:.0f} %). The time in the listen queue comes on top; only the"
        " clients see it."
    )
    near = order(said, saved) == 0 or abs(said.median - saved.median) <= NEAR
    return Finding("agrees" if near else "differs", "the exporter's cost of unevenness", text)


STATES = ("cpu", "cpu_wait", "interpreter_lock", "sleep")
"""The wait states of docs/waits.md that this load has."""


def published_table() -> list[str]:
    """The published results."""
    rows = []
    for shape in published.SHAPES:
        least, most = shape.shares
        shares = f"{100 * least:.0f} to {100 * most:.0f} %" if least else f"largest {100 * most:.0f} %"
        threads = published.E4_MACHINES * shape.threads * shape.workers
        rows.append([shape.name, shares, f"{most * shape.workers:.2f}", str(threads)])
    rate = published.E4_RATE / published.E4_MACHINES
    return [
        f"Published: {published.E4_MACHINES} machines, {rate:.1f} requests/s on each, mean {published.E4_SECONDS:g} s"
        f" before and less after, {published.E4_CONCURRENCY} in service (Little's law).",
        "",
        *render_table(["published", "shares", "hot ratio", "threads, all machines"], rows),
    ]


def clients_table(runs: Runs, load: str, setups: Sequence[str]) -> list[str]:
    """Returns shares, and what the clients saw."""
    head = ["setup", "shares", "hot ratio", "requests/s", "mean ms", "p99 ms", "errors", "CPUs"]
    rows = []
    for name in setups:
        least, most = runs.spread(name, load, least_share), runs.spread(name, load, largest_share)
        if runs.of(name, load):
            rows.append(
                [
                    name,
                    f"{100 * least.median:.0f} to {100 * most.median:.0f} %" if least and most else NONE,
                    show(runs.spread(name, load, hot_ratio), 2),
                    show(runs.spread(name, load, throughput), 1),
                    show(runs.spread(name, load, mean_ms)),
                    show(runs.spread(name, load, p99_ms)),
                    show_share(runs.spread(name, load, error_rate)),
                    show(runs.spread(name, load, server_cpus), 2),
                ]
            )
    return render_table(head, rows)


def waits_table(runs: Runs, load: str, setups: Sequence[str]) -> list[str]:
    """What the threads in service waited for, and the figures about interpreters."""
    head = [
        *("setup", "in service", *(f"`{state}`" for state in STATES), "`interpreter_lock`, by worker"),
        *("busiest interpreter", "cost of unevenness", "least headroom"),
    ]
    rows = []
    for name in setups:
        seen = [run for run in runs.of(name, load) if run.observed]
        if seen:
            rows.append(
                [
                    name,
                    show(runs.spread(name, load, concurrency), 1),
                    *(_state(seen, state) for state in STATES),
                    _by_worker(seen),
                    show(runs.spread(name, load, interpreter_load), 2),
                    show_share(runs.spread(name, load, cost)),
                    _headroom(seen),
                ]
            )
    return render_table(head, rows)


def _state(seen: Sequence[Outcome], state: str) -> str:
    """The threads in a wait state: the median of the runs."""
    values = [run.observed.waits.get(state, 0.0) for run in seen if run.observed and run.observed.waits]
    return f"{median(values):.1f}" if values else NONE


def _by_worker(seen: Sequence[Outcome]) -> str:
    """The threads of each worker that wait for its interpreter, the most first: the median of the runs."""
    ranked = [sorted(run.observed.interpreter_waits.values(), reverse=True) for run in seen if run.observed]
    return ", ".join(f"{median(values):.1f}" for values in zip(*ranked, strict=False)) or NONE


def _headroom(seen: Sequence[Outcome]) -> str:
    """The headroom that the exporter gave, with the limit that most runs had."""
    found = [run.observed for run in seen if run.observed and run.observed.headroom is not None]
    if not found:
        return NONE
    limit = Counter(one.limit for one in found).most_common(1)[0][0]
    return f"{median([one.headroom for one in found if one.headroom is not None]):.1f}x ({limit})"

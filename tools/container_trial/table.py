"""The table of deploy/container/README.md: for each way to run the exporter, its figures beside the truth."""

from __future__ import annotations

from tools.container_trial.measure import CPUS, IO_MS, MEMORY, THREADS, Figures, Truth

ABSENT = "absent"

_HEADER = (
    "the exporter runs as",
    "requests",
    "busy threads",
    "listen queue",
    "CPU s",
    "CPUs",
    "memory left, MB",
    "open files, unique memory",
    "`listen` option",
    "waits: on a CPU / to run / asleep / all, s",
)


def table(happened: Truth, figures: list[Figures]) -> str:
    """Returns the table in Markdown; its first row is the truth."""
    asleep = happened.requests * IO_MS / 1e3
    waits = f"{happened.cpu_seconds:.1f} / ? / {asleep:.1f} / {happened.request_seconds:.1f}"
    known = (str(happened.requests), str(THREADS), str(happened.queue), f"{happened.cpu_seconds:.2f}", f"{CPUS:g}")
    truth = ("**the truth**", *known, f"below {MEMORY / 1e6:.0f}", "", "100", waits)
    rows = [_HEADER, ("---",) * len(_HEADER), truth, *map(_row, figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row(figures: Figures) -> tuple[str, ...]:
    before, held, after = figures.before, figures.held, figures.after
    memory = held.total("uwsgi_memory_available_bytes")
    process = [held.total(name) for name in ("uwsgi_worker_open_fds", "uwsgi_worker_unique_memory_bytes")]
    return (
        figures.way.title,
        _number(after.since(before, "uwsgi_worker_requests_total"), 0),
        _number(held.total("uwsgi_threads_busy"), 0),
        _number(held.total("uwsgi_socket_queue_length"), 0),
        _number(after.since(before, "uwsgi_worker_cpu_seconds_total"), 2),
        _number(held.total("uwsgi_cpus_usable"), 2),
        _number(None if memory is None else memory / 1e6, 0),
        " and ".join("yes" if part is not None else "no" for part in process),
        _number(held.total("uwsgi_listen_backlog_limit"), 0),
        _waits(figures),
    )


def _waits(figures: Figures) -> str:
    """Thread seconds on a CPU, waiting for a CPU or the interpreter lock, asleep, and in all states together."""
    kinds = (("cpu",), ("cpu_wait", "interpreter_lock"), ("sleep",), ("",))
    seconds = [[_waited(figures, state) for state in states] for states in kinds]
    if any(part is None for kind in seconds for part in kind):
        return ABSENT
    return " / ".join(f"{sum(part or 0 for part in kind):.1f}" for kind in seconds)


def _waited(figures: Figures, state: str) -> float | None:
    labels = f'state="{state}"' if state else ""
    return figures.after.since(figures.before, "uwsgi_wait_thread_seconds_total", labels)


def cost(figures: Figures) -> str:
    """Returns a sentence on what one exporter used itself during the load."""
    cpu = figures.after.since(figures.before, "process_cpu_seconds_total") or 0.0
    seconds = figures.after.since(figures.before, "uwsgi_exporter_observed_seconds_total") or 0.0
    memory = figures.after.total("process_resident_memory_bytes") or 0.0
    return (
        f"The exporter in the first of these rows used {100 * cpu / seconds:.1f} % of a CPU and {memory / 1e6:.0f} MB, "
        "with waits, at five samples a second.\n"
    )


def _number(value: float | None, digits: int) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}"


def reasons(figures: list[Figures]) -> str:
    """Returns, for each exporter that lacks something, what the API says about it."""
    lines = []
    for each in figures:
        said = {what: why for what, why in each.reasons.items() if what != "residency"}
        lines += [f"* **{each.way.title}**", *(f"  * `{what}`: {why}" for what, why in said.items())] if said else []
    return "\n".join(lines) + "\n"

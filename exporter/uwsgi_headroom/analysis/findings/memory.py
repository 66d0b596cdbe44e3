"""Findings about memory, whether more workers fit, and about the file descriptors that a worker has left."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.roles import name_role
from uwsgi_headroom.analysis.worker_states import end
from uwsgi_headroom.record import Memory
from uwsgi_headroom.words.formats import byte_size, counted, name_pids, numbered, percent

FEW_WORKERS = 2
"""Room for fewer workers is a finding: the first step to relieve a shortage of threads is seldom smaller."""

SCARCE = 0.10
"""If no other worker fits, available memory below this fraction of the workers' own is a warning: unusually large
requests can make the workers grow by that much. Without this threshold, one large worker would be a warning if half its
size were still available."""


LARGE_ROLE = 500_000_000
"""Bytes from which on a process of uWSGI that is no worker is a finding, if it takes more than all workers together."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about memory."""
    yield from _large_roles(figures)
    yield from _headroom(figures)


def _large_roles(figures: Figures) -> Iterator[Finding]:
    """uWSGI's own processes that take more memory than its workers."""
    memory = figures.server.memory
    for use in figures.server.roles:
        if use.role in ("master", "daemon") or memory is None or use.resident_bytes < max(LARGE_ROLE, memory.together):
            continue
        one = use.processes == 1
        yield Finding(
            code="role_takes_memory",
            severity="warning" if count_more_workers(memory) < FEW_WORKERS else "info",
            title=f"uWSGI's {name_role(use)} {'takes' if one else 'take'} more memory than all workers together.",
            evidence=f"The {name_role(use)} {'takes' if one else 'take'} {byte_size(use.resident_bytes)} of memory, "
            f"and the workers take {byte_size(memory.together)}; {byte_size(memory.available)} are available.",
            meaning="A router takes memory for each file descriptor that it is allowed to open. In containers, the "
            "limit of file descriptors may be a billion."
            if use.role == "router"
            else f"The workers cannot use the memory that the {name_role(use)} {'takes' if one else 'take'}.",
            change="Set `max-fd` to the number of connections that the router needs, such as 100000."
            if use.role == "router"
            else f"Find out what the {name_role(use)} {'keeps' if one else 'keep'} in memory.",
        )


def _headroom(figures: Figures) -> Iterator[Finding]:
    memory = figures.server.memory
    if memory is None or (room := count_more_workers(memory)) >= FEW_WORKERS:
        return
    scarce = room == 0 and memory.available < SCARCE * memory.together
    at_most = "" if memory.is_exact else " at most"
    place = "within the limit of its cgroup" if memory.limited_by == "cgroup" else "on this host"
    yield Finding(
        code="memory_headroom_low",
        severity="warning" if scarce else "info",
        title=_title(memory, room),
        evidence=f"A worker takes {byte_size(memory.per_worker)} of memory{at_most}; {byte_size(memory.available)} are "
        f"available {place}.",
        meaning="When memory runs out, the kernel kills a process, most likely a worker, and its requests are lost."
        if scarce
        else f"If load grows, you can add only {counted(room, 'worker')}."
        if room
        else "If load grows, you can add no worker.",
        change=f"{_more_memory(memory)} before you add `processes`. Without `lazy-apps`, workers need less memory: "
        "they share the memory of everything that the application loads at its start.",
    )


def _title(memory: Memory, room: int) -> str:
    there_is = "There is" if memory.is_exact else "There may be"
    if room == 0:
        return f"{there_is} no memory for another worker."
    return f"{there_is} memory for only {room} more worker."


def _more_memory(memory: Memory) -> str:
    if memory.limited_by == "cgroup":
        return "Raise the memory limit of the cgroup (MemoryMax, --memory, resources.limits.memory)"
    return "Add memory to the host"


NEAR_DESCRIPTORS = 0.8
"""The part of its descriptors that a worker has open from which on it is near the limit: a leak gets there whatever
the limit, and a burst of requests may need some each. Raise it if a worker is meant to hold many connections."""

LEFT = 3
"""With so few left, a worker is at its limit: a request takes one for its connection, and more for what it opens."""


def find_open_files(figures: Figures) -> Iterator[Finding]:
    """The finding about the workers that are nearest to their limit."""
    near = [
        (worker.most_fds - worker.open_fds, worker)
        for worker in figures.server.workers
        if worker.open_fds and worker.most_fds and worker.open_fds >= NEAR_DESCRIPTORS * worker.most_fds
    ]
    if not near:
        return
    full = [worker for left, worker in near if left <= LEFT]
    affected = full or [worker for _, worker in near]
    worst = min(near, key=lambda each: each[0])[1]
    numbers, workers = [worker.worker_id for worker in affected], [worker for _, worker in near]
    have = "has" if len(affected) == 1 else "have"
    yield Finding(
        code="descriptors_used_up",
        severity="critical" if full else "warning",
        title=f"{numbered('Worker', numbers)} {have} hardly any file descriptors left."
        if full
        else f"{numbered('Worker', numbers)} {have} few file descriptors left.",
        evidence=f"Worker {worst.worker_id} has {worst.open_fds} of {worst.most_fds} file descriptors open "
        f"({percent((worst.open_fds or 0) / (worst.most_fds or 1))}); {len(near)} of "
        f"{counted(len(figures.server.workers), 'worker')} {'has' if len(near) == 1 else 'have'} at least "
        f"{percent(NEAR_DESCRIPTORS)} of {'its' if len(near) == 1 else 'their'} descriptors open.",
        meaning="Each connection and each open file takes a file descriptor. Without a free descriptor, a worker "
        "accepts no request, and the application gets `Too many open files` when it opens a file or a connection.",
        clause=f"{numbered('worker', numbers)} {have} hardly any file descriptors left" if full else "",
        change=(
            f"To gain time, restart the workers that have few descriptors left: {end(figures.server, workers)}. "
            if full
            else ""
        )
        + f"Run `ls -l /proc/{name_pids([worst.local_pid])}/fd` to see what is open: if the number of open files keeps "
        "growing, the application does not close them. If the worker needs all of its descriptors, raise `max-fd` from "
        f"{worst.most_fds} (and LimitNOFILE of uWSGI's service unit).",
    )

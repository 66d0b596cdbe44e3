"""Findings about memory, whether more workers fit, and about the file descriptors that a worker has left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.roles import name_role
from uwsgi_headroom.analysis.worker_states import end
from uwsgi_headroom.words.formats import name_pids
from uwsgi_headroom.words.template import Fact, Private

FEW_WORKERS = 2
"""Room for fewer workers is a finding: the first step to relieve a shortage of threads is seldom smaller."""

SCARCE = 0.10
"""If no other worker fits, available memory below this fraction of the workers' own is a warning: unusually large
requests can make the workers grow by that much. Without this threshold, one large worker would be a warning if half its
size were still available."""

LARGE_ROLE = 500_000_000
"""Bytes from which on a process of uWSGI that is no worker is a finding, if it takes more than all workers together."""

NEAR_DESCRIPTORS = 0.8
"""The part of its descriptors that a worker has open from which on it is near the limit: a leak gets there whatever
the limit, and a burst of requests may need some each. Raise it if a worker is meant to hold many connections."""

LEFT = 3
"""With so few left, a worker is at its limit: a request takes one for its connection, and more for what it opens."""

ROUTER_TAKES_MEMORY = Kind(
    code="role_takes_memory",
    role="limit",
    severity="info",
    title="uWSGI's {role} {processes:takes|take} more memory than all workers together.",
    evidence="The {role} {processes:takes|take} {resident:bytes} of memory, and the workers take {workers:bytes}; "
    "{available:bytes} are available.",
    meaning="A router takes memory for each file descriptor that it is allowed to open. In containers, the limit of "
    "file descriptors may be a billion.",
    act="Set `max-fd` to the number of connections that the router needs, such as 100000.",
)
ROLE_TAKES_MEMORY = replace(
    ROUTER_TAKES_MEMORY,
    meaning="The workers cannot use the memory that the {role} {processes:takes|take}.",
    act="Find out what the {role} {processes:keeps|keep} in memory.",
)
ROUTER_LEAVES_NO_MEMORY = replace(ROUTER_TAKES_MEMORY, severity="warning")
ROLE_LEAVES_NO_MEMORY = replace(ROLE_TAKES_MEMORY, severity="warning")

ONE_MORE_WORKER = Kind(
    code="memory_headroom_low",
    role="limit",
    severity="info",
    title="There is memory for only one more worker.",
    evidence="A worker takes [at_most? at most ]{each:bytes} of memory; {available:bytes} are available "
    "[cgroup? within the limit of its cgroup][host? on this host].",
    meaning="If load grows, you can add only one worker.",
    act="Before you add `processes`, [cgroup? raise the memory limit of the cgroup][host? add memory to the host].",
    then="[cgroup? The limit is MemoryMax of a unit, --memory of Docker, resources.limits.memory of a pod. ]"
    "Without `lazy-apps`, workers need less memory: they share the memory of everything that the application loads at "
    "its start.",
)
NO_MORE_WORKER = replace(
    ONE_MORE_WORKER,
    title="There is no memory for another worker.",
    meaning="If load grows, you can add no worker.",
)
MEMORY_SCARCE = replace(
    NO_MORE_WORKER,
    severity="warning",
    meaning="When memory runs out, the kernel kills a process, most likely a worker, and its requests are lost.",
)

FEW_DESCRIPTORS = Kind(
    code="descriptors_used_up",
    role="limit",
    severity="warning",
    title="{affected:Worker} {affected:has|have} few file descriptors left.",
    evidence="Worker {worst} has {open:plain} of {most:plain} file descriptors open ({part:percent}); {near} of "
    "{workers:worker} {near:has|have} at least {limit:percent} of {near:its|their} descriptors open.",
    meaning="Each connection and each open file takes a file descriptor. Without a free descriptor, a worker accepts "
    "no request, and the application gets `Too many open files` when it opens a file or a connection.",
    act="Run `ls -l /proc/{pid}/fd` to see what is open.",
    then="If the number of open files keeps growing, the application does not close them. If the worker needs all of "
    "its descriptors, raise `max-fd` from {most:plain} (and LimitNOFILE of uWSGI's service unit).",
)
NO_DESCRIPTORS = replace(
    FEW_DESCRIPTORS,
    role="cause",
    severity="critical",
    title="{affected:Worker} {affected:has|have} hardly any file descriptors left.",
    clause="{affected:worker} {affected:has|have} hardly any file descriptors left",
    act="To gain time, restart the workers that have few descriptors left: {end}.",
    then="Run `ls -l /proc/{pid}/fd` to see what is open: if the number of open files keeps growing, the application "
    "does not close them. If the worker needs all of its descriptors, raise `max-fd` from {most:plain} (and "
    "LimitNOFILE of uWSGI's service unit).",
)


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
        kinds = {
            True: (ROUTER_LEAVES_NO_MEMORY, ROLE_LEAVES_NO_MEMORY),
            False: (ROUTER_TAKES_MEMORY, ROLE_TAKES_MEMORY),
        }
        yield kinds[count_more_workers(memory) < FEW_WORKERS][use.role != "router"].found(
            role=name_role(use),
            processes=use.processes,
            resident=use.resident_bytes,
            workers=memory.together,
            available=memory.available,
        )


def _headroom(figures: Figures) -> Iterator[Finding]:
    memory = figures.server.memory
    if memory is None or (room := count_more_workers(memory)) >= FEW_WORKERS:
        return
    scarce = room == 0 and memory.available < SCARCE * memory.together
    yield (MEMORY_SCARCE if scarce else ONE_MORE_WORKER if room else NO_MORE_WORKER).found(
        at_most=not memory.is_exact,
        each=memory.per_worker,
        available=memory.available,
        cgroup=memory.limited_by == "cgroup",
        host=memory.limited_by != "cgroup",
    )


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
    workers = [worker for _, worker in near]
    worst = min(near, key=lambda each: each[0])[1]
    facts: dict[str, Fact | Private] = {
        "affected": [worker.worker_id for worker in full or workers],
        "worst": worst.worker_id,
        "open": worst.open_fds,
        "most": worst.most_fds,
        "part": (worst.open_fds or 0) / (worst.most_fds or 1),
        "near": len(near),
        "workers": len(figures.server.workers),
        "limit": NEAR_DESCRIPTORS,
        "pid": Private(name_pids([worst.local_pid]), "PID"),
    }
    if full:
        yield NO_DESCRIPTORS.found(facts, end=Private(end(figures.server, workers), "see `check`"))
    else:
        yield FEW_DESCRIPTORS.found(facts)

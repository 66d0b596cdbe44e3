"""Findings about memory, whether more workers fit, and about the file descriptors that a worker has left."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.load import name_role
from uwsgi_headroom.analysis.worker_states import end
from uwsgi_headroom.words.formats import name_pids
from uwsgi_headroom.words.template import Private

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

ROLE_TAKES_MEMORY = Kind(
    code="role_takes_memory",
    role="limit",
    severity="warning or info",
    title="uWSGI's {role} {processes:takes|take} more memory than all workers together.",
    evidence="The {role} {processes:takes|take} {resident:bytes} of memory, and the workers take {workers:bytes}; "
    "{available:bytes} are available.",
    meaning="[router? A router takes memory for each file descriptor that it is allowed to open. In containers, the "
    "limit of file descriptors may be a billion.][not router? The workers cannot use the memory that the {role} "
    "{processes:takes|take}.]",
    act="[router? Set `max-fd` to the number of connections that the router needs, such as 100000.]"
    "[not router? Find out what the {role} {processes:keeps|keep} in memory.]",
)

FEW_MORE_WORKERS = Kind(
    code="memory_headroom_low",
    role="limit",
    severity="warning or info",
    title="There is [one? memory for only one more][not one? no memory for another] worker.",
    evidence="A worker takes [at_most? at most ]{each:bytes} of memory; {available:bytes} are available "
    "[cgroup? within the limit of its cgroup][not cgroup? on this host].",
    meaning="[info, one? If load grows, you can add only one worker.][info, not one? If load grows, you can add no "
    "worker.][warning? When memory runs out, the kernel kills a process, most likely a worker, and its requests are "
    "lost.]",
    act="Before you add `processes`, [cgroup? raise the memory limit of the cgroup][not cgroup? add memory to the "
    "host].",
    then="[cgroup? The limit is MemoryMax of a unit, --memory of Docker, resources.limits.memory of a pod. ]"
    "Without `lazy-apps`, workers need less memory: they share the memory of everything that the application loads at "
    "its start.",
)

FEW_DESCRIPTORS = Kind(
    code="descriptors_used_up",
    severity="critical or warning",
    title="{affected:Worker} {affected:has|have} [critical? hardly any][warning? few] file descriptors left.",
    evidence="Worker {worst} has {open:plain} of {most:plain} file descriptors open ({part:percent}); {near} of "
    "{workers:worker} {near:has|have} at least {limit:percent} of {near:its|their} descriptors open.",
    meaning="Each connection and each open file takes a file descriptor. Without a free descriptor, a worker accepts "
    "no request, and the application gets `Too many open files` when it opens a file or a connection.",
    act="[critical? To gain time, restart the workers that have few descriptors left: {end}.]"
    "[warning? Run `ls -l /proc/{pid}/fd` to see what is open.]",
    then="[critical? Run `ls -l /proc/{pid}/fd` to see what is open: if the number of open files keeps growing, the "
    "application does not close them.][warning? If the number of open files keeps growing, the application does not "
    "close them.] If the worker needs all of its descriptors, raise `max-fd` from {most:plain} (and LimitNOFILE of "
    "uWSGI's service unit).",
    clause="[critical? {affected:worker} {affected:has|have} hardly any file descriptors left]",
    runbook="UwsgiDescriptorsLow",
    limits="waits",
)


def find_large_roles(figures: Figures) -> Iterator[Finding]:
    """uWSGI's own processes that take more memory than its workers."""
    memory = figures.server.memory
    for use in figures.server.roles:
        if use.role in ("master", "daemon") or memory is None or use.resident_bytes < max(LARGE_ROLE, memory.together):
            continue
        yield ROLE_TAKES_MEMORY.found(
            figures,
            router=use.role == "router",
            worse=count_more_workers(memory) < FEW_WORKERS,
            role=name_role(use),
            processes=use.processes,
            resident=use.resident_bytes,
            workers=memory.together,
            available=memory.available,
        )


def find_low_headroom(figures: Figures) -> Iterator[Finding]:
    memory = figures.server.memory
    if memory is None or (room := count_more_workers(memory)) >= FEW_WORKERS:
        return
    scarce = room == 0 and memory.available < SCARCE * memory.together
    yield FEW_MORE_WORKERS.found(
        figures,
        worse=scarce,
        one=room > 0,
        at_most=not memory.is_exact,
        each=memory.per_worker,
        available=memory.available,
        cgroup=memory.limited_by == "cgroup",
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
    yield FEW_DESCRIPTORS.found(
        figures,
        worse=bool(full),
        affected=[worker.worker_id for worker in full or workers],
        worst=worst.worker_id,
        open=worst.open_fds,
        most=worst.most_fds,
        part=(worst.open_fds or 0) / (worst.most_fds or 1),
        near=len(near),
        workers=len(figures.server.workers),
        limit=NEAR_DESCRIPTORS,
        pid=Private(name_pids([worst.local_pid]), "PID"),
        end=Private(end(figures.server, workers), "see `check`"),
    )

"""Findings about what runs out: memory, address space, descriptors, threads, disks."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import count_more_workers
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.clients import count_raised, judge_number
from uwsgi_headroom.analysis.findings.cpus import name_role
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import ratio, shows_a_limit
from uwsgi_headroom.analysis.worker_states import end
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.record import Memory, MemoryPressure
from uwsgi_headroom.surroundings import Tasks
from uwsgi_headroom.words.formats import name_pids
from uwsgi_headroom.words.template import Facts, Private

FEW_WORKERS = 2
"""Room for fewer workers is a finding: the first step to relieve a shortage of threads is seldom smaller."""

SCARCE = 0.10
"""If no other worker fits, available memory below this fraction of the workers' own is a warning: unusually large
requests can make the workers grow by that much. Without it, one large worker with half its size still available would
be a warning."""

STALLED, STANDS_STILL = 0.05, 0.01
"""The parts of the last minute in which some process waits for memory, and in which all that have work do, from which
on that is a warning, and harm. Both are 0 as a rule. A process that read at random from a file four times as large as
its limit got a sixtieth of its work done, and was said to wait for 1.7 % of the time (Linux 6.18): the kernel counts
the wait for a page only if it took this page shortly before."""

LARGE_ROLE = 500_000_000
"""Bytes from which on a process of uWSGI that is no worker is a finding, if it takes more than all workers together."""

NEAR_DESCRIPTORS = 0.8
"""The part of its descriptors that a worker has open from which on it is near the limit: a leak gets there in any
case, and a burst of requests may need some each. Raise it if a worker is meant to hold many connections."""

LEFT = 3
"""With so few left, a worker is at its limit: a request takes one for its connection, and more for what it opens."""

GROWTH = (0.10, 16e6)
"""Growth of resident memory within a window is a finding at or above this fraction and this number of bytes."""

LASTS = (60.0, 180.0)
"""The seconds of a window in which memory grows, and of the life of its worker, from which on that is a warning: at its
first requests each worker grows, as caches fill."""

THREADS = (100, 4)
"""From this number of threads that serve no request on, in one worker, this growth within a window is a finding. Usual
pools are smaller (a `ThreadPoolExecutor` has 32 threads at most, gevent's pool has 10), and stop growing."""

NEAR_TASKS = (0.8, 0.5)
"""How much of `pids.max` has to be in use, and how much of that by threads that serve no request."""

MANY_FILES = (1000, 20)
"""Files of metrics, in all and for each worker, from which on most are of ended workers: each has a few."""

LITTLE = 512e6
"""The bytes left by `limit-as` where it may be why requests fail: a report, or a few threads, take as much."""

ROLE_TAKES_MEMORY = Kind(
    code="role_takes_memory",
    role="limit",
    severity="warning or info",
    title="uWSGI's {role} {processes:takes|take} more memory than all workers together.",
    evidence="The {role} {processes:takes|take} {resident_bytes:bytes} of memory, and the workers take "
    "{together:bytes}; {available:bytes} are available.",
    meaning="[router? A router takes memory for each file descriptor that it may open. In containers, that "
    "may be a billion.][not router? The workers cannot use the memory that the {role} {processes:takes|take}.]",
    act="[router? Set `max-fd` to the number of connections that the router needs, such as 100000.]"
    "[not router? Find out what the {role} {processes:keeps|keep} in memory.]",
)

FEW_MORE_WORKERS = Kind(
    code="memory_headroom_low",
    role="limit",
    severity="warning or info",
    title="There is [one? memory for only one more][not one? no memory for another] worker.",
    evidence="A worker takes [at_most? at most ]{per_worker:bytes} of memory; {available:bytes} are available "
    "[cgroup? within the limit of its cgroup][not cgroup? on this host].",
    meaning="[info, one? If load grows, you can add only one worker.][info, not one? If load grows, you can add "
    "none.][warning? When memory runs out, the kernel kills a process, most likely a worker.]",
    act="Before you add `processes`, [cgroup? raise the memory limit of the cgroup][not cgroup? add memory to the "
    "host].",
    then="[cgroup? The limit is MemoryMax of a unit, --memory of Docker, resources.limits.memory of a pod. ]Without "
    "`lazy-apps`, workers share the memory of everything that the application loads at its start.",
)

MEMORY_STALLS = Kind(
    code="memory_stalls",
    role="harm",
    severity="critical or warning",
    title="uWSGI stands still at times, because all of its processes wait for memory.",
    evidence="Processes of [own? uWSGI's cgroup][not own? this host] waited for memory for {some:percent} of the last "
    "minute, all of them at once for {full:percent}; {available:bytes} are available[wait? ; {wait}].",
    meaning="When memory is short, the kernel takes pages from processes, and reads them from the disk when they are "
    "needed again. A process waits meanwhile, and uses no CPU. If memory runs out, the kernel kills a process.",
    act="[cgroup? Raise the memory limit of uWSGI's cgroup][not cgroup? Add memory to the host], or use fewer "
    "`processes`.",
    then="[cgroup? The limit is MemoryHigh or MemoryMax of a unit, --memory of Docker, resources.limits.memory of a "
    "pod.][not cgroup? Run `ps -eo rss,args --sort=-rss | head` to see which programs use it.]",
)

MEMORY_IS_SHORT = replace(
    MEMORY_STALLS,
    role="limit",
    severity="warning",
    title="Processes of [own? uWSGI][not own? this host] wait for memory.",
)

FEW_DESCRIPTORS = Kind(
    code="descriptors_used_up",
    severity="critical or warning",
    title="{affected:Worker} {affected:has|have} [critical? hardly any][warning? few] file descriptors left.",
    evidence="Worker {worker_id} has {open_fds:plain} of {most_fds:plain} file descriptors open ({part:percent}); "
    "{near} of {workers:worker} {near:has|have} at least {limit:percent} of {near:its|their} descriptors open.",
    meaning="Each connection and each open file takes a file descriptor. Without a free descriptor, a worker accepts "
    "no request, and the application gets `Too many open files` when it opens a file or a connection.",
    act="[critical? To gain time, restart the workers that have few descriptors left: {end}.]"
    "[warning? Run `ls -l /proc/{pid}/fd` to see what is open.]",
    then="[critical? Run `ls -l /proc/{pid}/fd` to see what is open. ]If the number of open files keeps growing, the "
    "application does not close them. If it needs all of them, raise `max-fd` from {most_fds:plain} (and LimitNOFILE "
    "of the service unit).",
    clause="[critical? {affected:worker} {affected:has|have} hardly any file descriptors left]",
    runbook="UwsgiDescriptorsLow",
    limits="waits",
)

MEMORY_GROWS = Kind(
    code="memory_growing",
    role="limit",
    severity="warning or info",
    title="The memory of {ids:worker} is growing.",
    evidence="Worker {worker_id} now takes {resident_bytes:bytes}, which is {resident_growth:bytes} more than "
    "{seconds:duration} ago.",
    meaning="Soon after a start, the application may fill its caches. If the memory keeps growing, it has a leak.",
    act="[not limit? If the memory keeps growing for minutes, set `reload-on-rss` until you have found the leak.]"
    "[limit? Make sure that all workers fit into memory at the size of `{option}`.]",
    then="[limit? uWSGI ends a worker that reaches {limit} MB. If each new process also grows, find out why.]",
    runbook="UwsgiWorkerMemoryGrowing",
)

THREADS_GROW = Kind(
    code="threads_growing",
    role="limit",
    severity="warning",
    title="{ids:Worker} {ids:keeps|keep} starting threads that do not end.",
    evidence="Worker {worker_id} has {process_threads} threads[growth? , {growth} more than {seconds:duration} ago], "
    "and {serve} of them {serve:serves|serve} requests.[most?  `{limit}` permits {most} processes and threads, and "
    "{used} are in use][left? ; at this rate, none is left in {left:duration}][most? .]",
    meaning="Each thread takes memory. When a limit of processes (`pids.max`, `ulimit -u`) or of memory is reached, "
    "the application gets `can't start new thread`, and the request fails.",
    act="Create one pool of threads in each worker, instead of one for each request.",
    then="Make sure that all threads outside of this pool end.",
)

THREADS_NEAR_LIMIT = replace(
    THREADS_GROW,
    title="The workers' threads use up most of the limit of processes and threads.",
    act="Raise the limit of processes (`TasksMax` or `LimitNPROC` of the unit, `pids.max` of the container).",
    then="Alternatively, let the application start fewer threads.",
)

ZOMBIES = replace(
    THREADS_GROW,
    title="Children of the workers that have ended use up the limit of processes.",
    evidence="{zombies} {zombies:child process|child processes} of the workers {zombies:has|have} ended, and were "
    "never waited for (zombies); `{limit}` permits {most} processes and threads, and {used} exist.",
    act="Let the application wait for each program that it starts, for example with `subprocess.run`.",
    then="Restart the workers to gain time: their zombies end with them.",
)

DISK_FULL = Kind(
    code="disk_full",
    role="harm",
    severity="critical or warning",
    title="A file system that uWSGI uses has no [inodes? inode][not inodes? space] left[mount? : {mount}].",
    evidence="It has uWSGI's {use}, and {free:bytes} of free space[inodes? , but no inode for another file].",
    meaning="Files that the application writes, larger request bodies (`post-buffering`), and log lines are lost.",
    act="[inodes? Delete files there.][not inodes? Free up space there.]",
    then="`du -x[inodes?  --inodes] {where} | sort -n | tail` shows what takes most.",
)

METRICS_FILES = Kind(
    code="metrics_files",
    role="limit",
    severity="warning",
    title="Each scrape of the application's metrics reads thousands of files.",
    evidence="There are {files} files of prometheus_client in {folder}, for {workers:worker}.",
    meaning="In its multiprocess mode, each process leaves files when it ends. A scrape reads all of them, which takes "
    "seconds, and keeps other requests of its worker from running (GIL).",
    act="Delete the files in {folder} before each start of uWSGI.",
    then="To limit their number, name them after the worker: `values.ValueClass = "
    "values.MultiProcessValue(uwsgi.worker_id)`, with `from prometheus_client import values`, before metrics are made.",
)

ADDRESS_SPACE = Kind(
    code="address_space_used_up",
    role="harm",
    severity="warning",
    title="Requests fail, and `limit-as` leaves the workers little address space.",
    evidence="A worker may take {left:bytes} more of address space[lines? ; uWSGI's log says {lines:times} that a "
    "process could not get memory][not lines? ; {raised:exception} in {requests:request}].",
    meaning="Threads, libraries and mapped files also take address space, without using memory. An allocation "
    "of more than what is left fails (MemoryError), although the host has memory.",
    act="[not lines? If uWSGI's log has `MemoryError`, remove][lines? Remove] `limit-as`, and set `reload-on-rss`.",
    then="The limit may also be that of `ulimit -v`. If it has to stay, raise it to several times what workers have.",
    runbook="UwsgiExceptionsHigh",
)


def find_large_roles(figures: Figures) -> Iterator[Finding]:
    memory = figures.server.memory
    for use in figures.server.roles:
        if use.role in ("master", "daemon") or memory is None or use.resident_bytes < max(LARGE_ROLE, memory.together):
            continue
        facts: Facts = {"router": use.role == "router", "role": name_role(figures, use), "together": memory.together}
        yield ROLE_TAKES_MEMORY.found(figures, facts, use, worse=count_more_workers(memory) < FEW_WORKERS)


def find_low_headroom(figures: Figures) -> Iterator[Finding]:
    memory = figures.server.memory
    if memory and memory.pressure:
        yield from _find_pressure(figures, memory, memory.pressure)
    if memory is None or (room := count_more_workers(memory)) >= FEW_WORKERS:
        return
    worse = room == 0 and memory.available < SCARCE * memory.together
    yield FEW_MORE_WORKERS.found(figures, memory, worse=worse, one=room > 0, at_most=not memory.is_exact)


def _find_pressure(figures: Figures, memory: Memory, pressure: MemoryPressure) -> Iterator[Finding]:
    """The finding about processes that wait for memory. Those of the whole host may be of other programs."""
    own, stands = pressure.of == "cgroup", pressure.full >= STANDS_STILL
    facts: Facts = {"own": own, "cgroup": own and memory.limited_by == "cgroup"}
    if own and stands:
        yield MEMORY_STALLS.found(figures, facts, pressure, worse=shows_a_limit(figures.flow))
    elif stands or pressure.some >= STALLED:
        yield MEMORY_IS_SHORT.found(figures, facts, pressure)


def find_open_files(figures: Figures) -> Iterator[Finding]:
    pairs = [
        (each.most_fds - each.open_fds, each)
        for each in figures.server.workers
        if each.open_fds and each.most_fds and each.open_fds >= NEAR_DESCRIPTORS * each.most_fds
    ]
    if not pairs:
        return
    near, full = [worker for _, worker in pairs], [worker for left, worker in pairs if left <= LEFT]
    worst = min(pairs, key=lambda pair: pair[0])[1]
    yield FEW_DESCRIPTORS.found(
        figures,
        worst,
        worse=bool(full),
        affected=[worker.worker_id for worker in full or near],
        part=(worst.open_fds or 0) / (worst.most_fds or 1),
        near=len(near),
        limit=NEAR_DESCRIPTORS,
        pid=Private(name_pids([worst.local_pid]), "PID"),
        end=Private(end(figures.server, near), "see `check`"),
    )


def find_growing_memory(figures: Figures) -> Iterator[Finding]:
    growths, options, server = _find_growths(figures), figures.server.setup.options, figures.server
    ages = {each.worker_id: (server.time or 0.0) - (each.last_spawn or 0) for each in server.workers}
    started = sum(
        worker.respawns == 1 and worker.up_seconds <= ages.get(worker.worker_id, 0.0) + 1
        for worker in figures.window.workers
    )
    if not growths or figures.window.respawns > started:
        return
    most = max(growths, key=lambda worker: growths[worker])
    seconds, lives = LASTS
    yield MEMORY_GROWS.found(
        figures,
        most,
        worse=figures.window.seconds >= seconds and ages.get(most.worker_id, 0.0) >= lives,
        ids=[worker.worker_id for worker in growths],
        limit=options.reload_on_rss or options.evil_reload_on_rss or None,
        option="reload-on-rss" if options.reload_on_rss else "evil-reload-on-rss",
    )


def _find_growths(figures: Figures) -> dict[WorkerWindow, int | float]:
    part, least = GROWTH
    lows = {worker.worker_id: worker.low_bytes for worker in figures.server.workers}
    growths = {
        worker: worker.resident_growth - max(0, worker.resident_bytes - (lows.get(worker.worker_id) or math.inf))
        for worker in figures.window.workers
        if worker.resident_growth is not None and worker.resident_bytes and not worker.respawns
    }
    return {worker: each for worker, each in growths.items() if each >= max(least, part * (worker.resident_bytes or 0))}


def find_files(figures: Figures) -> Iterator[Finding]:
    for use, mount, free, inodes in figures.server.setup.full_disks:
        facts: Facts = {"use": use, "mount": Private(mount), "free": free, "inodes": inodes}
        are_most = judge_number(figures, count_raised(figures))[1]
        yield DISK_FULL.found(figures, facts, where=Private(shlex.quote(mount), "there"), worse=are_most)
    (folder, files), (least, each) = figures.server.setup.metrics_files, MANY_FILES
    if files >= max(least, each * len(figures.server.workers)):
        yield METRICS_FILES.found(figures, folder=Private(folder, "its folder"), files=files)


def find_address_space(figures: Figures) -> Iterator[Finding]:
    """Where requests fail, unless the log names another reason: nothing counts the memory that was refused."""
    left = [worker.address_left for worker in figures.server.workers if worker.address_left is not None]
    message, traceback = (figures.server.messages.get(code) for code in ("out_of_memory", "traceback"))
    is_other = traceback is not None and traceback.place and "MemoryError" not in traceback.place
    raised = count_raised(figures)
    if left and min(left) < LITTLE and not is_other and (message or judge_number(figures, raised)[0]):
        yield ADDRESS_SPACE.found(figures, left=min(left), raised=raised, lines=getattr(message, "count", None))


def find_zombies(figures: Figures) -> Iterator[Finding]:
    tasks, (near, part) = figures.server.tasks, NEAR_TASKS
    if tasks and tasks.used >= near * tasks.most and tasks.zombies >= part * tasks.used:
        yield ZOMBIES.found(figures, **tasks._asdict())


def find_growing_threads(figures: Figures) -> Iterator[Finding]:
    (many, least), (near, part), tasks = THREADS, NEAR_TASKS, figures.server.tasks
    serving = {worker.worker_id: worker.threads or 1 for worker in figures.server.workers}
    others = {
        worker: worker.process_threads - serving.get(worker.worker_id, 1)
        for worker in figures.window.workers
        if worker.process_threads is not None
    }
    growing = [
        worker
        for worker, number in others.items()
        if number >= many and (worker.threads_growth or 0) >= least and not worker.respawns
    ]
    is_near = tasks is not None and tasks.used >= near * tasks.most and sum(others.values()) >= part * tasks.used > 0
    if growing or is_near:
        worst, ids = max(growing or others, key=lambda worker: others[worker]), [each.worker_id for each in growing]
        grown, serve = sum(worker.threads_growth or 0 for worker in growing), serving.get(worst.worker_id, 1)
        facts: Facts = {"ids": ids, "serve": serve, "growth": worst.threads_growth or None}
        facts |= _describe_tasks(tasks, figures.window.seconds, grown)
        if growing:
            yield THREADS_GROW.found(figures, facts, worst)
        else:
            yield THREADS_NEAR_LIMIT.found(figures, facts, worst)


def _describe_tasks(tasks: Tasks | None, seconds: float, grown: int) -> Facts:
    if tasks is None:
        return {"most": None, "used": None, "limit": "", "left": None}
    left = ratio(max(0, tasks.most - tasks.used) * seconds, grown)
    return {"most": tasks.most, "used": tasks.used, "limit": tasks.limit, "left": left}

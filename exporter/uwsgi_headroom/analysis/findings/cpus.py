"""Findings about CPU: single interpreters, all CPUs together, and other programs that use them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import OWN_THREADS_COMPUTE
from uwsgi_headroom.analysis.capacity import LEAST_OWN, REACHED, list_locked
from uwsgi_headroom.analysis.destinations import join_labels, list_local, see_backends
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.threads import advise
from uwsgi_headroom.analysis.littles_law import judge_waiting, shows_a_limit
from uwsgi_headroom.analysis.shortages import (
    CPU_FULL,
    CPU_WAIT,
    FEWER_CALLS,
    OF_LIBRARY,
    are_children_busy,
    are_waits_known,
    find_cpu_of_own_threads,
    is_hardly_any_idle,
    lacks_cpu,
    waits_for_cpu,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY, queues_for_lock
from uwsgi_headroom.record import Cpus, Quota
from uwsgi_headroom.surroundings import Role, RoleUse
from uwsgi_headroom.words.formats import listed, name_pids
from uwsgi_headroom.words.template import Facts, Private

THROTTLED = (0.1, 0.25)
"""The part of the quota's periods in which it stopped the workers that is a finding if requests were measured to wait
for a CPU as well, and the part that is one where that is not measured."""

OF_WAIT = 0.03
"""The stops have to add up to this part of the time for which requests waited for a CPU: else they wait for others. The
kernel counts a stop once for each CPU, not each thread."""

FELT = 0.02
"""Seconds of a request in the wait for a CPU from which on users may feel it, as for the listen queue."""

LEAST_THROTTLED = 5
"""Fewer stops than this in a window are no finding: the start of a worker takes as many."""

LEAST_REQUESTS = 20
"""Fewer say more about themselves than about the CPUs."""

STARVED = 0.6
"""The share of requests' time in the wait for a CPU from which on other programs do severe harm: requests take 2.5
times as long. At one half, the verdict would change from run to run where each CPU has one other program of the same
priority."""

ENOUGH_IDLE = 0.5
"""If at least this fraction of the CPUs is idle, there is enough CPU for all programs."""

LOW_CPU, MODERATE_CPU = 1.5, 3.0
"""CPU headroom below which other programs are a warning, and below which good to know. Raise both if load
jumps."""

LEAST_CPUS = 0.05
"""CPUs below which a role of uWSGI's own processes is not named."""

ALL_SATURATED = Kind(
    code="interpreter_bound",
    severity="critical or warning",
    title="The interpreter of every worker is saturated.",
    evidence="The busiest interpreter[among?  among those of {among:worker}] uses {load:cpu} of a CPU; the busiest "
    "worker has {busy:mean} requests in service[waiters? , of which at most {waiters:mean} wait for its lock "
    "(GIL)][wait? ; {wait}].[rest?  Background threads, which serve no requests, use {rest:cpu} of the "
    "{by_workers:cpu} CPUs that the workers use.]",
    meaning="In each worker, one thread at a time can run Python. The others wait, and no more can be served.",
    act="{advice}",
    clause=f"[own? {OWN_THREADS_COMPUTE.cause}][not own? the interpreter of every worker is saturated]",
    runbook="UwsgiInterpreterBound",
    fills_threads=True,
    states=("cpu",),
)
SOME_SATURATED = replace(
    ALL_SATURATED,
    role="limit",
    severity="warning",
    title="[one? The interpreter of worker {one} is saturated.]"
    "[not one? The interpreters of several workers are saturated.]",
    meaning="In each worker, one thread at a time can run Python. The others wait, and each request takes longer.",
    act="If CPUs are free, use more `processes` and fewer `threads`.",
    clause="",
)

QUOTA_STOPS = Kind(
    code="cpu_throttled",
    severity="critical or warning",
    title="Requests wait for their CPU quota.",
    evidence="The quota stopped the workers in {part:percent} of its periods ({throttled} of {periods}); they use "
    "{used:cpu} of {quota:cpus}[cpu_wait? ; requests wait for a CPU for {cpu_wait:percent} of their time]"
    "[wait? ; {wait}].",
    meaning="A quota allows a certain CPU time per period (0.1 s by default). Once it is used up, all processes that "
    "share it stop until the next period, even if CPUs are idle. More threads or processes would use it up sooner.",
    act="Raise the CPU quota[cgroup?  of the cgroup {cgroup}] from {quota:cpus}[most?  to {most:cpus}].",
    then="The quota is CPUQuota of a unit, --cpus of Docker, resources.limits.cpu of a pod.",
    clause="they wait for their CPU quota",
    runbook="UwsgiCpuBound",
    fills_threads=True,
    states=("cpu", "cpu_wait"),
)

CPU_WAITED = Kind(
    code="cpu_wait",
    severity="warning",
    title="Requests spend most of their time waiting for a CPU.",
    evidence="A request is in service for {all:duration} on average, and waits for a CPU for {each:duration} of this "
    "time ({cpu_wait:percent})[idle? , while {idle:cpu} CPUs are idle][wait? ; {wait}].",
    meaning="Requests are ready to run, but others occupy the CPUs. More threads or processes would also wait.",
    act="Run `top` to find out what uses the CPUs: other programs, or the hypervisor (`st`).",
    then="Check the weight of uWSGI's cgroup (CPUWeight, cpu.shares), and the CPUs of its workers (`cpu-affinity`).",
    clause="requests in service wait for a CPU",
    runbook="UwsgiCpuBound",
)

CHILDREN = Kind(
    code="cpu_bound",
    severity="warning",
    title="Programs that the application starts use all CPUs.",
    evidence="{workers:worker} {workers:uses|use} {used:cpu} of {cpus:cpus}[beside? , other programs "
    "{beside:cpu}][idle? , and {idle:cpu} are idle]; {serving:mean} requests are in service[cpu_wait? , "
    "{cpu_wait:percent} of their time waiting for a CPU][wait? ; {wait}].[rest?  Background threads of the workers, "
    "which serve no requests, use {rest:cpu} CPUs.]",
    meaning="If load grows, so do response times. No uWSGI option adds CPUs.",
    act="Start fewer programs at the same time, for example through a job queue, or add CPUs.",
    clause="programs that the application starts use all CPUs",
    runbook="UwsgiCpuBound",
    fills_threads=True,
    states=("cpu", "cpu_wait"),
)
OWN_ACT = (
    "[own, variable? Set `{variable}=1` in the environment of uWSGI, and compare the response times.]"
    "[own, not variable? Run `top -H -p {own}` to find the threads that serve no request.]"
)
WORKERS_USE_ALL = replace(
    CHILDREN,
    severity="critical or warning",
    title="The workers use all the CPU that they can get.",
    act=FEWER_CALLS + OWN_ACT + "[affinity? Widen `cpu-affinity`, or the affinity mask that the service manager sets.]"
    "[quota? Raise the CPU quota][cgroup?  of the cgroup {cgroup}][quota?  from {quota:cpus}]"
    "[most?  to {most:cpus}][quota? .][host, not queries? Add CPUs, or move load to another host.]",
    then="[queries, host? Then add CPUs, or move load to another host. ]"
    "[own, variable? Its library computes in a thread for each CPU, in each worker: they slow each other down.]"
    "[own, not variable? Move the work of these threads into a mule or the spooler; if a library computes in threads, "
    "limit their number (`OMP_NUM_THREADS`).][quota? The quota is CPUQuota of a unit, --cpus of Docker, "
    "resources.limits.cpu of a pod.]",
    clause=f"[own? {OWN_THREADS_COMPUTE.cause}][not own? the workers use all the CPU that they can get]",
)
OF_BACKEND = (
    "[backend? Requests wait for {backend}, which runs on this host. If it uses the CPUs (`top`), let each request ask "
    "it less often, or make its queries faster, with an index for instance: it serves this application. ]"
)
OTHERS_USE_ALL = replace(
    CHILDREN,
    severity="critical or warning",
    title="The workers and other programs[role? , mostly uWSGI's own {role},] use all CPUs.",
    act="[role? Find out what the {role} of this uWSGI {processes:computes|compute}.]"
    + FEWER_CALLS
    + "[look, not queries? {look}.]"
    + OWN_ACT
    + "[affinity? Widen `cpu-affinity`, or the affinity mask that the service "
    "manager sets.][host, not queries? Move the other programs to another host, or add CPUs.]",
    then="[role? Move this work to another host, or add CPUs. ]"
    + OF_BACKEND
    + "[queries, host? Then move the other programs to another host, or add CPUs. ]"
    "[more? Then move the other programs to another host, or add CPUs. ][rest? Move the work of background threads "
    "into a mule or the spooler, or limit their number (`OMP_NUM_THREADS`).]",
    clause="no CPU is idle[role?  beside uWSGI's own {role}][backend? , and requests wait for {backend} on this host]",
)

MORE_WORKERS = Kind(
    code="more_workers_than_cpus",
    severity="info",
    title="There are more busy workers than CPUs.",
    evidence="{busy} workers are busy, and use {used:cpu} of {count:cpus}.",
    meaning="Workers that compute at the same time share the CPUs. Further workers would only take memory.",
    act="If requests mostly compute, do not add `processes`: {fewest} to {most} are enough (now {workers}).",
    runbook="UwsgiCpuBound",
)

USED_BY_OTHERS = Kind(
    code="cpu_used_by_others",
    role="limit",
    severity="warning or info",
    title="Other programs[role? , mostly uWSGI's own {role},] use more CPU than the workers do.",
    evidence="Of {cpus:cpus}, the workers use {own:cpu}, other programs use {others:cpu}, and {idle:cpu} are idle: the "
    "workers can use {room:factor} the CPU that they use now.[roles?  The other programs include uWSGI's own {roles}.]",
    meaning="If load grows, so do response times. uWSGI's own mules, spoolers and routers count as other programs.",
    act="[role? Find out what the {role} of this uWSGI {processes:computes|compute}.][look? {look}.][none? Move the "
    "other programs to another host, or limit their CPU with a cgroup quota.]",
    then="[role? Move this work to another host, or limit the CPU that it may use.]" + OF_BACKEND,
    runbook="UwsgiHostFull",
)


def find_full_interpreters(figures: Figures) -> Iterator[Finding]:
    active = [worker for worker in figures.active if worker.interpreter_load is not None]
    full = [each for each in list_locked(active) if (each.interpreter_load or 0) >= REACHED]
    if not full:
        return
    ids, own = [worker.worker_id for worker in full], find_cpu_of_own_threads(figures) > 0
    one = ids[0] if len(ids) == 1 else None
    facts: Facts = {
        "load": max(worker.interpreter_load or 0 for worker in full),
        "busy": max((worker.concurrency or 0) for worker in full),
        "waiters": max((each.lock_waiters for each in full if each.lock_waiters is not None), default=None),
        "among": Private(ids * (1 < len(full) < len(active))),
    }
    if len(full) < len(active):
        yield SOME_SATURATED.found(figures, facts, one=one, worker_id=one)
        return
    worse = shows_a_limit(figures.flow) or any(map(queues_for_lock, full))
    yield ALL_SATURATED.found(figures, facts, own=own, worse=worse, worker_id=one, **advise(figures))


def see_own_threads(figures: Figures) -> Private:
    pids = [worker.local_pid for worker in figures.server.workers if worker.local_pid]
    return Private(name_pids(pids[:1] or [None]), "PID")


def find_throttled(figures: Figures) -> Iterator[Finding]:
    window, quota, cpus = figures.window, figures.server.quota, figures.server.cpus
    periods, throttled = window.quota_periods, window.throttled_periods
    if not quota or not periods or throttled is None or cpus is None:
        return
    part, (seen, alone) = throttled / periods, THROTTLED
    waits = waits_for_cpu(figures, CPU_WAIT, is_throttled=True) if are_waits_known(figures) else part >= alone
    waiting = (figures.waits.threads.get("cpu_wait", 0.0) if figures.waits else 0.0) * window.observed_seconds
    is_small = (window.throttled_seconds or 0.0) < OF_WAIT * waiting
    used = sum(worker.interpreter_load or 0 for worker in figures.active)
    is_full = used >= CPU_FULL * cpus.count and cpus.limited_by == "quota"  # `find_full_cpus` reports that
    if part < seen or throttled < LEAST_THROTTLED or is_small or is_full or not waits:
        return
    facts: Facts = {"part": part, "throttled": throttled, "periods": periods, "used": used}
    worse = shows_a_limit(figures.flow) or waits_for_cpu(figures, MOSTLY, is_throttled=True)
    yield QUOTA_STOPS.found(figures, facts, _describe_quota(figures, quota), worse=worse)


def _describe_quota(figures: Figures, quota: Quota) -> Facts:
    """Also the CPUs to which it is raised, no more than there are workers, unless it permits as many."""
    most, cgroup = min(quota.most, max(1, figures.balance.active)), quota.cgroup != "/" and Private(quota.cgroup)
    return {"quota": quota.cpus, "cgroup": cgroup, "most": most > quota.cpus and most}


def is_full_host(figures: Figures) -> bool:
    """Whether hardly any CPU of the host is idle, and nothing but the host limits those that the server can use."""
    cpu, cpus = figures.cpu, figures.server.cpus
    if cpu is None or cpus is None or cpus.limited_by != "host":
        return False
    return is_hardly_any_idle(cpu.idle, cpus.count)


def find_full_cpus(figures: Figures) -> Iterator[Finding]:
    cpus, left, active = figures.server.cpus, figures.cpu, figures.active
    if cpus is None:
        return
    used = sum(worker.interpreter_load or 0 for worker in active)
    if left is not None and (not active or are_children_busy(figures)):
        used = left.own  # workers that were replaced in the window are not compared, but use CPU
    alone = used >= CPU_FULL * cpus.count
    if not alone and not lacks_cpu(figures, cpus.count):
        # The workers' CPUs are not all in use, or that is unknown: others have more weight, or bursts.
        times = (figures.waits and figures.waits.per_request) or {}
        each, is_known = times.get("cpu_wait", 0.0), are_waits_known(figures)
        is_most = is_known and figures.flow.completed >= LEAST_REQUESTS and figures.share("cpu_wait") >= MOSTLY
        if each >= FELT and is_most and not list(find_throttled(figures)):  # that one says why
            idle, of_host = left is not None and left.idle, is_full_host(figures)
            yield CPU_WAITED.found(figures, all=sum(times.values()), each=each, idle=idle, of_host=of_host)
        return
    waits = shows_a_limit(figures.flow) or waits_for_cpu(figures, MOSTLY)
    lack = waits or waits_for_cpu(figures, CPU_WAIT)
    if not (alone or lack) and left is not None and (left.others or 0.0) > left.own:
        return  # the server has enough CPU, and `other_programs` reports who uses the rest
    # Beside others, a short wait in the queue may be that of a burst for a thread.
    is_felt = figures.waits is None or (figures.waits.each("cpu_wait") or FELT) >= FELT
    is_hurt = judge_waiting(figures.flow) == "severe" or (is_felt and waits_for_cpu(figures, STARVED))
    yield _full(figures, cpus, used, is_severe=waits if alone else is_hurt, alone=alone)
    if alone and len(active) > cpus.count:
        fewest, most = max(1, round(cpus.count)), max(2, round(2 * cpus.count))
        yield MORE_WORKERS.found(figures, cpus, busy=len(active), used=used, fewest=fewest, most=most)


def _full(figures: Figures, cpus: Cpus, used: float, *, is_severe: bool, alone: bool) -> Finding:
    left = None if alone else figures.cpu  # so that the figures add up
    facts: Facts = {
        "workers": figures.balance.active or len(figures.window.workers),
        "used": getattr(left, "own", used),
        "cpus": cpus.count,
        "beside": getattr(left, "others", None),
        "idle": getattr(left, "idle", None),
        "serving": figures.flow.observed or 0.0,
    }
    of_host = cpus.limited_by == "host" and (alone or find_main_role(figures) is None)
    if are_children_busy(figures):
        return CHILDREN.found(figures, facts)
    if alone:
        return WORKERS_USE_ALL.found(figures, facts | _advise_workers(figures, cpus), worse=is_severe, of_host=of_host)
    return OTHERS_USE_ALL.found(figures, facts | _advise_others(figures, cpus), worse=is_severe, of_host=of_host)


def _advise_workers(figures: Figures, cpus: Cpus) -> Facts:
    """What gives CPU to workers that use all that they may: one of these facts is known."""
    own = find_cpu_of_own_threads(figures) > 0 and see_own_threads(figures)
    by = not own and cpus.limited_by
    facts: Facts = {"own": own, "affinity": by == "affinity", "host": by == "host"}
    if by != "quota":
        return facts | {"quota": None, "cgroup": None, "most": None}
    return facts | _describe_quota(figures, figures.server.quota or Quota("/", cpus.count, 0))


def _advise_others(figures: Figures, cpus: Cpus) -> Facts:
    role, others = find_main_role(figures), (figures.cpu and figures.cpu.others) or 0.0
    facts = _name_others(figures, role)
    is_pinned = role is None and cpus.limited_by == "affinity"
    of_library = OF_LIBRARY if figures.server.sample.pool_variable else 1.0
    is_own = role is None and not is_pinned and find_cpu_of_own_threads(figures) > of_library * others
    is_host = role is None and not is_pinned and not is_own and not facts["look"]
    facts |= {"own": is_own and see_own_threads(figures), "affinity": is_pinned, "host": is_host}
    return facts | {"more": is_pinned or is_own}


def _name_others(figures: Figures, role: RoleUse | None) -> Facts:
    """The role of uWSGI's that is the main other program; without one, the backends on this host for which requests
    wait, and where to look first: who uses the CPU beside the workers is then most likely one of them."""
    facts: Facts = {"role": role and name_role(figures, role), "processes": role and role.processes}
    local = () if role else list_local(figures.destinations)
    if not local:
        return facts | {"backend": None, "look": None}
    label = " or ".join(sorted({each.name or "a backend" for each in local}))
    look = Private(see_backends(local), f"Check what {label} runs")
    return facts | {"backend": Private(join_labels(local), label), "look": look}


def find_other_programs(figures: Figures) -> Iterator[Finding]:
    cpu, room = figures.cpu, figures.headroom.by_limit.get("cpu")
    if cpu is None or cpu.others is None or room is None or room >= MODERATE_CPU:
        return
    capacity = cpu.own + cpu.idle + cpu.others
    if cpu.others <= cpu.own or cpu.idle >= ENOUGH_IDLE * capacity or list(find_full_cpus(figures)):
        return  # the last one says so
    role = find_main_role(figures)
    facts = _name_others(figures, role)
    may_wait = not are_waits_known(figures) or waits_for_cpu(figures, CPU_WAIT / 2)
    roles = [f"{name_role(figures, use)} ({use.cpus or 0.0:.2f} CPUs)" for use in _list_busy(figures)]
    yield USED_BY_OTHERS.found(
        figures,
        facts,
        cpu,
        worse=room < LOW_CPU and cpu.own >= LEAST_OWN * capacity and may_wait,
        of_host=role is None and is_full_host(figures),
        none=role is None and not facts["look"],
        cpus=capacity,
        room=room,
        roles=Private(roles and listed(roles)),
    )


def _list_busy(figures: Figures) -> list[RoleUse]:
    busy = [use for use in figures.server.roles if (use.cpus or 0.0) >= LEAST_CPUS]
    return sorted(busy, key=lambda use: -(use.cpus or 0.0))


def find_main_role(figures: Figures) -> RoleUse | None:
    """The role that uses most of the CPU that others use; None if that is another program's, or not known."""
    busy, others = _list_busy(figures), getattr(figures.cpu, "others", None)
    return busy[0] if busy and others and (busy[0].cpus or 0.0) >= others / 2 else None


_WORDS: dict[Role, str] = {"daemon": "attached daemon|attached daemons", "other": "other process|other processes"}


def name_role(figures: Figures, use: RoleUse) -> str:
    """Its processes in words, such as `mules` or `router`. uWSGI's stats alone tell crons from daemons."""
    words = _WORDS.get(use.role, f"{use.role}|{use.role}s").split("|")[use.processes != 1]
    return words + " or cron" * (use.role == "daemon" and not figures.window.is_counted)

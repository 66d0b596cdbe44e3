"""Findings about CPU: single interpreters, all CPUs together, and other programs that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.advice import Advice, advise_capacity
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.bottlenecks import GET_CPU, LESS_CHILDREN, OWN_THREADS_COMPUTE, find_computing_thread
from uwsgi_headroom.analysis.capacity import LEAST_OWN, REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, add_wait
from uwsgi_headroom.analysis.littles_law import judge_waiting, shows_a_limit
from uwsgi_headroom.analysis.roles import describe_busy, find_main_role, name_role
from uwsgi_headroom.analysis.shortages import (
    CPU_FULL,
    CPU_WAIT,
    are_children_busy,
    are_waits_known,
    find_cpu_of_own_threads,
    is_hardly_any_idle,
    lacks_cpu,
    list_loads,
    waits_for_cpu,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY, is_contended, queues_for_lock
from uwsgi_headroom.words.formats import counted, duration, factor, mean_count, numbered, percent

INTERPRETER_FULL = REACHED
"""At or above this load of an interpreter (CPU seconds per second), its threads mostly wait for its lock."""


def find_full_interpreters(figures: Figures) -> Iterator[Finding]:
    """The finding about interpreters that compute all the time."""
    active = [worker for worker in figures.balance.active if worker.interpreter_load is not None]
    full = [
        worker
        for worker in active
        if (worker.interpreter_load or 0) >= INTERPRETER_FULL and is_contended(worker) is not False
    ]
    if not full:
        return
    everywhere = len(full) == len(active)
    if len(full) == 1:
        saturated = f"The interpreter of worker {full[0].worker_id} is"
    elif everywhere:
        saturated = f"The interpreters of all {len(full)} workers are"
    else:
        saturated = "The interpreters of several workers are"  # which ones changes from window to window
    only = f"worker {full[0].worker_id}" if len(full) == 1 else ""
    which = "" if only or everywhere else f" among those of {numbered('worker', [worker.worker_id for worker in full])}"
    highest = max(worker.interpreter_load or 0 for worker in full)
    most = max((worker.concurrency or 0) for worker in full)
    waits = shows_a_limit(figures.flow) or any(queues_for_lock(worker) for worker in full)
    yield Finding(
        code="interpreter_bound",
        severity="critical" if everywhere and waits else "warning",
        title=f"{saturated} saturated.",
        clause=""
        if not everywhere
        else OWN_THREADS_COMPUTE
        if find_cpu_of_own_threads(figures)
        else f"{saturated[0].lower()}{saturated[1:]} saturated",
        **add_wait(
            f"{f'The interpreter of {only}' if only else f'The busiest interpreter{which}'} uses {highest:.2f} of a "
            f"CPU (an interpreter cannot use more than one); {only or 'the busiest worker'} has {mean_count(most)} "
            f"requests in service on average{_lock_clause(full)}",
            figures.flow,
            describe_own_threads(figures),
        )._asdict(),
        meaning="In each worker, only one thread at a time can run Python. The other threads of the worker wait, and "
        "each request takes longer." + (" The workers cannot serve more requests per second." if everywhere else ""),
        **(advise_capacity(figures) if everywhere else Advice(_MORE_PROCESSES))._asdict(),
    )


def describe_own_threads(figures: Figures) -> str:
    """How much CPU threads use that serve no request, as a sentence; empty if that is not most of it."""
    rest = find_cpu_of_own_threads(figures)
    if not rest:
        return ""
    used = sum(list_loads(figures))
    return f" Of the {used:.2f} CPUs that the workers use, background threads, which serve no requests, use {rest:.2f}."


def _see_own_threads(figures: Figures) -> str:
    """What to do about threads that serve no request beside other programs, as more sentences; empty without any."""
    return f" {find_computing_thread(figures)}" if find_cpu_of_own_threads(figures) else ""


_MORE_PROCESSES = "If CPUs are free, use more `processes` and fewer `threads`."


def _lock_clause(workers: Sequence[WorkerFigures]) -> str:
    """How many threads wait for the lock, as a clause; empty if that is not measured."""
    waiting = [worker.lock_waiters for worker in workers if worker.lock_waiters is not None]
    return f"; at most {mean_count(max(waiting))} of these wait for the interpreter lock" if waiting else ""


def _say_in_service(figures: Figures) -> str:
    """How many requests are in service, as a clause, and how much of their time they wait for a CPU, if that is
    measured."""
    waits = figures.waits
    serving = f"{mean_count(figures.flow.observed or 0.0)} requests"
    if waits is None:
        return f"{serving} are in service"
    return f"{serving} are in service, and spend {percent(waits.share('cpu_wait'))} of their time waiting for a CPU"


THROTTLED = (0.1, 0.25)
"""The part of the quota's periods in which it stopped the workers that is a finding if requests were measured to wait
for a CPU as well, and the part that is one where that is not measured: a period that ends while a request runs delays
it by up to a tenth of a second."""


OF_WAIT = 0.03
"""The stops have to add up to this part of the time for which requests waited for a CPU: else they wait for others. The
kernel counts a stop once for each CPU, however many threads wait on it."""

FELT = 0.02
"""Seconds of a request in the wait for a CPU from which on users may feel it, as for the listen queue."""

LEAST_THROTTLED = 5
"""Fewer stops than this in a window are no finding: the start of a worker takes as many."""


def find_throttled(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that a CPU quota stops again and again, although their mean use is below it."""
    window, quota, cpus = figures.window, figures.server.quota, figures.server.cpus
    periods, throttled = window.quota_periods, window.throttled_periods
    if not quota or not periods or throttled is None or cpus is None:
        return
    part, (seen, alone) = throttled / periods, THROTTLED
    waits = waits_for_cpu(figures, CPU_WAIT, is_throttled=True) if are_waits_known(figures) else part >= alone
    waiting = (figures.waits.threads.get("cpu_wait", 0.0) if figures.waits else 0.0) * window.observed_seconds
    is_small = (window.throttled_seconds or 0.0) < OF_WAIT * waiting
    if part < seen or throttled < LEAST_THROTTLED or is_small or not waits:
        return
    used = sum(worker.interpreter_load or 0 for worker in figures.balance.active)
    if used >= CPU_FULL * cpus.count and cpus.limited_by == "quota":
        return  # `find_full_cpus` reports that
    severe = shows_a_limit(figures.flow) or waits_for_cpu(figures, MOSTLY, is_throttled=True)
    yield Finding(
        code="cpu_throttled",
        severity="critical" if severe else "warning",
        title="Requests wait for the CPU quota of their container."
        if quota.cgroup == "/"
        else f"Requests wait for the CPU quota of the cgroup {quota.cgroup}.",
        **add_wait(
            f"The quota stopped the workers in {percent(part)} of its periods ({throttled} of {periods}), for "
            f"{duration(window.throttled_seconds or 0.0)} in total; on average, the workers use {used:.2f} of the "
            f"{_cpus(quota.cpus)} that the quota permits; {_say_in_service(figures)}",
            figures.flow,
            describe_busy(figures),
        )._asdict(),
        meaning="A CPU quota allows a certain CPU time in each period (0.1 s by default). When this time is used up, "
        "all processes that share the quota stop until the next period, even if CPUs are idle. More threads or "
        "processes would use up this time sooner.",
        clause="they wait for the CPU quota of "
        + ("their container" if quota.cgroup == "/" else f"the cgroup {quota.cgroup}"),
        change=_raise_quota(figures),
    )


def _raise_quota(figures: Figures) -> str:
    """How to raise the quota, from what to what. Workers of one interpreter each never use more CPUs than there are
    workers, so a quota of so many does not stop them."""
    quota, how = figures.server.quota, "CPUQuota, --cpus, resources.limits.cpu"
    if quota is None:
        return f"Raise the CPU quota of uWSGI's cgroup ({how})."
    most = min(quota.most, max(1, len(figures.balance.active)))
    where = "the container" if quota.cgroup == "/" else f"the cgroup {quota.cgroup}"
    if most <= quota.cpus:
        step = f"Raise the CPU quota of {where} (now {_cpus(quota.cpus)}; {how})"
        return f"{step}, or move other programs out of {where}."
    return f"Raise the CPU quota of {where} from {quota.cpus:g} to {counted(most, 'CPU')} ({how})."


LEAST_REQUESTS = 20
"""Fewer say more about themselves than about the CPUs."""


def _find_waits(figures: Figures) -> Iterator[Finding]:
    """The finding about requests that wait for a CPU although the workers' CPUs are not all in use, or where that is
    not known: others have a higher weight, run in bursts, or share a single CPU with them."""
    waits = figures.waits
    each = (waits.per_request or {}).get("cpu_wait", 0.0) if waits else 0.0
    if waits is None or each < FELT or not are_waits_known(figures) or waits.share("cpu_wait") < MOSTLY:
        return
    if figures.flow.requests < LEAST_REQUESTS:
        return
    if next(find_throttled(figures), None):
        return  # it says why
    idle = (
        f", {'although' if figures.cpu.idle >= 1 else 'and'} {figures.cpu.idle:.2f} CPUs are idle"
        if figures.cpu
        else ""
    )
    yield Finding(
        code="cpu_wait",
        severity="warning",
        title="Requests spend most of their time waiting for a CPU.",
        **add_wait(
            f"A request is in service for {duration(sum((waits.per_request or {}).values()))} on average, and waits "
            f"for a CPU for {duration(each)} of this time ({percent(waits.share('cpu_wait'))}){idle}",
            figures.flow,
            describe_busy(figures),
        )._asdict(),
        meaning="Requests are ready to run, but other programs, or other workers, occupy the CPUs on which these "
        "requests may run. Additional threads or processes would also wait.",
        change=GET_CPU,
        clause="requests in service wait for a CPU",
        of_host=is_full_host(figures),
    )


def is_full_host(figures: Figures) -> bool:
    """Whether hardly any CPU of the host is idle, and nothing but the host limits those that the server can use."""
    cpu, cpus = figures.cpu, figures.server.cpus
    if cpu is None or cpus is None or cpus.limited_by != "host":
        return False
    return is_hardly_any_idle(cpu.idle, cpus.count)


STARVED = 0.6
"""The share of requests' time in the wait for a CPU from which on other programs do severe harm: requests take 2.5
times as long. At one half, the verdict would change from run to run where each CPU has one other program of the same
priority."""


def find_full_cpus(figures: Figures) -> Iterator[Finding]:
    """The findings about CPUs that are all in use."""
    cpus = figures.server.cpus
    if cpus is None:
        return
    active = figures.balance.active
    left, workers = figures.cpu, len(active)
    used = sum(worker.interpreter_load or 0 for worker in active)
    if not active and left is not None:  # workers that were replaced in the window are not compared, but use CPU
        used, workers = left.own, len(figures.window.workers)
    by_children = are_children_busy(figures)
    if by_children and left is not None:
        used = left.own
    if used < CPU_FULL * cpus.count and not lacks_cpu(figures, cpus.count):
        yield from _find_waits(figures)
        return
    limit = {
        "affinity": "Widen `cpu-affinity`, or the affinity mask that the service manager sets.",
        "quota": _raise_quota(figures),
        "host": "Add CPUs, or move load to another host.",
    }
    alone = used >= CPU_FULL * cpus.count
    waits = shows_a_limit(figures.flow) or waits_for_cpu(figures, MOSTLY)
    # Beside others, a short wait in the queue may be that of a burst for a thread.
    is_felt = figures.waits is None or (figures.waits.each("cpu_wait") or FELT) >= FELT
    is_hurt = judge_waiting(figures.flow) == "severe" or (is_felt and waits_for_cpu(figures, STARVED))
    lack = waits or waits_for_cpu(figures, CPU_WAIT)
    if not (alone or lack) and left is not None and (left.others or 0.0) > left.own:
        return  # the server has enough CPU, and `other_programs` reports who uses the rest
    role = find_main_role(figures)
    others = "" if left is None or left.others is None else f", other programs use {left.others:.2f}"
    idle = "" if alone or left is None else f"{others}, and {left.idle:.2f} CPUs are idle"
    shown = used if alone or left is None else left.own  # so that the figures add up
    yield Finding(
        code="cpu_bound",
        severity="critical" if (waits if alone else is_hurt) else "warning",
        title="Programs that the application starts use all CPUs."
        if by_children
        else "The workers use all the CPU that they can get."
        if alone
        else f"The workers and uWSGI's own {name_role(role)} use all CPUs."
        if role
        else "The workers and other programs use all CPUs.",
        **add_wait(
            f"{counted(workers, 'worker')} {'uses' if workers == 1 else 'use'} {shown:.2f} of {_cpus(cpus.count)}"
            f"{idle}; {_say_in_service(figures)}",
            figures.flow,
            ("" if alone else describe_busy(figures)) + describe_own_threads(figures),
        )._asdict(),
        meaning="If load grows, so do response times. No uWSGI option adds CPUs.",
        change=LESS_CHILDREN
        if by_children
        else find_computing_thread(figures)
        if alone and find_cpu_of_own_threads(figures)
        else limit[cpus.limited_by]
        if alone
        else f"Find out what the {name_role(role)} of this uWSGI {'computes' if role.processes == 1 else 'compute'}, "
        "and move this work to another host, or add CPUs."
        if role
        else f"{limit['affinity']} Then move the other programs to another host.{_see_own_threads(figures)}"
        if cpus.limited_by == "affinity"
        else f"{find_computing_thread(figures)} Then move the other programs to another host, or add CPUs."
        if find_cpu_of_own_threads(figures) > ((left and left.others) or 0.0)
        else f"Move the other programs to another host, or add CPUs.{_see_own_threads(figures)}",
        clause="programs that the application starts use all CPUs"
        if by_children
        else OWN_THREADS_COMPUTE
        if alone and find_cpu_of_own_threads(figures)
        else "the workers use all the CPU that they can get"
        if alone
        else f"no CPU is idle beside uWSGI's own {name_role(role)}"
        if role
        else "no CPU is idle",
        of_host=cpus.limited_by == "host" and (alone or role is None) and not by_children,
    )
    if alone and len(active) > cpus.count:
        yield Finding(
            code="more_workers_than_cpus",
            severity="info",
            title="There are more busy workers than CPUs.",
            evidence=f"{len(active)} workers are busy, and use {used:.2f} of {_cpus(cpus.count)}; the mean "
            f"response time is {duration(figures.flow.response_time or 0)}.",
            meaning="Workers that compute at the same time share the CPUs. Further workers would take more memory, but "
            "requests would not be served faster.",
            change=f"If requests mostly compute, do not add `processes`: {max(1, round(cpus.count))} to "
            f"{max(2, round(2 * cpus.count))} are enough (now {len(figures.server.workers)}).",
        )


ENOUGH_IDLE = 0.5
"""If at least this fraction of the CPUs is idle, there is enough CPU for all programs."""

LOW_CPU, MODERATE_CPU = 1.5, 3.0
"""CPU headroom below which other programs are a warning, and below which they are good to know. Raise both if load
jumps."""


def find_other_programs(figures: Figures) -> Iterator[Finding]:
    """The finding about other programs."""
    cpu = figures.cpu
    room = figures.headroom.by_limit.get("cpu")
    if cpu is None or cpu.others is None or room is None or room >= MODERATE_CPU:
        return
    capacity = cpu.own + cpu.idle + cpu.others
    if next(find_full_cpus(figures), None):
        return  # it says so
    if cpu.others <= cpu.own or cpu.idle >= ENOUGH_IDLE * capacity:
        return
    own = find_main_role(figures)
    yield Finding(
        code="cpu_used_by_others",
        severity="warning" if room < LOW_CPU and cpu.own >= LEAST_OWN * capacity and _may_wait(figures) else "info",
        title=f"uWSGI's own {name_role(own)} {'uses' if own.processes == 1 else 'use'} more CPU than the workers do."
        if own
        else "Other programs use more CPU than the workers do.",
        evidence=f"Of {_cpus(capacity)}, the workers use {cpu.own:.2f}, other programs use {cpu.others:.2f}, and "
        f"{cpu.idle:.2f} are idle: the workers can use {factor(room)} the CPU that they use "
        f"now.{describe_busy(figures)}",
        meaning="If load grows, the workers compete with other programs for CPU, and response times grow. uWSGI's own "
        "mules, spoolers and routers count as other programs.",
        change=f"Find out what the {name_role(own)} of this uWSGI {'computes' if own.processes == 1 else 'compute'}, "
        "and move this work to another host, or limit the CPU that it may use."
        if own
        else "Move the other programs to another host, or limit their CPU with a cgroup quota.",
        of_host=own is None and is_full_host(figures),
    )


def _may_wait(figures: Figures) -> bool:
    """Whether requests were measured to wait for a CPU for a notable part of their time, or nothing was measured. The
    kernel shares CPUs fairly, so a server that uses little of them hardly waits beside busy other programs."""
    return not are_waits_known(figures) or waits_for_cpu(figures, CPU_WAIT / 2)


def _cpus(count: float) -> str:
    """Format a number of CPUs. It may be measured, so it is rounded: 1.98 becomes 2."""
    number = f"{count:.1f}".removesuffix(".0")
    return f"{number} CPU{'' if number == '1' else 's'}"

"""Findings about uWSGI's parts beside its workers: caches, spoolers, vassals, routers, and its setup."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.log import UNPROVEN
from uwsgi_headroom.analysis.findings.workers import LOOP
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.setting_facts import parse_version
from uwsgi_headroom.analysis.settings import review_server
from uwsgi_headroom.analysis.worker_states import RECYCLED, count_workers_sharing_one_cpu
from uwsgi_headroom.surroundings import EmperorRecord
from uwsgi_headroom.uwsgi_log.messages import advise, describe
from uwsgi_headroom.words.formats import listed
from uwsgi_headroom.words.template import Facts, Private

REFUSED = 3
"""So many refused items in a window make a full cache a warning: one or two may be a burst that expires."""

MANY_TASKS = 10
"""Fewer tasks in a spooler's directory are work in progress."""

LATE = 60.0
"""Seconds that the last task waits, at the window's rate, from which on the spooler is late."""

MOST_NAMED = 3

UNIX_SOCKET_ROOM = 219_264
"""The size in bytes of a document that a UNIX socket accepts before its writer blocks (measured, Linux defaults)."""

BUSY = 0.3
"""At or above this CPU use (CPU seconds per second), a worker suffers from sharing its only CPU with another worker."""

THREADS_OFF = Kind(
    code="threads_stand_still",
    role="harm",
    severity="warning",
    title="Threads that the application started hardly run: `enable-threads` is off.",
    evidence="While a worker is idle, {starved} of its threads {starved:waits|wait} for the interpreter lock (GIL).",
    meaning="Without `enable-threads` (off by default before uWSGI 2.0.27), such threads run only while a request "
    "waits, if at all. Libraries that report errors, metrics or traces then lose data, or report late.",
    act="Set `enable-threads`, and restart uWSGI.",
)

CACHE_FULL = Kind(
    code="cache_full",
    role="limit",
    severity="warning or info",
    title="The {full:cache|caches} {names} {full:is|are} full.",
    evidence="In the last {seconds:duration}, [at_most? at most ]{cache_full:new item} found no room"
    "[items? ; {first} holds {items} of at most {most:item}].",
    meaning="If an item finds no room, uWSGI does not store it, and the application has to compute it again. With "
    "`purge_lru`, it drops an old one instead. A full cache with fewer items than `items` probably has no free block.",
    act="Raise `items` of the cache (and `blocks`, if an item takes several blocks).",
    then="Alternatively, let items expire, or set `purge_lru=1`: uWSGI then drops the least recently used item.",
)

SPOOLER_BEHIND = Kind(
    code="spooler_behind",
    role="limit",
    severity="warning or info",
    title="[info? The spooler has a long list of tasks to process.][warning, done? The spooler falls behind: tasks "
    "arrive faster than it processes them.][warning, not done? The spooler processes none of its tasks.]",
    evidence="{waiting:task} wait in {directories}[more? , {more} more than {seconds:duration} ago]; {processes} "
    "{processes:process|processes} completed {done:task} in {seconds:duration}"
    "[late? ; at this rate, a new task waits {late:duration}].",
    meaning="Each task is a file in the spool directory until it is processed. Requests are not affected.",
    act="[warning, done? Raise `spooler-processes`, or make the tasks shorter.]"
    "[warning, not done, look? Find out from uWSGI's log why no task ends: it names each task that is tried again.]"
    "[warning, not done, fix? {fix}]",
    then="[warning? The spooler tries a task again if it returns `SPOOL_RETRY` or raises an exception: uWSGI's log "
    "names it.]",
    log=("spooler_refuses",),
)

SPOOLER_DIES = Kind(
    code="spooler_dies",
    role="harm",
    severity="warning",
    title="The spooler ends again and again, and uWSGI starts it again.",
    evidence="Processes of the spooler ended {times:times} in the last {seconds:duration}, and completed {done:task}."
    "[limit?  `spooler-harakiri` ends a task after {limit} s.]",
    meaning="A task that ends its process stays in its directory, and the next process picks it up again.",
    act="[limit? Raise `spooler-harakiri` ({limit}) above the duration of the longest task.]"
    "[not limit? Move the file of the task that the spooler took last out of its directory.]",
    then="uWSGI's log names it (`managing request`). Then find out why the task ends the process, or takes so long.",
)

VASSALS_THROTTLED = Kind(
    code="vassals_throttled",
    role="harm",
    severity="warning",
    title="{throttled:vassal} of the emperor {throttled:fails|fail} to start.",
    evidence="The emperor waits before it tries again to start {names}[longest? , for {longest:duration} at most]."
    "[said?  The emperor's log says that {said}.]",
    meaning="The application of a throttled vassal is down: the emperor waits longer and longer between its attempts "
    "to start it. {vassals:other vassal} {vassals:is|are} running.",
    act="[fix? {fix}][not fix? Check the emperor's log for the reason why a vassal exits when it starts.]",
    then="Correct the cause: the emperor then starts the vassal at its next attempt.",
    runbook="UwsgiVassalThrottled",
)

VASSAL_REFUSED = Kind(
    code="vassal_refused",
    role="harm",
    severity="warning",
    title="The emperor refuses to start a vassal[name? , {name}]: its file belongs to root.",
    evidence="The emperor's log says so. " + UNPROVEN,
    meaning="In tyrant mode, a vassal runs as the user and the group of its file, and neither may be root.",
    act="Give the file to the user and the group that its application is to run as, with `chown`.",
)

SHARE_ONE_CPU = Kind(
    code="workers_share_one_cpu",
    role="setting",
    severity="warning or info",
    title="{sharing} workers are each restricted to one CPU that another worker also uses.",
    evidence="The affinity mask of each of these workers has only one CPU, which another worker has, too.",
    meaning="Workers on the same CPU wait for one another, even if other CPUs are idle.",
    act="Remove `cpu-affinity`.",
    then="Alternatively, choose its value so that `processes` x `cpu-affinity` is at most the number of CPUs. In a "
    "container, uWSGI counts the host's CPUs, not the container's.",
    runbook="UwsgiCpuBound",
)

LARGE_DOCUMENT = Kind(
    code="large_document",
    role="setting",
    severity="info",
    title="The stats document is larger than the buffer of a UNIX socket.",
    evidence="Its size is {kilobytes} kB; the buffer of a UNIX socket has room for {room} kB.",
    meaning="While a client reads only part of it, uWSGI's master waits, and neither restarts workers nor reloads.",
    act="Set `stats-minified` and `stats-no-metrics`.",
    then="Or serve `stats` on 127.0.0.1: the buffer of a TCP socket holds 4 MB.",
)

ROUTER_STOPPED = Kind(
    code="router_stopped",
    role="harm",
    severity="critical or warning",
    title="[every? uWSGI's router is stopped, so no client gets a response through it.]"
    "[not every? A process of uWSGI's router is stopped, and its clients get no response.]",
    evidence="SIGSTOP, a debugger or a cgroup freezer stopped it.[counted?  {requests:request} came in "
    "{seconds:duration}.]",
    act="Resume the router: `kill -CONT {pids}`.",
    page_after=60,
)

ROUTER_BUSY = 0.7
"""Of a CPU, on average of its processes: then a connection waits for twice the time that it takes (M/M/1)."""

ROUTER_FULL = Kind(
    code="router_full",
    role="limit",
    severity="warning",
    title="uWSGI's router uses most of a CPU, which is all that one process can use.",
    evidence="The router has {processes:process} and uses {cpus:cpu} CPUs.",
    meaning="It has one thread for all connections, with their TLS handshakes, so clients wait for it before a worker "
    "has their request. No figure of the workers shows that wait.",
    act="Raise `http-processes`, or let a web server such as nginx do TLS and keep connections alive.",
    clause="uWSGI's router uses most of a CPU",
    limits="always",
)

ROUTER_OUT_OF_FILES = Kind(
    code="router_full",
    role="harm",
    severity="critical",
    title="uWSGI's router has no file descriptor left, and turns clients away.",
    evidence="A process of it has {open} open, and may have {most}.",
    meaning="Each client takes one descriptor, also while its connection is idle, and each request in service takes "
    "two. No figure of the workers shows it.",
    act="Raise `max-fd`, to 65536 for example.",
    then="Or shorten `http-keepalive`, or let a web server such as nginx keep connections.",
    page_after=60,
)
_SPARE_FILES = 3

SETTINGS_HURT = Kind(
    code="settings_hurt",
    role="setting",
    severity="info",
    title="Some settings of this uWSGI will cause trouble later.",
    evidence="{titles}",
    act="Run `uwsgi-headroom review[which?  {which}]`: it prints the lines to add to uWSGI's configuration.",
)


def find_threads_off(figures: Figures) -> Iterator[Finding]:
    server, options = figures.server, figures.server.setup.options
    is_off = options.complete and not options.enable_threads and (parse_version(server.version) or (9,)) < (2, 0, 27)
    if server.starved and is_off:
        yield THREADS_OFF.found(figures, starved=server.starved)


def find_hindered_routers(figures: Figures) -> Iterator[Finding]:
    for use in [each for each in figures.server.roles if each.role == "router"]:
        if (use.cpus or 0.0) >= ROUTER_BUSY * max(1, use.processes):
            yield ROUTER_FULL.found(figures, processes=use.processes, cpus=use.cpus)
        if use.most_files and use.files > use.most_files - _SPARE_FILES:
            yield ROUTER_OUT_OF_FILES.found(figures, open=use.files, most=use.most_files)
        if use.stopped:
            every = len(use.stopped) == use.processes
            pids = Private(" ".join(map(str, use.stopped)), "PID")
            yield ROUTER_STOPPED.found(figures, every=every, pids=pids, worse=every and figures.none_came)


def find_full_caches(figures: Figures) -> Iterator[Finding]:
    """The finding about the caches without room now, or else all that ever refused an item since uWSGI's start."""
    refused, options = figures.window.cache_full, figures.server.setup.options
    # With `purge_lru` uWSGI counts an item that it makes room for as well (measured on 2.0.31).
    ever = [cache for cache in figures.server.caches if cache.full and cache.name not in options.purging_caches]
    # uWSGI keeps one of `items` for itself.
    full = [cache for cache in ever if cache.items is not None and cache.items >= (cache.max_items or 0) - 1] or ever
    if not refused or not full:
        return
    yield CACHE_FULL.found(
        figures,
        worse=refused >= REFUSED and options.complete,
        full=len(full),
        names=listed([f"`{cache.name}`" for cache in full], MOST_NAMED),
        at_most=bool(options.purging_caches),
        cache_full=refused,
        first=f"`{full[0].name}`",
        items=full[0].max_items and full[0].items,
        most=(full[0].max_items or 1) - 1,
    )


def _find_dying_spoolers(figures: Figures) -> Iterator[Finding]:
    window, times, options = figures.window, figures.window.spooler_respawns or 0, figures.server.setup.options
    recycled = ratio(window.spooler_tasks or 0, options.spooler_max_tasks or 0)
    processes, limit = sum(each.processes for each in figures.server.spoolers), options.spooler_harakiri or 0
    is_loop = times >= max(LOOP[0], LOOP[1] * window.seconds / 60) and not window.reloads
    if is_loop and (recycled is None or RECYCLED * times > recycled + processes):
        limit *= times * limit <= window.seconds * (1 + processes)  # else it cannot have ended so many
        yield SPOOLER_DIES.found(figures, times=times, done=window.spooler_tasks or 0, limit=limit or None)


def find_late_spoolers(figures: Figures) -> Iterator[Finding]:
    window, spoolers = figures.window, figures.server.spoolers
    yield from _find_dying_spoolers(figures)
    waiting, done, growth = window.spooled, window.spooler_tasks, window.spooled_growth or 0
    if waiting is None or done is None or waiting < MANY_TASKS or not (spoolers and window.seconds):
        return
    seconds = ratio(waiting * window.seconds, done)
    if seconds is not None and seconds < LATE:
        return
    behind = [spooler for spooler in spoolers if spooler.tasks] or spoolers
    yield SPOOLER_BEHIND.found(
        figures,
        worse=not done or growth > 0,
        waiting=waiting,
        directories=Private(listed([spooler.directory for spooler in behind], MOST_NAMED), "the spool directory"),
        more=max(0, growth) or None,
        processes=sum(spooler.processes for spooler in behind),
        done=done or None,
        late=seconds,
    )


def collect_emperor_findings(record: EmperorRecord) -> list[Finding]:
    found, throttled, start = list[Finding](), record.throttled, record.start
    if throttled:
        names = Private(listed(throttled, MOST_NAMED), "them")
        facts: Facts = {"said": start and describe(start), "fix": start and advise(start)}
        found.append(VASSALS_THROTTLED.found(None, record, facts, throttled=len(throttled), names=names))
    if record.refused:
        found.append(VASSAL_REFUSED.found(name=Private(record.refused)))
    return found


def find_setup(figures: Figures) -> Iterator[Finding]:
    server = figures.server
    if sharing := count_workers_sharing_one_cpu(server):
        is_busy = any((worker.interpreter_load or 0.0) >= BUSY for worker in figures.workers)
        yield SHARE_ONE_CPU.found(figures, sharing=sharing, worse=is_busy)
    if server.document_bytes > UNIX_SOCKET_ROOM:
        yield LARGE_DOCUMENT.found(kilobytes=server.document_bytes // 1000, room=UNIX_SOCKET_ROOM // 1000)
    warnings = [advice.title for advice in review_server(server) or () if advice.severity == "warning"]
    if warnings:
        which = Private(server.address and shlex.quote(server.address))
        yield SETTINGS_HURT.found(titles=" ".join(warnings[:MOST_NAMED]), which=which)

"""The rules of the review: each is a function of a uWSGI's options and of what is seen of it, and yields advice.

A rule that needs to know that an option is *not* set speaks only where every option is known (`Options.complete`). The
defaults and versions are those of uWSGI's source, 2.0.17 to 2.0.31. Nothing here repeats a value of an option, other
than a number.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from uwsgi_headroom.record import DEFAULT_MIN_LIFETIME, AdviceSeverity, Options, ServerRecord, spell_option
from uwsgi_headroom.words.formats import counted

THINGS_TO_KNOW = "https://uwsgi-docs.readthedocs.io/en/latest/ThingsToKnow.html"
RELOADING = "https://uwsgi-docs.readthedocs.io/en/latest/articles/TheArtOfGracefulReloading.html"
HTTP = "https://uwsgi-docs.readthedocs.io/en/latest/HTTP.html"
OPTIONS = "https://uwsgi-docs.readthedocs.io/en/latest/Options.html"
CHEAPER = "https://uwsgi-docs.readthedocs.io/en/latest/Cheaper.html"
PRODUCTION = "https://www.techatbloomberg.com/blog/configuring-uwsgi-production-deployment/"
SIGNALS = "https://uwsgi-docs.readthedocs.io/en/latest/Management.html"
THUNDER = "https://uwsgi-docs.readthedocs.io/en/latest/articles/SerializingAccept.html"
SOURCE = "uWSGI's source"

DEFAULT_LISTEN = 100
DEFAULT_MERCY = 60
"""Seconds of `worker-reload-mercy`."""

NEVER = "never."
"""When a setting that always matters does not."""

MAX_REQUESTS_DELTA = (2, 0, 29)
"""The first version with `max-requests-delta`; an earlier one does not start with it under `strict`."""

DEFAULT_HTTP_TIMEOUT = 60
DEFAULT_BUFFER = 4096

GENERAL = "General advice: nothing of a running uWSGI shows whether it matters here."

_MOST_DESCRIPTORS = 1 << 20
"""A router keeps a table of 8 bytes for each descriptor that it may open: beyond this limit, it takes over 8 MB."""

_LONG_MERCY = 300

_LONG_WITHOUT_LIMITS = 60
"""Seconds of `min-worker-lifetime` above which a worker may outgrow its limits."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is seen of a uWSGI that runs; None where it is unknown, as for a file alone.

    threads: of each worker; mounted: how many applications a worker has; extensions: names of loaded modules in C that
    are known to fail beside a second interpreter; descriptors: the limit of open files of the master; is_first: whether
    the master is the first process of its container; unit: its systemd service; logs_to_pipe: whether its standard
    error is a pipe; is_vassal: whether an
    emperor runs it.
    """

    version: tuple[int, ...] | None = None
    workers: int | None = None
    threads: int | None = None
    mounted: int | None = None
    extensions: tuple[str, ...] = ()
    somaxconn: int | None = None
    descriptors: int | None = None
    is_first: bool | None = None
    is_vassal: bool = False
    unit: str = ""
    logs_to_pipe: bool | None = None

    @property
    def is_running(self) -> bool:
        """Whether a uWSGI that runs was read."""
        return self.version is not None or self.workers is not None

    def knows(self, *version: int) -> bool:
        """Whether this uWSGI is at least of this version; a version that is not known is taken for a new one."""
        return self.version is None or self.version >= version


@dataclass(frozen=True, slots=True)
class Advice:
    """What will cause trouble, and how to prevent it. warning: it will, on what is known; info: it may.

    rule: a stable name; title: what hurts, as one sentence; reason: why; seen: the evidence; lines: to write into the
    configuration; change: what to do if a line is not enough; needs: the first version that has the lines, empty if all
    have; unless: when it does not matter.
    """

    rule: str
    severity: AdviceSeverity
    title: str
    reason: str
    lines: tuple[str, ...]
    unless: str
    source: str
    change: str = ""
    needs: str = ""
    seen: str = GENERAL
    sets: tuple[str, ...] = field(default=())
    """Names of the options that the rule read, to say where they are set."""


Rule = Callable[[Options, Evidence], Iterator[Advice]]


def review(options: Options, seen: Evidence) -> list[Advice]:
    """All advice on these options, warnings first."""
    found = [advice for rule in RULES for advice in rule(options, seen)]
    placed = [_place(advice, options) for advice in found]
    return sorted(placed, key=lambda advice: advice.severity == "info")


def review_server(server: ServerRecord) -> Sequence[Advice] | None:
    """All advice on the settings of a uWSGI that runs, as far as an exporter knows it; None if its options are not
    known. What the command `review` reads besides (the systemd unit, modules in C, where the log goes) is not seen."""
    options = server.setup.options
    if not (options.complete or options.source):
        return None
    threads = {worker.threads for worker in server.workers}
    seen = Evidence(
        version=parse_version(server.version),
        workers=len(server.workers) or None,
        threads=threads.pop() if len(threads) == 1 else None,
        mounted=server.mounted,
        somaxconn=server.setup.somaxconn,
        is_vassal=server.is_vassal,
    )
    return _review_once(_Same(options), seen)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """Options, equal to themselves alone: an exporter reads them rarely, and each scrape asks what the rules say."""

    options: Options

    def __hash__(self) -> int:
        return id(self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.options is self.options


@lru_cache(maxsize=512)
def _review_once(same: _Same, seen: Evidence) -> tuple[Advice, ...]:
    return tuple(review(same.options, seen))


def _place(advice: Advice, options: Options) -> Advice:
    """Say where the options are set that the advice is about."""
    places = [
        f"`{spell_option(name)}` is set {_where(options.source[name])}"
        for name in advice.sets
        if name in options.source
    ]
    before = "" if advice.seen == GENERAL else f"{advice.seen} "
    return replace(advice, seen=f"{before}{'; '.join(places)}.") if places else advice


def _where(source: str) -> str:
    return "on the command line" if source == "command line" else f"in {source}"


def _workers(options: Options, seen: Evidence) -> int | None:
    return seen.workers or options.processes or (1 if options.complete else None)


def _threads(options: Options, seen: Evidence) -> int | None:
    return seen.threads or options.threads or (1 if options.complete else None)


def _size(options: Options, seen: Evidence) -> str:
    workers, threads = _workers(options, seen) or 1, _threads(options, seen) or 1
    return f"{counted(workers, 'worker')} of {counted(threads, 'thread')}."


def _is_missing(options: Options, value: object) -> bool:
    return options.complete and not value


def _master(options: Options, seen: Evidence) -> Iterator[Advice]:
    if not seen.is_running and options.complete and not options.master and not options.stats:
        yield Advice(
            "master",
            "warning",
            "A worker that ends is not replaced, and nothing can be reloaded or watched.",
            "Without a master, uWSGI's processes look after themselves.",
            ("master = true",),
            "uWSGI runs as a development server.",
            THINGS_TO_KNOW,
        )


_FLAGS = (
    Advice(
        "strict",
        "info",
        "uWSGI ignores a misspelt option without a message.",
        "With `strict`, uWSGI names the misspelt option, and does not start.",
        ("strict = true",),
        "no option is misspelt. If the configuration has variables of its own, write them as `set-placeholder = "
        "name=value` before you set `strict`.",
        PRODUCTION,
    ),
    Advice(
        "need_app",
        "info",
        "If the application cannot be imported, uWSGI still starts, and answers every request with an error.",
        "A failed deployment then looks like a successful one.",
        ("need-app = true",),
        "the proxy names an application for each request, and uWSGI loads it when the request arrives.",
        PRODUCTION,
    ),
    Advice(
        "vacuum",
        "info",
        "uWSGI leaves its UNIX sockets behind when it exits.",
        "A proxy or an exporter then finds a socket on which no process listens, instead of no socket.",
        ("vacuum = true",),
        "the sockets are TCP sockets, or are in a directory that the service manager empties.",
        PRODUCTION,
    ),
)
"""About flags that are better set; each is named after its field."""


def _flags(options: Options, _seen: Evidence) -> Iterator[Advice]:
    yield from (advice for advice in _FLAGS if _is_missing(options, getattr(options, advice.rule)))


def _die_on_term(options: Options, seen: Evidence) -> Iterator[Advice]:
    if not _is_missing(options, options.die_on_term) or seen.is_vassal:
        return
    evidence = GENERAL
    if seen.is_first:
        evidence = "This master is the first process of its container: the container is stopped with SIGTERM."
    elif seen.unit:
        evidence = f"This master runs in {seen.unit}, which systemd stops with SIGTERM unless the unit says otherwise."
    yield Advice(
        "die_on_term",
        "warning" if seen.is_first else "info",
        "SIGTERM does not stop uWSGI, but reloads it at once and loses requests.",
        "Service managers and containers stop a process with SIGTERM, and kill it some seconds later.",
        ("die-on-term = true",),
        "the unit has `KillSignal=SIGQUIT` or SIGINT, or an emperor runs this uWSGI.",
        SIGNALS,
        seen=evidence,
    )


def _enable_threads(options: Options, seen: Evidence) -> Iterator[Advice]:
    if seen.version and seen.knows(2, 0, 27):
        return  # on by default
    if _is_missing(options, options.enable_threads) and _threads(options, seen) == 1:
        yield Advice(
            "enable_threads",
            "warning" if seen.version else "info",
            "Threads that the application starts never run, because Python's threads are off.",
            "Before uWSGI 2.0.27, Python's threads are off unless an option turns them on. Client libraries for "
            "metrics, tracing and error reports use threads.",
            ("enable-threads = true",),
            "this is uWSGI 2.0.27 or later, where threads are on.",
            THINGS_TO_KNOW,
            seen=f"This is uWSGI {'.'.join(map(str, seen.version))}, with one thread per worker."
            if seen.version
            else GENERAL,
        )


def _single_interpreter(options: Options, seen: Evidence) -> Iterator[Advice]:
    if not _is_missing(options, options.single_interpreter) or (seen.mounted or 2) < 2:
        return
    names = ", ".join(seen.extensions)
    yield Advice(
        "single_interpreter",
        "warning" if names else "info",
        "Each application after the first runs in an interpreter of its own, where modules in C may fail or hang.",
        "Many modules in C support one interpreter per process only.",
        ("single-interpreter = true",),
        "a worker has one application: the first runs in the main interpreter.",
        PRODUCTION,
        seen=f"{counted(seen.mounted, 'application')} in a worker" + (f", with {names} loaded." if names else ".")
        if seen.mounted
        else GENERAL,
    )


def _fork_safety(options: Options, seen: Evidence) -> Iterator[Advice]:
    workers = _workers(options, seen)
    if _is_missing(options, options.lazy_apps) and (workers or 1) > 1:
        yield Advice(
            "lazy_apps",
            "info",
            "Connections that the application opens while it is imported are shared by all workers.",
            "The application is imported once, then the workers are forked. Two workers that use one connection read "
            "each other's responses, or wait for each other.",
            ("lazy-apps = true",),
            "the application opens its connections in requests or in a function with `@postfork`. With `lazy-apps`, "
            "the workers take more memory, and start more slowly.",
            THINGS_TO_KNOW,
            seen=_size(options, seen) if seen.is_running else GENERAL,
        )


def _max_requests_delta(options: Options, seen: Evidence) -> Iterator[Advice]:
    most, workers = options.max_requests or 0, _workers(options, seen) or 1
    if not most or workers < 2 or not _is_missing(options, options.max_requests_delta):
        return
    lines: tuple[str, ...] = (f"max-requests-delta = {max(1, most // workers)}",)
    needs, change = "2.0.29", ""
    if not seen.knows(*MAX_REQUESTS_DELTA):
        lines, needs = ("max-worker-lifetime = 3600", "max-worker-lifetime-delta = 300"), "2.0.20"
        change = "Remove `max-requests`: this version can spread restarts by age, but not by requests."
    if not seen.knows(2, 0, 20):
        lines, needs, change = (), "", "Upgrade uWSGI: this version cannot spread the restarts."
    yield Advice(
        "max_requests_delta",
        "warning",
        "All workers reach `max-requests` at about the same time, and no requests are served while they restart.",
        "Workers share the load evenly, so they reach this number of requests at nearly the same time.",
        lines,
        "the workers start in milliseconds, or their shares of the requests differ a lot.",
        SOURCE,
        change=change,
        needs=needs,
        seen=_size(options, seen),
        sets=("max_requests",),
    )


def _max_worker_lifetime_delta(options: Options, seen: Evidence) -> Iterator[Advice]:
    life, workers = options.max_worker_lifetime or 0, _workers(options, seen) or 1
    if life and workers > 1 and _is_missing(options, options.max_worker_lifetime_delta) and seen.knows(2, 0, 20):
        yield Advice(
            "max_worker_lifetime_delta",
            "warning",
            "All workers reach `max-worker-lifetime` at the same time, and no requests are served while they restart.",
            "The workers started together, so they reach this age together.",
            (f"max-worker-lifetime-delta = {max(1, life // workers)}",),
            "the workers start in milliseconds.",
            SOURCE,
            needs="2.0.20",
            seen=_size(options, seen),
            sets=("max_worker_lifetime",),
        )


def _min_worker_lifetime(options: Options, _seen: Evidence) -> Iterator[Advice]:
    least, most = options.min_worker_lifetime, options.max_worker_lifetime
    if least is None and options.complete:
        least = DEFAULT_MIN_LIFETIME
    if least is None:
        return
    default = "" if options.min_worker_lifetime is not None else ", the default"
    if most and least >= most:
        yield Advice(
            "max_worker_lifetime",
            "warning",
            "The next start of uWSGI will fail: `max-worker-lifetime` is not above `min-worker-lifetime`.",
            "A worker would have to end before it is allowed to.",
            (f"min-worker-lifetime = {most // 2}",),
            NEVER,
            SOURCE,
            seen=f"`min-worker-lifetime` is {least} s{default}; `max-worker-lifetime` is {most} s.",
            sets=("min_worker_lifetime", "max_worker_lifetime"),
        )
    limits = [name for name in ("max_requests", "reload_on_rss", "reload_on_as") if getattr(options, name)]
    if limits and least > _LONG_WITHOUT_LIMITS:
        yield Advice(
            "min_worker_lifetime",
            "info",
            "A worker that has just started may grow far beyond the limits at which uWSGI replaces workers.",
            "uWSGI does not replace a worker that is younger than `min-worker-lifetime`, however many requests it has "
            "served and however much memory it takes.",
            (f"min-worker-lifetime = {DEFAULT_MIN_LIFETIME}",),
            "memory grows slowly.",
            SOURCE,
            seen=f"`min-worker-lifetime` is {least} s; limits: "
            f"{', '.join(f'`{spell_option(name)}`' for name in limits)}.",
            sets=("min_worker_lifetime",),
        )


def _harakiri(options: Options, seen: Evidence) -> Iterator[Advice]:
    threads = _threads(options, seen)
    if options.harakiri and (threads or 1) > 1:
        yield Advice(
            "harakiri_with_threads",
            "warning",
            "`harakiri` may never end a request that hangs, and when it does, it kills all requests of the worker.",
            "A worker has one timer for all its threads, and each request that completes on any thread stops it.",
            (),
            "each worker has one thread.",
            SOURCE,
            change="Set a timeout on every call to a backend, or use processes with one thread each.",
            seen=_size(options, seen),
            sets=("harakiri",),
        )
    if _is_missing(options, options.harakiri) and threads == 1:
        yield Advice(
            "harakiri",
            "info",
            "A request that hangs occupies its worker until somebody notices.",
            "uWSGI has no time limit for a request by default.",
            ("harakiri = 60",),
            "every call of the application has a timeout. Choose a value above your slowest request.",
            PRODUCTION,
            seen=_size(options, seen),
        )


def _reload_mercy(options: Options, seen: Evidence) -> Iterator[Advice]:
    mercy = options.worker_reload_mercy if options.worker_reload_mercy is not None else DEFAULT_MERCY
    if not (options.complete or options.worker_reload_mercy is not None):
        return
    if (options.harakiri or 0) > mercy:
        yield Advice(
            "worker_reload_mercy",
            "warning",
            "A reload kills requests that `harakiri` allows.",
            "A worker that reloads ends after `worker-reload-mercy`, and `harakiri` allows a request more time.",
            (f"worker-reload-mercy = {options.harakiri}",),
            "no request takes that long.",
            OPTIONS,
            sets=("harakiri", "worker_reload_mercy"),
            seen=f"A worker gets {mercy} s{'' if options.worker_reload_mercy is not None else ', the default'}; "
            f"`harakiri` is {options.harakiri} s.",
        )
    elif mercy > _LONG_MERCY and not options.can_reload_workers:
        yield Advice(
            "worker_reload_mercy",
            "info",
            "A reload waits for the longest request, and no requests are served until all workers have ended.",
            "A full reload waits for the slowest worker, for as long as `worker-reload-mercy`.",
            ("touch-chain-reload = /path/to/a/file", "lazy-apps = true"),
            "no request takes longer than your service may be down.",
            RELOADING,
            sets=("worker_reload_mercy",),
            seen=f"A worker gets {mercy} s. {_size(options, seen)}",
        )


def _http_timeout(options: Options, _seen: Evidence) -> Iterator[Advice]:
    if not (options.http and options.complete):
        return
    timeout = options.http_timeout or DEFAULT_HTTP_TIMEOUT
    if options.harakiri is None or options.harakiri > timeout:
        yield Advice(
            "http_timeout",
            "info",
            "The `http` router gives up before the application does, which then works in vain.",
            "A request may take longer than the router waits for its response.",
            (f"http-timeout = {options.harakiri}",) if options.harakiri else (f"harakiri = {timeout}",),
            "no request takes as long as the router waits.",
            OPTIONS,
            sets=("http_timeout", "harakiri"),
            seen=f"The router waits for {timeout} s, and a request may take "
            + (f"{options.harakiri} s." if options.harakiri else "any amount of time."),
        )


def _listen(options: Options, seen: Evidence) -> Iterator[Advice]:
    if not options.complete and options.listen is None:
        return
    length = options.listen or DEFAULT_LISTEN
    if seen.somaxconn is not None and length > seen.somaxconn:
        yield Advice(
            "listen_above_somaxconn",
            "warning",
            "The next start of uWSGI will fail: `listen` is above the kernel's limit.",
            "uWSGI exits if a queue would be longer than net.core.somaxconn, even the queue of a UNIX socket.",
            (f"listen = {seen.somaxconn}",),
            "you raise net.core.somaxconn before you restart uWSGI, in the container's network namespace.",
            OPTIONS,
            seen=f"`listen` is {length}, and net.core.somaxconn is {seen.somaxconn} here.",
            sets=("listen",),
        )
    elif length <= DEFAULT_LISTEN:
        yield Advice(
            "listen",
            "info",
            "The listen queue is short: if it is full, further connections are refused.",
            "It holds the connections that no thread has accepted yet. A burst of requests, or a pause of the workers, "
            "fills it.",
            (f"listen = {min(1024, seen.somaxconn or 1024)}",),
            "the proxy in front limits or retries connections.",
            OPTIONS,
            seen=f"The queue holds {length} connections"
            + (f"; net.core.somaxconn is {seen.somaxconn} here." if seen.somaxconn else "."),
            sets=("listen",),
        )


def _buffer_size(options: Options, _seen: Evidence) -> Iterator[Advice]:
    size = options.buffer_size or DEFAULT_BUFFER
    if options.complete and size <= DEFAULT_BUFFER:
        yield Advice(
            "buffer_size",
            "info",
            "uWSGI drops requests with large headers, and no counter shows them.",
            "Cookies and tokens make the headers larger than the default of 4,096 bytes. uWSGI only writes a line to "
            "its log.",
            ("buffer-size = 32768",),
            "your cookies and tokens are short.",
            THINGS_TO_KNOW,
            seen=f"The headers of a request may have {size:,} bytes.",
            sets=("buffer_size",),
        )


def _thunder_lock(options: Options, seen: Evidence) -> Iterator[Advice]:
    if options.thunder_lock and (_threads(options, seen) or 1) > 1:
        yield Advice(
            "thunder_lock",
            "info",
            "`thunder-lock` costs throughput with threads.",
            "Every accepted request takes a lock that all threads of all workers share: in one measurement, this cost "
            "a tenth of the throughput. If the process that holds the lock is paused (SIGSTOP), no requests are "
            "served.",
            (),
            "the workers' shares of the requests have to be exactly even.",
            THUNDER,
            change="Remove `thunder-lock`.",
            seen=_size(options, seen),
            sets=("thunder_lock",),
        )


def _cheaper(options: Options, seen: Evidence) -> Iterator[Advice]:
    workers = options.processes or seen.workers
    extra = [
        name
        for name in ("cheaper_initial", "cheaper_step", "cheaper_overload", "cheaper_algo")
        if getattr(options, name) is not None
    ]
    if not options.cheaper:
        if options.complete and extra:
            yield Advice(
                "cheaper_off",
                "warning",
                "Options of the cheaper mode are set, but not the mode: all workers always run.",
                "`cheaper` is the number of workers that keep running when there is little to do.",
                ("cheaper = 2",),
                "you want all workers to run: then remove the other options.",
                CHEAPER,
                seen=f"Set: {', '.join(f'`{spell_option(name)}`' for name in extra)}.",
                sets=tuple(extra),
            )
        return
    if workers and options.cheaper >= workers:
        yield Advice(
            "cheaper_too_large",
            "warning",
            "The next start of uWSGI will fail: `cheaper` is not below `processes`.",
            "`cheaper` is the number of workers that keep running when there is little to do.",
            (f"cheaper = {max(1, workers // 2)}",),
            NEVER,
            CHEAPER,
            seen=f"`cheaper` is {options.cheaper}, and there are {counted(workers, 'worker')}.",
            sets=("cheaper", "processes"),
        )
    elif workers and options.cheaper_initial and not options.cheaper <= options.cheaper_initial <= workers:
        yield Advice(
            "cheaper_initial",
            "info",
            "`cheaper-initial` is ignored: it is below `cheaper`, or above the number of workers.",
            "uWSGI takes only a value in this range.",
            (f"cheaper-initial = {min(max(options.cheaper_initial, options.cheaper), workers)}",),
            NEVER,
            CHEAPER,
            seen=f"`cheaper-initial` is {options.cheaper_initial}, outside of the range from `cheaper` "
            f"({options.cheaper}) to {counted(workers, 'worker')}.",
            sets=("cheaper_initial",),
        )
    if workers and (options.cheaper_step or 1) > workers - options.cheaper > 0:
        yield Advice(
            "cheaper_step",
            "info",
            "One step of the cheaper mode starts all workers at once.",
            "`cheaper-step` is larger than the number of workers that can be added.",
            (f"cheaper-step = {max(1, (workers - options.cheaper) // 4)}",),
            "the workers start in milliseconds.",
            CHEAPER,
            seen=f"`cheaper-step` is {options.cheaper_step}, but only {counted(workers - options.cheaper, 'worker')} "
            "can be added.",
            sets=("cheaper_step",),
        )


def _memory_limits(options: Options, _seen: Evidence) -> Iterator[Advice]:
    if options.evil_reload_on_rss:
        yield Advice(
            "evil_reload_on_rss",
            "warning",
            "A worker that exceeds `evil-reload-on-rss` is killed in the middle of its requests.",
            "`evil-reload-on-rss` sends SIGKILL; `reload-on-rss` waits until the request has completed, and the worker "
            "is as old as `min-worker-lifetime`.",
            (f"reload-on-rss = {options.evil_reload_on_rss}",),
            "a single request can fill the memory.",
            OPTIONS,
            seen="It is set here.",
            sets=("evil_reload_on_rss",),
        )
    if options.reload_on_as:
        yield Advice(
            "reload_on_as",
            "warning",
            "Workers restart because of address space that takes no memory.",
            "Threads, mapped files and modules reserve address space without using memory.",
            ("reload-on-rss = 512",),
            "you limit address space on purpose, as on a 32-bit system.",
            OPTIONS,
            seen="It is set here.",
            sets=("reload_on_as",),
        )


def _max_fd(options: Options, seen: Evidence) -> Iterator[Advice]:
    if options.http and not options.max_fd and options.complete and (seen.descriptors or 0) > _MOST_DESCRIPTORS:
        size = (seen.descriptors or 0) * 8 / 1e9
        yield Advice(
            "max_fd",
            "warning",
            "The `http` router reserves memory for as many files as its limit of open files allows.",
            "Its table has 8 bytes for each possible file, up to the limit of open files.",
            ("max-fd = 65536",),
            "the service manager or the container limits open files (LimitNOFILE, --ulimit nofile).",
            "https://github.com/unbit/uwsgi/issues/2299",
            seen=f"The master's limit of open files is {seen.descriptors:,}, so each router reserves {size:.1f} GB of "
            "memory.",
        )


def _chmod_socket(options: Options, _seen: Evidence) -> Iterator[Advice]:
    if len(set(options.chmod_socket or ())) > 1:
        is_meant_for_stats = "/" in (options.stats or "")
        yield Advice(
            "chmod_socket",
            "warning" if is_meant_for_stats else "info",
            "`chmod-socket` is set more than once, and the last one applies to every socket.",
            "`chmod-socket` is one option for all UNIX sockets: those of the application and that of the stats.",
            (),
            "the last value is meant to replace the earlier ones, for example those of a file that you include.",
            SOURCE,
            change="Keep only the value that fits all sockets.",
            seen=f"It is set {counted(len(options.chmod_socket or ()), 'time')}.",
            sets=("chmod_socket",),
        )


def _stats_exposed(options: Options, _seen: Evidence) -> Iterator[Advice]:
    if options.stats and not _is_local(options.stats):
        yield Advice(
            "stats_exposed",
            "warning",
            "The stats server shows the cookies and passwords of requests to everybody who can reach it.",
            "Its document contains all variables of each request in service, and the stats server asks for no login.",
            ("stats = 127.0.0.1:1717",),
            "a firewall, or a network namespace of its own, keeps others away from the stats server.",
            SOURCE,
            seen="Other machines may reach this address.",
            sets=("stats",),
        )


def _public_http(options: Options, _seen: Evidence) -> Iterator[Advice]:
    public = [address for address in options.http_socket or () if address != "?" and not _is_local(address)]
    if public and options.complete:
        yield Advice(
            "http_socket",
            "info",
            "Clients that send or read slowly hold the threads.",
            "With `http-socket`, workers read requests directly from the clients"
            + ("" if options.post_buffering else ", and the application waits for each part of a body")
            + ". `post-buffering` does not change who waits: the thread does.",
            (),
            "only a proxy can reach the socket.",
            HTTP,
            change="Put a proxy such as nginx in front of uWSGI, or replace `http-socket` by `http`, whose router "
            "reads the requests.",
            seen="Other machines may reach this address.",
            sets=("http_socket", "post_buffering"),
        )


def _one_at_a_time(options: Options, seen: Evidence) -> Iterator[Advice]:
    is_threaded = not (options.async_cores or options.gevent or options.asyncio)
    if is_threaded and _workers(options, seen) == 1 and _threads(options, seen) == 1:
        yield Advice(
            "one_request_at_a_time",
            "info",
            "One slow request holds up all others.",
            "One process with one thread serves one request at a time.",
            ("processes = 4",),
            "the application must not run twice.",
            OPTIONS,
            seen=_size(options, seen),
        )


def _cpu_affinity(options: Options, _seen: Evidence) -> Iterator[Advice]:
    if options.cpu_affinity:
        yield Advice(
            "cpu_affinity",
            "info",
            "Workers are pinned to CPUs, and wait for these CPUs while others are idle.",
            "uWSGI counts the CPUs of the host, even in a container.",
            (),
            "the host serves nothing else, and you have measured a gain.",
            OPTIONS,
            change="Remove `cpu-affinity`.",
            sets=("cpu_affinity",),
        )


def _logs_to_pipe(_options: Options, seen: Evidence) -> Iterator[Advice]:
    if seen.logs_to_pipe:
        yield Advice(
            "log_to_pipe",
            "info",
            "If the program that reads uWSGI's log stops, every request stops with it.",
            "The log is a pipe, and a worker waits until its line fits into this pipe.",
            ("disable-logging = true", "log-5xx = true"),
            "the reader is the service manager or the container's runtime, and never stops reading. With fewer lines, "
            "the pipe takes longer to fill.",
            SOURCE,
            seen="The master's standard error is a pipe.",
        )


RULES: tuple[Rule, ...] = (
    _master,
    _chmod_socket,
    _stats_exposed,
    _listen,
    _cheaper,
    _die_on_term,
    _max_requests_delta,
    _max_worker_lifetime_delta,
    _min_worker_lifetime,
    _harakiri,
    _reload_mercy,
    _http_timeout,
    _memory_limits,
    _max_fd,
    _enable_threads,
    _single_interpreter,
    _fork_safety,
    _buffer_size,
    _flags,
    _thunder_lock,
    _public_http,
    _cpu_affinity,
    _one_at_a_time,
    _logs_to_pipe,
)
"""All rules, those that stop uWSGI or show secrets first."""


def parse_version(text: str) -> tuple[int, ...] | None:
    """The numbers of a version such as `2.0.21-debian`; None if it has none."""
    found = re.match(r"[0-9]{1,4}(\.[0-9]{1,4})+", text)
    return tuple(map(int, found[0].split("."))) if found else None


def _is_local(address: str) -> bool:
    """Whether an address is a UNIX socket, or TCP on loopback."""
    if "/" in address or address.startswith("@") or ":" not in address:
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""The rules of the review: each is a row, which says when it speaks about a uWSGI's options, and what.

A rule that needs to know that an option is *not* set speaks only where every option is known (`Options.complete`). No
value of an option is repeated but numbers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis import setting_facts as known
from uwsgi_headroom.analysis.setting_facts import Case, Seen, list_facts, make_case, parse_version
from uwsgi_headroom.record import DEFAULT_MIN_LIFETIME, Options, ServerRecord, spell_option
from uwsgi_headroom.words.template import fill

THINGS_TO_KNOW = "https://uwsgi-docs.readthedocs.io/en/latest/ThingsToKnow.html"
HTTP = "https://uwsgi-docs.readthedocs.io/en/latest/HTTP.html"
OPTIONS = "https://uwsgi-docs.readthedocs.io/en/latest/Options.html"
CHEAPER = "https://uwsgi-docs.readthedocs.io/en/latest/Cheaper.html"
PRODUCTION = "https://www.techatbloomberg.com/blog/configuring-uwsgi-production-deployment/"
SOURCE = "uWSGI's source"

NEVER = "never."
"""When a setting that always matters does not."""

GENERAL = "General advice: nothing of a running uWSGI shows whether it matters here."

_MOST_DESCRIPTORS = 1 << 20
"""A router has a table of 8 bytes for each descriptor that it may open: beyond this limit, over 8 MB."""

_LONG_MERCY = 300

_LONG_WITHOUT_LIMITS = 60
"""Seconds of `min-worker-lifetime` above which a worker may outgrow its limits."""


def review(options: Options, seen: Seen) -> list[SettingAdvice]:
    """All advice on these options, warnings first."""
    case = make_case(options, seen)
    placed = [_place(rule.fill(case), options) for rule in RULES if rule.when(case)]
    return sorted(placed, key=lambda advice: advice.severity == "info")


def review_server(server: ServerRecord) -> Sequence[SettingAdvice] | None:
    """All advice on the settings of a uWSGI that runs, as far as an exporter knows; None if its options are unknown."""
    options = server.setup.options
    if not (options.complete or options.source):
        return None
    threads = {worker.threads for worker in server.workers}
    seen = Seen(
        version=parse_version(server.version),
        workers=len(server.workers) or None,
        threads=threads.pop() if len(threads) == 1 else None,
        mounted=server.mounted,
        somaxconn=server.setup.somaxconn,
        is_vassal=server.is_vassal,
    )
    return _review_once(_Same(options), seen)


class _Same(Struct, frozen=True, eq=False):
    """Options, equal to themselves alone: an exporter reads them rarely, and each scrape asks what the rules say."""

    options: Options

    def __hash__(self) -> int:
        return id(self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.options is self.options


@lru_cache(maxsize=512)
def _review_once(same: _Same, seen: Seen) -> tuple[SettingAdvice, ...]:
    return tuple(review(same.options, seen))


def _place(advice: SettingAdvice, options: Options) -> SettingAdvice:
    sources = {name: options.source[name] for name in advice.sets if name in options.source}
    if not sources:
        return advice
    places = [f"`{spell_option(name)}` is set in {source}" for name, source in sources.items()]
    where = "; ".join(places).replace("in command line", "on the command line")
    return replace(advice, seen=f"{advice.seen.removeprefix(GENERAL)} {where}.".strip())


class SettingAdvice(Struct, frozen=True, kw_only=True):
    """What will cause trouble, and how to prevent it. warning: it will, on what is known; info: it may. In a rule,
    texts are templates. when: whether it speaks; warns: whether it is a warning then; title: what hurts; lines: for the
    configuration; change: what else to do; needs: the first version that has the lines; unless: when it does not
    matter; seen: the evidence; sets: the options that the rule read."""

    rule: str
    when: Callable[[Case], object] = lambda _: False
    severity: Literal["warning", "info"] = "info"
    warns: Callable[[Case], object] = lambda _: False
    title: str
    reason: str = ""
    lines: tuple[str, ...] = ()
    unless: str = NEVER
    source: str = SOURCE
    change: str = ""
    needs: str = ""
    seen: str = ""
    sets: tuple[str, ...] = ()

    def fill(self, case: Case) -> SettingAdvice:
        """What a rule says of a case."""
        facts = list_facts(case)
        return replace(
            self,
            severity="warning" if self.warns(case) else self.severity,
            reason=fill(self.reason, facts),
            lines=tuple(fill(line, facts) for line in self.lines),
            seen=fill(self.seen, facts) or GENERAL,
        )


_REQUESTS_TOGETHER = SettingAdvice(
    rule="max_requests_delta",
    when=lambda case: case.reach_together("max_requests") and case.seen.knows(*known.MAX_REQUESTS_DELTA),
    severity="warning",
    title="All workers reach `max-requests` at about the same time, and no requests are served while they restart.",
    reason="Workers share the load evenly, so they reach this number of requests at nearly the same time.",
    lines=("max-requests-delta = {requests_apart:plain}",),
    needs="2.0.29",
    unless="the workers start in milliseconds, or their shares of the requests differ a lot.",
    seen="{size}",
    sets=("max_requests",),
)


_ROUTER_GIVES_UP = SettingAdvice(
    rule="http_timeout",
    when=lambda case: case.has_router and case.options.harakiri is None,
    title="The `http` router gives up before the application does, which then works in vain.",
    reason="A request may take longer than the router waits for its response.",
    lines=("harakiri = {patience:plain}",),
    unless="no request takes as long as the router waits.",
    source=OPTIONS,
    seen="The router waits for {patience:plain} s, and a request may take any amount of time.",
    sets=("http_timeout", "harakiri"),
)

RULES: tuple[SettingAdvice, ...] = (
    SettingAdvice(
        rule="master",
        when=lambda case: not case.seen.is_running and case.lacks("master") and not case.options.stats,
        severity="warning",
        title="A worker that ends is not replaced, and nothing can be reloaded or watched.",
        reason="Without a master, uWSGI's processes look after themselves.",
        lines=("master = true",),
        unless="uWSGI runs as a development server.",
        source=THINGS_TO_KNOW,
    ),
    SettingAdvice(
        rule="chmod_socket",
        when=lambda case: len(set(case.options.chmod_socket or ())) > 1,
        warns=lambda case: "/" in (case.options.stats or ""),  # it is meant for the stats
        title="`chmod-socket` is set more than once, and the last one applies to every socket.",
        reason="`chmod-socket` is one option for all UNIX sockets: those of the application and that of the stats.",
        change="Keep only the value that fits all sockets.",
        unless="the last value is meant to replace the earlier ones, for example those of a file that you include.",
        seen="It is set {times_set:time}.",
        sets=("chmod_socket",),
    ),
    SettingAdvice(
        rule="stats_exposed",
        when=lambda case: case.options.stats and not _is_local(case.options.stats),
        severity="warning",
        title="The stats server shows the cookies and passwords of requests to everybody who can reach it.",
        reason="Its document has all variables of each request in service, and the server asks for no login.",
        change="Serve stats on a UNIX socket. On 127.0.0.1, every local user can still read them.",
        unless="a firewall, or a network namespace of its own, keeps others away from the stats server.",
        seen="Other machines may reach this address.",
        sets=("stats",),
    ),
    SettingAdvice(
        rule="listen_above_somaxconn",
        when=lambda case: (case.queue or 0) > (case.seen.somaxconn or inf),
        severity="warning",
        title="The next start of uWSGI will fail: `listen` is above the kernel's limit.",
        reason="uWSGI exits if a queue would be longer than net.core.somaxconn, even the queue of a UNIX socket.",
        lines=("listen = {somaxconn:plain}",),
        unless="you raise net.core.somaxconn before you restart uWSGI, in the container's network namespace.",
        source=OPTIONS,
        seen="`listen` is {queue:plain}, and net.core.somaxconn is {somaxconn:plain} here.",
        sets=("listen",),
    ),
    SettingAdvice(
        rule="listen",
        when=lambda case: 0 < (case.queue or 0) <= min(known.DEFAULT_LISTEN, case.seen.somaxconn or inf),
        title="The listen queue is short: if it is full, further connections are refused.",
        reason="It holds the connections that no thread has accepted yet. A burst, or a pause, fills it.",
        lines=("listen = {longer:plain}",),
        unless="the proxy in front limits or retries connections.",
        source=OPTIONS,
        seen="The queue holds {queue:plain} connections[somaxconn? ; net.core.somaxconn is {somaxconn:plain} here].",
        sets=("listen",),
    ),
    SettingAdvice(
        rule="cheaper_off",
        when=lambda case: case.lacks("cheaper") and case.name_set(*known.CHEAPER_OPTIONS),
        severity="warning",
        title="Options of the cheaper mode are set, but not the mode: all workers always run.",
        reason="`cheaper` is the number of workers that keep running when there is little to do.",
        lines=("cheaper = 2",),
        unless="you want all workers to run: then remove the other options.",
        source=CHEAPER,
        seen="Set: {cheaper_options}.",
        sets=known.CHEAPER_OPTIONS,
    ),
    SettingAdvice(
        rule="cheaper_too_large",
        when=lambda case: case.scales and case.reserve <= 0,
        severity="warning",
        title="The next start of uWSGI will fail: `cheaper` is not below `processes`.",
        reason="`cheaper` is the number of workers that keep running when there is little to do.",
        lines=("cheaper = {half:plain}",),
        source=CHEAPER,
        seen="`cheaper` is {cheaper:plain}, and there are {most_workers:worker}.",
        sets=("cheaper", "processes"),
    ),
    SettingAdvice(
        rule="cheaper_initial",
        when=lambda case: case.reserve > 0 and case.is_initial_ignored,
        title="`cheaper-initial` is ignored: it is below `cheaper`, or above the number of workers.",
        reason="uWSGI takes only a value in this range.",
        lines=("cheaper-initial = {nearest:plain}",),
        source=CHEAPER,
        seen="`cheaper-initial` is {cheaper_initial:plain}, outside of the range from `cheaper` ({cheaper:plain}) to "
        "{most_workers:worker}.",
        sets=("cheaper_initial",),
    ),
    SettingAdvice(
        rule="cheaper_step",
        when=lambda case: case.scales and (case.options.cheaper_step or 1) > case.reserve > 0,
        title="One step of the cheaper mode starts all workers at once.",
        reason="`cheaper-step` is larger than the number of workers that can be added.",
        lines=("cheaper-step = {step:plain}",),
        unless="the workers start in milliseconds.",
        source=CHEAPER,
        seen="`cheaper-step` is {cheaper_step:plain}, but only {reserve:worker} can be added.",
        sets=("cheaper_step",),
    ),
    SettingAdvice(
        rule="die_on_term",
        when=lambda case: case.lacks("die_on_term") and not case.seen.is_vassal,
        warns=lambda case: case.seen.is_first,
        title="SIGTERM does not stop uWSGI, but reloads it at once and loses requests.",
        reason="Service managers and containers stop a process with SIGTERM, and kill it some seconds later.",
        lines=("die-on-term = true",),
        unless="the unit has `KillSignal=SIGQUIT` or SIGINT, or an emperor runs this uWSGI.",
        source="https://uwsgi-docs.readthedocs.io/en/latest/Management.html",
        seen="[is_first? This master is the first process of its container: the container is stopped with SIGTERM.]"
        "[master_unit? This master runs in {master_unit}, which systemd stops with SIGTERM unless the unit says "
        "otherwise.]",
    ),
    _REQUESTS_TOGETHER,
    replace(
        _REQUESTS_TOGETHER,
        when=lambda case: (
            case.reach_together("max_requests")
            and known.AGE_DELTA <= (case.seen.version or ()) < known.MAX_REQUESTS_DELTA
        ),
        lines=("max-worker-lifetime = 3600", "max-worker-lifetime-delta = 300"),
        needs="2.0.20",
        change="Remove `max-requests`: this version can spread restarts by age, but not by requests.",
    ),
    replace(
        _REQUESTS_TOGETHER,
        when=lambda case: case.reach_together("max_requests") and not case.seen.knows(*known.AGE_DELTA),
        lines=(),
        needs="",
        change="Upgrade uWSGI: this version cannot spread the restarts.",
    ),
    SettingAdvice(
        rule="max_worker_lifetime_delta",
        when=lambda case: case.reach_together("max_worker_lifetime") and case.seen.knows(*known.AGE_DELTA),
        severity="warning",
        title="All workers reach `max-worker-lifetime` together, and no requests are served while they restart.",
        reason="The workers started together, so they reach this age together.",
        lines=("max-worker-lifetime-delta = {seconds_apart:plain}",),
        needs="2.0.20",
        unless="the workers start in milliseconds.",
        seen="{size}",
        sets=("max_worker_lifetime",),
    ),
    SettingAdvice(
        rule="max_worker_lifetime",
        when=lambda case: (
            case.least_life is not None and 0 < (case.options.max_worker_lifetime or 0) <= case.least_life
        ),
        severity="warning",
        title="The next start of uWSGI will fail: `max-worker-lifetime` is not above `min-worker-lifetime`.",
        reason="A worker would have to end before it is allowed to.",
        lines=("min-worker-lifetime = {half_life:plain}",),
        seen="`min-worker-lifetime` is {least_life:plain} s[life_is_default? , the default]; `max-worker-lifetime` is "
        "{max_worker_lifetime:plain} s.",
        sets=("min_worker_lifetime", "max_worker_lifetime"),
    ),
    SettingAdvice(
        rule="min_worker_lifetime",
        when=lambda case: (
            any(getattr(case.options, name) for name in known.LIMITS) and (case.least_life or 0) > _LONG_WITHOUT_LIMITS
        ),
        title="A worker that has just started may grow far beyond the limits at which uWSGI replaces workers.",
        reason="uWSGI replaces no worker that is younger than `min-worker-lifetime`, whatever it has served or takes.",
        lines=(f"min-worker-lifetime = {DEFAULT_MIN_LIFETIME}",),
        unless="memory grows slowly.",
        seen="`min-worker-lifetime` is {least_life:plain} s; limits: {set_limits}.",
        sets=("min_worker_lifetime",),
    ),
    SettingAdvice(
        rule="harakiri_with_threads",
        when=lambda case: case.options.harakiri and (case.threads or 1) > 1,
        severity="warning",
        title="`harakiri` may never end a request that hangs, and when it does, it kills all requests of the worker.",
        reason="A worker has one timer for all its threads, and each request that completes on any thread stops it.",
        change="Set a timeout on every call to a backend, or use processes with one thread each.",
        unless="each worker has one thread.",
        seen="{size}",
        sets=("harakiri",),
    ),
    SettingAdvice(
        rule="harakiri",
        when=lambda case: case.lacks("harakiri") and case.threads == 1,
        title="A request that hangs occupies its worker until somebody notices.",
        reason="uWSGI has no time limit for a request by default.",
        lines=("harakiri = 60",),
        unless="every call of the application has a timeout. Choose a value above your slowest request.",
        source=PRODUCTION,
        seen="{size}",
    ),
    SettingAdvice(
        rule="worker_reload_mercy",
        when=lambda case: case.mercy is not None and (case.options.harakiri or 0) > case.mercy,
        severity="warning",
        title="A reload kills requests that `harakiri` allows.",
        reason="A worker that reloads ends after `worker-reload-mercy`, and `harakiri` allows a request more time.",
        lines=("worker-reload-mercy = {harakiri:plain}",),
        unless="no request takes that long.",
        source=OPTIONS,
        seen="A worker gets {mercy:plain} s[mercy_is_default? , the default]; `harakiri` is {harakiri:plain} s.",
        sets=("harakiri", "worker_reload_mercy"),
    ),
    SettingAdvice(
        rule="worker_reload_mercy",
        when=lambda case: (
            (case.mercy or 0) > max(_LONG_MERCY, (case.options.harakiri or 0) - 1)
            and not case.options.can_reload_workers
        ),
        title="A reload waits for the longest request, and no requests are served until all workers have ended.",
        reason="A full reload waits for the slowest worker, for as long as `worker-reload-mercy`.",
        lines=("touch-chain-reload = /path/to/a/file", "lazy-apps = true"),
        unless="no request takes longer than your service may be down.",
        source="https://uwsgi-docs.readthedocs.io/en/latest/articles/TheArtOfGracefulReloading.html",
        seen="A worker gets {mercy:plain} s. {size}",
        sets=("worker_reload_mercy",),
    ),
    replace(
        _ROUTER_GIVES_UP,
        when=lambda case: case.has_router and (case.options.harakiri or 0) > case.patience,
        lines=("http-timeout = {harakiri:plain}",),
        seen="The router waits for {patience:plain} s, and a request may take {harakiri:plain} s.",
    ),
    _ROUTER_GIVES_UP,
    SettingAdvice(
        rule="evil_reload_on_rss",
        when=lambda case: case.options.evil_reload_on_rss,
        severity="warning",
        title="A worker that exceeds `evil-reload-on-rss` is killed in the middle of its requests.",
        reason="It sends SIGKILL; `reload-on-rss` waits for the request, and for the age of `min-worker-lifetime`.",
        lines=("reload-on-rss = {evil_reload_on_rss:plain}",),
        unless="a single request can fill the memory.",
        source=OPTIONS,
        seen="It is set here.",
        sets=("evil_reload_on_rss",),
    ),
    SettingAdvice(
        rule="reload_on_as",
        when=lambda case: case.options.reload_on_as,
        severity="warning",
        title="Workers restart because of address space that takes no memory.",
        reason="Threads, mapped files and modules reserve address space without using memory.",
        lines=("reload-on-rss = 512",),
        unless="you limit address space on purpose, as on a 32-bit system.",
        source=OPTIONS,
        seen="It is set here.",
        sets=("reload_on_as",),
    ),
    SettingAdvice(
        rule="max_fd",
        when=lambda case: case.has_router and case.lacks("max_fd") and (case.seen.descriptors or 0) > _MOST_DESCRIPTORS,
        severity="warning",
        title="The `http` router reserves memory for as many files as its limit of open files allows.",
        reason="Its table has 8 bytes for each possible file, up to the limit of open files.",
        lines=("max-fd = 65536",),
        unless="the service manager or the container limits open files (LimitNOFILE, --ulimit nofile).",
        source="https://github.com/unbit/uwsgi/issues/2299",
        seen="The master's limit of open files is {descriptors}, so each router reserves {gigabytes} GB of memory.",
    ),
    SettingAdvice(
        rule="enable_threads",
        when=lambda case: (
            case.lacks("enable_threads") and case.threads == 1 and not (case.seen.version and case.seen.knows(2, 0, 27))
        ),
        warns=lambda case: case.seen.version,
        title="Threads that the application starts never run, because Python's threads are off.",
        reason="Before uWSGI 2.0.27, Python's threads are off by default. Libraries for metrics and tracing need them.",
        lines=("enable-threads = true",),
        unless="this is uWSGI 2.0.27 or later, where threads are on.",
        source=THINGS_TO_KNOW,
        seen="[version_name? This is uWSGI {version_name}, with one thread per worker.]",
    ),
    SettingAdvice(
        rule="single_interpreter",
        when=lambda case: case.lacks("single_interpreter") and (case.seen.mounted or 2) > 1,
        warns=lambda case: case.seen.extensions,
        title="Each further application runs in an interpreter of its own, where modules in C may fail or hang.",
        reason="Many modules in C support one interpreter per process only.",
        lines=("single-interpreter = true",),
        unless="a worker has one application: the first runs in the main interpreter.",
        source=PRODUCTION,
        seen="[mounted? {mounted:application} in a worker][modules? , with {modules} loaded][mounted? .]",
    ),
    SettingAdvice(
        rule="lazy_apps",
        when=lambda case: case.lacks("lazy_apps") and (case.workers or 1) > 1,
        title="Connections that the application opens while it is imported are shared by all workers.",
        reason="Workers are forked after the import. Two that use one connection read each other's responses.",
        lines=("lazy-apps = true",),
        unless="it opens them in requests or with `@postfork`. With `lazy-apps`, workers take more memory, and start "
        "later.",
        source=THINGS_TO_KNOW,
        seen="[is_running? {size}]",
    ),
    SettingAdvice(
        rule="buffer_size",
        when=lambda case: case.options.complete and (case.options.buffer_size or 0) <= known.DEFAULT_BUFFER,
        title="uWSGI drops requests with large headers, and no counter shows them.",
        reason="Cookies and tokens make headers larger than the default of 4,096 bytes. uWSGI only writes to its log.",
        lines=("buffer-size = 32768",),
        unless="your cookies and tokens are short.",
        source=THINGS_TO_KNOW,
        seen="The headers of a request may have {headers} bytes.",
        sets=("buffer_size",),
    ),
    SettingAdvice(
        rule="strict",
        when=lambda case: case.lacks("strict"),
        title="uWSGI ignores a misspelt option without a message.",
        reason="With `strict`, uWSGI names the misspelt option, and does not start.",
        lines=("strict = true",),
        unless="no option is misspelt. Write variables of your own as `set-placeholder = name=value` first.",
        source=PRODUCTION,
    ),
    SettingAdvice(
        rule="need_app",
        when=lambda case: case.lacks("need_app"),
        title="If the application cannot be imported, uWSGI still starts, and answers every request with an error.",
        reason="A failed deployment then looks like a successful one.",
        lines=("need-app = true",),
        unless="the proxy names an application for each request, and uWSGI loads it when the request arrives.",
        source=PRODUCTION,
    ),
    SettingAdvice(
        rule="vacuum",
        when=lambda case: case.lacks("vacuum"),
        title="uWSGI leaves its UNIX sockets behind when it exits.",
        reason="A proxy or an exporter then finds a socket on which no process listens, instead of no socket.",
        lines=("vacuum = true",),
        unless="the sockets are TCP sockets, or are in a directory that the service manager empties.",
        source=PRODUCTION,
    ),
    SettingAdvice(
        rule="thunder_lock",
        when=lambda case: case.options.thunder_lock and (case.threads or 1) > 1,
        title="`thunder-lock` costs throughput with threads.",
        reason="Every accepted request takes a lock that all threads of all workers share: in one measurement, this "
        "cost a tenth of the throughput. If its holder is paused (SIGSTOP), nothing is served.",
        change="Remove `thunder-lock`.",
        unless="the workers' shares of the requests have to be exactly even.",
        source="https://uwsgi-docs.readthedocs.io/en/latest/articles/SerializingAccept.html",
        seen="{size}",
        sets=("thunder_lock",),
    ),
    SettingAdvice(
        rule="http_socket",
        when=lambda case: case.options.complete and not all(map(_is_local, case.options.http_socket or ())),
        title="Clients that send or read slowly hold the threads.",
        reason="With `http-socket`, workers read requests directly from the clients[unbuffered? , and the application "
        "waits for each part of a body]. `post-buffering` does not change who waits: the thread does.",
        change="Put a proxy such as nginx in front of uWSGI, or replace `http-socket` by `http`, which has a router.",
        unless="only a proxy can reach the socket.",
        source=HTTP,
        seen="Other machines may reach this address.",
        sets=("http_socket", "post_buffering"),
    ),
    SettingAdvice(
        rule="cpu_affinity",
        when=lambda case: case.options.cpu_affinity,
        title="Workers are pinned to CPUs, and wait for these CPUs while others are idle.",
        reason="uWSGI counts the CPUs of the host, even in a container.",
        change="Remove `cpu-affinity`.",
        unless="the host serves nothing else, and you have measured a gain.",
        source=OPTIONS,
        sets=("cpu_affinity",),
    ),
    SettingAdvice(
        rule="one_request_at_a_time",
        when=lambda case: (
            (case.workers, case.threads) == (1, 1)
            and not (case.options.async_cores or case.options.gevent or case.options.asyncio)
        ),
        title="One slow request holds up all others.",
        reason="One process with one thread serves one request at a time.",
        lines=("processes = 4",),
        unless="the application must not run twice.",
        source=OPTIONS,
        seen="{size}",
    ),
    SettingAdvice(
        rule="log_to_pipe",
        when=lambda case: case.seen.logs_to_pipe,
        title="If the program that reads uWSGI's log stops, every request stops with it.",
        reason="The log is a pipe, and a worker waits until its line fits into this pipe.",
        lines=("disable-logging = true", "log-5xx = true"),
        unless="the reader is the service manager or the container's runtime, and never stops reading.",
        seen="The master's standard error is a pipe.",
    ),
)
"""All rules, those that stop uWSGI or show secrets first."""


_EXAMPLE = make_case(
    Options(
        processes=4,
        max_requests=1000,
        max_worker_lifetime=3600,
        evil_reload_on_rss=256,
        harakiri=120,
        cheaper=2,
        cheaper_initial=9,
    ),
    Seen(somaxconn=4096),
)
"""The numbers in the lines of rules where none are known."""


def list_rules() -> list[SettingAdvice]:
    """What each rule says in general, with numbers as examples, by their names."""
    rows = {rule.rule: rule for rule in reversed(RULES)}
    return [rows[name].fill(_EXAMPLE) for name in sorted(rows)]


def _is_local(address: str) -> bool:
    """Whether an address is a UNIX socket, or TCP on loopback."""
    if "/" in address or address.startswith("@") or ":" not in address:
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

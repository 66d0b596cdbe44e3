"""Judges the targets of a check: watches stats servers for a while, and fetches the documents of exporters.

Targets are watched and fetched at the same time, until Ctrl-C at the latest. An exporter has the history of its
servers, and answers at once. Addresses that may be either are asked first.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from os.path import isfile

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings.limits import find_change
from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.check.exporter_client import ApiError, ExporterPage, find_page, find_who_answers, get_document
from uwsgi_headroom.check.request import WATCH_SECONDS
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND, JOURNAL, STUCK_SECONDS
from uwsgi_headroom.config.servers import (
    ServerConfig,
    parse_server_argument,
    refuse_duplicate_addresses,
    refuse_duplicate_names,
)
from uwsgi_headroom.config.settings import Settings, find_setting
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.predict import predict_what_if
from uwsgi_headroom.documents.schema import Covered, Error, ServerDocument, Servers
from uwsgi_headroom.documents.what_if import WhatIf
from uwsgi_headroom.errors import ConfigError, ReadError
from uwsgi_headroom.history.hour import ROW_SECONDS
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address, Http, HttpAccess, Unix
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.code_watch import CHECK
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch

_STOPPED_SECONDS = 5.0

_SETTLING_SECONDS = 3.0
"""How long a server is watched after a reload, in seconds: so long does it serve the requests that waited meanwhile."""

SAMPLES_PER_SECOND = 40.0
"""The most, of all servers together: percentiles of a single one begin at 20 ms. An exporter takes 5 of each, for as
long as it runs, but `check` ends soon. As there, receiving documents takes 1 % of the time: large ones are read less
often."""

_FACTS_SECONDS = 0.15
"""The least time between two readings of the kernel's facts: less than an exporter's shortest between two samples."""

_MOST_CPU = 0.1
"""The share of a CPU that sampling may take: `check` runs when something is wrong, often for want of CPU. A sample of
8x8 with 16 requests in flight takes 3 ms (docs/evidence.md)."""


LATE_SECONDS, LATE = 5.0, 0.25
"""The last part of the time, of which the verdict is if requests became much slower then: so many seconds, or this part
of all."""


async def judge(
    watch: Watch, clock: Clock, seconds: float, progress: Callable[[float], None] = lambda _left: None
) -> ServerDocument:
    """Watch a server for `seconds` and return its document, which contains the verdict. `progress` is called about once
    a second with the seconds left. An emperor or a router is judged by one reading.

    If uWSGI is loading its application at the end, as after a full reload, it waits until that is done, for as long
    again at most. After a suspension (Ctrl-Z) it starts again, so that no figure covers a time without samples.
    Cancelled early, it judges by the samples so far; cancelled again, it skips the last read. A server that cannot be
    read or judged has the status `unknown`.
    """
    watch.holds_findings = False
    try:
        outcome: Reading | ReadError | None = await watch.reader.read()
        if isinstance(outcome, Reading) and isinstance(outcome.snapshot, Snapshot):
            seconds += await _watch(watch, seconds, progress)
            outcome = watch.reader.outcome
        if isinstance(outcome, ReadError):
            raise outcome
    except asyncio.CancelledError:
        return describe_failure(watch, clock, "interrupted", "It was interrupted before the first reading.")
    except ReadError as error:
        _, change = build.explain_failure(error)
        return describe_failure(watch, clock, error.reason, build.describe_trouble(error), change)
    document = build.build_server(watch, clock, seconds, (seconds,))
    late = max(LATE_SECONDS, LATE * seconds)
    if document.status == "critical" or watch.reading is None or 2 * late > seconds:
        return document
    both = watch.figures(watch.reading, (seconds, late))
    slower = find_change(*both) if len(both) == 2 else None
    return build.build_server(watch, clock, late, (seconds,), [slower]) if slower else document


def describe_failure(watch: Watch, clock: Clock, reason: str, sentence: str, change: str = "") -> ServerDocument:
    """Make the document of a server that was not judged. reason: one word; sentence: the reason, used as verdict;
    change: what to do."""
    return replace(
        build.build_server(watch, clock, 1.0, ()),
        state="down",
        status="unknown",
        verdict=sentence,
        error=Error(reason=reason, message=sentence, change=change),
    )


def describe_unread(name: str, address: Address, reason: str, sentence: str) -> ServerDocument:
    """Make the document of a target that cannot be watched, such as a silent exporter or a glob without sockets."""
    return describe_failure(Watch(name, address), Clock(), reason, sentence)


async def _watch(watch: Watch, seconds: float, progress: Callable[[float], None]) -> float:
    """Sample the server for `seconds`, or until cancelled; longer if it is reloading then. Reads it once more at the
    end, unless cancelled again. Returns the whole seconds that were added. Raises ReadError if sampling ends."""
    added = 0.0
    sampling = asyncio.create_task(watch.sample(), name="sampling")
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    try:
        while (now := loop.time()) < end:
            progress(end - now)
            await asyncio.wait({sampling}, timeout=min(ROW_SECONDS, end - now))
            if sampling.done():
                raise ReadError("internal", f"sampling ended ({type(sampling.exception()).__name__}): please report it")
            if loop.time() > now + _STOPPED_SECONDS:
                end, added = loop.time() + seconds, 0.0
            if loop.time() >= end:
                await watch.reader.read()
            while watch.reader.is_reloading and loop.time() + _SETTLING_SECONDS > end and added < seconds:
                end, added = end + 1.0, added + 1.0
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await watch.reader.read()
    finally:
        sampling.cancel()
    return added


PREDICTION_SECONDS = 60.0
"""Timeout of a prediction: a busy exporter makes one at a time."""


async def read_page(
    page: ExporterPage, seconds: float | None, settings: Sequence[Setting] = ()
) -> list[ServerDocument]:
    """Fetch the document of the server that a page shows, or the documents of all servers. seconds: use the exporter's
    shortest window of at least this length, or else its longest; None: use the window that its page shows. settings:
    settings to predict.

    If an exporter does not answer, or one of its servers is gone, the document says why.
    """
    try:
        names = [page.server] if page.server is not None else await _list_names(page.base)
    except ApiError as error:
        return [_describe_failure(page.base, page.base.netloc, error)]
    if not names:
        return [describe_unread(page.base.netloc, page.base, "not_found", f"{page.base}: it watches no server.")]
    documents = await asyncio.gather(*(_read_server(page.base, name, seconds) for name in names))
    if not settings:
        return list(documents)
    return [await _add_prediction(page.base, document, settings) for document in documents]


async def _list_names(base: Http) -> list[str]:
    return [summary.name for summary in (await get_document(base, build.SERVERS_PATH, Servers)).servers]


async def _read_server(base: Http, name: str, seconds: float | None) -> ServerDocument:
    path = build.server_path(name)
    try:
        document = await get_document(base, path, ServerDocument)
        asked = document.window.asked if document.window else None
        wanted = _choose_window(document.windows, seconds)
        if wanted is not None and wanted != asked:
            document = await get_document(base, f"{path}?window={wanted:g}", ServerDocument)
    except ApiError as error:
        if error.reason == "http" and not error.is_access:  # the exporter answered a moment ago: the server is missing
            return describe_unread(name, base, "not_found", f"The exporter at {base} has no server {name}.")
        return _describe_failure(base, name, error)
    return document


async def _add_prediction(base: Http, document: ServerDocument, settings: Sequence[Setting]) -> ServerDocument:
    """Add the exporter's predictions to a document; one server at a time, since an exporter makes few at once."""
    if document.state != "up":
        return document
    path = f"{build.server_path(document.name)}/what-if?settings={','.join(map(str, settings))}"
    try:
        predicted = await get_document(base, path, WhatIf, PREDICTION_SECONDS)
    except ApiError as error:
        sentence = f"The exporter made no prediction ({error}): it may be busy, or of an earlier version."
        predicted = WhatIf(name=document.name, time=document.time, refusal=sentence)
    return replace(document, what_if=predicted)


def _choose_window(windows: Sequence[Covered], seconds: float | None) -> float | None:
    """Choose the length in seconds of the window to request; None: the exporter's default."""
    if seconds is None or not windows:
        return None
    lengths = sorted(window.asked for window in windows)
    return next((length for length in lengths if length >= seconds), lengths[-1])


def _describe_failure(base: Http, name: str, error: ApiError) -> ServerDocument:
    return describe_unread(name, base, error.reason, f"{error}.")


class Targets(Struct, frozen=True):
    """The targets of a check.

    watched: servers and globs to watch; exporters: pages of exporters to read; silent: http:// addresses at which
    nothing listens, which could be either. single: whether the result is one document instead of a list.
    """

    watched: tuple[ServerConfig, ...] = ()
    exporters: tuple[ExporterPage, ...] = ()
    silent: tuple[Http, ...] = ()
    single: bool = False


def parse_targets(arguments: Sequence[str]) -> tuple[ServerConfig, ...]:
    """Parse arguments to servers, globs and URLs. Raises ConfigError."""
    servers = refuse_duplicate_names(parse_server_argument(argument, "check") for argument in arguments)
    refuse_duplicate_addresses(servers)
    return servers


async def sort_targets(servers: Sequence[ServerConfig], access: HttpAccess | None = None) -> Targets:
    """Find out which addresses are exporters, by asking all that may be one at the same time. access: for every
    exporter."""
    pages = [find_page(server.address, access) for server in servers]
    answers = await asyncio.gather(*(_probe(page) for page in pages))
    sorted_out = list(zip(servers, pages, answers, strict=True))
    exporters = tuple(page for _, page, answer in sorted_out if page and answer)
    silent = [server for server, _, answer in sorted_out if answer is None and isinstance(server.address, Http)]
    return Targets(
        watched=tuple(server for server, _, answer in sorted_out if not answer and server not in silent),
        exporters=exporters,
        silent=tuple(server.address for server in silent if isinstance(server.address, Http)),
        single=len(servers) == 1
        and servers[0].address is not None
        and all(page.server is not None for page in exporters),
    )


async def _probe(page: ExporterPage | None) -> bool | None:
    """Whether an exporter answers at the base of a page; None if nothing listens there."""
    answer = "other" if page is None else await find_who_answers(page.base)
    return None if answer == "nobody" else answer == "exporter"


_NOBODY_LISTENS = "It cannot be read: nothing listens there, neither an exporter nor a stats server."
_NO_SOCKET = "No socket matches it: is uWSGI running, with `stats` set to such a path?"


async def judge_targets(
    targets: Targets,
    seconds: float | None,
    settings: Sequence[Setting] = (),
    stuck_seconds: float = STUCK_SECONDS,
    *,
    read_locks: bool = False,
    read_pollfds: bool = True,
    logs: Sequence[str] = (),
    code: Sequence[str] | None = None,
) -> list[ServerDocument]:
    """Judge all targets: returns a document with a verdict for each server, and predictions for these settings.
    stuck_seconds: the age from which on a request counts as stuck, where `check` watches the server itself.
    read_locks, read_pollfds: whether the locks of the application, and what threads poll, may be read there from the
    workers' memory. logs: uWSGI's logs, each `NAME=PATH`, or a path for a single server. code: the prefixes of the
    application's files (see `kernel.stacks`); None: do not look at its code. Raises ConfigError if a log is no
    server's.

    Ctrl-C ends watching; servers are then judged by the samples so far. Raises asyncio.CancelledError on Ctrl-C if all
    targets are exporters and have not answered.
    """
    length = seconds or WATCH_SECONDS
    own = Settings(windows=(length,), stuck_seconds=stuck_seconds, read_locks=read_locks, read_pollfds=read_pollfds)
    wait_until_ready()
    fleet = Fleet(targets.watched, own, most_cpu=_MOST_CPU)
    fleet.refresh()
    watches = fleet.watches()
    share_samples(watches)
    _set_logs(watches, logs)
    if code is not None:
        for watch in watches:
            watch.set_code(replace(CHECK, prefixes=tuple(code), kept_seconds=length))
    log_task = asyncio.create_task(fleet.read_logs(), name="read logs")
    progress = _Progress(len(watches))
    watching = [
        asyncio.create_task(_judge_and_predict(watch, fleet.clock, length, progress.show, settings))
        for watch in watches
    ]
    reading = [asyncio.create_task(read_page(page, seconds, settings)) for page in targets.exporters]
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _cancel, watching or reading)
    suspend.between_reads(fleet.pause, fleet.resume)
    try:
        documents = list(await asyncio.gather(*watching))
        answers = await asyncio.gather(*reading)
    finally:
        log_task.cancel()
        progress.clear()
    several = len({page.base for page in targets.exporters}) + bool(watches) > 1
    for page, answer in zip(targets.exporters, answers, strict=True):
        documents += [_name_exporter(document, page) for document in answer] if several else answer
    documents += [describe_unread(url.netloc, url, "refused", _NOBODY_LISTENS) for url in targets.silent]
    documents += [
        describe_unread(server.pattern, Unix(server.pattern), "not_found", _NO_SOCKET)
        for server in targets.watched
        if server.address is None and _finds_nothing(server)
    ]
    return documents


def share_samples(watches: Sequence[Watch]) -> None:
    """Sample a single server as often as uWSGI's safety permits, and none of several less often than an exporter. The
    kernel is asked no more often than by an exporter: what else samples show does not need it."""
    for watch in watches:
        watch.pace.set_rate(max(DEFAULT_SAMPLES_PER_SECOND, SAMPLES_PER_SECOND / len(watches)))
        watch.reader.facts_every = _FACTS_SECONDS


def _set_logs(watches: Sequence[Watch], logs: Sequence[str]) -> None:
    """Give each watch its log. Raises ConfigError."""
    by_name = {watch.name: watch for watch in watches}
    for text in logs:
        is_named = "=" in text and not text.startswith(("/", "./", "../", JOURNAL))
        is_path = len(watches) == 1 and not is_named and ("/" in text or text.startswith(JOURNAL) or isfile(text))
        ((name, path),) = find_setting("--log").parse([(f"{watches[0].name}={text}" if is_path else text, "--log")])
        if name not in by_name:
            raise ConfigError(f"--log: no server is named {name!r}; there are {', '.join(by_name) or 'none'}")
        by_name[name].set_log(path)


async def _judge_and_predict(
    watch: Watch, clock: Clock, seconds: float, progress: Callable[[float], None], settings: Sequence[Setting]
) -> ServerDocument:
    document = await judge(watch, clock, seconds, progress)
    if not settings:
        return document
    try:
        what_if = await predict_what_if(watch, clock, seconds, settings)
    except asyncio.CancelledError:
        what_if = WhatIf(name=watch.name, time=clock.epoch(), refusal="It was interrupted.")
    return replace(document, what_if=what_if)


def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()


def _name_exporter(document: ServerDocument, page: ExporterPage) -> ServerDocument:
    """Add the exporter to the server's name: servers of several exporters may have the same name."""
    return replace(document, name=f"{document.name}@{page.base.netloc}")


def _finds_nothing(glob: ServerConfig) -> bool:
    fleet = Fleet([glob])
    fleet.refresh()
    return not fleet.watches()


class _Progress:
    """Shows the seconds left on standard error if that is a terminal."""

    def __init__(self, count: int) -> None:
        self._activity = "watching" if count == 1 else f"watching {count} servers"
        self._is_shown = False
        self._has_terminal = sys.stderr.isatty()

    def show(self, left: float) -> None:
        if self._has_terminal:
            self._is_shown = True
            self._write(f"{self._activity} for {left:.0f} s more (Ctrl-C: judge now) ")

    def clear(self) -> None:
        if self._is_shown:
            self._write("")

    def _write(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

"""Runs `check`: judges the targets, prints the verdicts, and returns the exit status.

Stats servers are watched for a while, and the documents of exporters are fetched at the same time, until Ctrl-C at the
latest. An exporter has the history of its servers, and answers at once. Addresses that may be either are asked first.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from os.path import isfile
from typing import Any

from msgspec.structs import replace

from uwsgi_headroom import logs
from uwsgi_headroom.analysis.findings.threads import find_change
from uwsgi_headroom.analysis.what_if.measured import Setting, SettingError, parse_settings
from uwsgi_headroom.analysis.what_if.predict import WhatIf
from uwsgi_headroom.check import reports, saved
from uwsgi_headroom.check.exporter_client import (
    NOBODY_LISTENS,
    ApiError,
    ExporterPage,
    Targets,
    get_document,
    list_names,
    sort_targets,
)
from uwsgi_headroom.check.request import EXIT_STATUS, WATCH_SECONDS, WORST_FIRST, Request, find_worst
from uwsgi_headroom.check.tables import find_field
from uwsgi_headroom.check.thresholds import POLL_SECONDS, apply_deploy, apply_thresholds, is_undecided, refuse_too_short
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND, JOURNAL, STUCK_SECONDS
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.config.servers import ServerConfig, parse_server_argument, printable_name, refuse_duplicates
from uwsgi_headroom.config.settings import Settings, find_setting
from uwsgi_headroom.discover import discover_servers, find_everything
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.predict import predict_what_if
from uwsgi_headroom.documents.schema import Error, ServerDocument
from uwsgi_headroom.errors import BlindError, ConfigError, ReadError
from uwsgi_headroom.history.hour import ROW_SECONDS
from uwsgi_headroom.kernel.aside import ask
from uwsgi_headroom.kernel.host import wait_until_ready
from uwsgi_headroom.kernel.way_in import find_unserved
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address, Http, ProcessOfApp, SocketOfApp, Unix
from uwsgi_headroom.stats import EmperorSnapshot, Snapshot
from uwsgi_headroom.surroundings import Unserved
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.code_watch import CHECK
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.words.template import fill

_STOPPED_SECONDS = 5.0

_SETTLING_SECONDS = 3.0
"""How long a server is watched after a reload, in seconds: first it serves requests that have waited."""

_OFTEN = 2
"""From so many reloads on, there is no time without one to wait for."""

_STARTS_SECONDS, _RETRY_SECONDS, _LOG_SECONDS = 3.0, 0.25, 1.0
"""How long a socket that refuses is tried, as it does while uWSGI loads its application; the pause in between; and in
which time a log is read for the first time."""

SAMPLES_PER_SECOND = 40.0
"""The most, of all servers together: percentiles of a single one begin at 20 ms. An exporter takes 5 of each, for as
long as it runs, but `check` ends soon."""

LOOKS_PER_SECOND = 20.0
"""The same of servers without stats: each sample looks at all threads."""

_FACTS_SECONDS = 0.15
"""The least time between two readings of the kernel's facts: less than an exporter's between two samples."""

_MOST_CPU = 0.1
"""The share of a CPU that sampling may take: `check` runs when something is wrong, often for want of CPU."""

_MOST_CPU_OF_ALL = 0.04
"""The same where nobody named a server: of every server of this machine."""

LATE_SECONDS, LATE = 5.0, 0.25
"""Seconds, or the part of the time, that are judged alone if requests became much slower then."""


async def judge(
    watch: Watch, clock: Clock, seconds: float, progress: Callable[[float], None] = lambda _left: None
) -> ServerDocument:
    """Watch a server for `seconds` and return its document, which contains the verdict. `progress` is called about once
    a second with the seconds left. An emperor without a log, and a router, are judged by one reading.

    If uWSGI is loading its application at the end, as after a full reload, it waits until that is done, for as long
    again at most. After a suspension (Ctrl-Z) it starts again, so that no figure covers a time without samples.
    Cancelled early, it judges by the samples so far; cancelled again, it skips the last read.
    """
    watch.holds_findings = False
    try:
        outcome: Reading | ReadError | None = await watch.reader.read()
        end = clock.monotonic() + _STARTS_SECONDS
        while isinstance(outcome, ReadError) and outcome.reason == "refused" and clock.monotonic() < end:
            await asyncio.sleep(_RETRY_SECONDS)
            outcome = await watch.reader.read()
        kinds = (Snapshot, EmperorSnapshot)[: 1 + (watch.log is not None)]
        if isinstance(outcome, BlindError) or isinstance(getattr(outcome, "snapshot", None), kinds):
            seconds += await _watch(watch, seconds, progress)
            outcome = watch.reader.outcome
        is_seen = watch.shown is not watch or (isinstance(outcome, BlindError) and watch.state == "up")
        if isinstance(outcome, ReadError) and not is_seen:
            if other := await watch.find_silent(outcome):
                return replace(await judge(other, clock, seconds, progress), address=printable_name(str(watch.address)))
            raise outcome
    except asyncio.CancelledError:
        return describe_failure(watch, clock, "interrupted", "It was interrupted before the first reading.")
    except ReadError as error:
        if watch.log:
            await asyncio.sleep(_LOG_SECONDS)  # until the log was read, which may say why
        why = watch.explain_error(error)
        _, change = build.explain_failure(why)
        return describe_failure(watch, clock, why.reason, build.describe_trouble(why), change)
    document = build.build_server(watch, clock, seconds, (seconds,))
    late = max(LATE_SECONDS, LATE * seconds)
    if document.status == "critical" or watch.reading is None or 2 * late > seconds:
        return document
    both = watch.figures(watch.reading, (seconds, late))
    slower = find_change(*both) if len(both) == 2 else None
    return build.build_server(watch, clock, late, (seconds,), [slower]) if slower else document


def describe_failure(watch: Watch, clock: Clock, reason: str, sentence: str, change: str = "") -> ServerDocument:
    """The document of a server that was not judged. reason: one word; sentence: the verdict; change: what to do."""
    return replace(
        build.build_server(watch, clock, 1.0, ()),
        state="down",
        status="unknown",
        verdict=sentence,
        error=Error(reason=reason, message=sentence, change=change),
        events=(),
    )


_UNSERVED = (
    "{program} sends requests to {address}, and [not holder? nobody listens there][holder? the path of that socket is "
    "gone] ({reason}): {number} failed in {seconds:duration}.",
    "[not holder? Start the uWSGI with that `socket`, or let {program} name the address of one that runs.][holder? "
    "Restart process {holder:plain}, whose socket it is; if it is an emperor, leave `socket` out of the files of its "
    "vassals on demand.]",
)


def _describe_unserved(each: Unserved, clock: Clock, seconds: float) -> ServerDocument:
    facts = {**each._asdict(), "holder": each.holder or None, "seconds": seconds}
    sentence, change = (fill(text, facts) for text in _UNSERVED)
    watch = Watch(each.address.rpartition("/")[2], Unix(each.address))
    document = describe_failure(watch, clock, "not_found", sentence, change)
    return replace(document, address="", status=("warning", "critical")[each.is_down])


def _ask_unserved(request: Request) -> tuple[Unserved, ...]:
    """Where web servers of this host expect a uWSGI, where nobody named one. It takes root."""
    with suppress(OSError):
        if not request.addresses and not request.no_log:
            return ask(find_unserved)
    return ()


def _list_unserved(request: Request, documents: Sequence[ServerDocument]) -> list[ServerDocument]:
    """Those of which no other document speaks."""
    known = {each.name for document in documents if document.state == "up" for each in document.sockets}
    said = " ".join(each.title for document in documents for each in document.findings)
    unserved = [each for each in _ask_unserved(request) if each.address not in known and each.address not in said]
    return [_describe_unserved(each, Clock(), request.seconds or WATCH_SECONDS) for each in unserved]


def describe_unread(name: str, address: Address, reason: str, sentence: str) -> ServerDocument:
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
            await asyncio.wait({sampling}, timeout=min(_RETRY_SECONDS if added else ROW_SECONDS, end - now))
            if sampling.done():
                raise ReadError("internal", f"sampling ended ({type(sampling.exception()).__name__}): please report it")
            if loop.time() > now + _STOPPED_SECONDS:
                end, added = loop.time() + seconds, 0.0
            if loop.time() >= end:
                await watch.reader.read()
            is_often = watch.integrals.totals.reloads >= _OFTEN
            if added and is_often and isinstance(watch.reader.outcome, Reading):  # it is up
                break
            settles = _SETTLING_SECONDS * (not is_often)
            while watch.reader.is_reloading and loop.time() + settles >= end and added < seconds:
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
    shortest window of at least this length, or its longest; None: the window of its page. settings: to predict.

    If an exporter does not answer, or one of its servers is gone, the document says why.
    """
    try:
        names = [page.server] if page.server is not None else await list_names(page.base)
    except ApiError as error:
        return [describe_unread(page.base.netloc, page.base, error.reason, f"{error}.")]
    if not names:
        return [describe_unread(page.base.netloc, page.base, "not_found", f"{page.base}: it watches no server.")]
    documents = await asyncio.gather(*(_read_server(page.base, name, seconds) for name in names))
    if not settings:
        return list(documents)
    return [await _add_prediction(page.base, document, settings) for document in documents]


async def _read_server(base: Http, name: str, seconds: float | None) -> ServerDocument:
    path = build.server_path(name)
    try:
        document = await get_document(base, path, ServerDocument)
        lengths = sorted(window.asked for window in document.windows)
        if seconds is None or not lengths:
            return document
        wanted = next((length for length in lengths if length >= seconds), lengths[-1])
        if document.window is None or document.window.asked != wanted:
            return await get_document(base, f"{path}?window={wanted:g}", ServerDocument)
    except ApiError as error:
        if error.reason == "http" and not error.is_access:  # the exporter answers: the server is missing
            missing = f"The exporter at {base} has no server {name}, or is of an earlier version."
            return describe_unread(name, base, "not_found", missing)
        return describe_unread(name, base, error.reason, f"{error}.")
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


def parse_targets(arguments: Sequence[str]) -> tuple[ServerConfig, ...]:
    """Parse arguments to servers, globs and URLs. Raises ConfigError."""
    return refuse_duplicates(parse_server_argument(argument, "check") for argument in arguments)


_NO_SOCKET = "No socket matches it: is uWSGI running, with `stats` set to such a path?"


Show = Callable[[Fleet, float], Coroutine[Any, Any, None]]
"""Shows a fleet while it is watched for so many seconds, until it is cancelled."""


async def judge_targets(
    targets: Targets,
    request: Request,
    settings: Sequence[Setting] = (),
    stuck_seconds: float = STUCK_SECONDS,
    show: Show | None = None,
    keep: list[saved.Look] | None = None,
) -> list[ServerDocument]:
    """Judge all targets: returns a document with a verdict for each server, and predictions for these settings.
    stuck_seconds: the age from which on a request counts as stuck, where `check` watches the server itself; show: in
    the place of a line with the seconds left; keep: gets what each watched server was judged by. Raises ConfigError if
    a log is no server's.

    Ctrl-C ends watching; servers are then judged by the samples so far. Raises asyncio.CancelledError on Ctrl-C if all
    targets are exporters and have not answered.
    """
    length = request.seconds or WATCH_SECONDS
    own = Settings(
        windows=(length,),
        stuck_seconds=stuck_seconds,
        read_locks=request.read_locks,
        read_pollfds=request.read_pollfds is not False,
    )
    wait_until_ready()
    fleet = Fleet(targets.watched, own, most_cpu=_MOST_CPU if request.addresses else _MOST_CPU_OF_ALL)
    fleet.refresh()
    watches = fleet.watches()
    share_samples(watches)
    for watch in watches:
        watch.finds_log = not request.no_log
    _set_logs(watches, request.logs)
    for watch in watches:
        watch.reader.search_web_files(logs=not request.no_log)
        if request.code is not None:
            watch.set_code(replace(CHECK, prefixes=request.code, kept_seconds=length))
    log_task = asyncio.create_task(fleet.read_logs(), name="read logs")
    progress = (lambda _left: None) if show else partial(_show_progress, len(watches))
    watching = [
        asyncio.create_task(_judge_and_predict(watch, fleet, length, settings, progress, keep)) for watch in watches
    ]
    reading = [asyncio.create_task(read_page(page, request.seconds, settings)) for page in targets.exporters]
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGINT, lambda: [task.cancel() for task in watching or reading]
    )
    suspend.between_reads(fleet.pause, fleet.resume)
    beside = [log_task, *([asyncio.create_task(show(fleet, length), name="show")] if show else [])]
    try:
        documents = list(await asyncio.gather(*watching))
        answers = await asyncio.gather(*reading)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        if watches and not show:
            show_line("")
    several = len({page.base for page in targets.exporters}) + bool(watches) > 1
    for page, answer in zip(targets.exporters, answers, strict=True):
        at = f"@{page.base.netloc}" * several  # servers of several exporters may have the same name
        documents += [replace(document, name=f"{document.name}{at}") for document in answer]
    nobody = f"{NOBODY_LISTENS}.".format("It cannot be read")
    documents += [describe_unread(url.netloc, url, "refused", nobody) for url in targets.silent]
    documents += [
        describe_unread(server.pattern, Unix(server.pattern), "not_found", _NO_SOCKET)
        for server in targets.watched
        if server.address is None and _finds_nothing(server)
    ]
    return documents


def share_samples(watches: Sequence[Watch]) -> None:
    """Sample a single server as often as uWSGI's safety permits, and none of several less often than an exporter. The
    kernel is asked no more often than by an exporter."""
    for watch in watches:
        most = LOOKS_PER_SECOND if isinstance(watch.address, ProcessOfApp | SocketOfApp) else SAMPLES_PER_SECOND
        watch.pace.set_rate(max(DEFAULT_SAMPLES_PER_SECOND, most / len(watches)))
        watch.reader.facts_every = _FACTS_SECONDS


def _set_logs(watches: Sequence[Watch], logs: Sequence[str]) -> None:
    by_name = {watch.name: watch for watch in watches}
    for text in logs:
        is_named = "=" in text and not text.startswith(("/", "./", "../", JOURNAL))
        is_path = len(watches) == 1 and not is_named and ("/" in text or text.startswith(JOURNAL) or isfile(text))
        ((name, path),) = find_setting("--uwsgi-log").parse(
            [(f"{watches[0].name}={text}" if is_path else text, "--uwsgi-log")]
        )
        if name not in by_name:
            raise ConfigError(f"--uwsgi-log: no server is named {name!r}; there are {', '.join(by_name) or 'none'}")
        by_name[name].set_log(path)


async def _judge_and_predict(
    watch: Watch,
    fleet: Fleet,
    seconds: float,
    settings: Sequence[Setting],
    progress: Callable[[float], None],
    keep: list[saved.Look] | None,
) -> ServerDocument:
    document = await judge(watch, fleet.clock, seconds, progress)
    if keep is not None:
        keep.append(saved.take(watch, document))
    if not settings:
        return document
    try:
        what_if = await predict_what_if(watch, fleet.clock, seconds, settings)
    except asyncio.CancelledError:
        what_if = WhatIf(name=watch.name, time=fleet.clock.epoch(), refusal="It was interrupted.")
    return replace(document, what_if=what_if)


def _finds_nothing(glob: ServerConfig) -> bool:
    fleet = Fleet([glob])
    fleet.refresh()
    return not fleet.watches()


def _show_progress(count: int, left: float) -> None:
    servers = fill("[count?  {count} servers]", {"count": count > 1 and count})
    show_line(f"watching{servers} for {left:.0f} s more (Ctrl-C: judge now) ")


def show_line(text: str) -> None:
    """Show a text in the place of the last one, on standard error if that is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def run(
    request: Request,
    servers: Sequence[ServerConfig] = (),
    write: Callable[[Sequence[ServerDocument]], Iterable[str]] | None = None,
    show: Show | None = None,
) -> int:
    """Judge the servers of a request and return the exit status. servers: if the request names none, by default those
    of this machine; write: writes the text; show: as of `judge_targets`. Raises HeadroomError and KeyboardInterrupt."""
    logs.configure("critical", "logfmt")  # verdicts report errors
    settings = _parse_settings(request)
    stuck_seconds = find_setting("--stuck").parse(request.stuck or f"{STUCK_SECONDS:g}s", "--stuck")
    servers = parse_targets(request.addresses) if request.addresses else servers or discover_servers()
    try:
        with saved.saving(request.save) as keep:
            replayed = _replay(servers, request)
            judged, single = replayed or asyncio.run(_judge(servers, request, settings, stuck_seconds, show, keep))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if not request.addresses:
        judged = [server for server in judged if not _is_no_uwsgi(server)] or judged
    lines = write(judged) if write and request.format == "text" else _render(judged, request, single=single)
    print_lines([*lines, *(_list_those_here() if not replayed and _leads_nowhere(judged, request) else ())])
    return EXIT_STATUS[find_worst(server.status for server in judged)]


def _replay(servers: Sequence[ServerConfig], request: Request) -> tuple[list[ServerDocument], bool] | None:
    """Judge again what a file of `--save` has; None if the request names none. Raises ConfigError."""
    named = [each.address.path for each in servers if request.addresses and isinstance(each.address, Unix)]
    paths = list(filter(saved.is_saved, named))
    if not paths:
        return None
    others = [request.save, request.seconds, request.what_if, request.since_reload, *_list_watching(request).values()]
    if len(servers) > 1 or any(others):
        raise ConfigError(
            f"{paths[0]}: a file of --save is judged alone, and by what it has: give no other address, and "
            "no flag but --all, --format and thresholds"
        )
    documents = [apply_thresholds(document, request.thresholds) for document in saved.replay(paths[0])]
    return sorted(documents, key=_gravity), len(documents) == 1


def _is_no_uwsgi(server: ServerDocument) -> bool:
    """Whether a process that was found, and that nobody named, has ended or has only a name like uWSGI's: any user can
    start such processes without end."""
    reason = server.error.reason if server.error else ""
    return server.address.startswith("pid:") and reason in ("not_found", "not_uwsgi")


def _leads_nowhere(judged: Sequence[ServerDocument], request: Request) -> bool:
    errors = [server.error for server in judged if server.address.startswith("unix:")]
    missing = [error for error in errors if error and error.reason == "not_found"]
    return request.format == "text" and bool(request.addresses) and len(missing) == len(judged)


def _list_those_here() -> list[str]:
    servers = find_everything().servers
    if not servers:
        return ["", "Nothing is there, and no uWSGI runs on this machine that you may look at."]
    width = max(len(each.name) for each in servers)
    lines = (f"  {each.name:{width}}  {each.address}" for each in servers)
    return ["", "Nothing is there. `check` can look at these servers, which run here:", *lines]


def _parse_settings(request: Request) -> tuple[Setting, ...]:
    if request.what_if and request.format == "nagios":
        raise ConfigError("--what-if needs the format text or json: a plugin's line has no room for predictions")
    try:
        return parse_settings(text for texts in request.what_if for text in texts.split(","))
    except SettingError as error:
        raise ConfigError(f"--what-if: {error}") from None


async def _judge(
    servers: Sequence[ServerConfig],
    request: Request,
    settings: Sequence[Setting],
    stuck_seconds: float,
    show: Show | None = None,
    keep: list[saved.Look] | None = None,
) -> tuple[list[ServerDocument], bool]:
    """Return the documents, worst first, and whether the request names a single server. Raises ConfigError if a
    threshold cannot be judged, or if an option cannot be applied to these servers."""
    targets = Targets(tuple(servers))
    if request.addresses:
        targets = await sort_targets(servers, load_optional(request.http_config))
    _refuse_what_does_not_apply(request, targets)
    loop = asyncio.get_running_loop()
    end = loop.time() + request.wait
    _ask_unserved(request)
    while True:
        documents = await judge_targets(targets, request, settings, stuck_seconds, show, keep)
        documents += _list_unserved(request, documents)
        judged = [apply_thresholds(document, request.thresholds) for document in documents]
        if not request.since_reload:
            break
        judged = [apply_deploy(document, request.not_before) for document in judged]
        if loop.time() >= end or not is_undecided(judged):
            break
        if task := asyncio.current_task():
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        await asyncio.sleep(min(POLL_SECONDS, end - loop.time()))
    names_one = len(request.addresses) == 1 and servers[0].address is not None
    return sorted(judged, key=_gravity), names_one and all(page.server for page in targets.exporters)


def _refuse_what_does_not_apply(request: Request, targets: Targets) -> None:
    """Raises ConfigError."""
    if targets.watched:
        refuse_too_short(request.thresholds, SAMPLES_PER_SECOND)
    given = next((why for why, value in _list_watching(request).items() if value), None)
    if targets.exporters and given:
        raise ConfigError(f"{given} own setting of that name; set it there")
    if targets.exporters and request.save:
        raise ConfigError("--save: an exporter keeps what it judged by; save from the address of the stats server")
    if request.since_reload and (targets.watched or targets.silent):
        raise ConfigError("--since-reload: only an exporter knows what was before a reload; give the URL of its page")


def _list_watching(request: Request) -> dict[str, object]:
    """The options that apply only where `check` watches a server, and why not to an exporter; each with its value."""
    return {
        "--stuck: an exporter judges by its": request.stuck,
        "--uwsgi-log: an exporter reads the logs of its": request.logs,
        "--no-log: an exporter reads logs by its": request.no_log,
        "--read-locks: an exporter reads by its": request.read_locks,
        "--read-pollfds: an exporter reads by its": request.read_pollfds is not None,
        "--code: an exporter looks at code by its": request.code is not None,
    }


def _gravity(server: ServerDocument) -> tuple[int, float, str]:
    factor = find_field(server, "headroom.factor")
    return WORST_FIRST.index(server.status), inf if factor is None else factor, server.name


def _render(judged: Sequence[ServerDocument], request: Request, *, single: bool) -> Sequence[str]:
    match request.format:
        case "json":
            return reports.render_json(judged, single=single).splitlines()
        case "nagios":
            return [reports.render_report(judged, request.thresholds)]
    everything = request.all and bool(request.addresses)
    if len(judged) == 1:
        return list(reports.render_lines(judged[0], everything=everything))
    return list(reports.render_list(judged, everything=everything))

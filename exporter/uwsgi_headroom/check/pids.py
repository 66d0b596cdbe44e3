"""Runs `pids`: prints the command that restarts some workers, with the PIDs of now, and what is lost by it.

It sends no signal itself.

What the signals do was tried on uWSGI 2.0.31 (`tests/check/test_pids.py`): a worker that gets SIGTERM ends at once, and
its master starts another one in its slot; one that gets SIGHUP first completes what is in service. Everything else that
restarts workers (the master FIFO, touch-workers-reload, an emperor) restarts all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import quote

from uwsgi_headroom import logs
from uwsgi_headroom.check.command import parse_targets, read_page
from uwsgi_headroom.check.exporter_client import NOBODY_LISTENS, ExporterPage, find_local_exporter, sort_targets
from uwsgi_headroom.check.tables import find_field
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.config.servers import ServerConfig, default_name
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.subjects import WorkerSection
from uwsgi_headroom.errors import ConfigError, HeadroomError, ReadError
from uwsgi_headroom.source import HttpAccess
from uwsgi_headroom.terminal_text import print_lines, wrap
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.words.formats import chosen as exact
from uwsgi_headroom.words.formats import counted, duration, fit_duration, listed, name_pids, numbered
from uwsgi_headroom.words.states import WORKERS
from uwsgi_headroom.words.template import Facts, fill

WIDTH = 80

KILL_SECONDS = 5.0
"""After this time a worker that got SIGTERM has ended, unless something keeps it from ending."""

_MOST_AGES = 4
"""More ages of requests of one worker are counted."""


def run(options: argparse.Namespace) -> int:
    """Print the workers of a server and the commands that restart the chosen ones, and return the exit status. Without
    chosen ones, it is a list without commands. Raises HeadroomError if there is nothing to restart."""
    logs.configure("critical", "logfmt")
    document = _find(options.server, load_optional(options.http_config_file))
    _refuse_what_has_no_workers(document)
    chosen = _choose(document, options.worker or (), stuck=options.stuck)
    print_lines(render_lines(document, chosen))
    return 0


def _find(text: str, access: HttpAccess | None) -> ServerDocument:
    """Read the document of a server. A name is one of the exporter on this machine, or, if that is away or has no such
    server, of a server that is found here. Raises HeadroomError."""
    refusal: HeadroomError | None = None
    if any(mark in text for mark in "/:@="):
        try:
            return asyncio.run(_read(parse_targets([text])[0], access))
        except ConfigError as error:  # a name may have a slash
            refusal = error
    local = find_local_exporter(access)
    found = local and asyncio.run(_ask(ExporterPage(local, text)))
    if found:
        return found
    servers = discover_servers()
    same = [each for each in servers if each.address and text in (each.name, default_name(each.address))]
    if len(same) == 1:
        return asyncio.run(_read(same[0], access))
    facts: Facts = {
        "same": len(same) or None,
        "name": text,
        "other": listed([each.name for each in same or servers], 5),
    }
    facts |= {"here": defaults.LISTEN_ADDRESS, "quoted": quote(text)}
    raise refusal or HeadroomError(fill(_WHICH, facts))


_WHICH = (
    "[same? {same} servers here have][not same? no server here has] the name {name}: give the address of one, such as "
    "{other}, or its page, if an exporter does not listen on {here}: http://HOST:PORT/servers/{quoted}"
)


async def _ask(page: ExporterPage) -> ServerDocument | None:
    """The document of the exporter; None if it speaks TLS, or has no such server."""
    (document,) = await read_page(page, None)
    return document if document.error is None or document.error.reason not in ("not_found", "refused", "http") else None


async def _read(server: ServerConfig, access: HttpAccess | None) -> ServerDocument:
    targets = await sort_targets([server], access)
    if targets.exporters:
        documents = await read_page(targets.exporters[0], None)
        if len(documents) != 1:
            names = listed([each.name for each in documents], 5)
            raise HeadroomError(f"this exporter has several servers: give the page of one, /servers/NAME, of {names}")
        return documents[0]
    if server.address is None:
        raise HeadroomError(f"{server.pattern}: give the address of one server instead of a pattern")
    if targets.silent:
        raise HeadroomError(NOBODY_LISTENS.format(server.address))
    watch = Watch(server.name, server.address)
    outcome = await watch.reader.read()
    if isinstance(outcome, ReadError):
        raise HeadroomError(f"{server.name}: {build.describe_trouble(outcome)}")
    return build.build_server(watch, Clock(), 1.0, ())


def _refuse_what_has_no_workers(server: ServerDocument) -> None:
    """Raises HeadroomError if the PIDs of a server are not known, or if nobody would start a new worker. uWSGI with
    `stats` always runs a master, also without `master`; a document that names none is not of a running one."""
    if server.state != "up":
        raise HeadroomError(f"{server.name}: its PIDs are not known. {server.verdict}")
    if server.kind != "server":
        raise HeadroomError(f"{server.name} is a uWSGI {server.kind}, which has no workers: give one of its servers")
    if not server.workers:
        raise HeadroomError(f"{server.name} has no workers: if it is an emperor, give one of its vassals")
    if server.identity is None or not server.identity.pid:
        raise HeadroomError(
            f"{server.name}: no master is known, which would start a new worker: restart the whole uWSGI instead"
        )


def _choose(server: ServerDocument, numbers: Sequence[int], *, stuck: bool) -> list[WorkerSection]:
    """The workers with these numbers, and those with stuck requests. Raises HeadroomError if there are none."""
    known = {worker.worker_id: worker for worker in server.workers}
    if unknown := [number for number in numbers if number not in known]:
        raise HeadroomError(
            f"{server.name} has no {numbered('worker', unknown)}: it has {counted(len(known), 'worker')}, "
            f"{numbered('number', sorted(known))}"
        )
    chosen = {number: known[number] for number in numbers}
    if stuck:
        if server.threads is None or server.threads.stuck is None:
            raise HeadroomError(
                f"{server.name}: ages of requests are not known (stats-no-cores): give --worker NUMBERS"
            )
        limit = server.threads.stuck_seconds
        hold = {number: worker for number, worker in known.items() if (worker.oldest_request_age or 0.0) >= limit}
        if not hold and not chosen:
            raise HeadroomError(f"{server.name}: no request has been in service for {exact(limit)} or longer")
        chosen |= hold
    return [chosen[number] for number in sorted(chosen)]


_HEAD = "{name}  uWSGI {version}[host?  on {host}], master {master:plain}[read? , read at {read}]"
_ABSENT = "{absent:Worker} {absent:has|have} no process now."
_WITHOUT_LOSS = "Without loss (a worker ends after its last request; a stuck one never does):"


def render_lines(server: ServerDocument, chosen: Sequence[WorkerSection]) -> Iterator[str]:
    """Write the chosen workers, the commands that restart them and what is lost; without any, all workers."""
    assert server.identity
    facts: Facts = {"name": server.name, "version": server.version or "?", "host": server.identity.host}
    facts["master"] = server.identity.local_pid or server.identity.pid
    facts["read"] = server.read_at and time.strftime("%H:%M:%S %Z", time.localtime(server.read_at))
    yield from _wrap(fill(_HEAD, facts), rest="  ")
    yield ""
    yield "  worker      PID  state    up        requests in service"
    for worker in chosen or server.workers:
        yield from _wrap(_describe(worker), rest=" " * 38)
    yield ""
    if not chosen:
        yield from _wrap("Choose which to restart with --worker NUMBERS, such as --worker 2,3, or with --stuck.")
        return
    here = [worker for worker in chosen if (worker.local_pid or worker.pid or 0) > 1]
    if absent := [worker.worker_id for worker in chosen if worker not in here]:
        yield from _wrap(fill(_ABSENT, {"absent": absent}))
    if not here:
        return
    pids, sudo = name_pids(worker.local_pid for worker in here), _sudo(server, here)
    if not all(worker.local_pid for worker in here):
        why = next((each.why for each in server.unknown if each.what == "processes"), None)
        yield from _wrap(fill(_DOUBT, {"why": why}))
        yield ""
    yield f"Restart {numbered('worker', [worker.worker_id for worker in here])} now{_where(server, here)}:"
    yield f"  {sudo}kill -TERM {pids}"
    yield from _wrap(_say_lost(server, here))
    yield ""
    yield f"If a PID is still there after {exact(KILL_SECONDS)}:"
    yield f"  {sudo}kill -KILL {pids}"
    yield ""
    yield _WITHOUT_LOSS
    yield f"  {sudo}kill -HUP {pids}"


_DOUBT = (
    "The PIDs above are uWSGI's own figures: the kernel does not prove that they are workers of this uWSGI[why?  "
    "({why})]. Before you replace PID, look at the process on uWSGI's host: `ps -fp PID`."
)


def _describe(worker: WorkerSection) -> str:
    pid = worker.local_pid or worker.pid
    age = worker.age is not None and worker.pid and fit_duration(worker.age, 8)
    begin = f"  {worker.worker_id:>6}  {pid or '-':>7}  {WORKERS[worker.state].short:7}  {age or '-':8}  "
    ages = listed([duration(age) for age in worker.request_ages], _MOST_AGES) if worker.request_ages else None
    facts: Facts = {
        "known": worker.busy_threads is not None,
        "busy": worker.busy_threads,
        "ages": bool(worker.busy_threads) and ages,
    }
    return begin + fill("[known? {busy}][not known? not known][known, ages? , for {ages}]", facts)


_LOST = (
    "[unknown? The restart loses the requests in progress. Their number is not known (stats-no-cores).]"
    "[none? No request is in service in {workers:it|them} now.]"
    "[lost? This loses {lost:request} now in service: the clients get no answer.]"
    " The master starts [one? a new worker][not one? new workers]; "
    "[alone? no other accepts requests: requests wait until then.]"
    "[others? {others:plain} {others:other serves|others serve} meanwhile][free? , with {free}][others? .]"
)


def _say_lost(server: ServerDocument, chosen: Sequence[WorkerSection]) -> str:
    numbers = [worker.busy_threads for worker in chosen]
    rest = [worker for worker in server.workers if worker.accepting and worker.pid and worker not in chosen]
    is_known = None not in numbers
    lost = sum(number or 0 for number in numbers)
    free = sum((worker.threads or 0) - (worker.busy_threads or 0) for worker in rest)
    all_known = all(worker.threads is not None and worker.busy_threads is not None for worker in rest)
    facts: Facts = {
        "unknown": not is_known,
        "none": is_known and not lost,
        "lost": (is_known and lost) or None,
        "workers": len(chosen),
        "one": len(chosen) == 1,
        "alone": not rest,
        "others": len(rest) or None,
        "free": bool(rest) and all_known and counted(free, "free thread"),
    }
    return fill(_LOST, facts)


def _where(server: ServerDocument, chosen: Sequence[WorkerSection]) -> str:
    host = find_field(server, "identity.host")
    if host is not None and host != os.uname().nodename:
        return f", on {host}"
    return "" if all(worker.local_pid for worker in chosen) else ", where uWSGI runs"


def _sudo(server: ServerDocument, chosen: Sequence[WorkerSection]) -> str:
    if _where(server, chosen) or os.geteuid() == 0:
        return ""
    with suppress(OSError):
        return "sudo " * any(os.stat(f"/proc/{worker.local_pid}").st_uid != os.geteuid() for worker in chosen)
    return ""


def _wrap(text: str, rest: str = "") -> list[str]:
    return wrap(text, WIDTH, "", rest)

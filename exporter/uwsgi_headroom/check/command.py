"""Runs `check`: finds the servers, judges them, prints the verdicts, and returns the exit status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from math import inf

from uwsgi_headroom import logs
from uwsgi_headroom.analysis.what_if.measured import Setting, SettingError, parse_settings
from uwsgi_headroom.check import reports
from uwsgi_headroom.check.exporter_client import Targets, sort_targets
from uwsgi_headroom.check.request import EXIT_STATUS, WORST_FIRST, Request, find_worst
from uwsgi_headroom.check.tables import find_field
from uwsgi_headroom.check.thresholds import (
    POLL_SECONDS,
    apply_deploy,
    apply_thresholds,
    is_undecided,
    refuse_too_short,
)
from uwsgi_headroom.check.watching import SAMPLES_PER_SECOND, judge_targets, parse_targets
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import find_setting
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.terminal_text import print_lines


def run(request: Request) -> int:
    """Judge the servers of a request and return the exit status. Raises HeadroomError if there is nothing to judge,
    and KeyboardInterrupt if interrupted before there is any result."""
    logs.configure("critical", "logfmt")  # verdicts report errors
    settings = _parse_settings(request)
    stuck_seconds = find_setting("--stuck").parse(request.stuck or f"{STUCK_SECONDS:g}s", "--stuck")
    servers = parse_targets(request.addresses) if request.addresses else discover_servers()
    try:
        judged, single = asyncio.run(_judge(servers, request, settings, stuck_seconds))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    print_lines(_render(judged, request, single=single))
    return EXIT_STATUS[find_worst(server.status for server in judged)]


def _parse_settings(request: Request) -> tuple[Setting, ...]:
    """The settings to predict. Raises ConfigError."""
    if request.what_if and request.format == "nagios":
        raise ConfigError("--what-if needs the format text or json: a plugin's line has no room for predictions")
    try:
        return parse_settings(text for texts in request.what_if for text in texts.split(","))
    except SettingError as error:
        raise ConfigError(f"--what-if: {error}") from None


async def _judge(
    servers: Sequence[ServerConfig], request: Request, settings: Sequence[Setting], stuck_seconds: float
) -> tuple[list[Server], bool]:
    """Return the documents, worst first, and whether the request names a single server. Raises ConfigError if a
    threshold cannot be judged, or if an option cannot be applied to these servers."""
    targets = Targets(tuple(servers))
    if request.addresses:
        targets = await sort_targets(servers, load_optional(request.http_config))
    _refuse_what_does_not_apply(request, targets)
    loop = asyncio.get_running_loop()
    end = loop.time() + request.wait
    while True:
        documents = await judge_targets(targets, request, settings, stuck_seconds)
        judged = [apply_thresholds(document, request.thresholds) for document in documents]
        if not request.since_reload:
            break
        judged = [apply_deploy(document, request.not_before) for document in judged]
        if loop.time() >= end or not is_undecided(judged):
            break
        if task := asyncio.current_task():
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        await asyncio.sleep(min(POLL_SECONDS, end - loop.time()))
    names_one = len(servers) == 1 and servers[0].address is not None
    return sorted(judged, key=_gravity), names_one and all(page.server for page in targets.exporters)


def _refuse_what_does_not_apply(request: Request, targets: Targets) -> None:
    """Raises ConfigError."""
    if targets.watched:
        refuse_too_short(request.thresholds, SAMPLES_PER_SECOND)
    options = {
        "--stuck: an exporter judges by its": request.stuck,
        "--log: an exporter reads the logs of its": request.logs,
        "--read-locks: an exporter reads by its": request.read_locks,
        "--read-pollfds: an exporter reads by its": request.read_pollfds,
        "--code: an exporter looks at code by its": request.code is not None,
    }
    given = next((option for option, value in options.items() if value), None)
    if targets.exporters and given:
        raise ConfigError(f"{given} own setting of that name; set it there")
    if request.since_reload and (targets.watched or targets.silent):
        raise ConfigError("--since-reload: only an exporter knows what was before a reload; give the URL of its page")


def _gravity(server: Server) -> tuple[int, float, str]:
    factor = find_field(server, "headroom.factor")
    return WORST_FIRST.index(server.status), inf if factor is None else factor, server.name


def _render(judged: Sequence[Server], request: Request, *, single: bool) -> Sequence[str]:
    match request.format:
        case "json":
            return reports.render_json(judged, single=single).splitlines()
        case "nagios":
            return [reports.render_report(judged, request.thresholds)]
    everything = request.all and bool(request.addresses)
    if len(judged) == 1:
        return list(reports.render_lines(judged[0], everything=everything))
    return list(reports.render_list(judged, everything=everything))

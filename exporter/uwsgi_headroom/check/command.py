"""Runs `check`: finds the servers, judges them, prints the verdicts, and returns the exit status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from uwsgi_headroom import logs
from uwsgi_headroom.analysis.what_if.measured import Setting, SettingError, parse_settings
from uwsgi_headroom.check import reports
from uwsgi_headroom.check.request import EXIT_STATUS, WORST_FIRST, Request, find_worst
from uwsgi_headroom.check.thresholds import POLL_SECONDS, apply_deploy, apply_thresholds, is_undecided, refuse_too_short
from uwsgi_headroom.check.watching import SAMPLES_PER_SECOND, Targets, judge_targets, parse_targets, sort_targets
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import find_setting
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.terminal_text import print_lines


def run(request: Request) -> int:
    """Judge the servers of a request and return the exit status. Raises HeadroomError if there is nothing to judge,
    and KeyboardInterrupt if interrupted before there is any result."""
    logs.configure("critical", "logfmt")  # verdicts report errors
    settings = _parse_settings(request)
    stuck_seconds = find_setting("--stuck").parse(request.stuck, "--stuck") if request.stuck else STUCK_SECONDS
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
) -> tuple[list[ServerDocument], bool]:
    """Return the documents, worst first, and whether the request names a single server. Raises ConfigError if a
    threshold cannot be judged, or --stuck, --log, --read-locks, --read-pollfds or --code cannot be applied."""
    access = load_optional(request.http_config)
    targets = await sort_targets(servers, access) if request.addresses else Targets(tuple(servers))
    if targets.watched:
        refuse_too_short(request.thresholds, SAMPLES_PER_SECOND)
    if targets.exporters and request.stuck:
        raise ConfigError("--stuck: an exporter judges by its own setting of that name; set it there")
    if targets.exporters and request.logs:
        raise ConfigError("--log: an exporter reads the logs of its own setting of that name; set it there")
    if targets.exporters and request.read_locks:
        raise ConfigError("--read-locks: an exporter reads by its own setting of that name; set it there")
    if targets.exporters and request.read_pollfds is not None:
        raise ConfigError("--read-pollfds: an exporter reads by its own setting of that name; set it there")
    if targets.exporters and request.code is not None:
        raise ConfigError("--code: an exporter looks at code by its own setting of that name; set it there")
    if request.since_reload and (targets.watched or targets.silent):
        raise ConfigError("--since-reload: only an exporter knows what was before a reload; give the URL of its page")
    loop = asyncio.get_running_loop()
    end = loop.time() + request.wait
    while True:
        documents = await judge_targets(
            targets,
            request.seconds,
            settings,
            stuck_seconds,
            read_locks=request.read_locks,
            read_pollfds=request.read_pollfds != "false",
            logs=request.logs,
            code=request.code,
        )
        judged = [apply_thresholds(document, request.thresholds) for document in documents]
        if not request.since_reload:
            break
        judged = [apply_deploy(document, request.not_before) for document in judged]
        if loop.time() >= end or not is_undecided(judged):
            break
        if task := asyncio.current_task():
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        await asyncio.sleep(min(POLL_SECONDS, end - loop.time()))
    return sorted(judged, key=_gravity), targets.single


def _gravity(server: ServerDocument) -> tuple[int, float, str]:
    factor = server.headroom.factor if server.headroom else None
    return WORST_FIRST.index(server.status), float("inf") if factor is None else factor, server.name


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

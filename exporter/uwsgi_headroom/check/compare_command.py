"""Runs `compare`: asks a running exporter what changed in a server around a moment, and prints it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

import msgspec

from uwsgi_headroom.analysis.deploys.explanation import DeployPart
from uwsgi_headroom.analysis.deploys.judgement import DeployChange
from uwsgi_headroom.check.exporter_client import ApiError, ExporterPage, get_document, parse_page
from uwsgi_headroom.config.defaults import LISTEN_ADDRESS
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.deploys import ComparisonDocument
from uwsgi_headroom.documents.schema import ServerDocument, Servers
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.source import Http, parse_address
from uwsgi_headroom.terminal_text import escape_text, print_lines, wrap
from uwsgi_headroom.words.formats import byte_size, counted, duration, factor, fine_percent, listed, signed_duration

_MOST_NAMES = 10

_ANSWER_SECONDS = 30.0
"""A comparison of days reads thousands of records."""


@dataclass(frozen=True, slots=True)
class Comparing:
    """The request of a comparison. server: its name, or the URL of its page; exporter: the URL of its exporter, if
    `server` is a name. before, after: seconds, None for the exporter's defaults. around: as the user wrote it; None for
    the last reload."""

    server: str
    exporter: str | None = None
    before: float | None = None
    after: float | None = None
    around: str | None = None
    as_json: bool = False
    http_config: str | None = None


def run(request: Comparing) -> int:
    """Print a comparison. Raises HeadroomError."""
    page = _find_page(request)
    asked: Mapping[str, float | None] = {
        "before": request.before,
        "after": request.after,
        "around": parse_moment(request.around, time.time()) if request.around else None,
    }
    query = urlencode({name: f"{value!r}" for name, value in asked.items() if value is not None})
    path = f"{build.server_path(page.server or '')}/compare{'?' if query else ''}{query}"
    try:
        found = asyncio.run(get_document(page.base, path, ComparisonDocument, _ANSWER_SECONDS))
    except ApiError as error:
        if error.reason == "http" and not error.is_access:
            raise HeadroomError(asyncio.run(_explain(page, request)) or str(error)) from None
        raise
    if request.as_json:
        print_lines(msgspec.json.format(msgspec.json.encode(found), indent=2).decode().splitlines())
    else:
        print_lines(list(_render(found)))
    return 0


async def _explain(page: ExporterPage, request: Comparing) -> str:
    """Why an exporter does not compare; empty if that is not known, as of another server."""
    with suppress(ApiError):
        names = [server.name for server in (await get_document(page.base, build.SERVERS_PATH, Servers)).servers]
        if page.server not in names:
            watched = f"it watches {listed(names, _MOST_NAMES)}" if names else "it watches none"
            return f"{page.base}: it has no server {page.server}; {watched}"
        document = await get_document(page.base, build.server_path(page.server), ServerDocument)
        if request.around is None and document.deploy is None:
            return (
                f"{page.base}: it saw no reload of {page.server}: give the time that divides before from after, as in "
                "`--around 14:02`"
            )
    return ""


def _find_page(request: Comparing) -> ExporterPage:
    access = load_optional(request.http_config)
    text = request.server if "://" in request.server else request.exporter or f"http://{LISTEN_ADDRESS}"
    url = parse_address(text)
    if not isinstance(url, Http):
        raise ConfigError(f"compare: {text!r} is not the URL of an exporter")
    page = parse_page(replace(url, access=access))
    if "://" not in request.server:
        return page._replace(server=request.server)
    if page.server is None:
        raise ConfigError("compare: give the name of a server, or the URL of its page: .../servers/NAME")
    return page


_CLOCK = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


def parse_moment(text: str, now: float) -> float:
    """Parse `14:02` (the last one, by this machine's time), `2026-11-26T14:02` or epoch seconds. Raises ConfigError."""
    today = datetime.fromtimestamp(now)  # noqa: DTZ006 - the user's own clock
    try:
        if match := _CLOCK.fullmatch(text):
            moment = today.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0).timestamp()
            return moment if moment <= now else moment - 86_400
        return float(text) if re.fullmatch(r"\d{1,12}(\.\d+)?", text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"--around: expected a time, such as 14:02, 2026-11-26T14:02 or seconds since 1970, not {text}"
        ) from None


def _render(found: ComparisonDocument) -> Iterator[str]:
    deploy = found.deploy
    yield from wrap(f"{found.name}: {deploy.sentence}", _WIDTH)
    if found.usual:
        yield from wrap(found.usual.sentence, _WIDTH)
    yield ""
    for name, side in (("before", deploy.before), ("after", deploy.after)):
        more = [f"{counted(side.requests, 'request')} in {duration(side.seconds)}"]
        more += [f"{side.throughput:.1f} requests/s"] if side.throughput is not None else []
        more += [f"p95 {duration(side.p95)}"] if side.p95 is not None else []
        more += [f"queue wait {duration(side.queue_wait)}"] if side.queue_wait is not None else []
        more += [f"headroom {factor(side.headroom)}"] if side.headroom is not None else []
        more += [f"{factor(side.usable)} until requests wait"] if side.usable is not None else []
        yield from wrap(", ".join(more), _WIDTH, f"{name:8} ", " " * 9)
    if deploy.changes:
        yield ""
        yield from _list_changes(deploy.changes)
    for title, parts in (("A mean request", deploy.parts), ("By route", deploy.routes)):
        if parts:
            yield ""
            yield f"{title}:"
            yield from _list_parts(parts)


_WIDTH, _LONGEST = 80, 50

_NAMES = {"time": "time", "cpu": "CPU time", "errors": "errors", "memory": "memory"}


def _list_changes(changes: Sequence[DeployChange]) -> Iterator[str]:
    for change in changes:
        name, state = _NAMES[change.subject], "" if change.state == "unclear" else f"  {change.state}"
        if change.subject in ("time", "cpu"):
            span = f"{100 * change.low:+.0f} to {100 * change.high:+.0f} %"
            yield f"{name:8} {duration(change.before):>8} → {duration(change.after):8} {span}{state}"
        elif change.subject == "errors":
            yield f"{name:8} {fine_percent(change.before):>8} → {fine_percent(change.after):8}{state}"
        else:
            before, after = (byte_size(max(0.0, 60 * each)) for each in (change.before, change.after))
            yield f"{name:8} {before:>8} → {after:8} a minute in a mean worker{state}"


def _list_parts(parts: Sequence[DeployPart]) -> Iterator[str]:
    width = min(_LONGEST, max(len(escape_text(part.name)) for part in parts))
    for part in parts:
        text = f"  {escape_text(part.name)[:_LONGEST]:{width}} {duration(part.before):>8} → {duration(part.after)}"
        if part.function:
            text = f"{text:{width + 22}} {signed_duration(part.function_growth)} in {escape_text(part.function)}"
        yield text

"""Runs `compare`: asks a running exporter what changed in a server around a moment, and prints it."""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlencode

import msgspec
from msgspec import structs

from uwsgi_headroom.analysis.deploys.explanation import DeployPart
from uwsgi_headroom.analysis.deploys.judgement import DeployChange
from uwsgi_headroom.check.exporter_client import ApiError, ExporterPage, get_document, list_names, parse_page
from uwsgi_headroom.config.defaults import LISTEN_ADDRESS
from uwsgi_headroom.config.http_client_file import load_optional
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.deploys import ComparisonDocument
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.source import Http, parse_address
from uwsgi_headroom.terminal_text import escape_text, print_lines, wrap
from uwsgi_headroom.words.formats import byte_size, duration, fine_percent, listed, signed_duration
from uwsgi_headroom.words.template import fill

_MOST_NAMES = 10

_ANSWER_SECONDS = 30.0
"""A comparison of days reads thousands of records."""


def run(options: argparse.Namespace) -> int:
    """Print a comparison. Raises HeadroomError."""
    page = _find_page(options)
    around = options.around and parse_moment(options.around, time.time())
    asked = {"before": options.before, "after": options.after, "around": around}
    query = urlencode({name: f"{value!r}" for name, value in asked.items() if value is not None})
    path = f"{build.server_path(page.server or '')}/compare?{query}"
    try:
        found = asyncio.run(get_document(page.base, path, ComparisonDocument, _ANSWER_SECONDS))
    except ApiError as error:
        if error.reason == "http" and not error.is_access:
            raise HeadroomError(asyncio.run(_explain(page, options)) or str(error)) from None
        raise
    if options.json:
        print_lines(msgspec.json.format(msgspec.json.encode(found), indent=2).decode().splitlines())
    else:
        print_lines(_render(found))
    return 0


async def _explain(page: ExporterPage, options: argparse.Namespace) -> str:
    """Why an exporter does not compare; empty if that is not known, as of another server."""
    with suppress(ApiError):
        names = await list_names(page.base)
        if page.server not in names:
            watched = listed(names, _MOST_NAMES) if names else "none"
            return f"{page.base}: it has no server {page.server}; it watches {watched}"
        document = await get_document(page.base, build.server_path(page.server), ServerDocument)
        if options.around is None and document.deploy is None:
            return (
                f"{page.base}: it saw no reload of {page.server}: give the time that divides before from after, as in "
                "`--around 14:02`"
            )
    return ""


def _find_page(options: argparse.Namespace) -> ExporterPage:
    is_url = "://" in options.server
    text = options.server if is_url else options.exporter or f"http://{LISTEN_ADDRESS}"
    url = parse_address(text)
    if not isinstance(url, Http):
        raise ConfigError(f"compare: {text!r} is not the URL of an exporter")
    page = parse_page(replace(url, access=load_optional(options.http_config_file)))
    if not is_url:
        return page._replace(server=options.server)
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
        yield from wrap(fill(_SIDE, structs.asdict(side)), _WIDTH, f"{name:8} ", " " * 9)
    if deploy.changes:
        yield ""
        yield from map(_describe_change, deploy.changes)
    for title, parts in (("A mean request", deploy.parts), ("By route", deploy.routes)):
        if parts:
            yield ""
            yield f"{title}:"
            yield from _list_parts(parts)


_SIDE = (
    "{requests:request} in {seconds:duration}[throughput? , {throughput:mean} requests/s]"
    "[p95? , p95 {p95:duration}][queue_wait? , queue wait {queue_wait:duration}]"
    "[headroom? , headroom {headroom:factor}][usable? , {usable:factor} until requests wait]"
)


_WIDTH, _LONGEST = 80, 50

_NAMES = {"time": "time", "cpu": "CPU time", "errors": "errors", "memory": "memory"}


def _describe_change(change: DeployChange) -> str:
    write: Callable[[float], str] = duration
    more = f" {100 * change.low:+.0f} to {100 * change.high:+.0f} %"
    if change.subject == "errors":
        write, more = fine_percent, ""
    elif change.subject == "memory":
        write, more = lambda rate: byte_size(max(0.0, 60 * rate)), " a minute in a mean worker"
    state = f"  {change.state}" * (change.state != "unclear")
    return f"{_NAMES[change.subject]:8} {write(change.before):>8} → {write(change.after):8}{more}{state}"


def _list_parts(parts: Sequence[DeployPart]) -> Iterator[str]:
    width = min(_LONGEST, max(len(escape_text(part.name)) for part in parts))
    for part in parts:
        text = f"  {escape_text(part.name)[:_LONGEST]:{width}} {duration(part.before):>8} → {duration(part.after)}"
        if part.function:
            text = f"{text:{width + 22}} {signed_duration(part.function_growth)} in {escape_text(part.function)}"
        yield text

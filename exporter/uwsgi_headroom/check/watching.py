"""Watches servers at the same time, until Ctrl-C at the latest, and fetches the documents of exporters."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.check.exporters import read_page
from uwsgi_headroom.check.judge import describe_unread, judge
from uwsgi_headroom.check.request import WATCH_SECONDS
from uwsgi_headroom.check.targets import Targets
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents.predict import predict_what_if
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.what_if import WhatIf
from uwsgi_headroom.exporter_client import ExporterPage
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch

_NOBODY_LISTENS = "It cannot be read: nothing listens there, neither an exporter nor a stats server."
_NO_SOCKET = "No socket matches it: is uWSGI running, with `stats` set to such a path?"


async def judge_targets(
    targets: Targets,
    seconds: float | None,
    settings: Sequence[Setting] = (),
    stuck_seconds: float = STUCK_SECONDS,
) -> list[Server]:
    """Judge all targets: returns a document with a verdict for each server, and predictions for these settings.
    stuck_seconds: the age from which on a request counts as stuck, where `check` watches the server itself.

    Ctrl-C ends watching; servers are then judged by the samples so far. Raises asyncio.CancelledError on Ctrl-C if all
    targets are exporters and have not answered.
    """
    length = seconds or WATCH_SECONDS
    fleet = Fleet(targets.watched, Settings(windows=(length,), stuck_seconds=stuck_seconds))
    fleet.refresh()
    watches = fleet.watches()
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


async def _judge_and_predict(
    watch: Watch, clock: Clock, seconds: float, progress: Callable[[float], None], settings: Sequence[Setting]
) -> Server:
    document = await judge(watch, clock, seconds, progress)
    if not settings:
        return document
    try:
        what_if = await predict_what_if(watch, clock, seconds, settings)
    except asyncio.CancelledError:
        what_if = WhatIf(name=watch.name, time=clock.epoch(), refusal="It was interrupted.")
    return msgspec.structs.replace(document, what_if=what_if)


def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()


def _name_exporter(document: Server, page: ExporterPage) -> Server:
    """Add the exporter to the server's name: servers of several exporters may have the same name."""
    return msgspec.structs.replace(document, name=f"{document.name}@{page.base.netloc}")


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

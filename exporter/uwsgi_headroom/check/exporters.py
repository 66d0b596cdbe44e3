"""Fetches documents of servers from exporters, which have their history and answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.check.judge import describe_unread
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import Covered, Server, Servers
from uwsgi_headroom.documents.what_if import WhatIf
from uwsgi_headroom.exporter_client import ApiError, ExporterPage, get_document
from uwsgi_headroom.source import Http

PREDICTION_SECONDS = 60.0
"""Timeout of a prediction: a busy exporter makes one at a time."""


async def read_page(page: ExporterPage, seconds: float | None, settings: Sequence[Setting] = ()) -> list[Server]:
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
    return list(await asyncio.gather(*(_read_server(page.base, name, seconds, settings) for name in names)))


async def _list_names(base: Http) -> list[str]:
    return [summary.name for summary in (await get_document(base, build.SERVERS_PATH, Servers)).servers]


async def _read_server(base: Http, name: str, seconds: float | None, settings: Sequence[Setting]) -> Server:
    path = build.server_path(name)
    try:
        document = await get_document(base, path, Server)
        asked = document.window.asked if document.window else None
        wanted = _choose_window(document.windows, seconds)
        if wanted is not None and wanted != asked:
            document = await get_document(base, f"{path}?window={wanted:g}", Server)
        if settings:
            query = ",".join(map(str, settings))
            predicted = await get_document(base, f"{path}/what-if?settings={query}", WhatIf, PREDICTION_SECONDS)
            document = msgspec.structs.replace(document, what_if=predicted)
    except ApiError as error:
        if error.reason == "http":  # the exporter answered a moment ago, so the server is missing
            return describe_unread(name, base, "not_found", f"The exporter at {base} has no server {name}.")
        return _describe_failure(base, name, error)
    return document


def _choose_window(windows: Sequence[Covered], seconds: float | None) -> float | None:
    """Choose the length in seconds of the window to request; None: the exporter's default."""
    if seconds is None or not windows:
        return None
    lengths = sorted(window.asked for window in windows)
    return next((length for length in lengths if length >= seconds), lengths[-1])


def _describe_failure(base: Http, name: str, error: ApiError) -> Server:
    return describe_unread(name, base, error.reason, f"{error}.")

"""Decodes the bytes of a stats server's answer into a snapshot.

This runs on the event loop: the most expensive document within the default size cap takes about 70 ms.
"""

from __future__ import annotations

import msgspec

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.routes.templates import Templates
from uwsgi_headroom.stats.bounds import QUOTES, begin_document
from uwsgi_headroom.stats.emperor_router import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.raw import Document, DocumentWithVariables
from uwsgi_headroom.stats.repair import repair_bytes, repair_document
from uwsgi_headroom.stats.server import Snapshot, make_snapshot

AnySnapshot = Snapshot | EmperorSnapshot | RouterSnapshot

_decoder = msgspec.json.Decoder(Document)
_route_decoder: msgspec.json.Decoder[Document] = msgspec.json.Decoder(DocumentWithVariables)

_LARGE_BYTES = 2**20
"""A larger document is decoded only once, after the repairs that its request variables may need: a second attempt
would take too long."""


_EXPORTER_PAGE = b"uwsgi-headroom"
_HEAD_BYTES = 2048
"""The title of an exporter's page is within these first bytes."""


def decode(body: bytes, templates: Templates | None = None) -> AnySnapshot:
    """Decode the answer of a stats server: the document of a uWSGI server, an emperor or a router.

    templates: of routes; without any object, request variables are skipped, and no thread has a shape.
    Raises StatsError; its message never quotes the document.
    """
    if not body or body.isspace():
        raise StatsError(
            "empty",
            "the answer was empty: the port is an application's (`http-socket`) or an exporter's, not that of uWSGI's "
            "`stats`; or uWSGI is stopping, or has `stats-http` and needs an http:// address",
        )
    try:
        return _make_snapshot(_decode(body, _decoder if templates is None else _route_decoder), templates)
    except msgspec.ValidationError as error:
        raise _not_uwsgi(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def _make_snapshot(document: Document, templates: Templates | None) -> AnySnapshot:
    if document.workers is not None:
        return make_snapshot(document, templates)
    if document.vassals is not None:
        return EmperorSnapshot(document.version or "", document.pid, document.vassals, document.blacklist)
    if document.active_sessions is not None:
        return RouterSnapshot(
            document.version or "",
            document.pid,
            document.active_sessions,
            document.subscriptions,
            document.static_nodes,
        )
    raise StatsError(
        "not_uwsgi", "this is JSON, but not a stats document of uWSGI: it has no workers, vassals or router sessions"
    )


def _decode(body: bytes, decoder: msgspec.json.Decoder[Document]) -> Document:
    begin_document()
    if len(body) > _LARGE_BYTES:
        _check_quotes(body)
        return decoder.decode(repair_bytes(body))
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise  # the JSON is well-formed: a repair would not help
    except (msgspec.DecodeError, UnicodeDecodeError):
        begin_document()
        return decoder.decode(repair_document(body))


def _check_quotes(body: bytes) -> None:
    quotes = body.count(b'"')
    if quotes > QUOTES and quotes - body.count(b'\\"') > QUOTES:  # uWSGI escapes those of request variables
        raise StatsError(
            "too_large",
            f"the document has more than {QUOTES:,} quotation marks; run uWSGI with stats-no-cores",
        )


def _not_uwsgi(error: msgspec.ValidationError) -> StatsError:
    words = str(error)  # msgspec's message has the place and the bound, but no value and no key
    if " of length <= " in words:
        bound, _, place = words.partition(" of length <= ")[2].partition(" - at ")
        return StatsError("too_large", f"a text in the document is longer than {bound} characters: {place or 'a name'}")
    return StatsError("not_uwsgi", f"this is JSON, but not a stats document of uWSGI: {error}")


def _not_json(body: bytes, error: Exception) -> StatsError:
    if body.startswith(b"HTTP/"):
        return StatsError("not_json", "the answer is HTTP: for a server with stats-http write http://host:port")
    if body.lstrip()[:1] == b"<":
        if _EXPORTER_PAGE in body[:_HEAD_BYTES]:
            return StatsError("not_json", "this is the page of a uwsgi-headroom exporter, not uWSGI's stats server")
        return StatsError(
            "not_json",
            "this is a web page: the port is an application's (`http-socket`), not that of uWSGI's `stats`",
        )
    if "truncated" in str(error):
        return StatsError("truncated", f"the document is cut off after {len(body)} bytes")
    return StatsError(
        "not_json",
        f"this is not the JSON of a uWSGI stats server ({len(body)} bytes): give the address of uWSGI's `stats`",
    )

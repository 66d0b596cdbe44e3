"""Decodes the bytes of a stats server's answer to a snapshot.

This runs on the event loop: a document of the default size cap, made to cost time, takes some 70 ms at most.
"""

from __future__ import annotations

import msgspec

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.bounds import QUOTES, begin_document
from uwsgi_headroom.stats.emperor_router import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.raw import Document
from uwsgi_headroom.stats.repair import repair_bytes, repair_document
from uwsgi_headroom.stats.server import Snapshot, make_snapshot

AnySnapshot = Snapshot | EmperorSnapshot | RouterSnapshot

_decoder = msgspec.json.Decoder(Document)

_LARGE_BYTES = 2**20
"""A document beyond this is decoded once only, with the repairs that its request variables need made beforehand: to
decode it a second time would take too long."""


_EXPORTER_PAGE = b"uwsgi-headroom"
_HEAD_BYTES = 2048
"""The title of an exporter's page stands within its first bytes."""


def decode(body: bytes) -> AnySnapshot:
    """Decode what a stats server answered: a uWSGI server's document, an emperor's or a router's.

    Raises StatsError, whose message never quotes the document.
    """
    if not body or body.isspace():
        raise StatsError(
            "empty",
            "the answer was empty: this is an application's port (`http-socket`) or an exporter's, and not that of "
            "uWSGI's `stats`; or uWSGI is stopping, or has `stats-http` and is read with http://",
        )
    try:
        return _make_snapshot(_decode(body))
    except msgspec.ValidationError as error:
        raise _not_uwsgi(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def _make_snapshot(document: Document) -> AnySnapshot:
    if document.workers is not None:
        return make_snapshot(document)
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
        "not_uwsgi", "this is JSON, but of no uWSGI: it has neither workers nor vassals nor router sessions"
    )


def _decode(body: bytes) -> Document:
    begin_document()
    if len(body) > _LARGE_BYTES:
        _check_quotes(body)
        return _decoder.decode(repair_bytes(body))
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        raise  # well-formed: repairing would not change what it says
    except (msgspec.DecodeError, UnicodeDecodeError):
        begin_document()
        return _decoder.decode(repair_document(body))


def _check_quotes(body: bytes) -> None:
    quotes = body.count(b'"')
    if quotes > QUOTES and quotes - body.count(b'\\"') > QUOTES:  # uWSGI escapes those of request variables
        raise StatsError(
            "too_large",
            f"the document has more than {QUOTES:,} quotation marks; run uWSGI with stats-no-cores",
        )


def _not_uwsgi(error: msgspec.ValidationError) -> StatsError:
    words = str(error)  # msgspec names the place and the bound, and quotes no value and no key
    if " of length <= " in words:
        bound, _, place = words.partition(" of length <= ")[2].partition(" - at ")
        return StatsError("too_large", f"a text of the document is longer than {bound} characters: {place or 'a name'}")
    return StatsError("not_uwsgi", f"this is JSON, but no uWSGI writes it: {error}")


def _not_json(body: bytes, error: Exception) -> StatsError:
    if body.startswith(b"HTTP/"):
        return StatsError("not_json", "this speaks HTTP: a stats-http server is read with http://, not as a raw socket")
    if body.lstrip()[:1] == b"<":
        if _EXPORTER_PAGE in body[:_HEAD_BYTES]:
            return StatsError("not_json", "this is the page of a uwsgi-headroom exporter, and no stats server of uWSGI")
        return StatsError(
            "not_json",
            "this is a web page: the port is an application's (`http-socket`), and not that of uWSGI's `stats`",
        )
    if "truncated" in str(error):
        return StatsError("truncated", f"the document ends in the middle, after {len(body)} bytes")
    return StatsError(
        "not_json",
        f"this is not the JSON of a uWSGI stats server ({len(body)} bytes): give the address of uWSGI's `stats`",
    )

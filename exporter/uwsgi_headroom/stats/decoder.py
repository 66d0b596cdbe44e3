"""Decodes the bytes of a stats server's answer into a snapshot, and repairs a document that is not strict JSON.

This runs on the event loop: the most expensive document within the default size cap takes about 70 ms. Repairs take
time proportional to the document's size.
"""

from __future__ import annotations

import re

import msgspec

from uwsgi_headroom.errors import DamagedError, StatsError
from uwsgi_headroom.routes import Templates
from uwsgi_headroom.stats.bounds import QUOTES, begin_document
from uwsgi_headroom.stats.raw import DocumentWithVariables, EmperorSnapshot, RawDocument, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot, make_snapshot

AnySnapshot = Snapshot | EmperorSnapshot | RouterSnapshot

_decoder = msgspec.json.Decoder(RawDocument)
_route_decoder: msgspec.json.Decoder[RawDocument] = msgspec.json.Decoder(DocumentWithVariables)

_STATS_DOCUMENT = re.compile(rb'\s*\{\s*"version"\s*:\s*"[^"]*"\s*,\s*"')
"""How each document of uWSGI begins: that of a server, an emperor or a router."""

_PLACE = re.compile(r"\(byte (\d+)\)$")
"""In an error of msgspec."""

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
    except msgspec.ValidationError as error:  # msgspec's message has the place and the bound, but no value and no key
        raise StatsError("not_uwsgi", f"this is JSON, but not a stats document of uWSGI: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(body, error) from None


def _make_snapshot(document: RawDocument, templates: Templates | None) -> AnySnapshot:
    if document.workers is not None:
        return make_snapshot(document, templates)
    if document.vassals is not None:
        return EmperorSnapshot(document.version or "", document.pid, document.vassals, document.blacklist)
    if document.active_sessions is not None:
        return RouterSnapshot(
            document.version or "",
            document.pid,
            document.active_sessions,
            document.subscriptions or (),
            document.static_nodes,
            document.subscriptions is not None,
        )
    raise StatsError(
        "not_uwsgi", "this is JSON, but not a stats document of uWSGI: it has no workers, vassals or router sessions"
    )


def _decode(body: bytes, decoder: msgspec.json.Decoder[RawDocument]) -> RawDocument:
    begin_document()
    if len(body) > _LARGE_BYTES:
        quotes = body.count(b'"')
        if quotes > QUOTES and quotes - body.count(b'\\"') > QUOTES:  # uWSGI escapes those of request variables
            raise StatsError(
                "too_large", f"the document has more than {QUOTES:,} quotation marks; run uWSGI with stats-no-cores"
            )
        return decoder.decode(repair_bytes(body))
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise  # the JSON is well-formed: a repair would not help
    except (msgspec.DecodeError, UnicodeDecodeError):
        begin_document()
        return decoder.decode(repair_document(body))


def _not_json(body: bytes, error: Exception) -> StatsError:
    if body.startswith(b"HTTP/"):
        return StatsError("not_json", "the answer is HTTP: for a server with stats-http write http://host:port")
    if body.lstrip()[:1] == b"<":
        if _EXPORTER_PAGE in body[:_HEAD_BYTES]:
            return StatsError("not_json", "this is the page of a uwsgi-headroom exporter, not uWSGI's stats server")
        return StatsError(
            "not_json", "this is a web page: the port is an application's (`http-socket`), not that of uWSGI's `stats`"
        )
    if "truncated" in str(error) or (_STATS_DOCUMENT.match(body) and body.endswith(b":-")):  # cut within a number
        return StatsError("truncated", f"the document is cut off after {len(body)} bytes")
    if _STATS_DOCUMENT.match(body) and (place := _PLACE.search(str(error))):
        return DamagedError(
            "not_json",
            f"uWSGI's JSON is damaged near byte {place[1]}: uWSGI writes some texts as they are, so look for a \" or a "
            "\\ in the names of its directory, sockets and files, and rename what has one",
        )
    return StatsError(
        "not_json",
        f"this is not the JSON of a uWSGI stats server ({len(body)} bytes): give the address of uWSGI's `stats`",
    )


# uWSGI escapes tab, newline and carriage return, and writes every other control byte raw.
_CONTROL_TO_SPACE = bytes(32 if byte < 32 and byte not in b"\t\n\r" else byte for byte in range(256))

# A router writes a comma after its last address if another gateway's address follows in memory. uWSGI escapes every
# quote inside a string, so an unescaped quote ends a string. The list is near the top of the document.
_TRAILING_COMMA = re.compile(rb'(?<!\\)",(?=\s*\])')
_TOP_BYTES = 64 * 1024

# An abstract socket may be configured as `\0name`, which uWSGI writes unchanged, and which is not a JSON escape. The
# count is the bound of sockets.
_ABSTRACT_NAME = (b'"name":"\\0', b'"name":"@', 1024)

# An escape of half a surrogate pair is not valid text. uWSGI writes no such escapes, so a document with very many
# escapes is not repaired.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")
_MOST_ESCAPES = 20_000
_SURROGATE_BYTES = 6


def repair_bytes(body: bytes) -> bytes:
    """The cheap repairs: control bytes become spaces, and the names of abstract sockets begin with an `@`.

    Request variables need no other repair, since the decoder skips their invalid UTF-8.
    """
    return body.translate(_CONTROL_TO_SPACE).replace(*_ABSTRACT_NAME)


def repair_document(body: bytes) -> bytes:
    """All repairs: those of `repair_bytes`, invalid UTF-8, trailing commas and halves of surrogate pairs."""
    text = repair_bytes(body)
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    top = _TRAILING_COMMA.sub(b'"', text[:_TOP_BYTES])
    if len(top) < min(len(text), _TOP_BYTES):
        text = top + text[_TOP_BYTES:]
    if (b"\\ud" in text or b"\\uD" in text) and text.count(b"\\") <= _MOST_ESCAPES:
        text = _ESCAPE.sub(lambda found: rb"\ufffd" if len(found[0]) == _SURROGATE_BYTES else found[0], text)
    return text

"""Decodes the bytes of a stats server's answer to a snapshot."""

from __future__ import annotations

import re

import msgspec

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.emperor_router import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.raw import Document
from uwsgi_headroom.stats.server import Snapshot, make_snapshot

AnySnapshot = Snapshot | EmperorSnapshot | RouterSnapshot

_decoder = msgspec.json.Decoder(Document)

# uWSGI escapes tab, newline and carriage return itself; every other control byte it writes raw.
_CONTROL_TO_SPACE = bytes(32 if byte < 32 and byte not in b"\t\n\r" else byte for byte in range(256))

# A router lists its addresses with a comma too many when another gateway's address follows in its memory. Inside a
# string uWSGI escapes every quote, so this quote ends one.
_TRAILING_COMMA = re.compile(rb'(?<!\\)",(?=\s*\])')

# An abstract socket may be configured as `\0name`, which uWSGI writes as it stands: no escape that JSON knows.
_ABSTRACT_NAME = (b'"name":"\\0', b'"name":"@')


def decode(body: bytes) -> AnySnapshot:
    """Decode what a stats server answered: a uWSGI server's document, an emperor's or a router's.

    Raises StatsError, whose message never quotes the document.
    """
    if not body.strip():
        raise StatsError(
            "empty",
            "the answer was empty: uWSGI closes without a word when it is stopping, or waits for HTTP (stats-http)",
        )
    try:
        document = _decode(body)
    except msgspec.ValidationError as error:
        raise StatsError("not_uwsgi", f"this is JSON, but no uWSGI writes it: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(body, error) from None
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
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        raise  # well-formed: mending would not change what it says
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.translate(_CONTROL_TO_SPACE).decode("utf-8", "replace").encode()
        text = text.replace(*_ABSTRACT_NAME)
        return _decoder.decode(_TRAILING_COMMA.sub(b'"', text))


def _not_json(body: bytes, error: Exception) -> StatsError:
    if body.startswith(b"HTTP/"):
        return StatsError("not_json", "this speaks HTTP: a stats-http server is read with http://, not as a raw socket")
    if "truncated" in str(error):
        return StatsError("truncated", f"the document ends in the middle, after {len(body)} bytes")
    return StatsError("not_json", f"this is not the JSON of a uWSGI stats server ({len(body)} bytes)")

"""Repairs a document that is not strict JSON, in time proportional to its size."""

from __future__ import annotations

import re

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
        text = _ESCAPE.sub(_replace_surrogate, text)
    return text


def _replace_surrogate(match: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if len(match[0]) == _SURROGATE_BYTES else match[0]

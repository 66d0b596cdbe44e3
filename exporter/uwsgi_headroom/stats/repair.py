"""Rewrites what uWSGI writes that is not strict JSON, in time that the document's size bounds."""

from __future__ import annotations

import re

# uWSGI escapes tab, newline and carriage return itself; every other control byte it writes raw.
_CONTROL_TO_SPACE = bytes(32 if byte < 32 and byte not in b"\t\n\r" else byte for byte in range(256))

# A router lists its addresses with a comma too many when another gateway's address follows in its memory. Inside a
# string uWSGI escapes every quote, so this quote ends one. The list is near the top of the document.
_TRAILING_COMMA = re.compile(rb'(?<!\\)",(?=\s*\])')
_TOP_BYTES = 64 * 1024

# An abstract socket may be configured as `\0name`, which uWSGI writes as it stands: no escape that JSON knows. As many
# as there may be sockets.
_ABSTRACT_NAME = (b'"name":"\\0', b'"name":"@', 1024)

# Half of a surrogate pair, which no text can hold. uWSGI writes no such escapes: a document with many of any kind is
# left as it is.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")
_MOST_ESCAPES = 20_000
_SURROGATE_BYTES = 6


def repair_bytes(body: bytes) -> bytes:
    """The document with control bytes as spaces, and abstract sockets named with an `@`: what takes little time.

    It is all that request variables need, whose invalid UTF-8 is skipped.
    """
    return body.translate(_CONTROL_TO_SPACE).replace(*_ABSTRACT_NAME)


def repair_document(body: bytes) -> bytes:
    """The document with control bytes as spaces and invalid UTF-8 replaced, and uWSGI's other faults repaired."""
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

"""Decides whether a segment of a path is a name, such as `orders`, or a value, which becomes a placeholder."""

from __future__ import annotations

import re

from uwsgi_headroom.routes.bounds import LONGEST_NAME

ID, UUID, HASH, TOKEN, ANY = "{id}", "{uuid}", "{hash}", "{token}", "{any}"
"""Placeholders: a number or date; a UUID; hexadecimal digits; any other text that does not read like a name; and any
value of a segment that has too many of them (`book`)."""

PLACEHOLDERS = frozenset({ID, UUID, HASH, TOKEN, ANY})

_LONGEST_HASH = 128  # hexadecimal digits of SHA-512
_MOST_DIGITS = 3  # as in `v1.2.3`

_match_number = re.compile(r"[\d._~-]*\d[\d._~-]*", re.ASCII).fullmatch
_match_uuid = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE).fullmatch
_match_hash = re.compile(r"(?=.*\d)[0-9a-f]{8,}|[0-9a-f]{16,}", re.IGNORECASE).fullmatch

# Words with at most two digits at an end: `orders`, `v2`, `FAQ`, `Orders`, `getOrder`, `2fa`, `2`.
_WORD = (
    r"(?:[a-z]{1,20}\d{0,2}|[A-Z]{1,10}\d{0,2}|[A-Z][a-z]{1,20}|[A-Z]?[a-z]{2,20}(?:[A-Z][a-z]{1,19}){1,4}"
    r"|\d{1,2}[a-z]{1,4}|\d{1,2})"
)
_match_name = re.compile(rf"[._-]?{_WORD}(?:[._-]{_WORD}){{0,7}}").fullmatch

_find_digits = re.compile(r"\d", re.ASCII).findall
_find_no_word = re.compile(r"[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE).search


class SegmentCache(dict[str, str]):
    """Classified segments of one document, by their text. Dropped with the document."""

    def __missing__(self, segment: str) -> str:
        found = self[segment] = classify_segment(segment)
        return found


def classify_segment(segment: str) -> str:
    """Return the segment if it reads like a name, else a placeholder. The segment has only plain path characters."""
    if segment.isdigit():
        return ID
    if len(segment) > _LONGEST_HASH:
        return TOKEN
    if _match_number(segment):
        return ID
    if _match_uuid(segment):
        return UUID
    if _match_hash(segment):
        return HASH
    return segment if _is_name(segment) else TOKEN


def _is_name(segment: str) -> bool:
    return (
        len(segment) <= LONGEST_NAME
        and _match_name(segment) is not None
        and len(_find_digits(segment)) <= _MOST_DIGITS
        and _find_no_word(segment) is None  # six consonants in a row
        and (3 * sum(map(str.isupper, segment)) <= len(segment) or segment.isupper())  # `getUserById`, not `aBcDeFg`
    )

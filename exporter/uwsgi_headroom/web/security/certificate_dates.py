"""Says when a server's certificates are not valid, or expire soon; does no I/O.

Python has no public parser of certificates, so the dates are taken from their DER encoding: the fields before them are
skipped by their length (RFC 5280, 4.1).
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator
from datetime import datetime, timezone

SOON_SECONDS = 14 * 86400
"""A certificate that expires within this time is reported. Renewals happen a month before the end, or, with
certificates of six days, halfway."""

_SOON_SHARE = 0.25
"""And less than this share of its whole time is left."""

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

_VERSION = 0xA0  # the only field that may be missing
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime and GeneralizedTime


def describe_dates(pem: str, now: float | None = None) -> str | None:
    """Return what is wrong with the dates of the certificate whose time ends first; None if nothing is, or if the text
    cannot be read. now: Unix time."""
    now = time.time() if now is None else now
    try:
        begins, ends = min((_read_dates(ssl.PEM_cert_to_DER_cert(text)) for text in _PEM.findall(pem)), key=max)
    except (ValueError, IndexError, KeyError):  # OpenSSL has accepted it, so this is no reason to refuse it
        return None
    if now >= ends:
        return f"the certificate has expired on {_date(ends)}: clients refuse it; renew it"
    if now < begins:
        return f"the certificate is not valid before {_date(begins)}: clients refuse it until then"
    if ends - now < min(SOON_SECONDS, _SOON_SHARE * (ends - begins)):
        return f"the certificate expires on {_date(ends)}: renew it before clients refuse it"
    return None


def _read_dates(der: bytes) -> tuple[float, float]:
    """The first and the last second of a certificate. Raises ValueError, IndexError or KeyError."""
    (_, certificate), *_ = _elements(der)
    (_, signed), *_ = _elements(certificate)
    fields = [content for kind, content in _elements(signed) if kind != _VERSION]
    begins, ends = (_read_time(kind, content) for kind, content in _elements(fields[3]))  # after serial, type, issuer
    return begins, ends


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element (X.690, 8.1)."""
    while der:
        length, start = der[1], 2
        if length >= 0x80:  # the length has so many bytes
            start += length & 0x7F
            length = int.from_bytes(der[2:start], "big")
        yield der[0], der[start : start + length]
        der = der[start + length :]


def _read_time(kind: int, content: bytes) -> float:
    return datetime.strptime(content.decode("ascii"), _TIMES[kind]).replace(tzinfo=timezone.utc).timestamp()


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")

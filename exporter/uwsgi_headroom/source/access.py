"""What a client shows to an HTTP server, and what it trusts: a login, certificates, a name to expect."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HttpAccess:
    """authorization: the value of that header, "" for none. context: of TLS, None for that of the system. server_name:
    the name to expect in the server's certificate, "" for the host of the URL."""

    authorization: str = ""
    context: ssl.SSLContext | None = None
    server_name: str = ""


def basic(user: str, password: str) -> str:
    """The header of a user and a password: RFC 7617."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(token: str) -> str:
    """The header of a token: RFC 6750."""
    return f"Bearer {token}"

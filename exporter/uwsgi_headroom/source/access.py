"""What a client shows to an HTTP server, and what it trusts: a login, certificates, a name to expect."""

from __future__ import annotations

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

"""The web configuration as data. Contains no parsing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ClientAuth = Literal["none", "if_given", "required"]
"""Whether a client certificate is verified: never, if the client has one, or always; then a client without is refused.
"""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The key `tls_server_config`. cert, key, client_ca: a file, or PEM text.

    ciphers: OpenSSL's names for TLS 1.2, None for OpenSSL's default; empty: TLS 1.3 only. curve: OpenSSL's name, or "".
    allowed_sans: None if every name in a verified client certificate will do. where: the line, for messages.
    """

    cert: Path | str
    key: Path | str = field(repr=False)
    client_ca: Path | str | None = None
    client_auth: ClientAuth = "none"
    allowed_sans: frozenset[str] | None = None
    least_version: Literal["TLS12", "TLS13"] = "TLS12"
    most_version: Literal["TLS12", "TLS13"] = "TLS13"
    ciphers: tuple[str, ...] | None = None
    server_chooses_cipher: bool = True
    curve: str = ""
    where: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names."""
        return tuple(part for part in (self.cert, self.key, self.client_ca) if isinstance(part, Path))


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The key `rate_limit`. interval: seconds between two requests in the long run; burst: requests at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file. headers: added to each response. users: the bcrypt hash of each password, by user name."""

    tls: TlsConfig | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    users: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    rate_limit: RateLimit | None = None

    @property
    def needs_identity(self) -> bool:
        """Whether every client must prove who it is, by a password or a certificate."""
        return bool(self.users) or (self.tls is not None and self.tls.client_auth == "required")

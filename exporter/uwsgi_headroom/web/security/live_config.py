"""Keeps the web configuration in force, and its TLS context: reads both again in a thread when their files change.

* A change counts when the files are found unchanged a second time, so that a half-written file is not read.
* A configuration that cannot be used is logged once, and the last good one stays.
* A change that would take away a protection needs a restart: a file that is cut short may still be valid, without its
  users at the end.
* A certificate that is not valid, or expires soon, is logged. Python has no public parser of certificates, so the dates
  are taken from their DER encoding: they are the first pair of times in it (RFC 5280, 4.1).
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from uwsgi_headroom import extras
from uwsgi_headroom.config.http_client_file import TLS_VERSIONS, load_authorities, load_certificate
from uwsgi_headroom.config.yaml_file import read_file
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security.web_config_file import TlsConfig, WebConfig, load_web_config

SOON_SECONDS = 14 * 86400
"""A certificate that expires within this time is reported. Renewals happen a month before the end, or, with
certificates of six days, halfway."""

_SOON_SHARE = 0.25
"""And less than this share of its whole time is left."""

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

_VALIDITY = re.compile(rb"(?:\x17\x0d|\x18\x0f)(\d{12,14}Z)" * 2)
"""Two times behind one another, each a UTCTime with a year of two digits, or a GeneralizedTime with one of four."""


def describe_dates(pem: str) -> str | None:
    """Return what is wrong with the dates of the certificate whose time ends first; None if nothing is, or if the text
    cannot be read."""
    now = time.time()
    try:
        pairs = (_VALIDITY.search(ssl.PEM_cert_to_DER_cert(text)) for text in _PEM.findall(pem))
        begins, ends = min(([_read_time(text) for text in pair.groups()] for pair in pairs if pair), key=max)
    except ValueError:  # OpenSSL has accepted it, so this is no reason to refuse it
        return None
    if now >= ends:
        return f"the certificate has expired on {_date(ends)}: clients refuse it; renew it"
    if now < begins:
        return f"the certificate is not valid before {_date(begins)}: clients refuse it until then"
    if ends - now < min(SOON_SECONDS, _SOON_SHARE * (ends - begins)):
        return f"the certificate expires on {_date(ends)}: renew it before clients refuse it"
    return None


def _read_time(text: bytes) -> float:
    form = "%y%m%d%H%M%SZ" if len(text) == 13 else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=timezone.utc).timestamp()


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


_VERIFY = {"none": ssl.CERT_NONE, "if_given": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def make_context(tls: TlsConfig) -> ssl.SSLContext:
    """Make the context. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_VERSIONS[tls.least_version]
    context.maximum_version = TLS_VERSIONS[tls.most_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if not tls.server_chooses_cipher:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.curve:
            context.set_ecdh_curve(tls.curve)
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{tls.where}: this machine's OpenSSL has none of these cipher suites or curves") from None
    load_certificate(context, tls.cert, tls.key, tls.where)
    context.verify_mode = _VERIFY[tls.client_auth]
    if tls.client_auth != "none":
        if tls.client_ca is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)  # as the toolkit does
        else:
            load_authorities(context, tls.client_ca, tls.where)
    return context


LOOK_SECONDS = 1.0
"""Time between two looks at the files."""

WARN_AGAIN_SECONDS = 86400.0
"""A certificate that is not valid, or expires soon, is logged at start, when it is read again, and this often."""

_log = logging.getLogger(__name__)

_Signature = tuple[object, ...]


class Active(Struct, frozen=True):
    """A configuration in force. context: None without TLS."""

    config: WebConfig
    context: ssl.SSLContext | None


class LiveConfig:
    """The configuration of a file. `active` may be read from any thread. Raises ConfigError for the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: tuple[Path, ...] = (path,)
        self._loaded = self._seen = self._signature()
        self.active = self._load()
        self._warn_of_dates()

    @property
    def config(self) -> WebConfig:
        return self.active.config

    def follow(self) -> None:
        """Start the thread that looks at the files, for the rest of the process."""
        threading.Thread(target=self._follow, name="web-config", daemon=True).start()

    def look(self) -> None:
        """Look at the files once, and read them if they have changed and are still. Never raises."""
        signature = self._signature()
        settled = signature == self._seen
        self._seen = signature
        if not settled or signature == self._loaded:
            if time.monotonic() >= self._warned + WARN_AGAIN_SECONDS:
                self._warn_of_dates()
            return
        self._loaded = signature
        fields: dict[str, object] = {"file": self._path}
        try:
            fresh = self._load()
            _refuse_weaker(self.active.config, fresh.config)
        except ConfigError as error:
            fields["error"] = str(error)
            _log.error("web configuration not applied: the last good one stays", extra={"fields": fields})
        except Exception:  # noqa: BLE001 - the thread must go on looking
            _log.exception("web configuration not applied: the last good one stays", extra={"fields": fields})
        else:
            self.active = fresh
            _log.info("web configuration read again", extra={"fields": fields})
            self._warn_of_dates()

    def _follow(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            self.look()

    def _warn_of_dates(self) -> None:
        self._warned = time.monotonic()
        tls = self.config.tls
        if tls and (problem := describe_dates(self._certificate)):
            fields = {"file": tls.cert if isinstance(tls.cert, Path) else self._path}
            _log.warning(problem, extra={"fields": fields})

    def _load(self) -> Active:
        config = load_web_config(self._path)
        if config.users:
            try:
                import bcrypt  # noqa: F401, PLC0415 - only a login needs it
            except ImportError:
                raise ConfigError(f"basic_auth_users needs {extras.describe_missing(['bcrypt'])}") from None
        self._files = (self._path, *(config.tls.files if config.tls else ()))
        self._loaded = self._seen = (self._loaded[0], *map(_look_at, self._files[1:]))  # before they are read
        if not config.tls:
            return Active(config, None)
        active = Active(config, make_context(config.tls))
        given = config.tls.cert
        content = read_file(given, config.tls.where) if isinstance(given, Path) else given.encode()
        self._certificate = content.decode("ascii", "replace")
        return active

    def _signature(self) -> _Signature:
        return tuple(_look_at(path) for path in self._files)


def _look_at(path: Path) -> _Signature:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        return (type(error).__name__,)
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def _refuse_weaker(before: WebConfig, after: WebConfig) -> None:
    """Raise ConfigError if a protection is gone, or if TLS begins or ends: the listeners keep their scheme."""
    if lost := _list_lost(before, after):
        raise ConfigError(
            f"without {' and '.join(lost)}, it would be weaker than before: restart the exporter if you want that"
        )
    if after.tls and not before.tls:
        raise ConfigError("to turn TLS on, restart the exporter")


def _list_lost(before: WebConfig, after: WebConfig) -> list[str]:
    lost: dict[str, object] = {
        "basic_auth_users": before.users and not after.users,
        "rate_limit": before.rate_limit and not after.rate_limit,
        "tls_server_config": before.tls and not after.tls,
    }
    if before.tls and after.tls:
        old, new = before.tls, after.tls
        strict = list(_VERIFY).index
        lost |= {
            f"client_auth_type as strict as {old.client_auth!r}": strict(new.client_auth) < strict(old.client_auth),
            "client_allowed_sans": old.allowed_sans is not None and new.allowed_sans is None,
            "min_version": old.least_version > new.least_version,
            "cipher_suites": old.ciphers and not new.ciphers and new.least_version == "TLS12",
            "curve_preferences": old.curve and not new.curve,
        }
    return [key for key, is_lost in lost.items() if is_lost]

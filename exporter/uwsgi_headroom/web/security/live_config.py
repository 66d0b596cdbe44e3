"""The web configuration in force, read again in a thread when its files change.

A change counts when two looks in a row see it, so that a half-written file is not read. What cannot be used is logged
once, and the last good configuration stays. A change that would take away a protection needs a restart: a file that is
cut short may still be valid, without its users at the end.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.config.yaml_nodes import read_file
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.web.security.certificate_dates import describe_dates
from uwsgi_headroom.web.security.model import WebConfig
from uwsgi_headroom.web.security.tls_context import make_context
from uwsgi_headroom.web.security.web_config_file import load_web_config

LOOK_SECONDS = 1.0
"""Time between two looks at the files."""

WARN_AGAIN_SECONDS = 86400.0
"""A certificate that is not valid, or expires soon, is logged at start, when it is read again, and this often."""

_log = logging.getLogger(__name__)

_Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Active:
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
            _log.error("web configuration not taken over: the last good one stays", extra={"fields": fields})
        except Exception:  # noqa: BLE001 - the thread must go on looking
            _log.exception("web configuration not taken over: the last good one stays", extra={"fields": fields})
        else:
            self.active = fresh
            _log.info("web configuration read again", extra={"fields": fields})
            self._warn_of_dates()

    def _follow(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_SECONDS):
            self.look()

    def _warn_of_dates(self) -> None:
        """Log a warning if the certificate in force is not valid, or expires soon."""
        self._warned = time.monotonic()
        tls = self.config.tls
        if tls and (problem := describe_dates(self._certificate)):
            fields = {"file": tls.cert if isinstance(tls.cert, Path) else self._path}
            _log.warning(problem, extra={"fields": fields})

    def _load(self) -> Active:
        config = load_web_config(self._path)
        if config.users:
            _require_bcrypt()
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


def _require_bcrypt() -> None:
    try:
        import bcrypt  # noqa: F401, PLC0415 - only a login needs it
    except ImportError:
        raise ConfigError(
            "basic_auth_users needs bcrypt: install uwsgi-headroom[login], or the package bcrypt"
        ) from None


def _refuse_weaker(before: WebConfig, after: WebConfig) -> None:
    """Raise ConfigError if a protection is gone, or if TLS begins or ends: the listeners keep their scheme."""
    lost = list(_lost(before, after))
    if lost:
        raise ConfigError(
            f"without {' and '.join(lost)}, it would be weaker than before: restart the exporter if you want that"
        )
    if after.tls and not before.tls:
        raise ConfigError("to turn TLS on, restart the exporter")


def _lost(before: WebConfig, after: WebConfig) -> Iterator[str]:
    if before.users and not after.users:
        yield "basic_auth_users"
    if before.rate_limit and not after.rate_limit:
        yield "rate_limit"
    if before.tls and not after.tls:
        yield "tls_server_config"
    if before.tls and after.tls:
        order = ("none", "if_given", "required")
        if order.index(after.tls.client_auth) < order.index(before.tls.client_auth):
            yield f"client_auth_type as strict as {before.tls.client_auth!r}"
        if before.tls.allowed_sans is not None and after.tls.allowed_sans is None:
            yield "client_allowed_sans"
        if before.tls.least_version > after.tls.least_version:
            yield "min_version"
        if before.tls.ciphers is not None and after.tls.ciphers is None:
            yield "cipher_suites"
        if before.tls.curve and not after.tls.curve:
            yield "curve_preferences"

"""The exporter's settings as data. Contains no parsing."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.probe_targets import TargetPattern
from uwsgi_headroom.logs import Format
from uwsgi_headroom.source.address import Address


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective: the share of requests (objective, a fraction) that finish within `threshold` seconds.
    where: the line or flag that sets it."""

    threshold: float
    objective: float
    where: str = ""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server, or a glob of UNIX sockets (then `address` is None and every socket is named after its file).

    timeout: of one read, in seconds; size_cap: of one document, in bytes; where: the line or flag that sets the server.
    slo, stuck_seconds: None for those of the settings. Of a glob, expect_names: servers that are down if they are not
    there; expect_number: how many there should be at least.
    """

    name: str
    address: Address | None
    pattern: str = ""
    timeout: float = defaults.TIMEOUT_SECONDS
    size_cap: int = defaults.SIZE_CAP
    where: str = ""
    slo: Slo | None = None
    stuck_seconds: float | None = None
    expect_names: tuple[str, ...] = ()
    expect_number: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How every server is watched.

    windows: lengths in seconds, ascending; figures of single workers use the last. cpu_residency: also read every
    thread of the workers, for workers x CPUs more series. waits: also read what request threads wait for, where the
    kernel permits it. backends: the names of backends, and the address of each, `10.0.0.5:5432`, `*:5432` or a path.
    read_pollfds: also read from the workers' memory which descriptors a thread polls. slo, stuck_seconds: of
    every server that has none of its own: the objective, None for none, and the age from which on a request in service
    counts as stuck. routes: also name the routes of requests in service; route_templates: paths such as `/orders/{id}`.
    max_servers: the most servers that globs find.
    """

    samples_per_second: float = defaults.DEFAULT_SAMPLES_PER_SECOND
    windows: tuple[float, ...] = defaults.DEFAULT_WINDOWS
    cpu_residency: bool = False
    waits: bool = True
    backends: tuple[tuple[str, str], ...] = ()
    read_pollfds: bool = False
    slo: Slo | None = None
    stuck_seconds: float = defaults.STUCK_SECONDS
    routes: bool = False
    route_templates: tuple[str, ...] = ()
    max_servers: int = defaults.MOST_SERVERS


SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """What `/probe` may read besides the configured servers: the addresses that these patterns allow."""

    targets: tuple[TargetPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of `serve`. routes_beyond_loopback: whether routes may be shown to other machines. history: the path
    of the file with the history that lasts, "" for none; history_max_size: in bytes. web_config_file: the path of the
    file with TLS and login, "" for none. probe: None for no `/probe`."""

    servers: tuple[ServerConfig, ...] = ()
    listen: tuple[tuple[str, int], ...] = ((defaults.LISTEN_HOST, defaults.LISTEN_PORT),)
    allowed_hosts: tuple[str, ...] = ()
    web_config_file: str = ""
    settings: Settings = SETTINGS
    routes_beyond_loopback: bool = False
    history: str = ""
    history_max_size: int = defaults.HISTORY_MAX_SIZE
    probe: ProbeConfig | None = None
    log_level: str = "info"
    log_format: Format = "logfmt"

"""The exporter's settings: the data that they end up in, and one row for each with its flag, variable, key and parser.

A setting is a field of `Config` or `Settings` and a row of `SETTINGS`. The flags of `serve`, environment variables,
keys of the configuration file, precedence, the table in docs/configuration.md, the manual page and shell completion
follow from the row. Help needs this module, so it imports little and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from uwsgi_headroom.config import defaults, parsers
from uwsgi_headroom.config.parsers import NumberRange
from uwsgi_headroom.config.slo import Slo, parse_slo

if TYPE_CHECKING:
    from uwsgi_headroom.config.servers import ServerConfig, TargetPattern
    from uwsgi_headroom.logs import Format

PREFIX = "UWSGI_HEADROOM_"
"""Of every environment variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How every server is watched."""

    samples_per_second: float = defaults.DEFAULT_SAMPLES_PER_SECOND
    windows: tuple[float, ...] = defaults.DEFAULT_WINDOWS
    """Lengths in seconds, ascending. Figures of single workers use the last."""
    cpu_residency: bool = False
    """Whether to read every thread of the workers too, for workers x CPUs more series."""
    waits: bool = True
    """Whether to read from the kernel what request threads wait for, where it permits that."""
    backends: tuple[tuple[str, str], ...] = ()
    """The names of backends, and the address of each: `10.0.0.5:5432`, `*:5432` or a path."""
    read_pollfds: bool = True
    """Whether to read from the workers' memory which descriptors a thread polls."""
    read_locks: bool = False
    slo: Slo | None = None
    """The objective of every server that has none of its own."""
    stuck_seconds: float = defaults.STUCK_SECONDS
    """The age from which on a request counts as stuck, on every server that has none of its own."""
    routes: bool = False
    """Whether to name the routes of requests in service."""
    route_templates: tuple[str, ...] = ()
    """Paths such as `/orders/{id}`."""
    code: bool = False
    """Whether to look at the lines of code of the busy threads, on every server that does not say."""
    code_prefixes: tuple[str, ...] = ()
    """With what the paths of the application's files begin, on every server without its own; empty: by a rule."""
    logs: tuple[tuple[str, str], ...] = ()
    """Names of servers, and the path of uWSGI's log of each, or `journal:UNIT`."""
    max_servers: int = defaults.MOST_SERVERS
    """The most servers that globs find."""


DEFAULT_SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """What `/probe` may read besides the configured servers: the addresses that these patterns allow."""

    targets: tuple[TargetPattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of `serve`."""

    servers: tuple[ServerConfig, ...] = ()
    listen: tuple[tuple[str, int], ...] = ((defaults.LISTEN_HOST, defaults.LISTEN_PORT),)
    allowed_hosts: tuple[str, ...] = ()
    web_config_file: str = ""
    """The path of the file with TLS and login; "" for none."""
    readers: tuple[str, ...] = (defaults.READER,)
    """The users who may read what `discover` finds, besides root and the exporter's own."""
    discover: bool | None = None
    """Whether to watch the servers that are found; None: if none is configured and the exporter has the right."""
    settings: Settings = DEFAULT_SETTINGS
    routes_beyond_loopback: bool = False
    """Whether routes may be shown to other machines."""
    code_beyond_loopback: bool = False
    """The same for lines of code."""
    history: str = ""
    """The path of the file with the history that lasts; "" for none."""
    history_max_size: int = defaults.HISTORY_MAX_SIZE
    """Bytes."""
    probe: ProbeConfig | None = None
    """None for no `/probe`."""
    log_level: str = "info"
    log_format: Format = "logfmt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting: how it is given, and what becomes of it. At least one of `form` and `key` is set."""

    field: str = ""
    """The field of `Config` that takes the value, or `settings.` and a field of `Settings`. "": `precedence` opens the
    file of `--config`, and adds the servers of `--stats` to its own."""
    parse: Callable[..., Any] = parsers.parse_text
    """Takes a text and its origin, and returns the value. If the setting is repeatable, takes a sequence of such pairs.
    Raises ConfigError, in whose message the origin comes first."""
    form: str = ""
    """The flag of `serve` and its value: `--window LENGTH`. The name of the environment variable follows from it."""
    help: str = ""
    """For the flag; `{default}` stands for the default."""
    default: str = ""
    """In docs/configuration.md. A value, as it would be written, is between backticks."""
    key: str = ""
    """In the configuration file: `web.listen_address` is `listen_address` in the section `web`."""
    values: tuple[str, ...] = ()
    """All that it may be, for shell completion."""
    is_switch: bool = False
    """The flag alone means true; with `no-`, it means false."""
    aliases: tuple[str, ...] = ()
    """Other names of the flag, and so of the variable."""
    group: str = ""
    """The title of the flags from this one on, in the help."""
    is_path: bool = False
    """A relative one is relative to the configuration file that names it, else to the working directory."""
    is_repeatable: bool = False
    is_mapping: bool = False
    """In the file, each value `NAME=ADDRESS` is a key and its value."""

    @property
    def flag(self) -> str:
        return self.form.split(" ")[-2 if " " in self.form else 0].replace("[no-]", "")

    @property
    def name(self) -> str:
        """The name among the parsed flags: `web_listen_address` for `--web.listen-address`."""
        return _name(self.flag)

    @property
    def variable(self) -> str:
        return self.variables[0]

    @property
    def variables(self) -> tuple[str, ...]:
        """The same, and those of its aliases."""
        return tuple(PREFIX + _name(flag).upper() for flag in (self.flag, *self.aliases))

    def read(self, texts: parsers.Texts) -> Any:
        """The value of its texts: of all, or of the only one. Raises ConfigError."""
        return self.parse(texts) if self.is_repeatable else self.parse(*texts[0])

    @property
    def own_help(self) -> str:
        return self.help.replace("{default}", self.default.replace("`", ""))


def _name(flag: str) -> str:
    return flag.lstrip("-").replace(".", "_").replace("-", "_")


def _switch(field: str, flag: str, key: str, text: str, group: str = "") -> SettingRow:
    return SettingRow(
        field=field,
        parse=parsers.parse_boolean,
        form=f"--[no-]{flag[2:]}",
        help=text,
        default=f"`{attrgetter(field)(Config())}`".lower(),
        key=key,
        is_switch=True,
        group=group,
    )


SETTINGS: tuple[SettingRow, ...] = (
    SettingRow(
        form="--stats [NAME=]ADDRESS",
        help="a stats server: unix:///path, unix:@abstract, tcp://host:port, http://host:port, file:///path, a path, "
        "host:port, or a glob of UNIX sockets; repeatable. Without this flag, the exporter finds the uWSGI masters on "
        "this machine",
        default="what is found on this machine",
        is_repeatable=True,
        group="servers",
    ),
    SettingRow(
        field="discover",
        parse=parsers.parse_boolean,
        form="--[no-]discover",
        help="also watch the uWSGIs of this machine that are not configured, with or without stats, which takes the "
        "rights that waits need (default: if no server is configured, the exporter has these rights, and no other "
        "machine can reach it without a login)",
        default="[by the rights](security.md#servers-that-nobody-configured)",
        key="sampling.discover",
        is_switch=True,
    ),
    SettingRow(form="-c --config FILE", help="a configuration file (YAML)", aliases=("--config.file",)),
    SettingRow(
        field="listen",
        parse=parsers.parse_listen_addresses,
        form="--web.listen-address HOST:PORT",
        help="the address on which to serve the metrics, the page and the API; repeatable (default {default})",
        default=f"`{defaults.LISTEN_ADDRESS}`",
        key="web.listen_address",
        is_repeatable=True,
        group="web",
    ),
    SettingRow(
        field="allowed_hosts",
        parse=parsers.parse_host_names,
        form="--web.allowed-hosts NAME",
        help="a host name under which clients may open the page and the API, in addition to IP addresses, localhost "
        "and this machine's name; repeatable. If the exporter listens on loopback only, it always refuses requests for "
        "any other host name; if it also listens on other addresses, it refuses such requests only if you give this "
        "flag",
        default="this machine's name",
        key="web.allowed_hosts",
        is_repeatable=True,
    ),
    SettingRow(
        field="web_config_file",
        form="--web.config.file FILE",
        help="a file that sets up TLS and a login, in the format of Prometheus exporters (default: neither)",
        default="neither [TLS nor login](security.md#set-up-tls-and-a-login)",
        key="web.config_file",
        is_path=True,
    ),
    SettingRow(
        field="readers",
        parse=parsers.parse_users,
        form="--web.readers USER",
        help="with --discover, and without a login: a local user who may read the metrics, the page and the API, "
        "besides root and the exporter's own user; repeatable (default {default})",
        default=f"`{defaults.READER}`",
        key="web.readers",
        is_repeatable=True,
    ),
    SettingRow(
        field="settings.samples_per_second",
        parse=NumberRange(*defaults.SAMPLES_PER_SECOND_RANGE),
        form="--samples-per-second NUMBER",
        help="how many times per second to read each server, from {:g} to {:g} (default {{default}})".format(
            *defaults.SAMPLES_PER_SECOND_RANGE
        ),
        default=f"`{defaults.DEFAULT_SAMPLES_PER_SECOND:g}`",
        key="sampling.samples_per_second",
        group="figures",
    ),
    SettingRow(
        field="settings.windows",
        parse=parsers.parse_windows,
        form="--window LENGTH",
        help="the length of time over which to average the figures, from 10s to 1h; repeatable (default {default})",
        default="`1m` and `5m`",
        key="sampling.windows",
        is_repeatable=True,
    ),
    SettingRow(
        field="settings.slo",
        parse=parse_slo,
        form="--slo THRESHOLD:OBJECTIVE",
        help="the service level objective of every server that has no objective of its own; 1s:99% means that 99 of "
        "100 requests finish within a second",
        default="none",
    ),
    SettingRow(
        field="settings.stuck_seconds",
        parse=parsers.parse_stuck,
        form="--stuck AGE",
        help="count a request as stuck once it has been in service for this long, from 1s to 24h (default {default}); "
        "applies to every server for which the configuration sets no `stuck`",
        default=f"`{defaults.STUCK_SECONDS:g}s`",
    ),
    _switch(
        "settings.cpu_residency",
        "--cpu-residency",
        "sampling.cpu_residency",
        "also export the CPU time of each worker on each CPU, which adds a time series for each worker and CPU "
        "(default {default})",
    ),
    SettingRow(
        field="settings.logs",
        parse=parsers.parse_logs,
        form="--uwsgi-log NAME=PATH",
        help="read the uWSGI log of the server NAME, from a regular file or from journal:UNIT; count the messages that "
        "the exporter knows, and report problems that only the log shows; repeatable (default: no log is read)",
        default="no [log](log.md) is read",
        is_repeatable=True,
        aliases=("--log",),
        group="what to read",
    ),
    _switch(
        "settings.waits",
        "--waits",
        "sampling.waits",
        "ask the kernel, for each thread that serves a request, what the thread waits for, if the exporter has "
        "the right to do so (default {default})",
    ),
    SettingRow(
        field="settings.backends",
        parse=parsers.parse_backends,
        form="--backends NAME=ADDRESS",
        help="give a name to a backend for which requests wait. ADDRESS is a host and port (10.0.0.5:5432), a port of "
        f"any host (*:5432), or the path of a UNIX socket; repeatable, {defaults.MOST_BACKENDS} at most",
        default="none",
        key="backends",
        is_repeatable=True,
        is_mapping=True,
    ),
    _switch(
        "settings.read_pollfds",
        "--read-pollfds",
        "sampling.read_pollfds",
        "read from the workers' memory which file descriptors a thread polls (eight bytes for each descriptor), "
        "which shows which backend the thread waits for (default {default})",
    ),
    _switch(
        "settings.read_locks",
        "--read-locks",
        "sampling.read_locks",
        "read from the workers' memory whether each lock of the application is held (eight bytes for each lock), "
        "which shows exactly how busy the lock is (default {default})",
    ),
    _switch(
        "settings.routes",
        "--routes",
        "routes.enabled",
        "show which routes (methods and paths of requests) keep the threads busy (default {default}). Paths may "
        "contain personal data, so the exporter shows them only if it listens on loopback alone, or requires a login",
        group="routes",
    ),
    SettingRow(
        field="settings.route_templates",
        parse=parsers.parse_templates,
        form="--route-template TEMPLATE",
        help="with --routes: count all paths that match this template, such as /orders/{id}, as one route; repeatable",
        default="none",
        key="routes.templates",
        is_repeatable=True,
    ),
    _switch(
        "routes_beyond_loopback",
        "--routes-beyond-loopback",
        "routes.beyond_loopback",
        "show routes even if other machines can reach the exporter without a login (default {default})",
    ),
    _switch(
        "settings.code",
        "--code",
        "code.enabled",
        "about once a second, read from the workers' memory which Python function and line each busy thread runs "
        "(default {default}). The exporter reads the names of functions and files, and line numbers, but no values of "
        "variables. The exporter shows these names and lines only if it listens on loopback alone, or requires a login",
        group="code",
    ),
    SettingRow(
        field="settings.code_prefixes",
        parse=parsers.parse_prefixes,
        form="--code-prefix PATH",
        help="with --code: treat files whose paths begin with PATH, such as /srv/shop/, as the application's own code "
        "(default: all files except Python's own and those in site-packages); repeatable",
        default="by [a rule](waits.md#which-line-of-a-stack)",
        key="code.prefixes",
        is_repeatable=True,
    ),
    _switch(
        "code_beyond_loopback",
        "--code-beyond-loopback",
        "code.beyond_loopback",
        "show functions and line numbers even if other machines can reach the exporter without a login (default "
        "{default})",
    ),
    SettingRow(
        field="history",
        form="--history FILE",
        help="keep the history in this SQLite file: one-minute figures for 14 days, 15-minute figures for 90 days, "
        "hourly figures for 2 years (default: keep only the last hour, in memory)",
        default="none: the last hour, in memory",
        key="history.file",
        is_path=True,
        group="history and the exporter's own log",
    ),
    SettingRow(
        field="history_max_size",
        parse=parsers.parse_size,
        form="--history-max-size SIZE",
        help="the maximum size of the history file, such as 500MB; to stay below it, the exporter deletes the oldest "
        "one-minute figures first (default {default})",
        default="`1GB`",
        key="history.max_size",
    ),
    SettingRow(
        field="log_level",
        parse=parsers.one_of(defaults.LOG_LEVELS),
        form="--log.level LEVEL",
        help=f"the least level in the exporter's own log: {', '.join(defaults.LOG_LEVELS)} (default {{default}})",
        default="`info`",
        key="log.level",
        values=defaults.LOG_LEVELS,
    ),
    SettingRow(
        field="log_format",
        parse=parsers.one_of(defaults.LOG_FORMATS),
        form="--log.format FORMAT",
        help=f"the format of the exporter's own log: {' or '.join(defaults.LOG_FORMATS)} (default {{default}})",
        default="`logfmt`",
        key="log.format",
        values=defaults.LOG_FORMATS,
    ),
    SettingRow(
        field="settings.max_servers",
        parse=NumberRange(*defaults.MOST_SERVERS_RANGE, is_whole=True),
        key="sampling.max_servers",
    ),
)
"""In the order of `serve --help` and of the table in the documentation."""

FLAGS = tuple(setting for setting in SETTINGS if setting.flag)
"""The settings that have a flag and a variable."""

SERVER_SETTINGS: tuple[SettingRow, ...] = (
    SettingRow(key="name"),
    SettingRow(key="stats"),
    SettingRow(key="timeout", field="timeout", parse=NumberRange(*defaults.TIMEOUT_RANGE)),
    SettingRow(key="size_cap", field="size_cap", parse=NumberRange(*defaults.SIZE_CAP_RANGE, is_whole=True)),
    SettingRow(key="log", field="log", parse=parsers.parse_log_path, is_path=True),
    SettingRow(key="code", field="code", parse=parsers.parse_boolean),
    SettingRow(key="code_prefixes", field="code_prefixes", parse=parsers.parse_prefixes, is_repeatable=True),
    SettingRow(key="slo"),
    SettingRow(key="stuck", field="stuck_seconds", parse=parsers.parse_stuck),
    SettingRow(key="expect"),
)
"""The keys of one server in the configuration file, with fields of `ServerConfig`. Those without a field are read
together, or are no plain texts."""


def find_setting(flag: str) -> SettingRow:
    return next(setting for setting in FLAGS if setting.flag == flag)


def assign(config: Config, values: Mapping[str, Any]) -> Config:
    watching = {name.removeprefix("settings."): values[name] for name in values if name.startswith("settings.")}
    others = {name: values[name] for name in values if not name.startswith("settings.")}
    return replace(config, settings=replace(config.settings, **watching), **others)

"""Flags, each with an environment variable that stands in for it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uwsgi_headroom import config
from uwsgi_headroom.config import variables, yaml_file
from uwsgi_headroom.config.variables import PREFIX
from uwsgi_headroom.errors import ConfigError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`."""
    parser.add_argument(
        "--stats",
        action="append",
        metavar="[NAME=]ADDRESS",
        help="a stats server: unix:///path, unix:@abstract, tcp://host:port, http://host:port, file:///path, "
        "a bare path or host:port, or a glob of UNIX sockets; repeatable. Without any, local uWSGI masters are "
        "looked for" + _also("stats", "separated by spaces"),
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration file (YAML)" + _also("config"))
    parser.add_argument(
        "--web.listen-address",
        action="append",
        dest="web_listen_address",
        metavar="HOST:PORT",
        help=f"where to serve metrics; repeatable (default {config.LISTEN_ADDRESS})"
        + _also("web_listen_address", "separated by spaces"),
    )
    parser.add_argument(
        "--samples-per-second",
        metavar="NUMBER",
        help="how often to read each server between scrapes, {:g} to {:g} (default {:g})".format(
            *config.SAMPLES_PER_SECOND_RANGE, config.SETTINGS.samples_per_second
        )
        + _also("samples_per_second"),
    )
    parser.add_argument(
        "--window",
        action="append",
        metavar="LENGTH",
        help="a window of the windowed figures, 10s to 1h; repeatable (default 1m and 5m)"
        + _also("window", "separated by spaces"),
    )
    parser.add_argument(
        "--cpu-residency",
        nargs="?",
        const="true",
        metavar="true|false",
        help="also export CPU time by worker and CPU: workers x CPUs more series (default false)"
        + _also("cpu_residency"),
    )
    parser.add_argument(
        "--log.level",
        dest="log_level",
        metavar="LEVEL",
        help=f"{', '.join(config.LOG_LEVELS)} (default info)" + _also("log_level"),
    )
    parser.add_argument(
        "--log.format",
        dest="log_format",
        metavar="FORMAT",
        help="logfmt or json (default logfmt)" + _also("log_format"),
    )


def resolve_config(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> config.Config:
    """Flags over environment over file over defaults; servers add to those of the file. Raises ConfigError."""
    variables.refuse_misspelt(environment)
    path, where = _value(flags, environment, "config")
    settings = yaml_file.load_file(Path(path)) if path else config.Config()
    stats, where = _values(flags, environment, "stats")
    servers = config.refuse_duplicate_names(
        [*settings.servers, *(config.parse_server_argument(it, where) for it in stats)]
    )
    settings = replace(settings, servers=servers)
    addresses, where = _values(flags, environment, "web_listen_address")
    if addresses:
        settings = replace(settings, listen=tuple(config.parse_listen_address(it, where) for it in addresses))
    settings = replace(settings, settings=_watching(settings.settings, flags, environment))
    level, where = _value(flags, environment, "log_level")
    if level:
        settings = replace(settings, log_level=_choice(level, config.LOG_LEVELS, where))
    style, where = _value(flags, environment, "log_format")
    if style:
        settings = replace(settings, log_format=_choice(style, ("logfmt", "json"), where))  # type: ignore[arg-type]
    return settings


def _watching(watching: config.Settings, flags: argparse.Namespace, environment: Mapping[str, str]) -> config.Settings:
    rate, where = _value(flags, environment, "samples_per_second")
    if rate:
        watching = replace(watching, samples_per_second=_number(rate, *config.SAMPLES_PER_SECOND_RANGE, where))
    lengths, where = _values(flags, environment, "window")
    if lengths:
        watching = replace(watching, windows=config.parse_windows(lengths, where))
    residency, where = _value(flags, environment, "cpu_residency")
    if residency:
        watching = replace(watching, cpu_residency=config.parse_boolean(residency, where))
    return watching


def _also(name: str, how: str = "") -> str:
    return f" [{PREFIX}{name.upper()}{', ' + how if how else ''}]"


def _value(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """A setting and where it came from."""
    given: str | None = getattr(flags, name)
    if given:
        return given, _flag(name)
    variable = PREFIX + name.upper()
    return environment.get(variable, ""), variable


def _values(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[Sequence[str], str]:
    """A repeatable setting and where it came from."""
    given: list[str] | None = getattr(flags, name)
    if given:
        return given, _flag(name)
    variable = PREFIX + name.upper()
    return environment.get(variable, "").split(), variable


def _flag(name: str) -> str:
    """The flag of a setting: `--web.listen-address`, `--log.level`, `--samples-per-second`."""
    group, _, rest = name.partition("_")
    return f"--{group}.{rest.replace('_', '-')}" if group in ("web", "log") else f"--{name.replace('_', '-')}"


def _number(text: str, least: float, most: float, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise ConfigError(f"{where}: {text!r} is no number from {least:g} to {most:g}")
    return number


def _choice(text: str, known: Sequence[str], where: str) -> str:
    if text not in known:
        raise ConfigError(f"{where}: {text!r} is none of {', '.join(known)}")
    return text

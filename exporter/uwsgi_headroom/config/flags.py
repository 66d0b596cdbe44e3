"""Flags, each with an environment variable that stands in for it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uwsgi_headroom import config
from uwsgi_headroom.config import file
from uwsgi_headroom.errors import ConfigError

PREFIX = "UWSGI_HEADROOM_"


def add_to(parser: argparse.ArgumentParser) -> None:
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


def resolve(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> config.Config:
    """Flags over environment over file over defaults; servers add to those of the file. Raises ConfigError."""
    path, where = _value(flags, environment, "config")
    settings = file.load(Path(path)) if path else config.Config()
    stats, where = _values(flags, environment, "stats")
    servers = config.unique([*settings.servers, *(config.server_argument(it, where) for it in stats)])
    settings = replace(settings, servers=servers)
    addresses, where = _values(flags, environment, "web_listen_address")
    if addresses:
        settings = replace(settings, listen=tuple(config.listen_address(it, where) for it in addresses))
    level, where = _value(flags, environment, "log_level")
    if level:
        settings = replace(settings, log_level=_choice(level, config.LOG_LEVELS, where))
    style, where = _value(flags, environment, "log_format")
    if style:
        settings = replace(settings, log_format=_choice(style, ("logfmt", "json"), where))  # type: ignore[arg-type]
    return settings


def _also(name: str, how: str = "") -> str:
    return f" [{PREFIX}{name.upper()}{', ' + how if how else ''}]"


def _value(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """A setting and where it came from."""
    given: str | None = getattr(flags, name)
    if given:
        return given, f"--{name.replace('_', '.', 1)}"
    variable = PREFIX + name.upper()
    return environment.get(variable, ""), variable


def _values(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[Sequence[str], str]:
    """A repeatable setting and where it came from."""
    given: list[str] | None = getattr(flags, name)
    if given:
        return given, f"--{name.replace('_', '.', 1).replace('_', '-')}"
    variable = PREFIX + name.upper()
    return environment.get(variable, "").split(), variable


def _choice(text: str, known: Sequence[str], where: str) -> str:
    if text not in known:
        raise ConfigError(f"{where}: {text!r} is none of {', '.join(known)}")
    return text

"""Decides which setting applies: a flag overrides its environment variable, which overrides the configuration file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uwsgi_headroom.config import defaults, values, variables, yaml_file
from uwsgi_headroom.config.model import Config, Settings
from uwsgi_headroom.config.names import (
    refuse_duplicate_addresses,
    refuse_duplicate_names,
    refuse_impossible_expectations,
)
from uwsgi_headroom.config.slo import parse_slo, refuse_too_short
from uwsgi_headroom.config.variables import PREFIX
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.number_range import parse_number


def resolve_config(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Config:
    """Combine flags, environment, file and defaults, in this order of precedence. Servers of flags or the environment
    are added to those of the file. Raises ConfigError."""
    variables.refuse_misspelt(environment)
    path, where = _value(flags, environment, "config")
    settings = yaml_file.load_file(Path(path)) if path else Config()
    stats, where = _values(flags, environment, "stats")
    servers = refuse_duplicate_names(
        [*settings.servers, *(values.parse_server_argument(argument, where) for argument in stats)]
    )
    refuse_duplicate_addresses(servers)
    refuse_impossible_expectations(servers)
    settings = replace(settings, servers=servers)
    addresses, where = _values(flags, environment, "web_listen_address")
    if addresses:
        settings = replace(settings, listen=tuple(values.parse_listen_address(address, where) for address in addresses))
    names, where = _values(flags, environment, "web_allowed_hosts")
    if names:
        settings = replace(settings, allowed_hosts=tuple(values.parse_host_name(name, where) for name in names))
    web_config_file, _ = _value(flags, environment, "web_config_file")
    if web_config_file:
        settings = replace(settings, web_config_file=web_config_file)
    settings = replace(settings, settings=_watching(settings.settings, flags, environment))
    for slo in (settings.settings.slo, *(server.slo for server in servers)):
        if slo:
            refuse_too_short(slo, settings.settings.samples_per_second)
    beyond, where = _value(flags, environment, "routes_beyond_loopback")
    if beyond:
        settings = replace(settings, routes_beyond_loopback=values.parse_boolean(beyond, where))
    history, _ = _value(flags, environment, "history")
    if history:
        settings = replace(settings, history=history)
    size, where = _value(flags, environment, "history_max_size")
    if size:
        settings = replace(settings, history_max_size=values.parse_size(size, where))
    level, where = _value(flags, environment, "log_level")
    if level:
        settings = replace(settings, log_level=_choice(level, defaults.LOG_LEVELS, where))
    style, where = _value(flags, environment, "log_format")
    if style:
        settings = replace(settings, log_format=_choice(style, defaults.LOG_FORMATS, where))  # type: ignore[arg-type]
    return settings


def _watching(watching: Settings, flags: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    rate, where = _value(flags, environment, "samples_per_second")
    if rate:
        watching = replace(watching, samples_per_second=_number(rate, *defaults.SAMPLES_PER_SECOND_RANGE, where))
    lengths, where = _values(flags, environment, "window")
    if lengths:
        watching = replace(watching, windows=values.parse_windows(lengths, where))
    for switch in ("cpu_residency", "waits", "read_pollfds", "routes"):
        text, where = _value(flags, environment, switch)
        if text:
            watching = replace(watching, **{switch: values.parse_boolean(text, where)})  # type: ignore[arg-type]
    slo, where = _value(flags, environment, "slo")
    if slo:
        watching = replace(watching, slo=parse_slo(slo, where))
    stuck, where = _value(flags, environment, "stuck")
    if stuck:
        watching = replace(watching, stuck_seconds=values.parse_stuck(stuck, where))
    backends, where = _values(flags, environment, "backends")
    if backends:
        watching = replace(watching, backends=values.parse_backends(backends, where))
    templates, where = _values(flags, environment, "route_template")
    if templates:
        watching = replace(watching, route_templates=values.parse_templates(templates, where))
    return watching


def _value(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return a setting and its origin, for messages."""
    given: str | None = getattr(flags, name)
    if given:
        return given, _flag(name)
    variable = PREFIX + name.upper()
    return environment.get(variable, ""), variable


def _values(flags: argparse.Namespace, environment: Mapping[str, str], name: str) -> tuple[Sequence[str], str]:
    """Return a repeatable setting and its origin, for messages."""
    given: list[str] | None = getattr(flags, name)
    if given:
        return given, _flag(name)
    variable = PREFIX + name.upper()
    return environment.get(variable, "").split(), variable


def _flag(name: str) -> str:
    """Return the flag of a setting: `--web.listen-address`, `--log.level`, `--samples-per-second`."""
    group, _, rest = name.partition("_")
    return f"--{group}.{rest.replace('_', '-')}" if group in ("web", "log") else f"--{name.replace('_', '-')}"


def _number(text: str, least: float, most: float, where: str) -> float:
    try:
        return parse_number(text, least, most)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not a number from {least:g} to {most:g}") from None


def _choice(text: str, known: Sequence[str], where: str) -> str:
    if text not in known:
        raise ConfigError(f"{where}: {text!r} is not one of {', '.join(known)}")
    return text

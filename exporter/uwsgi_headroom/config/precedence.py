"""Decides which setting applies: a flag overrides its environment variable, which overrides the configuration file.

Orchestrators set variables with the prefix of the exporter's. For a service called `uwsgi-headroom`, Kubernetes sets
UWSGI_HEADROOM_SERVICE_HOST, UWSGI_HEADROOM_PORT and so on in every pod of the namespace; for a service called
`uwsgi-headroom-stats`, it sets UWSGI_HEADROOM_STATS_PORT. A pod must start in spite of them. So a name is an error only
if it is similar to one of the exporter's without the form of a service's; other unknown names are logged.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwsgi_headroom.config import yaml_file
from uwsgi_headroom.config.parsers import Texts
from uwsgi_headroom.config.servers import parse_server_argument, refuse_duplicates, refuse_impossible_expectations
from uwsgi_headroom.config.settings import FLAGS, PREFIX, Config, SettingRow, assign, find_setting
from uwsgi_headroom.config.slo import refuse_too_short
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.source import ProcessOfApp

_KNOWN = frozenset(name for setting in FLAGS for name in setting.variables)

_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes and Docker links append to the name of a service."""

_NEAR = 0.8
"""Similarity that counts as misspelt, 0 to 1 by difflib. WINDOWS to WINDOW is 0.92, LISTEN_ADDRESS to
WEB_LISTEN_ADDRESS 0.88; CONFIG_DIR to CONFIG is 0.75, and a different word."""


def resolve_config(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Config:
    """Combine flags, environment, file and defaults, in this order of precedence. Servers of flags or the environment
    are added to those of the file. Raises ConfigError."""
    _refuse_misspelt(environment)
    config = _read_file(flags, environment)
    added = [parse_server_argument(*text) for text in _given(find_setting("--stats"), flags, environment)]
    servers = refuse_duplicates([*config.servers, *added])
    for server in servers:
        if isinstance(server.address, ProcessOfApp):
            raise ConfigError(
                f"{server.where}: {server.address} ends with its process: write app:/path or app:ADDRESS:PORT"
            )
    refuse_impossible_expectations(servers)
    values: dict[str, Any] = {"servers": servers}
    for setting in FLAGS:
        texts = _given(setting, flags, environment)
        if texts and setting.field:
            values[setting.field] = setting.read(texts)
    config = assign(config, values)
    _refuse_logs_of_nobody(config)
    for slo in (config.settings.slo, *(server.slo for server in config.servers)):
        if slo:
            refuse_too_short(slo, config.settings.samples_per_second)
    return config


def _refuse_logs_of_nobody(config: Config) -> None:
    """Raise ConfigError if a log is given to no server. Names of patterns and of discovery are not known yet."""
    names = [server.name for server in config.servers]
    for name, _ in config.settings.logs if names and all(names) else ():
        if name not in names:
            raise ConfigError(f"--uwsgi-log: no server is named {name!r}; there are {', '.join(names)}")


def resolve_history(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the history file, in the same order of precedence; "" if nothing sets one. flags: those of
    `serve` that name it, `history` and `config`. Raises ConfigError."""
    given = _given(find_setting("--history"), flags, environment)
    return given[0][0] if given else _read_file(flags, environment).history


def _read_file(flags: argparse.Namespace, environment: Mapping[str, str]) -> Config:
    """Read the configuration file, if one is given. Raises ConfigError."""
    file = _given(find_setting("--config"), flags, environment)
    return yaml_file.load_file(Path(file[0][0])) if file else Config()


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in _KNOWN)


def _refuse_misspelt(environment: Mapping[str, str]) -> None:
    """Raise ConfigError if an unknown variable is similar to a known one: its setting would be ignored silently."""
    for name in unknown_variables(environment):
        rest = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(rest.lower(), [setting.name for setting in FLAGS], 1, _NEAR)
        if near and not _SERVICE.fullmatch(rest):
            raise ConfigError(f"unknown environment variable {name}; did you mean {PREFIX}{near[0].upper()}?")


def _given(setting: SettingRow, flags: argparse.Namespace, environment: Mapping[str, str]) -> Texts:
    """Return the texts that set a setting, each with its origin; none if neither the flag nor the variable is given."""
    given: list[str] | str | bool | None = getattr(flags, setting.name)
    if given not in (None, "", []):
        texts = given if isinstance(given, list) else [str(given).lower() if setting.is_switch else str(given)]
        return [(text, setting.flag) for text in texts]
    variable = next((name for name in setting.variables if environment.get(name)), setting.variable)
    value = environment.get(variable, "")
    texts = value.split() if setting.is_repeatable else [value] if value else []
    return [(text, variable) for text in texts]

"""Decides which setting applies: a flag overrides its environment variable, which overrides the configuration file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwsgi_headroom.config import variables, yaml_file
from uwsgi_headroom.config.parsers import Texts
from uwsgi_headroom.config.servers import (
    parse_server_argument,
    refuse_duplicate_addresses,
    refuse_duplicate_names,
    refuse_impossible_expectations,
)
from uwsgi_headroom.config.settings import FLAGS, Config, SettingRow, assign, find_setting
from uwsgi_headroom.config.slo import refuse_too_short


def resolve_config(flags: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Config:
    """Combine flags, environment, file and defaults, in this order of precedence. Servers of flags or the environment
    are added to those of the file. Raises ConfigError."""
    variables.refuse_misspelt(environment)
    file = _given(find_setting("--config"), flags, environment)
    config = yaml_file.load_file(Path(file[0][0])) if file else Config()
    added = [parse_server_argument(*text) for text in _given(find_setting("--stats"), flags, environment)]
    servers = refuse_duplicate_names([*config.servers, *added])
    refuse_duplicate_addresses(servers)
    refuse_impossible_expectations(servers)
    values: dict[str, Any] = {"servers": servers}
    for setting in FLAGS:
        texts = _given(setting, flags, environment)
        if texts and setting.field:
            values[setting.field] = setting.parse(texts) if setting.is_repeatable else setting.parse(*texts[0])
    config = assign(config, values)
    for slo in (config.settings.slo, *(server.slo for server in config.servers)):
        if slo:
            refuse_too_short(slo, config.settings.samples_per_second)
    return config


def _given(setting: SettingRow, flags: argparse.Namespace, environment: Mapping[str, str]) -> Texts:
    """Return the texts that set a setting, each with its origin; none if neither the flag nor the variable is given."""
    given: list[str] | str | None = getattr(flags, setting.name)
    if given:
        return [(text, setting.flag) for text in ([given] if isinstance(given, str) else given)]
    value = environment.get(setting.variable, "")
    texts = value.split() if setting.is_repeatable else [value] if value else []
    return [(text, setting.variable) for text in texts]

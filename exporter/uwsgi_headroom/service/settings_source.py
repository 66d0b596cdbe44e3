"""Reads the settings of `serve`: at its start, and again at each reload."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from uwsgi_headroom.config import precedence
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import PREFIX, Config
from uwsgi_headroom.discover import discover_servers
from uwsgi_headroom.errors import ConfigError, HeadroomError


class SettingsSource:
    """The flags, environment, configuration file and discovery that settings come from."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._found: tuple[ServerConfig, ...] = ()

    @property
    def file(self) -> str:
        """The path of the configuration file; "" without one."""
        return self._options.config or os.environ.get(f"{PREFIX}CONFIG", "")

    def read(self) -> Config:
        """Read the settings, without discovery. Raises ConfigError."""
        return precedence.resolve_config(self._options)

    def with_servers(self, settings: Config) -> Config:
        """Return the settings; if they name no server and no target of probes, with those that discovery finds. Servers
        that were found before stay: one that restarts at this moment cannot be found. Raises HeadroomError if there is
        none."""
        if settings.servers or (settings.probe and settings.probe.targets):
            self._found = ()
            return settings
        known = {server.address for server in self._found}
        try:
            self._found += tuple(server for server in discover_servers() if server.address not in known)
        except HeadroomError:
            if not self._found:
                raise
        return replace(settings, servers=self._found)

    def read_again(self) -> Config:
        """Read the settings with all servers, for a reload. Raises HeadroomError."""
        if self.file and Path(self.file).exists() and not Path(self.file).is_file():
            raise ConfigError(f"{self.file}: not a regular file, so it cannot be read again")
        return self.with_servers(self.read())

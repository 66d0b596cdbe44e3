"""Runs `retire`: ends the expectation that a server of a pattern is there."""

from __future__ import annotations

import argparse
import difflib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from uwsgi_headroom.config.defaults import SHIPPED_HISTORY
from uwsgi_headroom.config.precedence import resolve_history
from uwsgi_headroom.errors import ConfigError, HeadroomError, HistoryFileError
from uwsgi_headroom.store.file import HistoryFile
from uwsgi_headroom.store.retired import retire
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch.globbed import GLOB_SECONDS


def run(options: argparse.Namespace) -> int:
    """Note the retirement of these servers beside the history file, and return the exit status. Raises HeadroomError if
    there is no file, or if an exporter writes to it, has no such server, and `--force` is not given."""
    names = options.names
    path = find_history(options.history, options.config, os.environ)
    # Beside a file that nobody writes to, SQLite would leave files of this user, and an exporter of another user could
    # not write there any more.
    if not options.force and Path(f"{path}-wal").exists():
        _refuse_unknown(names, path)
    for name in names:
        retire(path, name, time.time())
    print_lines(
        f"{name}: retired. An exporter that writes to {path} stops expecting it within {GLOB_SECONDS:g} s, unless its "
        "configuration expects it; it is expected again once it was up for another hour."
        for name in names
    )
    return 0


def find_history(history: str | None, config: str | None, environment: Mapping[str, str]) -> Path:
    """Find the exporter's history file, as the exporter itself does, or at the place of the shipped unit. Raises
    ConfigError."""
    given = resolve_history(argparse.Namespace(history=history, config=config), environment)
    path = Path(given or SHIPPED_HISTORY).absolute()
    if not given and not path.parent.exists():
        raise ConfigError(
            "no history file: give that of the exporter with --history FILE. An exporter without a history knows only "
            "what it has seen itself: to retire a server, restart that exporter"
        )
    return path


def _refuse_unknown(names: Sequence[str], path: Path) -> None:
    try:
        with HistoryFile(path, time.time()) as file:
            known = [server.name for server in file.servers()]
    except HistoryFileError as error:
        raise HeadroomError(f"{error}; add --force to retire the server all the same") from None
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise HeadroomError(
                f"the history has no server {name!r}"
                + (f"; did you mean {near[0]!r}" if near else "")
                + "? An Emperor or a router is in no history: add --force for those"
            )

"""Runs `serve --check-config`: what the exporter would do with these settings, and what is wrong with them.

It resolves the settings as `serve` does, and opens their files. It reads no uWSGI, listens nowhere and writes nothing,
so it may run beside the exporter.
"""

from __future__ import annotations

import argparse
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from uwsgi_headroom import logs
from uwsgi_headroom.config.defaults import JOURNAL
from uwsgi_headroom.config.precedence import unknown_variables
from uwsgi_headroom.config.servers import GlobNames, ServerConfig
from uwsgi_headroom.config.settings import Config
from uwsgi_headroom.discover.find import user_name
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.service.reload import SettingsSource
from uwsgi_headroom.service.serve import has_login, may_discover, needs_one, open_web_config, refuse_exposure
from uwsgi_headroom.source import File, Unix
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch.globbed import bound_at
from uwsgi_headroom.web.listeners import resolve_places
from uwsgi_headroom.words.formats import byte_size, counted, listed

if TYPE_CHECKING:
    from uwsgi_headroom.web.security.live_config import LiveConfig

_MOST_NAMES = 10
"""Of the sockets of a pattern: enough to see the form of their names."""


def run(options: argparse.Namespace) -> int:
    """Print what these settings mean, and what is wrong; return the exit status: 1 if `serve` would not start with
    them, or if it cannot use a file that they name."""
    logs.configure("warning", "logfmt")  # certificates that expire soon
    source = SettingsSource(options)
    user = user_name(os.geteuid())
    try:
        settings = source.read()
        live = open_web_config(settings.web_config_file)
        places = resolve_places(settings.listen)
        refuse_exposure(places, live, settings)
        discovers = may_discover(settings, live)
        source.needs_one = needs_one(settings, discovers=discovers)
        settings = source.with_servers(settings)
    except HeadroomError as error:
        print_lines([f"uwsgi-headroom: {error}", *error.details], sys.stderr)
        return 1
    print_lines(_describe(source.file, user, settings, live))
    if discovers:
        readers = listed(["root", user, *settings.readers])
        print_lines([_row("discover", f"uWSGIs that are not configured, shown to {readers}")])
    problems = list(_find_problems(settings, user))
    print_lines([f"uwsgi-headroom: {problem}" for problem in problems], sys.stderr)
    if not problems:
        print_lines(["ok"])
    return 1 if problems else 0


def _describe(file: str, user: str, settings: Config, live: LiveConfig | None) -> Iterator[str]:
    yield _row("settings", f"{file or 'no configuration file'}, as user {user}")
    if ignored := unknown_variables(os.environ):
        yield _row("environment", f"unknown, and ignored: {', '.join(ignored)}")
    named = [server for server in settings.servers if server.address is not None]
    for server in named:
        yield _row("server", f"{server.name}: {server.address}{_describe_socket(server, user)}")
    patterns = [server for server in settings.servers if server.address is None]
    names = GlobNames([server.pattern for server in patterns], {server.name for server in named})
    for server in patterns:
        yield _row("pattern", f"{server.pattern}: {_describe_matches(server, names)}")
    if settings.probe:
        targets = [target.text for target in settings.probe.targets]
        yield _row("probe", listed(["the servers above", *targets]))
    login = "with a login" if has_login(live) else "without a login"
    scheme = "https" if live and live.active.context else "http"
    for host, port in settings.listen:
        place = f"{f'[{host}]' if ':' in host else host or '*'}:{port}"
        yield _row("listen", f"{scheme}://{place}/, {login}")
    if settings.web_config_file:
        yield _row("web", settings.web_config_file)
    if settings.history:
        yield _row("history", f"{settings.history}, {byte_size(settings.history_max_size)} at most")
    for origin, path in _logs_of(settings):
        yield _row("log", f"{origin}: {path}")
    watching = settings.settings
    has_code = watching.code or any(server.code for server in settings.servers)
    if on := [name for name, is_on in (("routes", watching.routes), ("code", has_code)) if is_on]:
        yield _row("opt-in", listed(on))


def _row(subject: str, text: str) -> str:
    return f"{subject:12} {text}"


def _describe_socket(server: ServerConfig, user: str) -> str:
    """What keeps the server from being read now, as far as can be known without a connection: uWSGI may be down."""
    address = server.address
    if not isinstance(address, Unix | File) or address.path.startswith("@"):
        return ""
    if not os.path.exists(address.path):
        return " (not there now)"
    needed = os.R_OK if isinstance(address, File) else os.W_OK
    return "" if os.access(address.path, needed) else f" (user {user} may not read it)"


def _describe_matches(server: ServerConfig, names: GlobNames) -> str:
    found = sorted({names.name(path) for path in glob.glob(server.pattern) if bound_at(path) is not None})
    text = f"{counted(len(found), 'socket')} now" + (f": {listed(found, _MOST_NAMES)}" if found else "")
    absent = [name for name in server.expect_names if name not in found]
    return f"{text}; expected, and not there: {', '.join(absent)}" if absent else text


def _logs_of(settings: Config) -> Iterable[tuple[str, str]]:
    own = [(server.name, server.log) for server in settings.servers if server.log]
    return [*own, *settings.settings.logs]


def _find_problems(settings: Config, user: str) -> Iterator[str]:
    """Files that the exporter would start without, and report as faulty."""
    for origin, path in _logs_of(settings):
        if not path.startswith(JOURNAL):
            try:
                if not stat.S_ISREG(os.stat(path).st_mode):
                    yield f"log of {origin}: {path}: not a regular file"
                elif not os.access(path, os.R_OK):
                    yield f"log of {origin}: {path}: user {user} may not read it"
            except OSError as error:
                yield f"log of {origin}: {path}: {error.strerror}"
    if settings.history:
        yield from _find_history_problem(Path(settings.history).absolute(), user)


def _find_history_problem(path: Path, user: str) -> Iterator[str]:
    from uwsgi_headroom.store.file import refuse_foreign  # noqa: PLC0415 - sqlite3 takes 1.4 MB

    if not path.parent.is_dir():
        yield f"history: {path.parent}: no such directory"
    elif not os.access(path.parent, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.R_OK | os.W_OK)):
        yield f"history: {path}: user {user} may not write it"
    elif path.exists():
        try:
            refuse_foreign(path)
        except HistoryFileError as error:
            yield f"history: {error}"

"""Reports the results of discovery to a person: each uWSGI master, what to do if its stats are missing, and one command
that watches all readable ones."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from uwsgi_headroom.analysis.formatting import numbered
from uwsgi_headroom.config.names import default_name
from uwsgi_headroom.watch.found_master import FoundMaster

_NAME = re.compile(r"[\w.-]+")
"""Names that `--stats NAME=ADDRESS` accepts."""

_GENERAL = frozenset(("app", "conf", "config", "server", "sock", "socket", "stats", "tmp", "uwsgi", "vassal", "www"))
"""Names of files and directories that do not identify an application."""

_NOTHING = (
    "No uWSGI master runs here (in this PID namespace). If uWSGI runs elsewhere, give the address of its stats server: "
    "uwsgi-headroom --stats tcp://HOST:PORT"
)
_NO_STATS = "without a stats server: enable it in the configuration and reload"
_INDENT = " " * 4


def render_report(masters: Sequence[FoundMaster]) -> list[str]:
    """Write the lines of the report."""
    if not masters:
        return [_NOTHING]
    readable = [master for master in masters if master.address and not master.trouble]
    names = choose_names(readable)
    parts = [list(_describe_readable(master, name)) for master, name in zip(readable, names, strict=True)]
    troubled = [master for master in masters if master.trouble]
    for trouble in dict.fromkeys(master.trouble for master in troubled):
        alike = [master for master in troubled if master.trouble == trouble]
        parts.append([f"Cannot be read: {trouble}", *_list(alike)])
    if without := [master for master in masters if not master.address and not master.trouble]:
        parts.append([f"uWSGI {_NO_STATS}:", *_list(without), f"{_INDENT}stats = /run/uwsgi/NAME.stats"])
    if readable:
        parts.append(_command(readable, names))
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def choose_names(masters: Sequence[FoundMaster]) -> list[str]:
    """Choose a unique name for each master: from its configuration file, else its stats socket, else its directory,
    else its whole address."""
    chosen = [""] * len(masters)
    for candidates in zip(*map(_candidates, masters), strict=True):
        free = [name if not chosen[place] and name not in chosen else "" for place, name in enumerate(candidates)]
        count = Counter(free)
        chosen = [old or (new if count[new] == 1 else "") for old, new in zip(chosen, free, strict=True)]
    return [name or re.sub(r"[^\w.]+", "-", str(master.address)) for name, master in zip(chosen, masters, strict=True)]


def _candidates(master: FoundMaster) -> tuple[str, ...]:
    """Return candidates for a name, best first; empty texts for those that do not identify an application."""
    socket = default_name(master.address) if master.address else ""
    names = (PurePath(master.configuration).stem, socket, PurePath(master.directory).name)
    return tuple(name if _NAME.fullmatch(name) and name.lower() not in _GENERAL else "" for name in names)


def _describe_readable(master: FoundMaster, name: str) -> Iterator[str]:
    yield f"{name}: {master.what}"
    yield f"  {_describe(master)}"
    yield f"  {master.address}"


def _list(masters: Sequence[FoundMaster]) -> Iterator[str]:
    """Write a line for each master of which more than the PID is known, and one line per user for all others."""
    plain: dict[str, list[int]] = {}
    for master in masters:
        if master.address or master.configuration or master.directory or master.emperor:
            yield f"  {_describe(master)}{f': {master.address}' if master.address else ''}"
        else:
            plain.setdefault(master.user, []).append(master.pid)
    for user, pids in plain.items():
        yield f"  {numbered('pid', pids)} of user {user}"


def _describe(master: FoundMaster) -> str:
    parts = [f"{master.role} {master.pid} of user {master.user}"]
    parts += [master.configuration] if master.configuration else []
    parts += [f"in {master.directory}"] if master.directory else []
    parts += [f"vassal of {master.emperor}"] if master.emperor else []
    return ", ".join(parts)


def _command(masters: Sequence[FoundMaster], names: Sequence[str]) -> list[str]:
    """Write one shell command that watches all these masters."""
    words = [f"--stats {shlex.quote(f'{name}={master.address}')}" for master, name in zip(masters, names, strict=True)]
    if len(words) == 1:
        return ["To watch it:", f"  uwsgi-headroom {words[0]}"]
    lines = [f"  uwsgi-headroom {words[0]}", *(f"{_INDENT}{word}" for word in words[1:])]
    return ["To watch them all:", *(f"{line} \\" for line in lines[:-1]), lines[-1]]

"""Reports the results of discovery to a person: each uWSGI master, the steps that turn on its stats if it has none, and
one command that watches all readable ones."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import count
from pathlib import PurePath

from msgspec.structs import replace

from uwsgi_headroom.config.servers import default_name
from uwsgi_headroom.discover.find import (
    EACH_SECONDS,
    NO_TIME,
    FoundMaster,
    ask_in_time,
    explain,
    find_masters,
    sees_all_processes,
)
from uwsgi_headroom.discover.launch import Launch, LaunchError, read_launch
from uwsgi_headroom.discover.steps import Plan, find_reader, plan, plan_reader
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.kernel.setup import find_log_file
from uwsgi_headroom.source import Unix
from uwsgi_headroom.terminal_text import escape_text, print_lines
from uwsgi_headroom.words.formats import numbered

_NAME = re.compile(r"\w[\w.-]*")
"""Names that `--stats NAME=ADDRESS` accepts, and that a directory can have: never `..`, which a local user could choose
for a file."""

_GENERAL = frozenset(
    ("app", "conf", "config", "run", "server", "sock", "socket", "stats", "tmp", "uwsgi", "vassal", "www")
)
"""Names of files and directories that do not identify an application."""

_NOTHING = (
    "No uWSGI master runs here (in this PID namespace). If uWSGI runs elsewhere, give the address of its stats server: "
    "uwsgi-headroom --stats tcp://HOST:PORT"
)
_HIDDEN = (
    "This user sees its own processes only (/proc is mounted with hidepid): run `sudo $(command -v uwsgi-headroom) "
    "discover` to see the uWSGIs of all users."
)
_TURN_ON = "uWSGI without a stats server; `uwsgi-headroom discover` prints the steps that turn it on:"
_NOT_SEEN = "it has ended, or this user may not see how it was started"
_SECONDS = 8.0
"""When the last steps are sought, which takes 2 s at most: `discover` takes 10 s in all."""

_INDENT = " " * 4
_WIDTH = 100


def render_report(masters: Sequence[FoundMaster], plans: Callable[[FoundMaster, str], Plan] | None = None) -> list[str]:
    """Write the lines of the report. plans: makes the steps for a uWSGI without stats and its name; without it, the
    report names the command that does."""
    hidden = [] if sees_all_processes() else [_HIDDEN]
    if not masters:
        return [_NOTHING, *hidden]
    emperors = {master.emperor for master in masters}
    readable = [master for master in masters if master.address and not master.trouble]
    without = [master for master in masters if not (master.address or master.trouble or master.pid in emperors)]
    chosen = choose_names([*readable, *without])
    names, proposed = chosen[: len(readable)], chosen[len(readable) :]
    parts = [
        [
            *(f"{name}: {master.what}", f"  {_describe(master)}", f"  {master.address}"),
            *(_render_steps(plans(master, name)) if plans else ()),
        ]
        for master, name in zip(readable, names, strict=True)
    ]
    troubled = [master for master in masters if master.trouble]
    for trouble in dict.fromkeys(master.trouble for master in troubled):
        alike = [master for master in troubled if master.trouble == trouble]
        parts.append([f"Cannot be read: {trouble}", *_list(alike)])
    if plans:
        parts += [
            [f"{name}: no stats server ({_describe(master)})", *_render_steps(plans(master, name))]
            for master, name in zip(without, proposed, strict=True)
        ]
    elif without:
        parts.append([_TURN_ON, *_list(without)])
    if readable:
        parts.append(_command(readable, names))
    parts += [hidden] if hidden else []
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def _render_steps(plan: Plan) -> list[str]:
    """Write the steps that turn on the stats of one uWSGI, or why there are none."""
    lines: list[str] = []
    if plan.why_none:
        return _wrap(f"No steps are proposed: {plan.why_none}.", "  ")
    for number, step in enumerate(plan.steps, 1):
        lines += ["", *_wrap(escape_text(f"{number}. {step.heading}"), "  ")]
        lines += ["", *(f"{_INDENT}{line}" for line in step.lines)] if step.lines else []
    lines += ["", *_wrap(f"Tried: {plan.tried}.", "  ")] if plan.tried else []
    return lines + [line for warning in plan.warnings for line in _wrap(f"Note: {warning}.", "  ")]


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def choose_names(masters: Sequence[FoundMaster]) -> list[str]:
    """Choose a unique name for each master: from its configuration file, else its stats socket, else a directory, else
    its unit, its whole address or its user."""
    chosen = [""] * len(masters)
    for candidates in zip(*map(_candidates, masters), strict=True):
        taken = set(chosen)
        free = [name if not chosen[place] and name not in taken else "" for place, name in enumerate(candidates)]
        times = Counter(free)
        chosen = [old or (new if times[new] == 1 else "") for old, new in zip(chosen, free, strict=True)]
    taken, numbers = set(chosen), defaultdict[str, Iterator[int]](lambda: count(1))
    for place, master in enumerate(masters):
        chosen[place] = chosen[place] or _number(master, taken, numbers)
        taken.add(chosen[place])
    return chosen


def _number(master: FoundMaster, taken: Set[str], numbers: Mapping[str, Iterator[int]]) -> str:
    """Make a name of the address, else of the user; with a number, if that makes it differ."""
    if master.address:
        name = re.sub(r"[^\w.]+", "-", str(master.address))
        if name not in taken:
            return name
    else:
        name = re.sub(r"[^\w.]+", "-", master.user)
    return next(each for each in (f"{name}-{number}" for number in numbers[name]) if each not in taken)


def _candidates(master: FoundMaster) -> tuple[str, ...]:
    """Return candidates for a name, best first; empty texts for those that do not identify an application."""
    socket = default_name(master.address) if master.address else ""
    beside = ""
    if isinstance(master.address, Unix) and socket in _GENERAL:
        beside = PurePath(master.address.path).parent.name
    file = PurePath(master.configuration)
    unit = master.unit.removesuffix(".service")
    names = (file.stem, socket, beside, file.parent.name, PurePath(master.directory).name, unit)
    return tuple(name if _NAME.fullmatch(name) and name.lower() not in _GENERAL else "" for name in names)


def _list(masters: Sequence[FoundMaster]) -> Iterator[str]:
    """Write a line for each master of which more than the PID is known, and one line per user for all others."""
    plain: dict[str, list[int]] = {}
    for master in masters:
        if master.address or master.configuration or master.directory or master.emperor:
            yield f"  {_describe(master)}{f': {master.address}' if master.address else ''}"
        else:
            plain.setdefault(master.user, []).append(master.pid)
    for user, pids in plain.items():
        yield f"  {numbered('PID', pids)} of user {user}"


def _describe(master: FoundMaster) -> str:
    parts = [f"{master.role} {master.pid} of user {master.user}"]
    parts += [master.configuration] if master.configuration else []
    parts += [f"in {master.directory}"] if master.directory else []
    parts += [f"vassal of {master.emperor}"] if master.emperor else []
    return ", ".join(parts)


def _find_log(pid: int) -> str:
    return find_log_file(pid, read_options(pid))


def _command(masters: Sequence[FoundMaster], names: Sequence[str]) -> list[str]:
    """Write one shell command that watches all these masters, and reads those of their logs that this user can see."""
    words = [f"--stats {shlex.quote(f'{name}={master.address}')}" for master, name in zip(masters, names, strict=True)]
    end = time.monotonic() + EACH_SECONDS
    for master, name in zip(masters, names, strict=True):
        with contextlib.suppress(Exception):  # the log is for another day
            if path := ask_in_time(end, _find_log, master.pid):
                words.append(f"--log {shlex.quote(f'{name}={path}')}")
    if len(words) == 1:
        return ["To watch it:", f"  uwsgi-headroom {words[0]}"]
    lines = [f"  uwsgi-headroom {words[0]}", *(f"{_INDENT}{word}" for word in words[1:])]
    heading = "To watch it, and to read its log:" if len(masters) == 1 else "To watch them all:"
    return [heading, *(f"{line} \\" for line in lines[:-1]), lines[-1]]


def run(user: str | None = None) -> int:
    """Print the uWSGI masters on this machine, with steps for those without a stats server. user: that runs the
    exporter. Returns the exit status: 1 if no master has a stats server. Raises HeadroomError for an unknown user."""
    end = time.monotonic() + _SECONDS
    try:
        reader = find_reader(user)
    except KeyError:
        raise HeadroomError(f"this machine has no user {user!r}") from None
    masters = asyncio.run(find_masters())
    of_interest = {master.pid: master for master in masters if master.address or not master.trouble}
    launches = {pid: _read_launch(master, end) for pid, master in of_interest.items()}
    # By its whole path: its directory may name the application.
    paths = {pid: launch.file for pid, launch in launches.items() if isinstance(launch, Launch) and launch.file}
    masters = [replace(each, configuration=str(paths.get(each.pid, each.configuration))) for each in masters]
    # Also those that have stats: at their next reload, they would take the socket of a line in a file that they share.
    files = Counter(launch.identity for launch in launches.values() if isinstance(launch, Launch))

    def plan_for(master: FoundMaster, name: str) -> Plan:
        launch = launches[master.pid]
        if isinstance(launch, str):
            return Plan() if master.address else Plan(why_none=launch)
        try:
            if time.monotonic() >= end:
                raise TimeoutError(NO_TIME)
            if master.address:
                return plan_reader(replace(launch, master=master), reader)
            return plan(launch, name, reader, alike=files[launch.identity] if launch.identity else 1)
        except Exception as error:  # noqa: BLE001 - the others get their steps
            return Plan(why_none=explain(error))

    print_lines(render_report(masters, plan_for))
    return 0 if any(master.address for master in masters) else 1


def _read_launch(master: FoundMaster, end: float) -> Launch | str:
    """How a master was started, or why nothing is known of it."""
    try:
        return read_launch(master, end)
    except LaunchError as error:
        return str(error)
    except OSError as error:
        return explain(error) if isinstance(error, TimeoutError) else _NOT_SEEN
    except Exception as error:  # noqa: BLE001 - the others get their steps
        return explain(error)

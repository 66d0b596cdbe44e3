"""Reports the results of discovery to a person: each uWSGI master, the steps that turn on its stats if it has none, and
one command that watches all readable ones."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import shlex
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import count

from msgspec.structs import asdict, replace

from uwsgi_headroom.discover.find import (
    EACH_SECONDS,
    NO_TIME,
    FoundMaster,
    ask_in_time,
    explain,
    find_emperors,
    find_masters,
    list_names,
    sees_all_processes,
)
from uwsgi_headroom.discover.launch import Launch, LaunchError, read_launch
from uwsgi_headroom.discover.steps import Plan, find_reader, plan, plan_reader
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.kernel.setup import find_log_file
from uwsgi_headroom.terminal_text import escape_text, join_blocks, print_lines
from uwsgi_headroom.words.formats import numbered
from uwsgi_headroom.words.template import fill

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
    hidden = [_HIDDEN] * (not sees_all_processes())
    if not masters:
        return [_NOTHING, *hidden]
    emperors = find_emperors(masters)
    troubled = [master for master in masters if master.trouble]
    others = [master for master in masters if not master.trouble]
    known = [master for master in others if master.address]
    without = [master for master in others if not master.address and master.pid not in emperors]
    named = dict(zip(choose_names([*known, *without]), [*known, *without], strict=True))
    readable = {name: master for name, master in named.items() if master.address}
    steps = {name: _render_steps(plans(master, name)) for name, master in named.items() if plans}
    blocks = [
        [f"{name}: {master.what}", f"  {_describe(master)}", f"  {master.address}", *steps.get(name, ())]
        for name, master in readable.items()
    ]
    for trouble in dict.fromkeys(master.trouble for master in troubled):
        blocks.append([f"Cannot be read: {trouble}", *_list(each for each in troubled if each.trouble == trouble)])
    for name in (name for name in steps if name not in readable):
        blocks.append([f"{name}: no stats server ({_describe(named[name])})", *steps[name]])
    if without and not plans:
        blocks.append([_TURN_ON, *_list(without)])
    if readable:
        blocks.append(_command(readable))
    return join_blocks([*blocks, *[hidden] * bool(hidden)])


def _render_steps(plan: Plan) -> list[str]:
    """Write the steps that turn on the stats of one uWSGI, or why there are none."""
    if plan.why_none:
        return _wrap(f"No steps are proposed: {plan.why_none}.", "  ")
    lines: list[str] = []
    for number, step in enumerate(plan.steps, 1):
        lines += ["", *_wrap(escape_text(f"{number}. {step.heading}"), "  ")]
        lines += [""] * bool(step.lines) + [f"{_INDENT}{line}" for line in step.lines]
    if plan.tried:
        lines += ["", *_wrap(f"Tried: {plan.tried}.", "  ")]
    return lines + [line for warning in plan.warnings for line in _wrap(f"Note: {warning}.", "  ")]


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def choose_names(masters: Sequence[FoundMaster]) -> list[str]:
    """Choose a unique name for each master: from its configuration file, else its stats socket, else a directory, else
    its unit, its whole address or its user."""
    chosen: dict[int, str] = {}
    for candidates in zip(*map(list_names, masters), strict=True):
        taken = {"", *chosen.values()}
        free = {place: name for place, name in enumerate(candidates) if place not in chosen and name not in taken}
        times = Counter(free.values())
        chosen |= {place: name for place, name in free.items() if times[name] == 1}
    taken, numbers = {*chosen.values()}, defaultdict[str, Iterator[int]](lambda: count(1))
    for place, master in enumerate(masters):
        if place not in chosen:
            chosen[place] = _number(master, taken, numbers)
            taken.add(chosen[place])
    return [chosen[place] for place in range(len(masters))]


def _number(master: FoundMaster, taken: Set[str], numbers: Mapping[str, Iterator[int]]) -> str:
    """Make a name of the address, else of the user; with a number, if that makes it differ."""
    if master.address:
        name = re.sub(r"[^\w.]+", "-", str(master.address))
        if name not in taken:
            return name
    else:
        name = re.sub(r"[^\w.]+", "-", master.user)
    return next(each for each in (f"{name}-{number}" for number in numbers[name]) if each not in taken)


def _list(masters: Iterable[FoundMaster]) -> Iterator[str]:
    """Write a line for each master of which more than the PID is known, and one line per user for all others."""
    plain: dict[str, list[int]] = {}
    for master in masters:
        if master.address:
            yield f"  {_describe(master)}: {master.address}"
        elif master.configuration or master.directory or master.emperor:
            yield f"  {_describe(master)}"
        else:
            plain.setdefault(master.user, []).append(master.pid)
    for user, pids in plain.items():
        yield f"  {numbered('PID', pids)} of user {user}"


_MASTER = (
    "{role} {pid:plain} of user {user}[configuration? , {configuration}][directory? , in {directory}]"
    "[emperor? , vassal of {emperor:plain}]"
)


def _describe(master: FoundMaster) -> str:
    return fill(_MASTER, asdict(master))


def _find_log(pid: int) -> str:
    return find_log_file(pid, read_options(pid))


def _command(masters: Mapping[str, FoundMaster]) -> list[str]:
    """Write one shell command that watches these masters, by name, and reads the logs that this user can see."""
    words = [f"--stats {shlex.quote(f'{name}={master.address}')}" for name, master in masters.items()]
    end = time.monotonic() + EACH_SECONDS
    for name, master in masters.items():
        with contextlib.suppress(Exception):  # the log is for another day
            if path := ask_in_time(end, _find_log, master.pid):
                words.append(f"--uwsgi-log {shlex.quote(f'{name}={path}')}")
    headings = {1: "To watch it:", 2: "To watch it, and to read its log:"}
    heading = headings.get(len(words) * (len(masters) == 1), "To watch them all:")
    lines = [f"  uwsgi-headroom {words[0]}", *(f"{_INDENT}{word}" for word in words[1:])]
    return [heading, *(f"{line} \\" for line in lines[:-1]), lines[-1]]


def run(options: argparse.Namespace) -> int:
    """Print the uWSGI masters on this machine, with steps for those without a stats server. Returns the exit
    status: 1 if no master has a stats server. Raises HeadroomError for an unknown user."""
    end = time.monotonic() + _SECONDS
    try:
        reader = find_reader(options.user)
    except KeyError:
        raise HeadroomError(f"this machine has no user {options.user!r}") from None
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
            return Plan(why_none=launch * (not master.address))
        try:
            if time.monotonic() >= end:
                raise TimeoutError(NO_TIME)
            if master.address:
                return plan_reader(replace(launch, master=master), reader)
            return plan(launch, name, reader, alike=files[launch.identity] * bool(launch.identity) or 1)
        except Exception as error:  # noqa: BLE001 - the others get their steps
            return Plan(why_none=explain(error))

    print_lines(render_report(masters, plan_for))
    return int(not any(master.address for master in masters))


def _read_launch(master: FoundMaster, end: float) -> Launch | str:
    """How a master was started, or why nothing is known of it."""
    try:
        return read_launch(master, end)
    except LaunchError as error:
        return str(error)
    except OSError as error:
        return str(error) if isinstance(error, TimeoutError) else _NOT_SEEN
    except Exception as error:  # noqa: BLE001 - the others get their steps
        return explain(error)

"""Looks at every uWSGI of this machine for some seconds: what is wrong with the worst one, or what runs out
first; the others get a line each. Nothing has to be set up for it, and nothing is left behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from uwsgi_headroom.check import command, reports
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.discover import Everything, find_everything
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.terminal_text import cut_lines, wrap
from uwsgi_headroom.words.formats import counted

LOOK_SECONDS = 10.0

_PROGRAM = "uwsgi-headroom"

_LOOKED_FOR = (
    "Looked for: processes named uwsgi, uwsgi-core or uwsgi_*, in this PID namespace. Is uWSGI in a container, or on "
    "another host? Then run this there, or name the address of its stats server: `{} check tcp://HOST:PORT`."
)


def run(request: Request, make_show: Callable[[Everything], command.Show] | None = None) -> int:
    """Look, print the answer, and return the exit status of `check`. make_show: makes what shows the servers meanwhile.
    Raises HeadroomError if there is nothing to look at."""
    command.show_line("looking for uWSGI ...")
    try:
        found = find_everything()
    finally:
        command.show_line("")
    if not found.servers:
        looked_for = wrap(_LOOKED_FOR.format(_program()), reports.WIDTH)
        raise HeadroomError("no uWSGI runs here that you may look at", _name_others(found) or looked_for)
    request = replace(request, seconds=request.seconds or LOOK_SECONDS)
    return command.run(request, found.servers, partial(write_answer, found=found), make_show and make_show(found))


def write_answer(judged: Sequence[ServerDocument], found: Everything) -> Iterator[str]:
    """Write the worst server's report, a line for each other one, and what to type next. judged: worst first."""
    worst, others = judged[0], judged[1:]
    yield from reports.render_lines(worst, names_all=False)
    if others:
        yield from ("", f"{counted(len(others), 'other server')}:")
        width = reports.fit_names(others)
        for server in others:
            yield from cut_lines(list(reports.write_line(server, width)), 1)
    if notes := _name_others(found):
        yield from ("", *notes)
    yield ""
    yield from (f"{heading:15}{words}" for heading, words in _list_commands(worst))


def _name_others(found: Everything) -> list[str]:
    notes = [f"{counted(found.left_out, 'more server')} run here: name one to look at it."] * bool(found.left_out)
    if found.hidden:
        users = ", ".join(f"{user}: {number}" for user, number in Counter(found.hidden).most_common(5))
        notes.append(f"{counted(len(found.hidden), 'uWSGI')} of other users ({users}): `sudo {_program()}` sees all.")
    if not found.sees_all:
        notes.append(f"/proc hides the processes of other users here: `sudo {_program()}` sees all.")
    return [line for note in notes for line in wrap(note, reports.WIDTH)]


def _list_commands(server: ServerDocument) -> Iterator[tuple[str, str]]:
    program = f"{'sudo ' * ('SUDO_USER' in os.environ)}{_program()}"
    if not server.address:
        return
    address = shlex.quote(server.address)
    yield "All figures:", f"{program} check --all {address}"
    yield "Watch it:", f"{program} top {address}"
    if server.address.startswith("pid:"):
        yield "Turn on stats:", f"{program} discover"
        return
    named = shlex.quote(f"{server.name}={server.address}")
    yield "See its page:", f"{program} serve --stats {named}"
    yield "Keep figures:", f"{program} serve --history headroom.sqlite --stats {named}"


def _program() -> str:
    if shutil.which(_PROGRAM):
        return _PROGRAM
    path = os.path.abspath(sys.argv[0])
    return shlex.quote(path) if os.access(path, os.X_OK) else f"{shlex.quote(sys.executable)} -m uwsgi_headroom"

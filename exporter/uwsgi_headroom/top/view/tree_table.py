"""Builds the table of the tree of emperors and vassals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.top.model import Key, ScreenModel
from uwsgi_headroom.top.tree import Branch
from uwsgi_headroom.top.view.figures import age, fit_middle, number
from uwsgi_headroom.top.view.headline import status_style, status_word
from uwsgi_headroom.top.view.page import Page
from uwsgi_headroom.top.view.server_table import growth

_COLUMNS = f"{'STATUS':8} {'HEADROOM':>8} {'PID':>7} {'VASSAL':9} {'AGE':>4} {'RESTARTS':>8}"
_VASSAL_STYLES: Mapping[str, str] = {"cursed": "red", "throttled": "bold red", "starting": "yellow"}


def tree_table(model: ScreenModel, branches: Sequence[Branch], chosen: Key | None, width: int) -> Page:
    """Build the page of the tree, with the chosen server marked."""
    room = max(12, width - 3 - len(_COLUMNS))
    title = Text(f"  {'EMPEROR, VASSALS, SERVERS':{room}.{room}} {_COLUMNS}"[:width].ljust(width), "reverse")
    rows = [_row(model, branches, place, chosen, room) for place in range(len(branches))]
    selected = next((place for place, branch in enumerate(branches) if _is_chosen(branch, chosen)), None)
    return Page(title, rows, selected=selected)


def _is_chosen(branch: Branch, chosen: Key | None) -> bool:
    return branch.entry is not None and branch.entry.key == chosen


def _row(model: ScreenModel, branches: Sequence[Branch], place: int, chosen: Key | None, room: int) -> Text:
    branch = branches[place]
    here = _is_chosen(branch, chosen)
    name = _stem(branches, place) + _name(branch)
    line = Text("> " if here else "  ", "bold" if branch.entry else "dim")
    line.append(f"{fit_middle(name, room)} ", "bold" if here else "not bold")
    if branch.entry:
        summary = branch.entry.summary
        line.append(f"{status_word(summary):8} ", status_style(summary))
        line.append(f"{growth(summary):>8} ", "not bold")
    else:
        line.append(f"{'no stats' if branch.vassal else '':8} {'':8} ")
    line.append(f"{_pid(model, branch):>7} ", "not bold")
    line.append(f"{branch.state:9} ", _VASSAL_STYLES.get(branch.state, "not bold"))
    vassal = branch.vassal
    return line.append(f"{age(vassal.age):>4} {number(vassal.respawns):>8}" if vassal else "", "not bold")


def _name(branch: Branch) -> str:
    """Return a server's name, followed by its name at the emperor."""
    name = escape_text(branch.name)
    return f"{name} ({escape_text(branch.vassal.name)})" if branch.entry and branch.vassal else name


def _stem(branches: Sequence[Branch], place: int) -> str:
    """Return the lines of the tree before a name."""
    depth = branches[place].depth
    stem = ""
    for level in range(1, depth + 1):
        below = next((branch.depth for branch in branches[place + 1 :] if branch.depth <= level), 0)
        goes_on = below == level
        if level == depth:
            stem += "├─ " if goes_on else "└─ "
        else:
            stem += "│  " if goes_on else "   "
    return stem


def _pid(model: ScreenModel, branch: Branch) -> str:
    if branch.vassal:
        return str(branch.vassal.pid)
    server = model.family.get(branch.entry.key) if branch.entry else None
    return str(server.identity.pid) if server and server.identity and server.identity.pid else ""

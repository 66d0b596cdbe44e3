"""Builds the whole screen, for a terminal of any size: the head, the body, and the last line.

The head has the most informative of its lines. The last line has the filter that is being typed, a notice, or the most
useful keys and the window of the figures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.text import Text

from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.top.navigation import LISTS, Navigation
from uwsgi_headroom.top.servers import ScreenModel
from uwsgi_headroom.top.view import headline, server_table
from uwsgi_headroom.top.view.body import LEAST_HEAD, Space, build_body, list_keys
from uwsgi_headroom.top.view.scrolling import fit_page
from uwsgi_headroom.words.formats import chosen, duration

_TALL, _ROOMY, _CRAMPED = 24, 20, 8  # lines of a terminal
_UNBOUNDED = 10_000  # lines of a pipe
_BODY = 0.45
"""Share of the screen that the head leaves to the body at least, if the body has so many lines."""


@dataclass(frozen=True, slots=True)
class Screen:
    lines: list[Text]
    first: int = 0
    """The first row in view."""

    column: int = 0
    """The first scrolled column in view."""


def draw(model: ScreenModel, navigation: Navigation, width: int, height: int, now: float) -> Screen:
    """Build exactly `height` lines, none wider than `width`. now: epoch seconds."""
    space = Space(width, height - 2 - _block_lines(height), now)
    above, first, column = _draw_above_foot(model, navigation, space, height)
    lines = above[: height - 1] + [Text()] * (height - 1 - len(above))
    lines = [*lines, foot_line(model, navigation, width)][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Screen(lines, first, column)


def draw_plain(model: ScreenModel, navigation: Navigation, width: int, now: float) -> list[Text]:
    """Build all lines, for a pipe: no line of keys, and no limit of height."""
    space = Space(width, _UNBOUNDED, now, detailed=False)
    lines, _, _ = _draw_above_foot(model, navigation, space, _UNBOUNDED)
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _draw_above_foot(
    model: ScreenModel, navigation: Navigation, space: Space, height: int
) -> tuple[list[Text], int, int]:
    """Build the lines above the foot; returns also the first row and the first scrolled column in view."""
    body, column = build_body(model, navigation, space)
    head = _head(model, navigation, space.width, height, body.height, space.now)
    in_view, first = fit_page(body, navigation.first, max(0, height - len(head) - 1))
    if navigation.view not in ("help", *LISTS) and _is_old(model, navigation):
        in_view = [Text(line.plain, "dim") for line in in_view]
    return [*head, *in_view], first, column


def _block_lines(height: int) -> int:
    """Return the number of lines for the verdict and the advice."""
    return 4 if height >= _TALL else 3 if height >= _ROOMY else 2 if height >= _CRAMPED else 1


def _head(model: ScreenModel, navigation: Navigation, width: int, height: int, body: int, now: float) -> list[Text]:
    """Build the most informative lines of the head, as many as leave the body its room."""
    title = _title(model, navigation, width, now)
    troubles, server = _troubles(model, navigation), model.server
    if navigation.view == "help":
        return [title]
    if navigation.view in LISTS or server is None:
        stale = [cut_lines(wrap(f"STALE  {trouble}", width), 1)[0] for trouble in troubles[:_MOST_TROUBLES]]
        return [title, *(Text(line, "bold red") for line in stale)]
    must = [title, *headline.verdict_block(server, troubles, width, _block_lines(height))]
    if navigation.view in ("findings", "events", "plots", "routes", "code"):
        return must
    above = height - 1 - len(must)
    room = max(1, above - min(max(int(_BODY * height), above - LEAST_HEAD), body))
    parts = headline.head_parts(server, model.trend, width)
    if len(must) + len(parts) + body > height - 1:
        parts = [part for part in parts if not part.is_spare]
    kept = {id(part) for part in sorted(parts, key=lambda part: part.rank)[:room]}
    rest = [part.line for part in parts if id(part) in kept]
    return must + ([Text(line.plain, "dim") for line in rest] if server.state == "down" else rest)


def _troubles(model: ScreenModel, navigation: Navigation) -> list[str]:
    """Return the troubles of the shown server's feed; in lists, of all feeds."""
    if navigation.view in LISTS or navigation.server is None:
        return list(model.troubles.values())
    return [trouble for place, trouble in model.troubles.items() if place == navigation.server[0]]


def _is_old(model: ScreenModel, navigation: Navigation) -> bool:
    return bool(_troubles(model, navigation)) or (model.server is not None and model.server.state != "up")


def _title(model: ScreenModel, navigation: Navigation, width: int, now: float) -> Text:
    server = model.server
    clock = time.strftime("%H:%M:%S %Z", time.localtime(now))
    right = f"{'PAUSED  ' if navigation.paused else ''}{clock} "
    style = "reverse bold"
    if navigation.view == "help":
        left = " uwsgi-headroom   help"
    elif navigation.view in LISTS or server is None:
        left = f" uwsgi-headroom   {server_table.count_servers(model.entries)}   {model.where}"
    else:
        keys = list_keys(model, navigation)
        if navigation.server in keys and len(keys) > 1:
            right = f"{keys.index(navigation.server) + 1}/{len(keys)}  {right}"
        left = f" {server.name}   {_state(server, now)}   uWSGI {server.version or '?'}   {server.address}"
        style += "" if server.state == "up" else " red"
    line = Text(left)
    line.truncate(max(0, width - len(right) - 1), overflow="ellipsis", pad=True)
    line.append(" " + right)
    line.stylize(style)
    return line


def _state(server: Server, now: float) -> str:
    """Return the state of a server, and the age of its last reading if it is not up."""
    if server.age is None:
        return "not read yet" if server.state == "stale" else server.state
    if server.state == "up":
        return server.state
    return f"{server.state}, last read {duration(server.age + max(0.0, now - server.time))} ago"


_LIST_KEYS = ("q quit", "? help", "enter open", "/ filter", "v tree", "e events", "unrwb sort", "space pause")
_TREE_KEYS = ("q quit", "? help", "enter open", "/ filter", "v list")
_ROUTES_KEY, _CODE_KEY = "P routes", "C code"
_SERVER_KEYS = (
    "q quit",
    "? help",
    "a advice",
    "e events",
    "p plots",
    "t threads",
    _ROUTES_KEY,
    _CODE_KEY,
    "esc back",
    "left right columns",
    "/ filter",
    "[ ] window",
    "srwcbm sort",
)


def foot_line(model: ScreenModel, navigation: Navigation, width: int) -> Text:
    """Build the line. Hints that do not fit are left out from the right."""
    if navigation.typing:
        return (
            Text("filter: ", "bold")
            .append(navigation.filter)
            .append("_", "blink")
            .append("   enter keeps the filter, esc clears the filter", "dim")
        )
    if model.notice:
        return Text(model.notice, "reverse")
    right = _scope(model, navigation)
    line = Text()
    if navigation.filter and navigation.view != "help":
        line.append(f"filter: {escape_text(navigation.filter)} (esc clears)  ", "bold")
    for hint in _hints(model, navigation):
        if line.cell_len + len(hint) + len(right) + 2 > width:
            break
        line.append(f"{hint}  ", "dim")
    line.append(" " * max(0, width - len(right) - line.cell_len))
    return line.append(right)


def _hints(model: ScreenModel, navigation: Navigation) -> tuple[str, ...]:
    if navigation.view == "help":
        return ("q quit", "esc back")
    if navigation.view in LISTS:
        return _TREE_KEYS if navigation.view == "tree" else _LIST_KEYS
    server = model.server
    off = {_ROUTES_KEY: not server or server.routes is None, _CODE_KEY: not server or server.code is None}
    return tuple(hint for hint in _SERVER_KEYS if not off.get(hint))


def _scope(model: ScreenModel, navigation: Navigation) -> str:
    """Return the window of the figures, and the interval between two polls."""
    often = f"every {chosen(navigation.interval)}"
    window = model.server.window if model.server and navigation.view not in LISTS else None
    if window is None or navigation.view in ("help", "plots"):
        return often
    young = f"{duration(window.seconds)} of " if window.seconds < 0.9 * window.asked else ""
    return f"over {young}{duration(window.asked)}, {often}"


_MOST_TROUBLES = 3

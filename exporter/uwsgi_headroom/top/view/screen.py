"""Builds the whole screen, for a terminal of any size: the head, the body, and the last line.

The head has the most informative of its lines. The last line has the filter that is being typed, a notice, or the most
useful keys and the window of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.top.navigation import LIST, Navigation
from uwsgi_headroom.top.servers import Key, ScreenModel, ServerEntry, arrange_entries
from uwsgi_headroom.top.view import headline, pages, plots
from uwsgi_headroom.top.view.figures import Page, fit_page
from uwsgi_headroom.top.view.server_table import count_servers, detail_lines, server_table
from uwsgi_headroom.top.view.worker_page import worker_page
from uwsgi_headroom.words.formats import chosen, duration


class Binding(NamedTuple):
    """Keys with the same meaning."""

    label: str
    """The keys as the help shows them."""
    meaning: str
    keys: tuple[str, ...]
    """The keys as `handle_key` takes them."""


BINDINGS = (
    Binding("q", "quit", ("q",)),
    Binding("?", "this help", ("?",)),
    Binding("up down j k", "select, scroll", ("up", "down", "j", "k")),
    Binding("PgUp PgDn", "ten lines", ("pageup", "pagedown")),
    Binding("Home End", "first, last", ("home", "end")),
    Binding("enter", "open the server", ("enter",)),
    Binding("esc", "go back one step", ("escape", "backspace")),
    Binding("l", "list of servers", ("l",)),
    Binding("tab S-tab", "next, previous server", ("tab", "backtab")),
    Binding("left right", "more columns", ("left", "right")),
    Binding("/", "filter rows", ("/",)),
    Binding("a", "advice: all findings", ("a",)),
    Binding("e", "events", ("e",)),
    Binding("p", "plots over time", ("p",)),
    Binding("t", "threads", ("t",)),
    Binding("P", "routes: paths of requests", ("P",)),
    Binding("C", "code: lines of your program", ("C",)),
    Binding("[ ]", "shorter, longer window", ("[", "]")),
    Binding("space", "pause", ("space", " ")),
    Binding("Ctrl-Z", "suspend; uWSGI goes on", ()),
)

SERVER_SORT_LABEL = "u urgency, n name, r requests/s, w response time, b in service"
WORKER_SORT_LABEL = (
    "s share, b busy, c CPU%, w response time, r requests, m memory, o oldest, x exceptions, g age, n number"
)

_LABEL = 12  # columns of the keys themselves
_ENTRY = _LABEL + 24  # columns of one entry

_GLOSSARY = (
    ("HEADROOM", "factor by which load can grow until the first limit"),
    ("SHARE", "of the window's requests; LIFE: of all since the last full reload"),
    ("BUSY", "threads serving a request now; OLDEST: age of the oldest request"),
    ("CPU%", "of one CPU; LOCK: threads that wait for the interpreter lock (GIL)"),
    ("LAST", "CPU the worker last ran on; AFFINITY: CPUs it may run on"),
    ("RESP", "mean time in service; P95: 95th percentile, estimated from samples"),
    ("EXC, HARA", "since the last full reload; GROWTH: of memory, over the window"),
)


def help_lines(width: int) -> list[Text]:
    """Build the lines: keys in as many columns as fit, then sorting, then the columns of the tables."""
    across = max(1, width // _ENTRY)
    down = -(-len(BINDINGS) // across)
    lines = []
    for row in range(down):
        line = Text()
        for binding in BINDINGS[row::down]:
            line.append(f"{binding.label:{_LABEL}}", "bold").append(f"{binding.meaning:{_ENTRY - _LABEL}}")
        line.rstrip()
        lines.append(line)
    lines += _entry("Sort servers", SERVER_SORT_LABEL, width)
    lines += _entry("Sort workers", WORKER_SORT_LABEL, width)
    for term, meaning in _GLOSSARY:
        lines += _entry(term, meaning, width)
    return lines


def _entry(term: str, meaning: str, width: int) -> list[Text]:
    first, rest = f"{term:{_LABEL}} ", " " * (_LABEL + 1)
    lines = [Text(line) for line in wrap(meaning, width, first, rest)]
    lines[0].stylize("bold", 0, len(term))
    return lines


LEAST_HEAD = 6  # lines below the verdict that workers do not push out
_DETAILED = 15  # least lines of a body with room for the verdict of the selected server


class Space(Struct, frozen=True):
    """The space of the body, and what else it depends on."""

    width: int
    lines: int
    """About how many."""
    now: float
    """Epoch seconds."""
    detailed: bool = True
    """Whether the selected server's verdict is shown below a list."""


def build_body(model: ScreenModel, navigation: Navigation, space: Space) -> tuple[Page, int]:
    """Build the body; returns also the first scrolled column in view."""
    if navigation.view in _PAGES:
        return _PAGES[navigation.view](model, navigation, space), 0
    server = model.server
    if server is None:
        return Page(None, [Text("Waiting for the server's document.")]), 0
    if navigation.view in _SERVER_PAGES:
        return _SERVER_PAGES[navigation.view](server, model, navigation, space), 0
    lines: Iterable[Text] | None = None
    if server.emperor:
        lines = pages.emperor_lines(server.emperor, space.width)
    elif server.router:
        lines = pages.router_lines(server.router, space.width)
    elif navigation.view == "threads":
        lines = pages.thread_lines(server, navigation.sort, space.width)
    if lines is not None or not server.workers:
        title, *rows = lines or [Text()]
        return Page(title, rows), 0
    return worker_page(server, navigation.sort, space.width, navigation.column, navigation.row_filter)


def list_keys(model: ScreenModel, navigation: Navigation) -> list[Key]:
    """List the servers in the order shown."""
    return [entry.key for entry in _entries(model, navigation)]


def _entries(model: ScreenModel, navigation: Navigation) -> list[ServerEntry]:
    return arrange_entries(model.entries, navigation.fleet_filter, navigation.fleet_sort)


def _servers(model: ScreenModel, navigation: Navigation, space: Space) -> Page:
    table = server_table(model, _entries(model, navigation), navigation.server, space.width, space.now)
    if not space.detailed or space.lines < _DETAILED:
        return table
    return replace(table, detail=detail_lines(model.entries, navigation.server, space.width))


_PAGES: Mapping[str, Callable[[ScreenModel, Navigation, Space], Page]] = {
    "help": lambda _, __, space: Page(None, help_lines(space.width)),
    "servers": _servers,
}

_SERVER_PAGES: Mapping[str, Callable[[ServerDocument, ScreenModel, Navigation, Space], Page]] = {
    "findings": lambda server, model, _, space: Page(None, list(pages.finding_lines(server, space.width))),
    "events": lambda server, _, navigation, space: pages.event_page(
        server.events, navigation.row_filter, space.width, space.now
    ),
    "routes": lambda server, _, navigation, space: pages.route_page(server, navigation.row_filter, space.width),
    "code": lambda server, _, navigation, space: pages.code_page(server, navigation.row_filter, space.width),
    "plots": lambda _, model, __, space: Page(None, list(plots.plot_lines(model.trend, space.width))),
}


_TALL, _ROOMY, _CRAMPED = 24, 20, 8  # lines of a terminal
_UNBOUNDED = 10_000  # lines of a pipe
_BODY = 0.45
"""Share of the screen that the head leaves to the body at least, if the body has so many lines."""


class Screen(Struct, frozen=True):
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
    if navigation.view not in ("help", LIST) and _is_old(model, navigation):
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
    if navigation.view == LIST or server is None:
        stale = [cut_lines(wrap(f"STALE  {trouble}", width), 1)[0] for trouble in troubles[:_MOST_TROUBLES]]
        return [title, *(Text(line, "bold red") for line in stale)]
    must = [title, *headline.verdict_block(server, troubles, width, _block_lines(height))]
    if navigation.view in ("findings", "events", "plots", "routes", "code"):
        return must
    above = height - 1 - len(must)
    room = max(1, above - min(max(int(_BODY * height), above - LEAST_HEAD), body))
    parts = headline.head_parts(server, model.trend, width)
    kept = {id(part) for part in sorted(parts, key=lambda part: part.rank)[:room]}
    rest = [part.line for part in parts if id(part) in kept]
    return must + ([Text(line.plain, "dim") for line in rest] if server.state == "down" else rest)


def _troubles(model: ScreenModel, navigation: Navigation) -> list[str]:
    """Return the troubles of the shown server's feed; in lists, of all feeds."""
    if navigation.view == LIST or navigation.server is None:
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
    elif navigation.view == LIST or server is None:
        left = f" uwsgi-headroom   {count_servers(model.entries)}   {model.where}"
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


def _state(server: ServerDocument, now: float) -> str:
    """Return the state of a server, and the age of its last reading if it is not up."""
    if server.age is None:
        return "not read yet" if server.state == "stale" else server.state
    if server.state == "up":
        return server.state
    return f"{server.state}, last read {duration(server.age + max(0.0, now - server.time))} ago"


_LIST_KEYS = ("q quit", "? help", "enter open", "/ filter", "e events", "unrwb sort", "space pause")
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
    if navigation.view == LIST:
        return _LIST_KEYS
    server = model.server
    off = {_ROUTES_KEY: not server or server.routes is None, _CODE_KEY: not server or server.code is None}
    return tuple(hint for hint in _SERVER_KEYS if not off.get(hint))


def _scope(model: ScreenModel, navigation: Navigation) -> str:
    """Return the window of the figures, and the interval between two polls."""
    often = f"every {chosen(navigation.interval)}"
    window = model.server.window if model.server and navigation.view != LIST else None
    if window is None or navigation.view in ("help", "plots"):
        return often
    young = f"{duration(window.seconds)} of " if window.seconds < 0.9 * window.asked else ""
    return f"over {young}{duration(window.asked)}, {often}"


_MOST_TROUBLES = 3

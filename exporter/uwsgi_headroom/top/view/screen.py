"""Builds the whole screen, for a terminal of any size: the head, the body, and the last line.

The head has the most informative of its lines. The last line has the filter that is being typed, a notice, or the most
useful keys and the window of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.check.tables import SORTS, age, find_field
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import ServerDocument, TextLine
from uwsgi_headroom.documents.sentences import split_request_time
from uwsgi_headroom.terminal_text import cut_lines, downsample, escape_text, sparkline, wrap
from uwsgi_headroom.top.navigation import LIST, SERVER_SORTS, Key, Navigation, ScreenModel, ServerEntry, arrange_entries
from uwsgi_headroom.top.view import pages
from uwsgi_headroom.top.view.tables import (
    Page,
    column_of,
    count_servers,
    cut_middle,
    detail_lines,
    fit_page,
    server_table,
    status_style,
    status_word,
    use_of,
    worker_page,
)
from uwsgi_headroom.words.formats import chosen
from uwsgi_headroom.words.states import STATUSES, WAITS
from uwsgi_headroom.words.template import Facts, fill

_LABEL = 13  # columns of the name of a line

_LEAST_SINCE = 60  # columns of a terminal with room for since when


_NOTHING = TextLine(code="", label="", parts=(), tone=None, rank=0)


def _list_lines(server: ServerDocument) -> tuple[TextLine, ...]:
    """The lines of a document; an exporter of an earlier version sends none."""
    return server.lines or list_lines(server)


def verdict_block(server: ServerDocument, troubles: Sequence[str], width: int, lines: int) -> list[Text]:
    """Build exactly `lines` lines, so that a changed sentence moves nothing below: reasons why the figures are not
    current, the verdict, and the advice."""
    verdict, act, *_ = (*_list_lines(server), _NOTHING)
    block = [stale_line(trouble, width) for trouble in troubles[: max(1, lines - 1)]]
    advice = wrap(act.text * (act.code == "act"), width, f"{act.label:{_LABEL}}", " " * _LABEL)
    room = max(lines - len(block) - min(len(advice), 1 + (lines > 3)), 1)
    text = verdict.text if width >= _LEAST_SINCE else verdict.parts[0]
    word = status_word(server).upper()
    block += _begin_styled(cut_lines(wrap(f"{word}  {text}", width), room), status_style(server), len(word))
    left = lines - len(block)
    if advice and left > 0:
        block += _begin_styled(cut_lines(advice, left), "bold", _LABEL)
    return [*block, *[Text()] * left][:lines]


def stale_line(trouble: str, width: int) -> Text:
    return Text(cut_lines(wrap(f"STALE  {trouble}", width), 1)[0], "bold red")


def _begin_styled(lines: Sequence[str], style: str, columns: int) -> list[Text]:
    first, *rest = map(Text, lines)
    first.stylize(style, 0, columns)
    return [first, *rest]


Part = tuple[int, Text]
"""A rank, and a line of the head: lines with a larger rank are left out first."""

_ELSEWHERE = ("verdict", "act", "unknown")
"""Lines that stand above the head, or on the page of advice."""


def head_parts(server: ServerDocument, trend: HistoryDocument, width: int) -> list[Part]:
    rows: list[Part] = []
    for line in _list_lines(server):
        if line.code in _ELSEWHERE:
            continue
        rows.append((line.rank, _with_spark(fit_line(line, width), line, server, trend, width)))
        if line.code == "time" and (bar := time_bar(server, width)):
            rows.append((8, bar))
    before = Text()
    if server.state == "down":
        before.append(f"{'workers':{_LABEL}}", "bold").append("their last figures, before the server went down:")
    return [*rows, (6, before)]


def fit_line(line: TextLine, width: int) -> Text:
    """Write as many parts of a line as fit; an ellipsis replaces the others."""
    first, *rest = map(escape_text, line.parts)
    style = STATUSES[line.tone].terminal if line.tone in ("warning", "critical") else "bold" * bool(line.label)
    fitted = Text().append(f"{line.label:{_LABEL}}", "bold")
    fitted.append(cut_middle(first, max(0, width - _LABEL)), style)
    for place, part in enumerate(rest, 1):
        is_last = place == len(rest)
        if fitted.cell_len + cell_len(part) + len(_CUT) * (not is_last) > width:
            fitted.append(_CUT).truncate(width)
            break
        fitted.append(part)
    return fitted


_CUT = " …"

_BAR_EDGE = "│"


def time_bar(server: ServerDocument, width: int) -> Text | None:
    """Draw the parts in the order of the line above, each as long as its share, with its name if that fits; None if the
    time of a request is not known."""
    time = split_request_time(server.waits, server.flow) if server.waits else None
    if time is None:
        return None
    room = max(0, width - _LABEL - len(_BAR_EDGE))
    line = Text(" " * _LABEL)
    start, so_far = 0, 0.0
    for part in time.parts:
        so_far += part.threads
        end = round(room * so_far / time.whole.threads)
        words = WAITS[part.state]
        name = _BAR_EDGE + escape_text(part.backend or words.short)
        fitting = name if cell_len(name) <= end - start else _BAR_EDGE
        line.append(set_cell_size(fitting, end - start), words.terminal)
        start = end
    return line.append(_BAR_EDGE)


_SPARK_OF, _LEAST_SPARK = 5, 5  # columns of the screen per column of a sparkline; least columns of a sparkline


def _with_spark(fitted: Text, line: TextLine, server: ServerDocument, trend: HistoryDocument, width: int) -> Text:
    available = find_field(server, "threads.available")
    factors = [None if value is None else use_of(value) for value in trend.headroom.factor]
    values, of = {
        "headroom": (factors, 1.0),
        "in_service": (trend.concurrency.observed, available),
        "response": (column_of(trend, 0.95), None),
    }.get(line.code, ([], None))
    room = min(width - fitted.cell_len - 6, width // _SPARK_OF)  # a gap of two columns, and four for the time span
    if room < _LEAST_SPARK or not any(value is not None for value in values):
        return fitted
    drawn = sparkline(downsample(values, room), of)
    span = f" {age(len(values) * trend.step)}"
    fitted.append(" " * (width - fitted.cell_len - len(drawn) - len(span)))
    return fitted.append(drawn, "cyan").append(span, "dim")


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
    Binding("space", "pause", (" ",)),
    Binding("Ctrl-Z", "suspend; uWSGI goes on", ()),
)

SERVER_SORT_LABEL = ", ".join(f"{key} {name}" for key, name in SERVER_SORTS.items())
WORKER_SORT_LABEL = ", ".join(f"{key} {name}" for key, name in SORTS.items())

_KEYS = 12  # columns of the keys themselves
_ENTRY = _KEYS + 24  # columns of one entry

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
    """List keys in as many columns as fit, then sorting, then the columns of the tables."""
    across = max(1, width // _ENTRY)
    down = -(-len(BINDINGS) // across)
    lines = []
    for row in range(down):
        line = Text()
        for binding in BINDINGS[row::down]:
            line.append(f"{binding.label:{_KEYS}}", "bold").append(f"{binding.meaning:{_ENTRY - _KEYS}}")
        line.rstrip()
        lines.append(line)
    lines += _entry("Sort servers", SERVER_SORT_LABEL, width)
    lines += _entry("Sort workers", WORKER_SORT_LABEL, width)
    for term, meaning in _GLOSSARY:
        lines += _entry(term, meaning, width)
    return lines


def _entry(term: str, meaning: str, width: int) -> list[Text]:
    first, rest = f"{term:{_KEYS}} ", " " * (_KEYS + 1)
    lines = [Text(line) for line in wrap(meaning, width, first, rest)]
    lines[0].stylize("bold", 0, len(term))
    return lines


LEAST_HEAD = 6  # lines below the verdict that workers do not push out
_DETAILED = 15  # least lines of a body with room for the verdict of the selected server


class Scene(NamedTuple):
    """What is drawn, and the space for it. lines: about how many the body has, 0 for as many as there are; now: epoch
    seconds."""

    model: ScreenModel
    navigation: Navigation
    width: int
    lines: int
    now: float


def build_body(scene: Scene) -> Page:
    model, navigation, width, *_ = scene
    server = model.server
    if navigation.view == "help":
        return Page([], help_lines(width))
    if navigation.view == LIST:
        return _servers(scene)
    if server is None:
        return Page([], [Text("Waiting for the server's document.")])
    if navigation.view in _SERVER_PAGES:
        return _SERVER_PAGES[navigation.view](server, scene)
    lines: Iterable[Text] = ()
    if server.emperor:
        lines = pages.emperor_lines(server.emperor, width)
    elif server.router:
        lines = pages.router_lines(server.router, width)
    elif navigation.view == "threads":
        lines = pages.thread_lines(server, navigation.sort, width)
    elif server.workers:
        return worker_page(server, navigation.sort, width, navigation.column, navigation.row_filter)
    title, *rows = lines or [Text()]
    return Page([title], rows)


def list_keys(model: ScreenModel, navigation: Navigation) -> list[Key]:
    return [entry.key for entry in _entries(model, navigation)]


def _entries(model: ScreenModel, navigation: Navigation) -> list[ServerEntry]:
    return arrange_entries(model.entries, navigation.fleet_filter, navigation.fleet_sort)


def _servers(scene: Scene) -> Page:
    model, navigation, width, lines, now = scene
    table = server_table(model, _entries(model, navigation), navigation.server, width, now)
    return replace(table, detail=detail_lines(model.entries, navigation.server, width) if lines >= _DETAILED else ())


_SERVER_PAGES: Mapping[str, Callable[[ServerDocument, Scene], Page]] = {
    "findings": lambda server, scene: Page([], list(pages.finding_lines(server, scene.width))),
    "events": lambda server, scene: pages.event_page(
        server.events, scene.navigation.row_filter, scene.width, scene.now
    ),
    "routes": lambda server, scene: pages.route_page(server, scene.navigation.row_filter, scene.width),
    "code": lambda server, scene: pages.code_page(server, scene.navigation.row_filter, scene.width),
    "plots": lambda _, scene: Page([], list(pages.plot_lines(scene.model.trend, scene.width))),
}


_BLOCK = ((24, 4), (20, 3), (8, 2), (0, 1))
"""The least lines of a terminal, and the lines for the verdict and the advice then."""

_UNBOUNDED = 10_000  # lines of a pipe
_BODY = 0.45
"""Share of the screen that the head leaves to the body at least, if the body has so many lines."""


class Screen(NamedTuple):
    """Lines, the first row, and the first scrolled column in view."""

    lines: list[Text]
    first: int = 0
    column: int = 0


def draw(model: ScreenModel, navigation: Navigation, width: int, height: int, now: float) -> Screen:
    """Build exactly `height` lines, none wider than `width`. now: epoch seconds."""
    scene = Scene(model, navigation, width, height - 2 - _block_lines(height), now)
    above, first, column = _draw_above_foot(scene, height)
    lines = above[: height - 1] + [Text()] * (height - 1 - len(above))
    lines = [*lines, foot_line(model, navigation, width)][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Screen(lines, first, column)


def draw_plain(model: ScreenModel, navigation: Navigation, width: int, now: float) -> list[Text]:
    """Build all lines, for a pipe: no line of keys, and no limit of height."""
    lines = _draw_above_foot(Scene(model, navigation, width, 0, now), _UNBOUNDED).lines
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _draw_above_foot(scene: Scene, height: int) -> Screen:
    model, navigation, *_ = scene
    body = build_body(scene)
    head = _head(scene, height, body.height)
    in_view, first = fit_page(body, navigation.first, max(0, height - len(head) - 1))
    if navigation.view not in ("help", LIST) and _is_old(model, navigation):
        in_view = [Text(line.plain, "dim") for line in in_view]
    return Screen([*head, *in_view], first, body.column)


def _block_lines(height: int) -> int:
    return next(lines for least, lines in _BLOCK if height >= least)


def _head(scene: Scene, height: int, body: int) -> list[Text]:
    model, navigation, width, _, now = scene
    title = _title(model, navigation, width, now)
    troubles, server = _troubles(model, navigation), model.server
    if navigation.view == "help":
        return [title]
    if navigation.view == LIST or server is None:
        return [title, *(stale_line(trouble, width) for trouble in troubles[:_MOST_TROUBLES])]
    must = [title, *verdict_block(server, troubles, width, _block_lines(height))]
    if navigation.view in _SERVER_PAGES:
        return must
    above = height - 1 - len(must)
    room = max(1, above - min(max(int(_BODY * height), above - LEAST_HEAD), body))
    parts = head_parts(server, model.trend, width)
    kept = sorted(range(len(parts)), key=lambda place: parts[place][0])[:room]
    rest = [parts[place][1] for place in sorted(kept)]
    if server.state == "down":
        rest = [Text(line.plain, "dim") for line in rest]
    return must + rest


_MOST_TROUBLES = 3


def _troubles(model: ScreenModel, navigation: Navigation) -> list[str]:
    """The troubles of the shown server's feed; in lists, of all."""
    if navigation.view == LIST or navigation.server is None:
        return list(model.troubles.values())
    return [trouble for place, trouble in model.troubles.items() if place == navigation.server[0]]


def _is_old(model: ScreenModel, navigation: Navigation) -> bool:
    return bool(_troubles(model, navigation)) or (model.server is not None and model.server.state != "up")


def _title(model: ScreenModel, navigation: Navigation, width: int, now: float) -> Text:
    server = model.server
    right = f"{'PAUSED  ' * navigation.paused}{time.strftime('%H:%M:%S %Z', time.localtime(now))} "
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
        style += " red" * (server.state != "up")
    line = Text(left)
    line.truncate(max(0, width - len(right) - 1), overflow="ellipsis", pad=True)
    line.append(" " + right)
    line.stylize(style)
    return line


def _state(server: ServerDocument, now: float) -> str:
    if server.state == "up":
        return server.state
    age = None if server.age is None else server.age + max(0.0, now - server.time)
    facts: Facts = {"state": server.state, "age": age, "new": age is None and server.state == "stale"}
    return fill("[not new? {state}][new? not read yet][age? , last read {age:duration} ago]", facts)


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
    """Build the last line; hints that do not fit are left out."""
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


def _hints(model: ScreenModel, navigation: Navigation) -> Iterable[str]:
    if navigation.view == "help":
        return ("q quit", "esc back")
    if navigation.view == LIST:
        return _LIST_KEYS
    known = {_ROUTES_KEY: "routes", _CODE_KEY: "code"}
    return (hint for hint in _SERVER_KEYS if hint not in known or find_field(model.server, known[hint]) is not None)


def _scope(model: ScreenModel, navigation: Navigation) -> str:
    window = find_field(model.server, "window")
    if window is None or navigation.view in ("help", "plots", LIST):
        return f"every {chosen(navigation.interval)}"
    facts: Facts = {"seconds": window.seconds, "asked": window.asked, "young": window.seconds < 0.9 * window.asked}
    facts["often"] = navigation.interval
    return fill("over [young? {seconds:duration} of ]{asked:duration}, every {often:chosen}", facts)

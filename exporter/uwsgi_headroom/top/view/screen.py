"""The whole screen: lines for a terminal of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.text import Text

from uwsgi_headroom.analysis.formatting import duration
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.top.model import ScreenModel
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view import headline, help_page, pages, server_table, worker_table

_SERVER_KEYS = ("q quit", "? help", "e advice", "t threads", "srwibm sort", "[ ] window", "p pause", "tab next")
_LIST_KEYS = ("q quit", "? help", "enter look at it", "j k choose")
_MOST_TROUBLES = 3
_ADVICE = 4, 2  # lines that it may take where there is room, and where there is not
_BODY = 0.45
"""The part of the screen that the head leaves to the body, if that has as many lines."""


def draw(model: ScreenModel, navigation: Navigation, width: int, height: int, now: float) -> list[Text]:
    """At most `height` lines, none wider than `width`. now: epoch seconds."""
    body = list(_body(model, navigation, width, now))
    head = _head(model, navigation, width, height, len(body), now)
    foot = _foot(model, navigation, width)
    room = max(0, height - len(head) - 1)
    in_view = _scroll(body, navigation, room)
    if _is_old(model, navigation) and navigation.view not in ("help", "servers"):
        in_view = [Text(line.plain, "dim") for line in in_view]
    lines = [*head, *in_view][: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    return [_fit(line, width) for line in [*lines, foot][:height]]


def draw_plain(model: ScreenModel, navigation: Navigation, width: int, now: float) -> list[Text]:
    """All there is, for a printer or a pipe: no bars of keys, nothing cut off below."""
    lines = draw(model, navigation, width, 10_000, now)[:-1]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _head(model: ScreenModel, navigation: Navigation, width: int, height: int, body: int, now: float) -> list[Text]:
    """As many of its lines as leave the body its room, the most telling."""
    must = [_title(model, navigation, width, now)]
    for trouble in _troubles(model, navigation)[:_MOST_TROUBLES]:
        must += [Text(line, "bold red") for line in headline.cut_lines(wrap(f"STALE  {trouble}", width), 2)]
    server = model.server
    if navigation.view == "servers":
        chosen = next((entry.summary for entry in model.entries if entry.key == navigation.server), None)
        return must + (headline.verdict_lines(chosen, width, 3 if height >= 20 else 2) if chosen else []) + [Text()]
    if navigation.view == "help" or server is None:
        return must
    must += headline.verdict_lines(server, width, 3 if height >= 20 else 2)
    if navigation.view == "findings":
        return [*must, Text()]
    room = max(1, height - 1 - len(must) - min(int(_BODY * height), body))
    rest = headline.head_parts(server, model.trend, width, _ADVICE[0])
    if len(rest) > room:
        rest = headline.head_parts(server, model.trend, width, _ADVICE[1])
    kept = {id(part) for part in sorted(rest, key=lambda part: part.rank)[:room]}
    return must + [part.line for part in rest if id(part) in kept]


def _troubles(model: ScreenModel, navigation: Navigation) -> list[str]:
    """Of the feed whose server is looked at; in the list, of all."""
    if navigation.view == "servers" or navigation.server is None:
        return list(model.troubles.values())
    return [trouble for place, trouble in model.troubles.items() if place == navigation.server[0]]


def _is_old(model: ScreenModel, navigation: Navigation) -> bool:
    return bool(_troubles(model, navigation)) or (model.server is not None and model.server.state != "up")


def _title(model: ScreenModel, navigation: Navigation, width: int, now: float) -> Text:
    server = model.server
    right = f"{'PAUSED  ' if navigation.paused else ''}{time.strftime('%H:%M:%S', time.localtime(now))} "
    if navigation.view == "servers" or server is None:
        left = f" uwsgi-headroom   {server_table.count_servers(model.entries)}   {model.where}"
    else:
        keys = [entry.key for entry in model.entries]
        place = (
            f"{keys.index(navigation.server) + 1}/{len(keys)}  " if navigation.server in keys and len(keys) > 1 else ""
        )
        right = place + right
        left = f" {server.name}   {_state(server, now)}   uWSGI {server.version or '?'}   {server.address}"
    line = Text(left)
    line.truncate(max(0, width - len(right) - 1), overflow="ellipsis", pad=True)
    line.append(" " + right)
    line.stylize("reverse bold" if server is None or server.state == "up" else "reverse bold red")
    return line


def _state(server: Server, now: float) -> str:
    """Up, or how old what is shown is."""
    if server.age is None:
        return "not read yet" if server.state == "stale" else server.state
    if server.state == "up":
        return server.state
    return f"{server.state}, as it was {duration(server.age + max(0.0, now - server.time))} ago"


def _body(model: ScreenModel, navigation: Navigation, width: int, now: float) -> Iterator[Text]:
    server = model.server
    if navigation.view == "help":
        yield from help_page.help_lines()
    elif navigation.view == "servers":
        yield from server_table.server_table(model, navigation.server, width, now)
    elif server is None:
        yield Text("no server is looked at")
    elif navigation.view == "findings":
        yield from pages.finding_lines(server, width)
    elif server.emperor:
        yield from pages.emperor_lines(server.emperor, width)
    elif server.router:
        yield from pages.router_lines(server.router, width)
    elif navigation.view == "threads":
        yield from pages.thread_lines(server, navigation.sort, navigation.reverse, width)
    elif server.workers:
        yield from worker_table.worker_table(server, navigation.sort, navigation.reverse, width)


def _scroll(body: list[Text], navigation: Navigation, room: int) -> list[Text]:
    """What of it is in view; a title stays."""
    if navigation.view == "servers":
        chosen = next((place for place, line in enumerate(body) if line.plain.startswith(">")), 0)
        first = max(0, chosen - room + 1)
    else:
        first = min(navigation.first, max(0, len(body) - room))
    if navigation.view in ("findings", "help"):
        return body[first : first + room]
    return [*body[:1], *body[1 + first : first + room]] if room else []


def _foot(model: ScreenModel, navigation: Navigation, width: int) -> Text:
    if model.notice:
        return Text(model.notice, "reverse")
    window = model.server.window if model.server and navigation.view != "servers" else None
    right = f"every {navigation.interval:g} s"
    if window:
        young = f"{window.seconds:.0f} of " if window.seconds < 0.9 * window.asked else ""
        right = f"over {young}{duration(window.asked)}, {right}"
    hints = ""
    for hint in _LIST_KEYS if navigation.view == "servers" else _SERVER_KEYS:
        if len(hints) + len(hint) + len(right) + 2 > width:
            break
        hints += f"{hint}  "
    return Text(f"{hints:{max(0, width - len(right))}}", "dim").append(right)


def _fit(line: Text, width: int) -> Text:
    line.truncate(width)
    return line

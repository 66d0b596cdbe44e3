"""The whole screen: lines for a terminal of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.text import Text

from uwsgi_headroom.analysis.findings.words import duration
from uwsgi_headroom.api.documents import Server
from uwsgi_headroom.layout import wrap
from uwsgi_headroom.top import headline, help, pages, servers, workers  # noqa: A004 - the page of that name
from uwsgi_headroom.top.looking import Looking
from uwsgi_headroom.top.seen import Seen

_SERVER_KEYS = "q quit  ? help  e advice  t threads  s r w i b m sort  [ ] window  tab next"
_LIST_KEYS = "q quit  ? help  enter look at  up down choose"
_LEAST_BODY = 6  # lines that the head leaves to the body, if there are as many


def draw(seen: Seen, looking: Looking, width: int, height: int, now: float) -> list[Text]:
    """At most `height` lines, none wider than `width`. now: epoch seconds."""
    body = list(_body(seen, looking, width))
    head = _head(seen, looking, width, height, len(body), now)
    foot = _foot(seen, looking, width)
    room = max(0, height - len(head) - 1)
    lines = [*head, *_scrolled(body, looking, room)][: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    return [_fitted(line, width) for line in [*lines, foot][:height]]


def plain(seen: Seen, looking: Looking, width: int, now: float) -> list[Text]:
    """All there is, for a printer or a pipe: no bars of keys, nothing cut off below."""
    lines = draw(seen, looking, width, 10_000, now)[:-1]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _head(seen: Seen, looking: Looking, width: int, height: int, body: int, now: float) -> list[Text]:
    """Of its lines, given the most important first, as many as leave the body its room."""
    must = [_title(seen, looking, width, now)]
    if seen.trouble:
        must += [Text(line, "bold red") for line in headline.cut(wrap(f"STALE  {seen.trouble}", width), 2)]
    server = seen.server
    if looking.view in ("servers", "help") or server is None:
        return must
    must += headline.verdict(server, width, 3 if height >= 20 else 2)
    if looking.view == "findings":
        return [*must, Text()]
    lines = list(headline.figures(server, seen.trend, width))
    advice = headline.change(server, width, 4 if height >= 40 else 2)
    # What to change comes next to what it is about, before the figures it can do without.
    wanted = [*lines[:1], *advice, *lines[1:], Text()]
    room = height - 1 - len(must) - min(_LEAST_BODY, body)
    return must + wanted[: max(1, room)]


def _title(seen: Seen, looking: Looking, width: int, now: float) -> Text:
    server = seen.server
    right = f"{'PAUSED  ' if looking.paused else ''}{time.strftime('%H:%M:%S', time.localtime(now))} "
    if looking.view == "servers" or server is None:
        left = f" uwsgi-headroom   {len(seen.entries)} server{'' if len(seen.entries) == 1 else 's'}   {seen.where}"
    else:
        keys = [it.key for it in seen.entries]
        place = f"{keys.index(looking.server) + 1}/{len(keys)}  " if looking.server in keys and len(keys) > 1 else ""
        right = place + right
        left = f" {server.name}   {_state(server, now)}   uWSGI {server.version or '?'}   {server.address}"
    line = Text(left)
    line.truncate(max(0, width - len(right) - 1), overflow="ellipsis", pad=True)
    line.append(" " + right)
    line.stylize("reverse bold" if server is None or server.state == "up" else "reverse bold red")
    return line


def _state(server: Server, now: float) -> str:
    """Up, or how old what is shown is."""
    if server.state == "up" or server.age is None:
        return server.state
    return f"{server.state}, as it was {duration(server.age + max(0.0, now - server.time))} ago"


def _body(seen: Seen, looking: Looking, width: int) -> Iterator[Text]:
    server = seen.server
    if looking.view == "help":
        yield from help.page()
    elif looking.view == "servers":
        yield from servers.table(seen.entries, looking.server, width)
    elif server is None:
        yield Text("no server is looked at")
    elif looking.view == "findings":
        yield from pages.findings(server, width)
    elif server.emperor:
        yield from pages.emperor(server.emperor, width)
    elif server.router:
        yield from pages.router(server.router, width)
    elif looking.view == "threads":
        yield from pages.threads(server, looking.sort, looking.reverse, width)
    elif server.workers:
        yield from workers.table(server, looking.sort, looking.reverse, width)


def _scrolled(body: list[Text], looking: Looking, room: int) -> list[Text]:
    """What of it is in view; a title stays."""
    if looking.view == "servers":
        chosen = next((place for place, line in enumerate(body) if line.plain.startswith(">")), 0)
        first = max(0, chosen - room + 1)
    else:
        first = min(looking.first, max(0, len(body) - room))
    if looking.view in ("findings", "help"):
        return body[first : first + room]
    return [*body[:1], *body[1 + first : first + room]] if room else []


def _foot(seen: Seen, looking: Looking, width: int) -> Text:
    if seen.notice:
        return Text(seen.notice, "reverse")
    window = seen.server.window if seen.server and looking.view != "servers" else None
    right = f"every {looking.interval:g} s"
    if window:
        right = f"{duration(window.asked)} window, {right}"
        if window.seconds < 0.9 * window.asked:
            right = f"{duration(window.seconds)} of a {right}"
    line = Text(_LIST_KEYS if looking.view == "servers" else _SERVER_KEYS, "dim")
    line.truncate(max(0, width - len(right) - 2), pad=True)
    return line.append("  ").append(right)


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width)
    return line

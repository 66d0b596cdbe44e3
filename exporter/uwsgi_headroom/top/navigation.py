"""What a person looks at, and what each key makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from uwsgi_headroom.top.view.worker_table import SORTS

View = Literal["servers", "workers", "threads", "findings", "help"]
Command = Literal["quit", "dump"]

Key = tuple[int, str]
"""A server: the place of its feed, and its name there."""

INTERVALS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
FAST = INTERVALS[0]
NORMAL = 1.0


@dataclass(frozen=True, slots=True)
class Navigation:
    """`server` is None until one is chosen; `first` is the first line shown of the list; `interval` in seconds between
    two looks; `window` in seconds, None for the feed's own."""

    view: View = "servers"
    before: View = "servers"
    server: Key | None = None
    first: int = 0
    sort: str = "share"
    reverse: bool = False
    interval: float = NORMAL
    window: float | None = None
    paused: bool = False


def handle_key(  # noqa: PLR0911 - one for each kind of key
    key: str, navigation: Navigation, servers: Sequence[Key], windows: Sequence[float]
) -> Navigation | Command:
    """What is looked at after a key. servers: those there are, as they are listed; windows: those of the server."""
    match key:
        case "q" | "Q":
            return "quit"
        case "d" | "J":
            return "dump"
        case "p" | " ":
            return replace(navigation, paused=not navigation.paused)
        case "?" | "h":
            return (
                _back(navigation)
                if navigation.view == "help"
                else replace(navigation, view="help", before=navigation.view)
            )
        case "+" | "-" | "f":
            return replace(navigation, interval=_next_interval(key, navigation.interval))
        case "[" | "]":
            return replace(navigation, window=_next_choice(navigation.window, sorted(windows), 1 if key == "]" else -1))
        case "R":
            return replace(navigation, reverse=not navigation.reverse)
        case "escape" | "backspace" | "l":
            return _back(navigation)
        case "a" | "t" | "e" | "enter" | "tab" | "right" | "left" | "v":
            return _change_view(key, navigation, servers)
    if key in SORTS and navigation.view != "servers":
        return replace(navigation, sort=SORTS[key], reverse=False, first=0, view="workers")
    return _move_selection(key, navigation, servers)


def _back(navigation: Navigation) -> Navigation:
    if navigation.view == "help":
        return replace(navigation, view=navigation.before, first=0)
    if navigation.view in ("threads", "findings"):
        return replace(navigation, view="workers", first=0)
    return replace(navigation, view="servers", first=0)


def _change_view(key: str, navigation: Navigation, servers: Sequence[Key]) -> Navigation:
    """Another page."""
    if key in ("tab", "right", "left") and servers and navigation.view != "servers":
        place = servers.index(navigation.server) if navigation.server in servers else 0
        return replace(navigation, server=servers[(place + (-1 if key == "left" else 1)) % len(servers)], first=0)
    if navigation.server is None:
        return navigation
    if navigation.view == "servers":
        views: dict[str, View] = {"enter": "workers", "right": "workers", "v": "workers"}
        return replace(navigation, view=views.get(key, navigation.view), first=0)
    views_by_key: dict[str, View] = {"a": "threads", "t": "threads", "e": "findings"}
    view = views_by_key.get(key, "workers")
    return replace(navigation, view="workers" if view == navigation.view else view, first=0)


def _move_selection(key: str, navigation: Navigation, servers: Sequence[Key]) -> Navigation:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}
    if key not in steps:
        return navigation
    if navigation.view != "servers":
        return replace(navigation, first=max(0, navigation.first + steps[key]))
    if not servers:
        return navigation
    place = servers.index(navigation.server) if navigation.server in servers else 0
    return replace(navigation, server=servers[min(len(servers) - 1, max(0, place + steps[key]))])


def _next_interval(key: str, now: float) -> float:
    if key == "f":
        return NORMAL if now == FAST else FAST
    return _next_choice(now, INTERVALS, 1 if key == "+" else -1) or NORMAL


def _next_choice(now: float | None, choice: Sequence[float], by: int) -> float | None:
    """The next one of these, in this direction."""
    if not choice:
        return now
    place = choice.index(now) if now in choice else 0
    return choice[min(len(choice) - 1, max(0, place + by))]

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
class Looking:
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


def press(  # noqa: PLR0911 - one for each kind of key
    key: str, looking: Looking, servers: Sequence[Key], windows: Sequence[float]
) -> Looking | Command:
    """What is looked at after a key. servers: those there are, as they are listed; windows: those of the server."""
    match key:
        case "q" | "Q":
            return "quit"
        case "d" | "J":
            return "dump"
        case "p" | " ":
            return replace(looking, paused=not looking.paused)
        case "?" | "h":
            return _back(looking) if looking.view == "help" else replace(looking, view="help", before=looking.view)
        case "+" | "-" | "f":
            return replace(looking, interval=_interval(key, looking.interval))
        case "[" | "]":
            return replace(looking, window=_step(looking.window, sorted(windows), 1 if key == "]" else -1))
        case "R":
            return replace(looking, reverse=not looking.reverse)
        case "escape" | "backspace" | "l":
            return _back(looking)
        case "a" | "t" | "e" | "enter" | "tab" | "right" | "left" | "v":
            return _turn(key, looking, servers)
    if key in SORTS and looking.view != "servers":
        return replace(looking, sort=SORTS[key], reverse=False, first=0, view="workers")
    return _move(key, looking, servers)


def _back(looking: Looking) -> Looking:
    if looking.view == "help":
        return replace(looking, view=looking.before, first=0)
    if looking.view in ("threads", "findings"):
        return replace(looking, view="workers", first=0)
    return replace(looking, view="servers", first=0)


def _turn(key: str, looking: Looking, servers: Sequence[Key]) -> Looking:
    """Another page."""
    if key in ("tab", "right", "left") and servers and looking.view != "servers":
        place = servers.index(looking.server) if looking.server in servers else 0
        return replace(looking, server=servers[(place + (-1 if key == "left" else 1)) % len(servers)], first=0)
    if looking.server is None:
        return looking
    if looking.view == "servers":
        views: dict[str, View] = {"enter": "workers", "right": "workers", "v": "workers"}
        return replace(looking, view=views.get(key, looking.view), first=0)
    wanted: dict[str, View] = {"a": "threads", "t": "threads", "e": "findings"}
    view = wanted.get(key, "workers")
    return replace(looking, view="workers" if view == looking.view else view, first=0)


def _move(key: str, looking: Looking, servers: Sequence[Key]) -> Looking:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}
    if key not in steps:
        return looking
    if looking.view != "servers":
        return replace(looking, first=max(0, looking.first + steps[key]))
    if not servers:
        return looking
    place = servers.index(looking.server) if looking.server in servers else 0
    return replace(looking, server=servers[min(len(servers) - 1, max(0, place + steps[key]))])


def _interval(key: str, now: float) -> float:
    if key == "f":
        return NORMAL if now == FAST else FAST
    return _step(now, INTERVALS, 1 if key == "+" else -1) or NORMAL


def _step(now: float | None, choice: Sequence[float], by: int) -> float | None:
    """The next one of these, in this direction."""
    if not choice:
        return now
    place = choice.index(now) if now in choice else 0
    return choice[min(len(choice) - 1, max(0, place + by))]

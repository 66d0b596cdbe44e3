"""Builds the help: the keys and what they do, how tables are sorted, and what their columns mean."""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text

from uwsgi_headroom.terminal_text import wrap


class Binding(NamedTuple):
    """Keys with the same meaning."""

    label: str
    """The keys as the help shows them."""

    meaning: str
    keys: tuple[str, ...]
    """The keys as `handle_key` takes them."""


BINDINGS = (
    Binding("q F10", "quit", ("q", "f10")),
    Binding("? h F1", "this help", ("?", "h", "f1")),
    Binding("up down j k", "select, scroll", ("up", "down", "j", "k")),
    Binding("PgUp PgDn", "ten lines", ("pageup", "pagedown")),
    Binding("Home End", "first, last", ("home", "end")),
    Binding("enter", "open the server", ("enter",)),
    Binding("esc", "go back one step", ("escape", "backspace")),
    Binding("l", "list of servers", ("l",)),
    Binding("v F5", "tree: emperors, vassals", ("v", "f5")),
    Binding("tab S-tab", "next, previous server", ("tab", "backtab")),
    Binding("left right", "more columns", ("left", "right")),
    Binding("/ F4", "filter rows", ("/", "f4")),
    Binding("a", "advice: all findings", ("a",)),
    Binding("e", "events", ("e",)),
    Binding("p", "plots over time", ("p",)),
    Binding("t", "threads", ("t",)),
    Binding("P", "routes: paths of requests", ("P",)),
    Binding("C", "code: lines of your program", ("C",)),
    Binding("[ ]", "shorter, longer window", ("[", "]")),
    Binding("+ - f", "slower, faster, 4 per s", ("+", "-", "f")),
    Binding("space", "pause", ("space", " ")),
    Binding("d J", "write JSON to a file", ("d", "J")),
    Binding("R", "reverse the order", ("R",)),
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
    ("CPU%", "of one CPU; LOCK: threads that wait for the worker's interpreter"),
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

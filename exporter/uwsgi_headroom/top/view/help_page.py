"""Builds the help: the keys, and the columns of the tables."""

from __future__ import annotations

from rich.text import Text

from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.top.bindings import BINDINGS, SERVER_SORT_LABEL, WORKER_SORT_LABEL

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

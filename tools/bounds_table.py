"""Generates `docs/bounds.md`: every bound of the exporter with its reason, from the modules that define them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "bounds.md"

MODULES = {
    "A stats document": "uwsgi_headroom.stats.bounds",
    "Routes": "uwsgi_headroom.routes.bounds",
    "Reading": "uwsgi_headroom.watch.pace",
    "When a server counts as up": "uwsgi_headroom.watch.watch",
    "Servers that patterns find": "uwsgi_headroom.watch.globbed",
    "Probes": "uwsgi_headroom.watch.probed",
    "The history file": "uwsgi_headroom.store.writer",
    "Names in the history file": "uwsgi_headroom.store.database",
    "The HTTP face": "uwsgi_headroom.web.bounds",
    "Checks of passwords": "uwsgi_headroom.web.security.login",
    "Logins that wait": "uwsgi_headroom.web.security.passwords",
    "Logins that are remembered": "uwsgi_headroom.web.security.login",
    "Clients with wrong passwords": "uwsgi_headroom.web.security.login",
}

HEAD = """\
# Bounds

What the exporter takes at most from a stats server, a client and a configuration, so that none of them can take its
memory, its CPU or its connections from the others. A document over a bound is refused as `too_large`: `uwsgi_up` is 0,
and `uwsgi_exporter_read_errors_total{reason="too_large"}` counts it. A document may have `size_cap` bytes (6 MB unless
set) and must have come within `timeout` (5 s unless set). This page is generated (`make generate`) from the modules
that keep the bounds.
"""


def page() -> str:
    """Returns the whole page."""
    return "\n".join([HEAD, *(_section(title, module) for title, module in MODULES.items())])


def _section(title: str, module: str) -> str:
    rows = [f"| {name} | {value} | {reason} |\n" for name, value, reason in _bounds(module)]
    return f"## {title}\n\n`{module}`\n\n| bound | value | why |\n|---|---|---|\n{''.join(rows)}"


def _bounds(module: str) -> Iterator[tuple[str, str, str]]:
    """Yields the name, value and reason of each constant of a module, and of each entry of its dictionaries."""
    imported = import_module(module)
    text = Path(str(imported.__file__)).read_text()
    body = ast.parse(text).body
    for place, node in enumerate(body):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if not isinstance(target, ast.Name) or not target.id.isupper() or target.id.startswith("_"):
            continue
        value = getattr(imported, target.id)
        if isinstance(value, dict):
            comments = dict(re.findall(r'^ +"(.+)": .*?,(?:  # (.*))?$', text, re.MULTILINE))
            yield from ((name, f"{most:,}", comments[name]) for name, most in value.items())
        elif isinstance(value, (int, float, tuple)):
            reason = _reason(body[place + 1 : place + 2])
            if reason:  # a constant without a reason is not a bound
                yield f"`{target.id}`", _shown(value), reason


def _shown(value: float | tuple[float, ...]) -> str:
    return " to ".join(map(_shown, value)) if isinstance(value, tuple) else f"{value:,}"


def _reason(after: list[ast.stmt]) -> str:
    if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
        return " ".join(str(after[0].value.value).split())
    return ""

"""The documents captured from real uWSGI, by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.environments import ROOT

_FOLDER = ROOT / "tests" / "fixtures"

NAMES: tuple[str, ...] = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""Every captured document."""

_REQUEST_VARIABLES = re.compile(rb'"vars":\[\s*(.*?)\],\s*"req_info"', re.DOTALL)
_WORD = re.compile(rb"[A-Za-z0-9_]{6,}")


def document(name: str) -> bytes:
    """The bytes that uWSGI wrote, by the name of the file without its extension."""
    return (_FOLDER / f"{name}.json").read_bytes()


def kind(name: str) -> str:
    """The kind of a document, from its name: captures of emperors and routers are named after their kind."""
    return "emperor" if "emperor" in name else "router" if name.startswith("router_") else "server"


def words_of_requests(name: str) -> set[str]:
    """Words of six letters and more that occur in a document's request variables and nowhere else in it."""
    body = document(name)
    variables = b"".join(_REQUEST_VARIABLES.findall(body))
    rest = _REQUEST_VARIABLES.sub(b"", body)
    return {word.decode() for word in set(_WORD.findall(variables)) - set(_WORD.findall(rest))}


_VALID = [name for name in NAMES if not name.startswith("hostile_") and not name.endswith("_invalid_json")]
_NUMBERS = [0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**400]
_OTHERS: list[Any] = [1.5, 1e308, True, None, "", "\ud800", "x", [], {}, [[]], [{}]]


def _places(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields every place of a document once (path, container, key); the entries of a list count as one place."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        name = f"{path}.{key if isinstance(value, dict) else '*'}"
        yield name, value, key
        yield from _places(inner, name)


def with_a_wrong_value() -> Iterator[bytes]:
    """Yields every captured document with one value at a time replaced by one that uWSGI never writes there."""
    done: set[str] = set()
    for name in _VALID:
        tree = json.loads(document(name))
        for path, container, key in list(_places(tree)):
            if path in done:
                continue
            done.add(path)
            true = container[key]
            for wrong in [*_NUMBERS, *_OTHERS]:
                container[key] = wrong
                yield json.dumps(tree).encode()
            container[key] = true

"""The documents captured from real uWSGI, by name."""

import json
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tools.environments import ROOT

_FOLDER = ROOT / "tests" / "fixtures"
JOINED = _FOLDER / "documents.json"
"""An object with a document on each line, by its name: minified. A document that is no JSON has a file of its own."""


def read_documents() -> dict[str, bytes]:
    """Every captured document by its name."""
    lines = JOINED.read_bytes()[len(b"{\n") : -len(b"\n}\n")].split(b",\n")
    apart = {path.stem: path.read_bytes() for path in _FOLDER.glob("*.json") if path != JOINED}
    return {name.decode().strip('"'): body for name, _, body in (line.partition(b": ") for line in lines)} | apart


_DOCUMENTS = read_documents()
_COPIES = tempfile.TemporaryDirectory(prefix="headroom-documents-")

NAMES: tuple[str, ...] = tuple(sorted(_DOCUMENTS))
"""Every captured document."""

_REQUEST_VARIABLES = re.compile(rb'"vars":\[\s*(.*?)\],\s*"req_info"', re.DOTALL)
_WORD = re.compile(rb"[A-Za-z0-9_]{6,}")


def document(name: str) -> bytes:
    """What uWSGI wrote, by the name of the capture."""
    return _DOCUMENTS[name]


@cache
def path(name: str) -> Path:
    """A file with a document, which lasts as long as this process."""
    file = Path(_COPIES.name, f"{name}.json")
    file.write_bytes(document(name))
    return file


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

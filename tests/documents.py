"""The documents captured from real uWSGI, by name."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).with_name("fixtures")

NAMES: tuple[str, ...] = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""Every captured document."""

_REQUEST_VARIABLES = re.compile(rb'"vars":\[\s*(.*?)\],\s*"req_info"', re.DOTALL)
_WORD = re.compile(rb"[A-Za-z0-9_]{6,}")


def document(name: str) -> bytes:
    """The bytes uWSGI wrote, by the name of the file without its ending."""
    return (_FOLDER / f"{name}.json").read_bytes()


def kind(name: str) -> str:
    """What a document is, as its name says: every capture of an emperor or a router is named after it."""
    return "emperor" if "emperor" in name else "router" if name.startswith("router_") else "server"


def words_of_requests(name: str) -> set[str]:
    """Words of six letters and more that stand in a document's request variables and nowhere else in it."""
    body = document(name)
    variables = b"".join(_REQUEST_VARIABLES.findall(body))
    rest = _REQUEST_VARIABLES.sub(b"", body)
    return {word.decode() for word in set(_WORD.findall(variables)) - set(_WORD.findall(rest))}

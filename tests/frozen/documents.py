"""Whole documents of a dozen frozen windows: those that together have most of the keys and the kinds of lines."""

import json
from typing import Any

import msgspec

from tests.frozen.form import encode
from tests.frozen.judgement import HERE, judge_all, read_lines
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server

DOCUMENTS = HERE / "documents.jsonl"

MOST = 12


def build(name: str) -> dict[str, Any]:
    """The document of a server with the figures of this window. What no figure says is that of a simulated server."""
    figures, _ = judge_all()[name]
    scripted = ScriptedWatch(name).read(Server(len(figures.server.workers), 1).read(1.0))
    scripted.watch.figures = lambda _reading, _windows: [figures]
    return encode(json.loads(msgspec.json.encode(scripted.document())))


def find_features(value: Any, path: str = "") -> set[str]:
    """The keys that have a value, and the lines by their code and tone."""
    if isinstance(value, dict):
        code = f"{path} {value['code']} {value.get('tone')}" if "code" in value else path
        return {code}.union(*(find_features(each, f"{path}.{key}") for key, each in value.items()))
    if isinstance(value, list):
        return set().union(*(find_features(each, path) for each in value))
    return set() if value in (None, False, 0, "") else {path}


def write() -> None:
    """Writes anew the documents of the windows that are there; of those with most features, if there are none."""
    chosen = [line["name"] for line in read_lines(DOCUMENTS)] if DOCUMENTS.exists() else choose()
    lines = (json.dumps({"name": name, "document": build(name)}, separators=(",", ":")) for name in chosen)
    DOCUMENTS.write_text("".join(f"{line}\n" for line in lines))


def choose() -> list[str]:
    """The windows whose documents, each after the others, show the most that is new."""
    left = {name: find_features(build(name)) for name, (figures, _) in judge_all().items() if figures.server.workers}
    chosen: list[str] = []
    while len(chosen) < MOST:
        name = max(left, key=lambda name: len(left[name]))
        shown = left[name]
        chosen.append(name)
        left = {name: features - shown for name, features in left.items()}
    return chosen

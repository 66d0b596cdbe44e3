"""Stories of documents: a captured one that goes on as uWSGI's would, with something wrong in it every now and then.

Structure-aware: what is changed is a value, a key or a list of the document, and most of what comes out is JSON.
"""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.support.captured_documents import NAMES, document

DUPLICATE = "\u2063again"
"""Marks a key that stands in the document twice; it is taken off the text."""

NUMBERS = [0, 1, -1, -7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 60_000_000, 10**30, 10**400, 1.5, -0.0]
TEXTS = [
    "", " ", "x", "\0", "\0:80", "a:99999999", ":" + "9" * 300, "\x1b]0;t\x07", "a\nb", "a\r", "\u202eevil", "\ud800",
    "x\udc80y", "\U0001f984", '"', "\\", "{}", "{" * 50, "# HELP x", "n" * 255, "n" * 256, "n" * 5000, "core.x", "#2",
    "@abstract", "\\0name", "[::1]:3031", "localhost:3031", "sig17", "busy", "cheap", "thunder", "é", "é",
]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [{}], {"a": 1}, [0] * 40, "3"]
BYTES = [b"\x01", b"\xff", b"\xc3", b"\x00", b"\\ud800", b"\\0", b",", b"}", b"NaN", b"\xe2\x80\xae"]

_TREES = {
    name: json.loads(document(name).decode("utf-8", "replace"), strict=False)
    for name in NAMES
    if not name.endswith("_invalid_json") and not name.startswith("hostile_everything")
}


def tell_story(random: Random, documents: int) -> Iterator[bytes]:
    """So many documents of one server, as it goes on and as it goes wrong."""
    tree = copy.deepcopy(_TREES[random.choice(sorted(_TREES))])
    for _ in range(documents):
        _go_on(random, tree)
        if random.random() < 0.1:
            tree = copy.deepcopy(_TREES[random.choice(sorted(_TREES))])
        shown = tree
        if random.random() < 0.75:
            shown = tree if random.random() < 0.3 else copy.deepcopy(tree)
            for _ in range(random.randint(1, 4)):
                _change(random, shown)
        body = json.dumps(shown, ensure_ascii=random.random() < 0.3).replace(DUPLICATE, "").replace("\\u2063again", "")
        yield _damage(random, body.encode("utf-8", "surrogatepass"))


def _go_on(random: Random, tree: Any) -> None:
    """What happens between two documents: requests, respawns, a reload, workers more or fewer."""
    workers = tree.get("workers") if isinstance(tree, dict) else None
    if not isinstance(workers, list):
        return
    for worker in workers:
        if isinstance(worker, dict):
            cores = worker.get("cores")
            for holder in [worker, *(cores if isinstance(cores, list) else [])]:
                if isinstance(holder, dict):
                    _count(random, holder)
    chance = random.random()
    if chance < 0.05 and workers:
        del workers[random.randrange(len(workers))]
    elif chance < 0.1 and workers:
        workers.append(copy.deepcopy(random.choice(workers)))
    elif chance < 0.15:
        _scale(workers, random.choice([0, 0.5, 1.5]))


def _count(random: Random, holder: dict[str, Any]) -> None:
    for key in ("requests", "running_time", "exceptions", "tx", "respawn_count", "static_requests"):
        if isinstance(holder.get(key), int) and random.random() < 0.3:
            holder[key] += random.choice([1, 2, 1000, 10**6])
    if isinstance(holder.get("in_request"), int) and random.random() < 0.3:
        holder["in_request"] = random.randint(0, 1)
        holder["req_info"] = {"request_start": random.choice([1_700_000_000, 0, 2**40])} if holder["in_request"] else {}


def _scale(value: Any, by: float) -> None:
    """All numbers in it, so that counters go back or leap."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        if isinstance(inner, int) and not isinstance(inner, bool) and abs(inner) < 2**60:
            value[key] = int(inner * by)
        else:
            _scale(inner, by)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _change(random: Random, tree: Any) -> None:
    """One thing, anywhere; places near the top as likely as the many in the cores of workers."""
    places = list(_places(tree))
    if not places:
        return
    near = [place for place in places if not (isinstance(place[0], dict) and "in_request" in place[0])]
    container, key = random.choice(near if near and random.random() < 0.7 else places)
    value = container[key]
    kind = random.randrange(9)
    if kind == 0:
        container[key] = random.choice(NUMBERS)
    elif kind == 1:
        container[key] = random.choice(TEXTS) if isinstance(value, str) or random.random() < 0.2 else value
    elif kind == 2:
        container[key] = copy.deepcopy(random.choice(OTHERS))
    elif kind == 3:
        del container[key]
    elif kind == 4 and isinstance(value, list) and value:
        container[key] = [*value, *(copy.deepcopy(random.choice(value)) for _ in range(random.choice([1, 3, 300])))]
    elif kind == 5 and isinstance(container, dict):
        container[f"{key}{DUPLICATE}"] = random.choice([value, random.choice(NUMBERS), random.choice(TEXTS)])
    elif kind == 6 and isinstance(container, dict):
        container[random.choice(TEXTS)] = copy.deepcopy(value)
    elif kind == 7:
        _scale(container, random.choice([-1, 0, 0.5, 2, 1000]))
    elif isinstance(value, int):
        container[key] = random.choice([-value, value + 1, value * 1000, value - 1])


def _damage(random: Random, body: bytes) -> bytes:
    """Now and then a byte too many, a cut, or what a request's variables may hold."""
    chance = random.random()
    if chance < 0.04:
        at = random.randrange(len(body) + 1)
        return body[:at] + random.choice(BYTES) + body[at + random.randrange(2) :]
    if chance < 0.05:
        return body[: random.randrange(len(body) + 1)]
    if chance < 0.10:
        return body.replace(b'"vars": []', b'"vars": ["A=' + random.choice(BYTES[:4]) * 3 + b'", ""]', 3)
    return body

"""Hostile documents: modified captured ones, and documents that change with every read."""

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.support.captured_documents import document

GOOD = document("minified")
EMPEROR = document("emperor")
ROUTER = document("router_http_subscriptions")

_SERVER = json.loads(GOOD)

Body = Callable[[int], bytes]
"""Returns the document for a connection, by its number."""


def server(**keys: object) -> bytes:
    """The captured document of a server, with these keys replaced."""
    return json.dumps({**_SERVER, **keys}).encode()


def workers(count: int = 2, **keys: object) -> bytes:
    """A server of `count` workers, with these keys replaced."""
    first = _SERVER["workers"][0]
    return server(workers=[{**first, "id": number, **keys} for number in range(1, count + 1)])


def core(**keys: object) -> bytes:
    """A server with these keys of its threads replaced."""
    return workers(cores=[{**_SERVER["workers"][0]["cores"][0], **keys} for _ in range(2)])


def emperor(*names: str) -> bytes:
    """An emperor with vassals of these names, which are throttled, too."""
    vassals = [{"id": name, "pid": 7, "respawns": 1, "ready": 1} for name in names]
    return json.dumps({"version": "2.0.31", "pid": 1, "vassals": vassals, "blacklist": vassals}).encode()


def router(*names: str, nodes: int = 1) -> bytes:
    """A router with subscriptions of these names, `nodes` nodes each, and static nodes of these names."""
    keys = [{"key": name, "hits": 1, "nodes": [{"name": name, "requests": 1, "tx": 9}] * nodes} for name in names]
    return json.dumps(
        {"version": "2.0.31", "pid": 1, "active_sessions": 0, "subscriptions": keys,
         "static_nodes": [{"name": name, "hits": 1} for name in names]}
    ).encode()  # fmt: skip


def named_everywhere(*names: str) -> bytes:
    """A server that uses these names for parts of every kind."""
    apps = [{"id": 0, "mountpoint": name, "requests": 1, "exceptions": 1, "startup_time": 1} for name in names]
    return server(
        workers=[{**_SERVER["workers"][0], "apps": apps}],
        sockets=[{"name": name, "queue": 1, "max_queue": 9} for name in names],
        caches=[{"name": name, "hits": 1, "miss": 1, "full": 0, "items": 1, "max_items": 2} for name in names],
        spoolers=[{"dir": name, "tasks": 1, "respawns": 1, "running": 0} for name in names],
        crons=[{"command": name, "minute": number} for number, name in enumerate(names)],
        legions=[{"legion": name, "valor": 1, "members": [{"name": name, "last_seen": 1}]} for name in names],
        metrics={name: {"type": place % 2, "value": 1} for place, name in enumerate(names)},
        locks=[{name: 0} for name in names],
    )


def changing_names(make: Callable[..., bytes], count: int) -> Body:
    """`count` new names in every document."""
    return lambda number: make(*(f"read {number} part {place}" for place in range(count)))


def counting(step: int, last: int = 2**63 - 1) -> Body:
    """Counters of the workers that grow by `step` with every read, and wrap to 0 after `last`; a negative step
    decreases."""

    def body(number: int) -> bytes:
        value = (number * step) % (last + 1)
        keys = dict.fromkeys(("requests", "exceptions", "harakiri_count", "respawn_count", "tx", "signals"), value)
        return workers(**keys, running_time=value, cores=[{"requests": value, "static_requests": value}])

    return body


def losing_keys(number: int) -> bytes:
    """A document that lacks one key of the server and one of each worker, different ones with every read."""
    tree: dict[str, Any] = copy.deepcopy(_SERVER)
    lost = [key for key in tree if key != "workers"]
    del tree[lost[number % len(lost)]]
    for worker in tree["workers"]:
        del worker[list(worker)[number % len(worker)]]
    return json.dumps(tree).encode()


def changing_size(number: int) -> bytes:
    """A different number of workers in every document."""
    return workers(1 + number * 7 % 64)


def cut_anywhere(number: int) -> bytes:
    """A document that ends at a different byte with every read."""
    return GOOD[: 1 + number * 61 % (len(GOOD) - 1)]


def alternately(*bodies: bytes) -> Body:
    """The given documents in turn."""
    return lambda number: bodies[number % len(bodies)]


def padded(size: int) -> bytes:
    """A document padded with spaces to `size` bytes."""
    return GOOD.ljust(size)

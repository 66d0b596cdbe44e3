"""Names what threads wait for outside of the server, and divides their time among it.

A destination has the name that the operator gave it (`--backends`), or that of the service whose port it is.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import add
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.record import Destination, Program, State
from uwsgi_headroom.surroundings import is_local
from uwsgi_headroom.words.formats import listed
from uwsgi_headroom.words.template import Facts, fill

_PORTS = """
LDAP 389 636, SMTP 25 465 587, SQL-Server 1433, oracle 1521, zookeeper 2181, etcd 2379, mysql 3306 33060, nats 4222,
postgres 5432, rabbitmq 5672, redis 6379, pgbouncer 6432, vault 8200, consul 8500, solr 8983, cassandra 9042,
kafka 9092, elasticsearch 9200, memcached 11211, redis-sentinel 26379, mongodb 27017"""
"""The services at their registered or default ports; not at those of many, such as 8080."""

_SERVICES = [row.split() for row in _PORTS.split(",")]
PORTS: Mapping[int, str] = {int(port): name.replace("-", " ") for name, *ports in _SERVICES for port in ports}

_SOCKETS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"^\.s\.PGSQL\.6432$|pgbouncer", "pgbouncer"),
        (r"^\.s\.PGSQL\.\d+$|postgres", "postgres"),
        (r"redis|valkey", "redis"),
        (r"mysql|mariadb", "mysql"),
        (r"memcache", "memcached"),
        (r"mongod", "mongodb"),
        (r"^docker\.sock$", "docker"),
        (r"^php.*fpm|fpm.*\.sock$", "PHP"),
    )
)
"""The services by the last part of the path of a UNIX socket, or by the name of a program."""

LEAST_SILENT = 0.75
"""A destination does not answer if at least this share of the time that threads wait for it goes into connections that
are not made yet. On a long line, a connection takes one round trip, and its request another one."""

UNKNOWN = "backends"

ITSELF = "this uWSGI itself"
"""The name of a socket of the server whose threads wait."""


class DestinationFigures(Struct, frozen=True):
    """What threads wait for outside of the server. state: of these threads; name: the one in the configuration, or of
    the service with that well-known port or socket, such as `postgres or redis` if it is one of them; empty if neither
    is known. address: `10.0.0.5:5432` or the path of a UNIX socket, empty if it is not known or if there are several;
    threads: the mean number; share: of all threads in service; per_request: as in `WaitState`; connecting: the part of
    the time in which the connection was not made yet; idle: whether the program there is of this host, serves in one
    process, and hardly uses a CPU."""

    state: Literal["backend", "dns"]
    name: str
    address: str
    threads: float
    share: float
    per_request: float | None
    connecting: float
    idle: bool = False

    @property
    def label(self) -> str:
        """How it is called in a sentence: `postgres at 10.0.0.5:5432`."""
        if self.name and self.address:
            return f"{self.name} at {self.address}"
        return self.name or self.address or UNKNOWN

    @property
    def is_silent(self) -> bool:
        """Whether it does not answer to connections."""
        return self.connecting >= LEAST_SILENT


class _Key(NamedTuple):
    state: Literal["backend", "dns"]
    name: str
    address: str


IDLE = 0.2
"""A server of one process that uses less of a CPU does not hold requests up by its work."""


def name_service(address: str, program: str = "") -> str:
    """The service with this address, as far as the program that listens there, its port or the path of its socket says;
    else that program, which may be empty."""
    _, colon, port = address.rpartition(":")
    is_port = bool(colon) and port.isdigit() and "/" not in address
    places = [program, os.path.basename(address) * (not is_port)]
    found = (name for place in places for pattern, name in _SOCKETS if pattern.search(place))
    return next(found, "") or PORTS.get(int(port) if is_port else 0, program)


def divide(
    destinations: Mapping[Destination, float],
    named: Mapping[str, float],
    addresses: Mapping[str, str],
    threads: Mapping[State, float],
    per_request: Mapping[State, float] | None,
    own: Collection[str] = (),
    programs: Mapping[str, Program] = {},
) -> tuple[DestinationFigures, ...]:
    """Divides the threads in `backend` and `dns` among what they wait for; most threads first. destinations: in any
    unit; empty if only the named ones are known. named: mean threads of those that are configured. programs: by the
    address at which each listens."""
    names = {address: name for name, address in addresses.items()}
    for socket in own:
        host, colon, port = socket.rpartition(":")
        hosts = ("127.0.0.1", "[::1]") if colon and host in _ANY_HOST else (host,)
        names |= {f"{each}{colon}{port}": ITSELF for each in hosts}
    parts = _by_name(destinations, names, programs)
    if not parts:  # only the named ones are known
        parts = {_Key("backend", name, addresses.get(name, "")): [part, 0.0] for name, part in named.items() if part}
        backend = threads.get("backend", 0.0)
        if (rest := backend - sum(part for part, _ in parts.values())) > _ROUNDING * backend:
            parts[_Key("backend", "", "")] = [rest, 0.0]
    sums: dict[str, float] = defaultdict(float)
    for key, (part, _) in parts.items():
        sums[key.state] += part
    total, found = sum(threads.values()), []
    for key, (part, connecting) in parts.items():
        of_state = ratio(part, sums[key.state]) or 0.0
        if mean := of_state * threads.get(key.state, 0.0):
            each = None if per_request is None else of_state * per_request.get(key.state, 0.0)
            made = DestinationFigures(*key, mean, ratio(mean, total) or 0.0, each, connecting / part)
            cpus = programs[key.address].cpus if key.address in programs else None
            is_idle = is_one_at_a_time(made) and cpus is not None and cpus < IDLE
            found.append(replace(made, idle=is_idle))
    return tuple(sorted(found, key=lambda each: (-each.threads, each.label)))


_ANY_HOST = ("", "*", "0.0.0.0", "[::]")  # noqa: S104 - compared with, not bound to


def _by_name(
    destinations: Mapping[Destination, float], names: Mapping[str, str], programs: Mapping[str, Program]
) -> dict[_Key, list[float]]:
    """The parts of destinations by their name and address, and how much of each goes into connections. names: those
    that are configured, by address."""
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    rows = []
    for (state, addresses, connecting), part in destinations.items():
        found = [_find_name(state, address, names, programs) for address in addresses]
        if len(addresses) == 1:
            (name, is_configured), address = found[0], addresses[0]
        else:
            of_each = [name or each for (name, _), each in zip(found, addresses, strict=True)]
            name, is_configured, address = " or ".join(dict.fromkeys(of_each)), False, ""
        if is_configured:
            places[state, name].add(address)
        rows.append((state, name, address, is_configured, [part, part * connecting]))
    parts: dict[_Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for state, name, address, is_configured, more in rows:
        key = _Key(state, name, "" if is_configured and len(places[state, name]) > 1 else address)
        parts[key] = list(map(add, parts[key], more))
    return dict(parts)


def _find_name(state: str, address: str, names: Mapping[str, str], programs: Mapping[str, Program]) -> tuple[str, bool]:
    name = names.get(address) or names.get(f"*:{address.rpartition(':')[2]}")
    if name:
        return name, True
    return "DNS" if state == "dns" else name_service(address, getattr(programs.get(address), "name", "")), False


_ROUNDING = 1e-6


def list_main(destinations: Sequence[DestinationFigures]) -> list[DestinationFigures]:
    """Those that a sentence names, in the order of their labels, so that it stays as it is while shares change."""
    total = sum(each.threads for each in destinations)
    return sorted((each for each in destinations if each.threads >= MAIN * total), key=lambda each: each.label)


MAIN = 0.3
"""The share of the time outside of the server from which on a destination is named in a title."""


def find_own(destinations: Sequence[DestinationFigures]) -> DestinationFigures | None:
    """The server itself, if its threads wait for it for a large part of their time."""
    return next((each for each in destinations if each.name == ITSELF and each.share >= MAIN), None)


def join_labels(destinations: Sequence[DestinationFigures]) -> str:
    """The labels as part of a sentence: `A`, `A and B`, `A, B and C`; `backends` if none is known."""
    labels = list(dict.fromkeys(each.label for each in destinations)) or [UNKNOWN]
    if len(labels) > MOST_LABELS:
        labels = [*labels[: MOST_LABELS - 1], "others"]
    if len(labels) > 1 and UNKNOWN in labels:
        labels = [*(label for label in labels if label != UNKNOWN), "other backends"]
    return listed(labels)


HANGING = 0.25
"""The share of the available threads in connections that are not answered, or in lookups of names, from which on that
is a problem by itself: both usually take a few milliseconds."""

LEAST_THREADS = 1.0
"""Fewer threads than this, on average, are none."""

MOST_LABELS = 3
"""The most labels in a sentence."""


def list_hanging(destinations: Sequence[DestinationFigures], available: float) -> list[DestinationFigures]:
    """The name servers, and the backends that do not answer, that hold many of the available threads."""
    candidates = [each for each in destinations if each.is_silent or each.state == "dns"]
    together = sum(each.threads for each in candidates)
    if together < max(LEAST_THREADS, HANGING * available):
        return []
    return list_main(candidates)


def describe(destinations: Sequence[DestinationFigures]) -> str:
    """What threads wait for, to follow `wait for`."""
    answering = [each for each in destinations if not each.is_silent]
    silent = [each for each in destinations if each.is_silent]
    if not silent:
        return join_labels(answering)
    text = "[answer? {answering} and for ]a connection to {silent}, which {number:does|do} not answer"
    facts: Facts = {"answer": bool(answering), "answering": join_labels(answering), "number": len(silent)}
    return fill(text, facts | {"silent": join_labels(silent)})


def is_one_at_a_time(destination: DestinationFigures) -> bool:
    """Whether a backend runs one command at a time, however many connections it has."""
    return destination.name == "redis"


def list_local(destinations: Sequence[DestinationFigures]) -> list[DestinationFigures]:
    """The backends on this host for which requests wait for a large part of their time."""
    return [each for each in list_main(destinations) if is_local(each.address) and each.share >= MAIN]


def see_backends(destinations: Sequence[DestinationFigures]) -> str:
    """Where to look first, as a sentence without its full stop: what the first of them is doing, or what it is."""
    known = next((each for each in destinations if each.name in _LOOKS), None)
    if known is not None and known.idle:
        return f"Look at the workers of jobs: {known.label} is idle, and requests wait for a result in it"
    if known is not None:
        return f"Check {_LOOKS[known.name].format(label=known.label)}"
    address = next((each.address for each in destinations if each.address), "")
    if not address:
        return "Find out which backend the threads wait for, and whether it is overloaded"
    if address.startswith(("/", "@")):
        pattern = shlex.quote(_NOT_FOR_SS.sub("?", address))
        return f"Run `ss -lxp src {pattern}` to see which program listens there"
    if is_local(address):
        return f"Run `ss -ltnp src {address}` to see which program listens there"
    return f"Find out which program listens at {address}"


_NOT_FOR_SS = re.compile(r"[\s`\\[]")
"""What a filter of `ss` does not take as it is in the path of a UNIX socket: white space ends a filter, also in quotes,
and the path is a pattern, in which `?` is any character. A backtick would end the command in the sentence."""

_LOOKS: Mapping[str, str] = {
    "postgres": "`pg_stat_activity` to see what {label} runs",
    "pgbouncer": "`SHOW POOLS` to see how many clients wait for a connection of {label}",
    "mysql": "`SHOW FULL PROCESSLIST` to see what {label} runs",
    "redis": "`SLOWLOG GET` and `CLIENT LIST` of {label}",
    "rabbitmq": "`rabbitmqctl list_queues` of {label} for a long queue: its workers are slow",
    "mongodb": "`db.currentOp()` to see what {label} runs",
}
"""Where to look first, by the name of the service."""

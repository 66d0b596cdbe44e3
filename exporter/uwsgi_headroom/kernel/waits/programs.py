"""Names the programs of this host for whose answers requests wait, by the addresses where they listen: a port, such as
that of a pool before a database, says less.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from uwsgi_headroom.errors import AddressError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks
from uwsgi_headroom.kernel.request_sets import find_listening
from uwsgi_headroom.record import Destination, Program
from uwsgi_headroom.source import Tcp, Unix, parse_address
from uwsgi_headroom.surroundings import is_local

_SEARCH_SECONDS, _MOST_DESCRIPTORS, _MOST_PROGRAMS, _KEEP_SECONDS = 0.1, 256, 8, 60.0

_LOAD_SECONDS = 5.0
"""Its use of a CPU is known after so many seconds."""

NAME = re.compile(r"\A[\w.:-]{2,15}\Z", re.ASCII)  # any program may have any name


def find_program(address: str) -> tuple[str, int]:
    """The program that listens at an address of this network namespace, and its PID; empty and 0 if none is visible. A
    question for `aside`. Raises OSError."""
    with suppress(AddressError):
        place = parse_address(address)
        inodes = find_listening(place) if isinstance(place, Unix | Tcp) else ()
        targets = {f"socket:[{inode}]" for inode in inodes}
        for pid in procfs.list_processes(_SEARCH_SECONDS * bool(targets)):
            with suppress(OSError):
                if any(target in targets for _, target in procfs.list_descriptors(pid, _MOST_DESCRIPTORS)):
                    return "".join(NAME.findall(procfs.read_name(pid))[:1]), pid
    return "", 0


class _Look(NamedTuple):
    """When a program was found, and the CPU seconds that it had used; monotonic, and in all."""

    pid: int
    at: float
    cpu_seconds: float


class Programs:
    """Those of this host for which the requests of one server wait."""

    def __init__(self, asks: Asks) -> None:
        self._asks, self._looks = asks, dict[str, _Look]()
        self.known: Mapping[str, Program] = {}
        """By address."""

    def learn(self, destinations: Iterable[Destination]) -> Mapping[str, Program]:
        """Those that are known; new ones are looked for, and others again now and then."""
        now = time.monotonic()
        for address in [each.addresses[0] for each in destinations if each.state == "backend" and each.addresses]:
            look = self._looks.get(address)
            if look is None or now - look.at >= _KEEP_SECONDS:
                if is_local(address) and (look or len(self._looks) < _MOST_PROGRAMS):
                    with suppress(OSError):  # or its answer is not there yet
                        name, pid = self._asks.ask(find_program, address)
                        used = _read_cpu(pid)
                        self._looks[address] = _Look(pid * (used is not None), now, used or 0.0)
                        self.known = {**self.known, address: Program(name)}
                continue
            is_due = look.pid and now - look.at >= _LOAD_SECONDS and self.known[address].cpus is None
            if is_due and (used := _read_cpu(look.pid)) is not None:
                cpus = (used - look.cpu_seconds) / (now - look.at)
                self.known = {**self.known, address: self.known[address]._replace(cpus=cpus)}
        return self.known


def _read_cpu(pid: int) -> float | None:
    return getattr(procfs.read_process_stat(pid), "cpu_seconds", None)

"""Reads what the processes of a uWSGI other than its workers use, by their role: master, mule, spooler, router, daemon.

All are children of the proven master. uWSGI's document lists the spoolers and the crons; the others it does not, and it
names a process only with `auto-procname`. Without that, a program of another name is a daemon that the master has
started (`attach-daemon`), with all that it starts: uWSGI runs it by `sh -c`, and the shell may stay; of the rest, a
process that waits for connections at a listening socket is a router, and one that does not is a mule. To see that
takes the right to read its descriptors; without it, the role is "other".
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.kernel.namespaces import find_elsewhere, read_pid_numbers
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.waits.descriptors import MOST_FDINFO_BYTES, list_sockets_in_epoll
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.surroundings import Role, RoleUse

LOOK_SECONDS, FIRST_SECONDS = 10.0, 4.0
"""Seconds between two looks, 0.1 ms for each process, and between the first two: CPU use takes both."""

MOST_PROCESSES = 64
_MOST_DESCRIPTORS = 256
_MOST_SETS = 32

_PAGE = os.sysconf("SC_PAGE_SIZE")

_NAMED = re.compile(rb"uWSGI (mule|spooler|master|http|fastrouter|rawrouter|sslrouter)\b")
"""The names that `auto-procname` gives."""

_ROLES: Mapping[bytes, Role] = {b"mule": "mule", b"spooler": "spooler"}
_BY_LISTENING: Mapping[bool | None, Role] = {None: "other", True: "router", False: "mule"}


class _Process(Struct):
    """A process as of the last look. start: in ticks since boot, which tells processes of one PID apart. is_sure:
    whether two looks saw the same role: between fork and exec a daemon looks like a mule."""

    role: Role
    start: int
    cpu_seconds: float
    is_sure: bool


class Roles:
    """Looks at the processes of one server again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, asks: Asks = DIRECT) -> None:
        self._clock = clock
        self._asks = asks
        self._looked_at, self._keep = float("-inf"), 0.0
        self._known: dict[int, _Process] = {}
        self._cpu: dict[Role, float] = defaultdict(float)
        self._latest: tuple[RoleUse, ...] = ()

    def read(self, master_pid: int, workers: Collection[int], listed: Mapping[int, Role]) -> tuple[RoleUse, ...]:
        """What each role uses, as of the last look. workers: the PIDs here of all workers; listed: the roles of the
        PIDs that the document has. Never raises."""
        now = self._clock()
        if now - self._looked_at >= self._keep:
            others = [pid for pid in list_children(master_pid) if pid not in set(workers)][:MOST_PROCESSES]
            doubtful = tuple(pid for pid in others if pid not in self._known or not self._known[pid].is_sure)
            try:
                signs = self._asks.ask(read_signs, doubtful) if doubtful else {}
            except NotYetError:
                return self._latest
            except OSError:
                signs = {}
            self._keep = LOOK_SECONDS if self._known else FIRST_SECONDS
            self._latest = self._look(master_pid, others, listed, signs, now - self._looked_at)
            self._looked_at = now
        return self._latest

    def _look(
        self, master: int, others: list[int], listed: Mapping[int, Role], signs: Mapping[int, Signs], seconds: float
    ) -> tuple[RoleUse, ...]:
        name, before, is_first = _read_name(master), self._known, not self._known
        self._known = {}
        grown: dict[Role, float] = defaultdict(float)
        resident: dict[Role, int] = defaultdict(int)
        number: dict[Role, int] = defaultdict(int)
        stopped: dict[Role, tuple[int, ...]] = defaultdict(tuple)
        found: dict[int, Role | None] = dict.fromkeys([master, *others])
        found[master] = "master"
        own = len(found)
        for place, pid in enumerate(todo := list(found)):  # it grows
            read = _read(pid, before.get(pid), found[pid], partial(_find_role, pid, name, listed, signs))
            if read is None:
                continue
            now, size = read
            if now.role in ("cron", "daemon"):
                started = [child for child in list_children(pid) if child not in found]
                todo += started[: max(0, 1 + MOST_PROCESSES - len(todo))]
                found |= dict.fromkeys(started, now.role)
            self._known[pid] = now
            then = before.get(pid)
            if then is None or then.start != now.start:
                if not is_first:
                    continue  # a worker may have been spawned since the document was written
                then = now
            grown[now.role] += now.cpu_seconds - then.cpu_seconds
            resident[now.role] += size
            number[now.role] += place < own
            stopped[now.role] += (pid,) * (procfs.read_state(pid) in (b"T", b"t"))
        for role, growth in grown.items():
            self._cpu[role] += max(0.0, growth)
        cpus = {role: None if is_first else growth / seconds for role, growth in grown.items()}
        return tuple(
            RoleUse(role, number[role], self._cpu[role], cpus.get(role), resident[role], stopped[role])
            for role in sorted(number)
        )


def _read(
    pid: int, then: _Process | None, role: Role | None, find_role: Callable[[], Role]
) -> tuple[_Process, int] | None:
    """A process as it is now, and its resident bytes; None if it has ended."""
    stat = procfs.read_process_stat(pid)
    if stat is None or stat.has_ended:
        return None
    same = then if then and then.start == stat.start else None
    role = role or (same.role if same and same.is_sure else find_role())
    return _Process(role, stat.start, stat.cpu_seconds, same is not None and same.role == role), stat.pages * _PAGE


def list_roles(snapshot: Snapshot) -> dict[int, Role]:
    """The roles of the processes that a document lists, by their PIDs there."""
    crons: dict[int, Role] = {cron.pid: "cron" for cron in snapshot.crons}
    return crons | {spooler.pid: "spooler" for spooler in snapshot.spoolers if spooler.pid}


def _find_role(pid: int, name: bytes, listed: Mapping[int, Role], signs: Mapping[int, Signs]) -> Role:
    if role := listed.get(next(reversed(read_pid_numbers(pid)), pid)):  # by its PID in its own namespace
        return role
    if _read_name(pid) != name:
        return "daemon"
    named, listens = signs.get(pid, Signs(b"", None))
    found = _NAMED.match(named)
    return _ROLES.get(found[1], "router") if found else _BY_LISTENING[listens]


class Signs(NamedTuple):
    """What shows the role of a process: the beginning of its command line, and whether it waits for connections at a
    listening socket, None if that is hidden."""

    name: bytes
    listens: bool | None


def read_signs(pids: Sequence[int]) -> dict[int, Signs]:
    """The signs of processes; those that have ended are left out. A question for `aside`."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            found[pid] = Signs(procfs.read_line(f"/proc/{pid}/cmdline"), _listens(pid))
    return found


def _listens(pid: int) -> bool | None:
    try:
        opened = procfs.list_descriptors(pid, _MOST_DESCRIPTORS)
        sets = [number for number, target in opened if "eventpoll" in target]
    except OSError:
        return None
    peers, inodes = Peers(), list[int]()
    for each in sets[:_MOST_SETS]:
        found, size = list_sockets_in_epoll(pid, each)
        inodes += found
        if size >= MOST_FDINFO_BYTES:
            break
    peers.learn(inodes, elsewhere=find_elsewhere(pid))
    return any((peer := peers.get(inode)) and peer.kind == "listening" for inode in inodes)


def _read_name(pid: int) -> bytes:
    """The name of a program, which a fork keeps; empty if it has ended."""
    try:
        return procfs.read_line(f"/proc/{pid}/comm").strip()
    except OSError:
        return b""

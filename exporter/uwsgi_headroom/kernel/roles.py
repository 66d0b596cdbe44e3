"""Reads what the processes of a uWSGI other than its workers use, by their role: master, mule, spooler, router, daemon;
and counts the tasks that wait for its spoolers.

All are children of the proven master. uWSGI's document lists the spoolers and the crons; the others it does not, and it
names a process only with `auto-procname`. Without that, a program of another name is a daemon that the master has
started (`attach-daemon`), with all that it starts: uWSGI runs it by `sh -c`, and the shell may stay; of the rest, a
process that waits for connections at a listening socket is a router, and one that does not is a mule. To see that
takes the right to read its descriptors; without it, the role is "other".

The document has the tasks that a spooler has processed, not those that wait. A task is one file in its directory, whose
name begins with `uwsgi_spoolfile_on_` (core/spooler.c); it is removed once it is processed. A task for later (`at`) has
that time as the file's time of modification, and does not count as one that waits. The name of the directory comes from
a document; names and times are read there, and no file.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
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
MOST_ENTRIES = 5000
"""Of larger directories of spoolers, this many entries are counted."""

MOST_DIRECTORIES = 16
"""Spoolers beyond this number are not counted: uWSGI has one process for each, so there are few."""

_MOST_DESCRIPTORS = 256
_MOST_SETS, _MOST_ASKED = 32, 32

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
        name, before = _read_name(master), self._known
        self._known = {}
        uses: dict[Role, list[tuple[int, procfs.ProcessStat, float, bool]]] = defaultdict(list)
        found: dict[int, Role | None] = dict.fromkeys([master, *others])
        found[master] = "master"
        own = len(found)
        for place, pid in enumerate(todo := list(found)):  # it grows
            stat, then = procfs.read_process_stat(pid), before.get(pid)
            if stat is None or stat.has_ended:
                continue
            same = then if then and then.start == stat.start else None
            known = found[pid] or (same.role if same and same.is_sure else None)
            role = known or _find_role(pid, name, listed, signs)
            if role in ("cron", "daemon"):
                started = [child for child in list_children(pid) if child not in found]
                todo += started[: max(0, 1 + MOST_PROCESSES - len(todo))]
                found |= dict.fromkeys(started, role)
            is_sure = same is not None and same.role == role
            now = self._known[pid] = _Process(role, stat.start, stat.cpu_seconds, is_sure)
            if before and not same:
                continue  # a worker may have been spawned since the document was written
            uses[role].append((pid, stat, now.cpu_seconds - (same or now).cpu_seconds, place < own))
        latest = []
        for role, each in sorted(uses.items()):
            pids, stats, grown, are_own = zip(*each, strict=True)
            self._cpu[role] += max(0.0, sum(grown))
            cpus, resident = sum(grown) / seconds if before else None, _PAGE * sum(stat.pages for stat in stats)
            stopped = tuple(pid for pid, stat in zip(pids, stats, strict=True) if stat.state in "Tt")
            threads = sum(stat.threads for stat in stats)
            files = _count_files(pids * (role == "router"))
            latest.append(RoleUse(role, sum(are_own), self._cpu[role], cpus, resident, stopped, threads, *files))
        return tuple(latest)


def _count_files(pids: Sequence[int]) -> tuple[int, int]:
    """The descriptors that the process with the fewest left has open, and how many it may have; zeros if unknown."""
    found = []
    for pid in pids:
        with suppress(OSError, ValueError, KeyError):
            found.append((procfs.count_descriptors(pid) or 0, procfs.read_limits(pid)["open files"]))
    return min(found, key=lambda each: each[1] - each[0], default=(0, 0))


def list_roles(snapshot: Snapshot) -> dict[int, Role]:
    """The roles of the processes that a document lists, by their PIDs there."""
    crons: dict[int, Role] = {cron.pid: "cron" for cron in snapshot.crons}
    return crons | {spooler.pid: "spooler" for spooler in snapshot.spoolers if spooler.pid}


def _find_role(pid: int, name: str, listed: Mapping[int, Role], signs: Mapping[int, Signs]) -> Role:
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
        inodes += found[:_MOST_ASKED]
        if size >= MOST_FDINFO_BYTES:
            break
    peers.learn(inodes, elsewhere=find_elsewhere(pid))
    return any((peer := peers.get(inode)) and peer.kind == "listening" for inode in inodes)


def _read_name(pid: int) -> str:
    """The name of a program, which a fork keeps; empty if it has ended."""
    with suppress(OSError):
        return procfs.read_name(pid)
    return ""


_PREFIX = "uwsgi_spoolfile_on_"


class Spools:
    """Counts tasks of one server repeatedly, and keeps the counts in between."""

    def __init__(self, asks: Asks = DIRECT) -> None:
        self._asks = asks
        self._at = float("-inf")
        self._directories: tuple[str, ...] = ()
        self._counts: Mapping[str, int] = {}

    def read(self, master_pid: int, snapshot: Snapshot, now: float) -> Mapping[str, int]:
        """The tasks in each spooler's directory, by its name in the document; the same object until they are counted
        again. now: monotonic seconds."""
        directories = tuple(dict.fromkeys(spooler.directory for spooler in snapshot.spoolers))[:MOST_DIRECTORIES]
        if directories != self._directories or now - self._at >= LOOK_SECONDS:
            try:
                self._counts = self._asks.ask(count_tasks, master_pid, directories)
            except NotYetError:
                return self._counts
            except OSError:  # a file system that does not answer
                self._counts = {}
            self._at, self._directories = now, directories
        return self._counts


def count_tasks(master_pid: int, directories: tuple[str, ...]) -> Mapping[str, int]:
    """The tasks in each directory that may be listed; a question for `aside`."""
    counted = ((name, _count_in(master_pid, name)) for name in directories)
    return {name: tasks for name, tasks in counted if tasks is not None}


def _count_in(master_pid: int, directory: str) -> int | None:
    """The tasks in a directory as the master sees it; None if it may not be listed."""
    base = "root" if directory.startswith("/") else "cwd/"
    if not directory or "\0" in directory:
        return None
    try:
        with os.scandir(f"/proc/{master_pid}/{base}{directory}") as entries:
            now = time.time()
            return sum(_count_entry(entry, now) for entry in islice(entries, MOST_ENTRIES))
    except (OSError, ValueError):
        return None


def _count_entry(entry: os.DirEntry[str], now: float) -> int:
    """How many tasks an entry is. With `spooler-ordered`, a directory whose name is a number has tasks too."""
    if entry.name.isdecimal() and entry.is_dir(follow_symlinks=False):
        with suppress(OSError), os.scandir(entry.path) as inner:
            return sum(_is_due(each, now) for each in islice(inner, MOST_ENTRIES))
    return _is_due(entry, now)


def _is_due(entry: os.DirEntry[str], now: float) -> bool:
    if not entry.name.startswith(_PREFIX):
        return False
    try:
        return entry.stat(follow_symlinks=False).st_mtime <= now
    except OSError:  # it was processed a moment ago
        return False

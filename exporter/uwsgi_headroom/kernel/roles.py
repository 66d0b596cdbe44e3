"""Reads what the processes of a uWSGI other than its workers use, by their role: master, mule, spooler, router, daemon.

All are children of the proven master. uWSGI's document lists the spoolers; the others it does not, and it names a
process only with `auto-procname`. Without that, a program of another name is a daemon that the master has started
(`attach-daemon`, cron), with all that it starts: uWSGI runs it by `sh -c`, and the shell may stay; of the rest, a
process that waits for connections at a listening socket is a router, and one that does not is a mule. To see that
takes the right to read its descriptors; without it, the role is "other".
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.namespaces import read_pid_numbers, shares_network_namespace
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.waits.descriptors import Epolls, list_sockets_in_epoll
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.record import Role, RoleUse

LOOK_SECONDS, FIRST_SECONDS = 10.0, 4.0
"""Seconds between two looks, 0.1 ms for each process, and between the first two: CPU use takes both."""

MOST_PROCESSES = 64
_MOST_DESCRIPTORS = 256

_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

_NAMED = re.compile(rb"uWSGI (?:(mule|spooler|master)|(http|fastrouter|rawrouter|sslrouter))\b")
"""The names that `auto-procname` gives."""


@dataclass(slots=True)
class _Process:
    """A process as of the last look. start: in ticks since boot, which tells processes of one PID apart. is_sure:
    whether two looks saw the same role: between fork and exec a daemon looks like a mule."""

    role: Role
    start: int
    cpu_seconds: float
    is_sure: bool


class Roles:
    """Looks at the processes of one server again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._peers = Peers(clock)
        self._looked_at, self._keep = float("-inf"), 0.0
        self._known: dict[int, _Process] = {}
        self._cpu: dict[Role, float] = defaultdict(float)
        self._latest: tuple[RoleUse, ...] = ()

    def read(self, master_pid: int, workers: Collection[int], spoolers: Collection[int]) -> tuple[RoleUse, ...]:
        """What each role uses, as of the last look. workers: the PIDs here of all workers; spoolers: those of the
        spoolers as the document has them. Never raises."""
        now = self._clock()
        if now - self._looked_at >= self._keep:
            self._keep = LOOK_SECONDS if self._known else FIRST_SECONDS
            self._latest = self._look(master_pid, set(workers), set(spoolers), now - self._looked_at)
            self._looked_at = now
        return self._latest

    def _look(self, master: int, workers: set[int], spoolers: set[int], seconds: float) -> tuple[RoleUse, ...]:
        name, before, is_first = _read_name(master), self._known, not self._known
        self._known = {}
        grown: dict[Role, float] = defaultdict(float)
        resident: dict[Role, int] = defaultdict(int)
        number: dict[Role, int] = defaultdict(int)
        found = [master, *islice((pid for pid in list_children(master) if pid not in workers), MOST_PROCESSES)]
        own = len(found)
        for place, pid in enumerate(found):  # it grows
            try:
                now, size = self._read(pid, before.get(pid), master, name, spoolers)
            except (OSError, ValueError, IndexError):
                continue  # it has ended
            if place >= own:
                now.role = "daemon"
            if now.role == "daemon":
                started = [child for child in list_children(pid) if child not in found]
                found += started[: max(0, 1 + MOST_PROCESSES - len(found))]
            self._known[pid] = now
            then = before.get(pid)
            if then is None or then.start != now.start:
                if not is_first:
                    continue  # a worker may have been spawned since the document was written
                then = now
            grown[now.role] += now.cpu_seconds - then.cpu_seconds
            resident[now.role] += size
            number[now.role] += place < own
        for role, growth in grown.items():
            self._cpu[role] += max(0.0, growth)
        return tuple(
            RoleUse(role, number[role], self._cpu[role], None if is_first else grown[role] / seconds, resident[role])
            for role in sorted(number)
        )

    def _read(
        self, pid: int, then: _Process | None, master: int, name: bytes, spoolers: set[int]
    ) -> tuple[_Process, int]:
        """A process as it is now, and its resident bytes. Raises OSError, ValueError or IndexError if it has ended."""
        fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
        if fields[0] in (b"Z", b"X"):
            raise ProcessLookupError(pid)
        start, used = int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS
        same = then if then and then.start == start else None
        role = same.role if same and same.is_sure else self._find_role(pid, master, name, spoolers)
        is_sure = same is not None and same.role == role
        return _Process(role, start, used, is_sure), int(fields[21]) * _PAGE

    def _find_role(self, pid: int, master: int, name: bytes, spoolers: set[int]) -> Role:
        if pid == master:
            return "master"
        if _own_number(pid) in spoolers:
            return "spooler"
        if _read_name(pid) != name:
            return "daemon"
        named = _NAMED.match(procfs.read_line(f"/proc/{pid}/cmdline"))
        if named:
            return "mule" if named[1] == b"mule" else "spooler" if named[1] == b"spooler" else "router"
        listens = self._listens(pid)
        return "other" if listens is None else "router" if listens else "mule"

    def _listens(self, pid: int) -> bool | None:
        """Whether a process waits for connections at a listening socket; None if that is hidden."""
        try:
            with os.scandir(f"/proc/{pid}/fd") as folder:
                names = [entry.name for entry in islice(folder, _MOST_DESCRIPTORS)]
            epolls = [each for each in names if "eventpoll" in _read_link(pid, each)]
        except OSError:
            return None
        inodes = [inode for each in epolls for inode in list_sockets_in_epoll(pid, int(each), Epolls())]
        self._peers.learn(inodes, elsewhere=None if shares_network_namespace(pid) else pid)
        return any((peer := self._peers.get(inode)) and peer.kind == "listening" for inode in inodes)


def _read_link(pid: int, descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except FileNotFoundError:
        return ""


def _read_name(pid: int) -> bytes:
    """The name of a program, which a fork keeps; empty if it has ended."""
    try:
        return procfs.read_line(f"/proc/{pid}/comm").strip()
    except OSError:
        return b""


def _own_number(pid: int) -> int:
    """The PID of a process in its own namespace, as in uWSGI's document."""
    return next(reversed(read_pid_numbers(pid)), pid)

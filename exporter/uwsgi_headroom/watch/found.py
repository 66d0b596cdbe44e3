"""The uWSGIs that nobody configured: says which are not watched, and watches them if it may.

Every local user can run what looks like a uWSGI, so none may cost another anything: a name ends with the user
(`shop@www-data`), each user has MOST_OF_USER places, and found servers have a reader process, a CPU budget and a room
for documents of their own. A server is shown once it was up. While down, it has no metrics, so no alert fires; after
GONE_SECONDS it is forgotten. Only one of a unit that systemd starts at each boot stays, as down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.discover.find import NOT_ALLOWED, FoundMaster, find_user, list_names
from uwsgi_headroom.discover.follow import Finder, is_enabled_unit
from uwsgi_headroom.source import Address
from uwsgi_headroom.watch.globbed import GONE_SECONDS
from uwsgi_headroom.watch.observation import NOT_WATCHED, NotWatched, NotWatchedReason
from uwsgi_headroom.watch.watch import Watch

LOOK_SECONDS, LONGEST_PAUSE, _SHARE = 60.0, 600.0, 0.02
"""A look comes every LOOK_SECONDS, or so much later that looks take this share of the time."""

MOST_OF_USER, MOST_FOUND = 20, 200
"""How many found servers are watched: of one user, and in all."""

AGAIN_SECONDS = 600.0
"""After so long a server that could not be watched is tried again."""

_MOST_LISTED, _MOST_CHARACTERS = 20, 64

_DEBIAN, _CHECKOUT = "/usr/share/doc/uwsgi-headroom/examples/waits.conf", "deploy/systemd/waits.conf"
_INSTALL = (
    "install -D -m 644 {} /etc/systemd/system/uwsgi-headroom.service.d/waits.conf && systemctl daemon-reload && "
    "systemctl restart uwsgi-headroom"
)
_WORDS: Mapping[NotWatchedReason, tuple[str, str]] = {
    "rights": ("seen, not watched: needs the right of waits", "{install}"),
    "not_configured": (
        "seen, not watched: not in the configuration",
        "start the exporter with --discover, or add their stats to `servers`, which `uwsgi-headroom discover` prints",
    ),
    "unreadable": ("seen, not watched: cannot be read now ({why})", "uwsgi-headroom discover"),
    "limit": (
        f"seen, not watched: more than {MOST_OF_USER} of one user, or than {MOST_FOUND} in all",
        "name those that matter in `servers`",
    ),
}
"""What is said of them, and the command or the change that has them watched."""

_log = logging.getLogger(__name__)


class _Server(Struct):
    """A found server. unit: that starts it at each boot; up_at: when it was last up, or added (monotonic)."""

    watch: Watch
    user: str
    pid: int
    unit: str
    up_at: float


class FoundServers:
    """Watches servers that are found. make_watch: from name and address; list_others: watches of configured servers;
    on_change: called when `watches` are others. not_watched: None before the first look; looking: the look under way,
    which connects to stats servers; is_paused: whether none may begin."""

    def __init__(
        self,
        make_watch: Callable[[str, Address], Watch],
        list_others: Callable[[], Sequence[Watch]],
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self.not_watched: Sequence[NotWatched] | None = None
        self._make_watch, self._list_others, self._on_change = make_watch, list_others, on_change
        self._clock = clock
        self._servers: dict[str, _Server] = {}
        self._failed: dict[tuple[int, str], tuple[float, str]] = {}  # by PID and address: until when, and why
        self.looking: asyncio.Task[None] | None = None
        self.is_paused = False

    def watches(self) -> list[Watch]:
        return [server.watch for server in self._servers.values()]

    def shown(self) -> list[Watch]:
        return [watch for watch in self.watches() if watch.reading]

    def is_optional(self, watch: Watch) -> bool:
        """Whether a server was found that no unit has to run: while down, it has no metrics."""
        server = self._servers.get(watch.name)
        return server is not None and server.watch is watch and not server.unit

    async def run(self, finder: Finder) -> NoReturn:
        """Look now and every LOOK_SECONDS, until cancelled."""
        while True:
            if not self.is_paused:
                self.looking = asyncio.create_task(self._look(finder), name="look for servers")
                try:
                    await asyncio.wait({self.looking})
                finally:
                    self.looking.cancel()
                if not self.looking.cancelled():
                    self.looking.result()
            await asyncio.sleep(min(LONGEST_PAUSE, max(LOOK_SECONDS, finder.spent / _SHARE)))

    async def _look(self, finder: Finder) -> None:
        """Find the servers, watch those that may be, and say which are not."""
        for name, server in list(self._servers.items()):
            if server.unit and server.watch.state != "up":
                server.unit *= await asyncio.to_thread(is_enabled_unit, server.unit, None)
            reading = server.watch.reading
            if reading and find_user(reading.host.master_pid or server.pid) not in (server.user, None):
                del self._servers[name]  # another user's server has its address by now, and gets a name of its own
        self.take(await finder.find(*self._list_pids()), connects=finder.connects)

    def _list_pids(self) -> tuple[set[int], set[int]]:
        """The PIDs of servers that are watched: those here, and those of which only their stats say it."""
        here, said = {server.pid for server in self._servers.values()}, set[int]()
        for watch in chain(self._list_others(), self.watches()):
            if watch.reading and watch.reading.host.master_pid:
                here.add(watch.reading.host.master_pid)
            elif watch.reading and watch.reading.snapshot.pid:
                said.add(watch.reading.snapshot.pid)
        return here, said

    def take(self, found: Iterable[FoundMaster], *, connects: bool) -> None:
        """Watch what was found, if `connects`; forget what is gone. found: users take turns."""
        self.forget()
        addresses = {str(watch.address) for watch in chain(self._list_others(), self.watches())}
        left: dict[NotWatchedReason, list[tuple[FoundMaster, str]]] = {reason: [] for reason in NOT_WATCHED}
        users = Counter(server.user for server in self._servers.values())
        taken = {watch.name for watch in self._list_others()}
        taken |= {name for name, each in self._servers.items() if each.watch.state == "up" or find_user(each.pid)}
        for master in sorted(found, key=lambda master: not master.enabled_unit):
            if master.address and str(master.address) in addresses:
                continue
            reason, why = self._judge(master, users[master.user], connects=connects)
            if reason:
                left[reason].append((master, why))
            elif master.address:
                taken.add(self._add(master, master.address, taken))
                addresses.add(str(master.address))
                users[master.user] += 1
        before = {each.reason for each in self.not_watched or ()}
        self.not_watched = [_describe(reason, masters) for reason, masters in left.items() if masters]
        for each in self.not_watched:
            if each.reason not in before:
                fields = {"number": each.number, "reason": each.why, "do": each.act}
                _log.warning("uWSGIs are not watched", extra={"fields": fields})
        self._on_change()

    def _judge(self, master: FoundMaster, of_user: int, *, connects: bool) -> tuple[NotWatchedReason | None, str]:
        """Why a uWSGI is not watched; None if it is to be. of_user: how many of its user's are."""
        if master.trouble == NOT_ALLOWED:
            return "rights", ""
        if not connects:
            return "not_configured", ""
        until, why = self._failed.get((master.pid, str(master.address)), (0.0, ""))
        if master.trouble or not master.address or self._clock.monotonic() < until:
            return "unreadable", master.trouble or why
        return "limit" if of_user >= MOST_OF_USER or len(self._servers) >= MOST_FOUND else None, ""

    def _add(self, master: FoundMaster, address: Address, taken: Collection[str]) -> str:
        """Watch a server, perhaps in place of one that has ended. Returns its name."""
        name = next(each for each in _list_free(master) if each not in taken)
        watch, now = self._make_watch(name, address), self._clock.monotonic()
        self._servers[name] = _Server(watch, master.user, master.pid, master.enabled_unit, now)
        _log.info("found", extra={"fields": {"server": name, "address": printable_name(str(address))}})
        return name

    def forget(self) -> None:
        now = self._clock.monotonic()
        self._failed = {key: failed for key, failed in self._failed.items() if now < failed[0]}
        for name, server in list(self._servers.items()):
            watch = server.watch
            if watch.state == "up":
                server.up_at = now
            elif now - server.up_at >= GONE_SECONDS and not (server.unit and watch.reading):
                self._failed[server.pid, str(watch.address)] = now + AGAIN_SECONDS, str(watch.error or "")
                del self._servers[name]
                _log.info("no longer watched", extra={"fields": {"server": name, "reason": str(watch.error or "")}})


def _list_free(master: FoundMaster) -> Iterable[str]:
    """The names that a server may have, the best first. None can be that of another user's server."""
    base = next(filter(None, list_names(master)), "uwsgi")[:_MOST_CHARACTERS]
    user = printable_name(master.user)
    return chain((f"{base}@{user}",), (f"{base}-{number}@{user}" for number in count(2)))


def _describe(reason: NotWatchedReason, masters: Sequence[tuple[FoundMaster, str]]) -> NotWatched:
    why, act = _WORDS[reason]
    path = next(path for path in (_DEBIAN, _CHECKOUT) if path == _CHECKOUT or Path(path).exists())
    names = tuple(f"{next(iter(_list_free(each)))}, PID {each.pid}" for each, _ in masters[:_MOST_LISTED])
    why = why.format(why=printable_name(masters[0][1]))
    return NotWatched(reason, len(masters), names, why, act.format(install=_INSTALL.format(path)))

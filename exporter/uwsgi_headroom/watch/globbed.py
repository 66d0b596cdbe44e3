"""The servers that the patterns of a configuration find: which of them are watched, expected, and missing.

* A socket that matches is watched under its name, up to `max_servers` of all patterns together. Servers that have
  answered, and expected ones, keep their places. A socket beyond is tried now and then; once it answers, it takes the
  place of a socket that never did, or that has not for FORGET_SECONDS.
* A server is expected if the configuration names it, or if it was up for LONG_ENOUGH: since the exporter's start, or in
  the last days of the history file. The expectation ends when an operator retires the server (`uwsgi-headroom retire
  NAME`), or when its Emperor has ended it.
* A server whose socket is gone stays, as down: while it is expected, and any other for GONE_SECONDS.
"""

from __future__ import annotations

import asyncio
import glob
import itertools
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from uwsgi_headroom import source
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import GlobNames, ServerConfig, printable_name
from uwsgi_headroom.errors import HistoryFileError, ReadError
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.stats import EmperorSnapshot
from uwsgi_headroom.stats.raw import ListedVassal
from uwsgi_headroom.watch.observation import Pattern
from uwsgi_headroom.watch.watch import Watch

Match = tuple[str, ServerConfig]
"""The path of a socket, and the first pattern that it matches."""

GLOB_SECONDS = 5.0
"""Seconds between two expansions of the globs."""

FORGET_SECONDS = 600.0
"""After so many seconds without an answer, a server that is not expected leaves its place to another socket."""

GONE_SECONDS = 60.0
"""How long a server that is not expected is reported as down after its socket is gone, in seconds: shorter than an
alert waits. uWSGI that is killed leaves its socket behind; one whose socket is gone was ended or moved, as the earlier
release of a deploy."""

SAY_SECONDS = 3600.0
"""Time between two log lines that a pattern matches no socket, in seconds."""

LONG_ENOUGH = 3600.0
"""A server that was up for so long, in seconds, is expected: longer than a trial, shorter than a working day."""

_LONGEST_TURN = 2 * GLOB_SECONDS  # an exporter that was suspended has not seen the server up

_TRIALS, _NEW_TRIALS = 250, 125
"""Sockets without a place that are tried in a turn, each with one connection, and how many of them are new. Nobody
listens at most of them; 250 of those take 0.1 s of CPU."""

_TOGETHER, _TRIAL_SECONDS, _PASS_SECONDS = 8, 1.0, 4.0
"""How many are tried at once, for how long each, and how long a turn may take: silent ones must not take a place each,
and documents of 6 MB not all memory."""

_LIST_SECONDS = 0.5  # for a list of 5,000 sockets that takes 20 ms

_log = logging.getLogger(__name__)


class GlobbedServers:
    """The watched servers of all patterns. make_watch: from name, address and entry; memory: of earlier runs."""

    def __init__(
        self, make_watch: Callable[[str, Address, ServerConfig], Watch], most: int, clock: Clock, memory: Remembered
    ) -> None:
        self.most = most
        self._make_watch, self._clock, self._memory = make_watch, clock, memory
        self._entries: Sequence[ServerConfig] = ()
        self._named: Sequence[Watch] = ()
        self._names = GlobNames(())
        self._servers: dict[str, _Server] = {}
        self._left_out: dict[str, ServerConfig] = {}  # in the order in which they are tried
        self._ended: set[str] = set()  # paths whose servers were retired or ended, and may be there still
        self._matched: Mapping[str, ServerConfig] = {}
        self._turned_at = clock.monotonic()
        self._past = dict(memory.up_seconds)
        self._retired = dict(memory.read_retired())
        self._said_at: dict[str, float] = {}
        self._said_left_out = False

    def watches(self) -> list[Watch]:
        return [server.watch for _, server in sorted(self._servers.items())]

    def on_demand(self) -> set[Watch]:
        """The watches of vassals that have no process until a request comes: no alert says that they rest."""
        servers = [each for each in self._servers.values() if not each.is_named]
        return {server.watch for server in servers if server.emperor and server.emperor[1].on_demand}

    def configure(self, entries: Sequence[ServerConfig], named: Sequence[Watch]) -> None:
        """Watch what these entries find from the next `take` on. named: the watches of servers that the configuration
        names."""
        self._entries, self._named = entries, named
        self._names = GlobNames([entry.pattern for entry in entries], {watch.name for watch in named})

    def reconfigure(self, entries: Sequence[ServerConfig], named: Sequence[Watch], most: int) -> None:
        """Apply another configuration. Servers keep what is known of them, also those whose sockets are gone, if their
        patterns are still configured."""
        before, self._servers, self.most = self._servers, {}, most
        self.configure(entries, named)
        taken = _paths_of(named)
        for path, server in before.items():
            entry = next((entry for entry in entries if entry.pattern == server.entry.pattern), None)
            if entry and path not in taken and len(self._servers) < most:
                server.watch, server.entry = self._make_watch(self._names.name(path), Unix(path), entry), entry
                self._servers[path] = server

    def expand(self, entries: Sequence[ServerConfig] | None = None) -> list[Match]:
        """Return the sockets that match now, each once, also if links lead to it, the newest first: one that a process
        left behind is older than those of today. If there are too many, those on which somebody listens here come
        first. Changes nothing, so it may be called in a thread. entries: those of `configure`."""
        entries, known = self._entries if entries is None else entries, {*self._servers, *self._left_out}
        found: dict[str, ServerConfig] = {}
        times: dict[str, float] = {}
        files = set[str]()
        for entry in entries:
            # Of several paths of a socket, the one that is watched already is kept, else its own, and then the first.
            paths = [(path not in known, os.path.islink(path), path) for path in glob.glob(entry.pattern)]
            for is_new, is_link, path in sorted(paths):
                file = os.path.realpath(path) if is_link else path
                if path in found or file in files:
                    continue
                at = bound_at(path) if is_new else 0.0
                if at is not None:
                    found[path], times[path] = entry, at
                    files.add(file)
        listening = _list_listening() if len(found) > self.most else set()
        return sorted(found.items(), key=lambda match: (match[0] not in listening, -times[match[0]]))

    def take(self, matches: Iterable[Match]) -> None:
        """Watch the sockets of `expand`, and forget servers that are gone and not expected."""
        now = self._clock.monotonic()
        taken = _paths_of(self._named)  # already watched under their own names
        self._matched = {path: entry for path, entry in matches if entry in self._entries and path not in taken}
        self._note_up(now)
        self._apply_retirements()
        for path in self._matched.keys() & self._servers.keys():
            self._servers[path].seen_at = now
        self._forget(now)
        self._ended &= self._matched.keys()
        for path, entry in self._find_expected(taken).items():
            if path not in self._servers and self._make_room():
                self._add(path, entry, now)
        for path, entry in self._matched.items():
            if path not in self._servers and len(self._servers) < self.most and not self._is_ended(path):
                self._add(path, entry, now)
        # Some new ones first, so that thousands of old ones do not delay them, nor a flood of new ones those that wait.
        new = [path for path in self._matched if path not in self._left_out]
        waiting = [*new[:_NEW_TRIALS], *self._left_out, *new[_NEW_TRIALS:]]
        self._left_out = {
            path: self._matched[path] for path in waiting if path in self._matched and path not in self._servers
        }
        self._say(now)

    def _add(self, path: str, entry: ServerConfig, now: float) -> None:
        name = self._names.name(path)
        watch = self._make_watch(name, Unix(path), entry)
        self._servers[path] = _Server(watch, entry, now, now, self._past.get(name, 0.0))

    def _drop(self, path: str) -> None:
        self._servers.pop(path).watch.finish_minute()

    def _make_room(self) -> bool:
        """Whether there is a place; if not, that of a socket that never answered becomes free."""
        if len(self._servers) >= self.most and (path := self._find_replaceable()):
            self._drop(path)
        return len(self._servers) < self.most

    def _find_replaceable(self) -> str | None:
        """The path of a server that may give up its place: one that never answered, else one that is not expected and
        was not up for FORGET_SECONDS."""
        others = {path: server for path, server in self._servers.items() if not server.is_expected}
        for path, server in others.items():
            if server.watch.reading is None and isinstance(server.watch.reader.outcome, ReadError):
                return path
        since = self._clock.monotonic() - FORGET_SECONDS
        return next((path for path, server in others.items() if server.up_at <= since), None)

    def _find_expected(self, taken: Collection[str]) -> dict[str, ServerConfig]:
        """The paths of expected servers, there or not: by the configuration, or from before."""
        past = [name for name, seconds in self._past.items() if seconds >= LONG_ENOUGH]
        found: dict[str, ServerConfig] = {}
        for entry in self._entries:
            for name in (*entry.expect_names, *past):
                path = self._names.path(name, entry.pattern)
                if path and path not in taken:
                    found.setdefault(path, entry)
        return found

    def _note_up(self, now: float) -> None:
        seconds, self._turned_at = min(_LONGEST_TURN, now - self._turned_at), now
        vassals = find_vassals([*self._named, *self.watches()])
        for server in self._servers.values():
            if server.watch.reading and server.watch.state == "up":
                server.up_at = now
                server.up_seconds += seconds
                server.emperor = vassals.get(server.watch.reading.snapshot.pid) or server.emperor
                server.configuration = find_configuration(server.watch.reading) or server.configuration
                server.absent_since = None

    def _apply_retirements(self) -> None:
        """End the expectation of retired servers. One that is up stays, and is expected again after an hour."""
        before, self._retired = self._retired, dict(self._memory.read_retired())
        names = {name for name, when in self._retired.items() if before.get(name, 0.0) < when}
        for name in names:
            self._past.pop(name, None)
        for path, server in list(self._servers.items()):
            if server.watch.name in names:
                server.up_seconds = 0.0
                if server.is_expected:
                    fields = {"server": server.watch.name}
                    _log.warning("retired, but the configuration expects it", extra={"fields": fields})
                elif server.watch.state != "up":
                    self._end(path, server, "an operator has retired it")

    def _end(self, path: str, server: _Server, reason: str) -> None:
        """Forget a server that was ended on purpose. Its socket may be left, and counts once it answers."""
        self._past.pop(server.watch.name, None)
        self._ended.add(path)
        self._drop(path)
        _log.info("no longer expected", extra={"fields": {"server": server.watch.name, "reason": reason}})

    def _is_ended(self, path: str) -> bool:
        """Whether a socket's server was ended, here or before this exporter started, and the socket left."""
        retired = self._retired.get(self._names.name(path)) if self._retired else None
        if retired is not None and (bound_at(path) or retired) < retired:
            self._ended.add(path)
        return path in self._ended

    def _forget(self, now: float) -> None:
        for path, server in list(self._servers.items()):
            seconds = ends_after(server.emperor, server.configuration) if server.watch.state != "up" else None
            if seconds is None:
                server.absent_since = None
                if not server.is_expected and now - server.seen_at >= GONE_SECONDS:
                    self._drop(path)
                continue
            server.absent_since = now if server.absent_since is None else server.absent_since
            if now - server.absent_since >= seconds and not server.is_named:
                self._end(path, server, "its Emperor has ended it, or starts it on demand")

    async def try_left_out(self) -> None:
        """Try sockets without a place, those that have waited longest first; one that answers gets one."""
        ended, full = self._ended & self._left_out.keys(), len(self._servers) >= self.most
        if full and self._find_replaceable() is None:
            return
        candidates = iter(list(itertools.islice(self._left_out if full else ended, _TRIALS)))
        until = self._clock.monotonic() + _PASS_SECONDS

        async def work() -> None:
            for path in candidates:
                entry = self._left_out.pop(path, None)
                if entry is None:
                    continue
                self._left_out[path] = entry  # at the end of the line
                if await _answers(path, entry) and path in self._left_out and self._make_room():
                    self._ended.discard(path)
                    self._add(path, self._left_out.pop(path), self._clock.monotonic())
                if self._clock.monotonic() >= until:
                    return

        await asyncio.gather(*(work() for _ in range(_TOGETHER)))

    @property
    def patterns(self) -> list[Pattern]:
        left_out = Counter(entry.pattern for path, entry in self._left_out.items() if path not in self._ended)
        patterns = []
        for pattern in dict.fromkeys(entry.pattern for entry in self._entries):
            own = {path: server for path, server in self._servers.items() if server.entry.pattern == pattern}
            expected = {path for path, server in own.items() if server.is_expected}
            least = max(entry.expect_number for entry in self._entries if entry.pattern == pattern)
            numbers = max(least, len(expected)), len(expected - self._matched.keys()), left_out[pattern]
            patterns.append(Pattern(printable_name(pattern), len(own.keys() & self._matched.keys()), *numbers))
        return patterns

    def _say(self, now: float) -> None:
        """Log a pattern without a socket, now and every hour, and that there are too many sockets."""
        matched = {entry.pattern for entry in self._matched.values()}
        for pattern in {entry.pattern for entry in self._entries}:
            fields = {"pattern": printable_name(pattern)}
            said_at = self._said_at.get(pattern)
            if pattern in matched:
                if self._said_at.pop(pattern, None) is not None:
                    _log.info("a socket matches the pattern", extra={"fields": fields})
            elif said_at is None or now - said_at >= SAY_SECONDS:
                self._said_at[pattern] = now
                _log.warning("no socket matches the pattern", extra={"fields": fields})
        left_out = len(self._left_out.keys() - self._ended)
        if bool(left_out) != self._said_left_out:
            self._said_left_out = bool(left_out)
            fields_of_line = {"max_servers": self.most, "left_out": left_out}
            if left_out:
                _log.warning("more sockets than servers that may be watched", extra={"fields": fields_of_line})
            else:
                _log.info("every socket is watched again")


class _Server(Struct):
    """A server of a pattern. seen_at: when its socket was last there (monotonic); up_at: when it was last up, or added;
    up_seconds: how long it was up, as far as it counts for being expected; emperor, configuration: as a vassal;
    absent_since: how long its Emperor has been without it."""

    watch: Watch
    entry: ServerConfig
    seen_at: float
    up_at: float
    up_seconds: float = 0.0
    emperor: tuple[Watch, ListedVassal] | None = None
    configuration: str = ""
    absent_since: float | None = None

    @property
    def is_named(self) -> bool:
        """Whether the configuration expects it by its name."""
        return self.watch.name in self.entry.expect_names

    @property
    def is_expected(self) -> bool:
        return self.up_seconds >= LONG_ENOUGH or self.is_named


def _paths_of(watches: Iterable[Watch]) -> set[str]:
    return {watch.address.path for watch in watches if isinstance(watch.address, Unix)}


async def _answers(path: str, entry: ServerConfig) -> bool:
    try:
        await source.read_document(Unix(path), timeout=_TRIAL_SECONDS, size_cap=entry.size_cap)
    except ReadError:
        return False
    return True


def _list_listening() -> set[str]:
    """The paths of listening sockets in this network namespace; none if the kernel does not say. A server in another
    one is not among them, nor one that has bound its socket by another path, so they only come first."""
    try:
        return {listener.name for listener in sock_diag.list_listeners("unix", seconds=_LIST_SECONDS)}
    except OSError:
        return set()


def bound_at(path: str) -> float | None:
    """When a socket was bound, in epoch seconds; None if there is no socket."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISSOCK(found.st_mode) else None


ENDED_SECONDS = 30.0
"""How long an Emperor that is up must be without a vassal before that counts as ended, in seconds: one that dies is not
in the list either, until the Emperor's next scan (every 3 s by default) starts it again."""


def find_vassals(watches: Iterable[Watch]) -> dict[int, tuple[Watch, ListedVassal]]:
    """Return the vassals of all Emperors that are up: the Emperor, and what it says. A vassal is known by the PID
    that its Emperor lists, which is that of its stats; both are numbers of one PID namespace."""
    return {
        vassal.pid: (watch, vassal)
        for watch in watches
        if watch.reading and isinstance(watch.reading.snapshot, EmperorSnapshot) and watch.state == "up"
        for vassal in watch.reading.snapshot.vassals
        if vassal.pid
    }


def ends_after(emperor: tuple[Watch, ListedVassal] | None, configuration: str) -> float | None:
    """After how many seconds a vassal that is gone was ended on purpose, None if it was not: its configuration file is
    gone, or its Emperor is up and neither runs it nor tries to; or at once, if a request will start it. configuration:
    its path, empty if unknown.

    The Emperor's blacklist has vassals that it ended as well, with no attempt to start them (2.0.31).
    """
    folder = os.path.dirname(configuration)
    is_gone = bool(folder) and os.path.isdir(folder) and not os.path.exists(configuration)
    watch, listed = emperor or (None, ListedVassal())
    snapshot = watch.reading.snapshot if watch and watch.reading and watch.state == "up" else None
    if isinstance(snapshot, EmperorSnapshot):
        for vassal in snapshot.vassals:
            if vassal.name == listed.name:
                return 0.0 if vassal.on_demand and vassal.pid <= 0 else None
        is_gone |= not any(throttled.name == listed.name and throttled.attempt for throttled in snapshot.blacklist)
    return ENDED_SECONDS if is_gone else None


def find_configuration(reading: Reading) -> str:
    """Return the path of a vassal's configuration file; empty if it is no vassal, or if the path is not known or not
    visible here."""
    identity, setup = reading.host.identity, reading.host.setup
    if not (identity and identity.emperor_pid and setup and setup.options.configuration_file):
        return ""
    path = os.path.join(identity.working_directory or "", setup.options.configuration_file)
    return path if os.path.isabs(path) and os.path.exists(path) else ""


PAST_SECONDS = 7 * 86_400.0
"""How far back the history file says which servers are expected, in seconds: also one that runs on one day of the
week."""


class Remembered(Struct, frozen=True):
    """What an exporter remembers of earlier runs. up_seconds: by server, how long it was up in the last days, since it
    was retired; read_retired: reads the epoch time of each server's retirement."""

    up_seconds: Mapping[str, float] = field(default_factory=dict)
    read_retired: Callable[[], Mapping[str, float]] = dict


NO_MEMORY = Remembered()
"""Of an exporter without a history file."""


def remember(history: Path, now: float | None = None) -> Remembered:
    """Read what a history file knows, once. now: epoch seconds. A file that cannot be read is logged, and counts as
    empty."""
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3
    from uwsgi_headroom.store.retired import read_retired  # noqa: PLC0415

    now = time.time() if now is None else now
    retired, since = read_retired(history, now), now - PAST_SECONDS
    known: Mapping[str, float] = {}
    try:
        if history.stat().st_size > 0:
            with HistoryFile(history, now) as file:
                known = file.up_seconds(lambda server: max(since, retired.get(server, 0.0)), LONG_ENOUGH)
                if file.damaged:
                    _log.warning("records of the past are damaged", extra={"fields": {"count": file.damaged}})
    except OSError:
        pass  # the writer explains why
    except HistoryFileError as error:
        _log.warning("servers of the past are not known", extra={"fields": {"reason": str(error)}})
    return Remembered(known, lambda: read_retired(history))

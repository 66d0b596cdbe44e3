"""Finds the uWSGIs of this machine again and again, for an exporter that serves.

A look reads the name of every process. It asks about a uWSGI that it sees for the first time, and again later, because
a reload may give it stats: in a reader process that ends with the look.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.discover.find import (
    NO_TIME,
    NOT_ALLOWED,
    FoundMaster,
    Uwsgis,
    ask_in_time,
    explain,
    find_emperors,
    list_masters,
    list_uwsgis,
    read_stats,
    start_reader,
)
from uwsgi_headroom.discover.launch import show_properties
from uwsgi_headroom.kernel.aside import Aside
from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.kernel.procfs import ask_in_thread
from uwsgi_headroom.kernel.proof import read_start_ticks
from uwsgi_headroom.kernel.request_sets import find_place
from uwsgi_headroom.source import ProcessOfApp, SocketOfApp

FIRST_AGAIN, LAST_AGAIN = 50.0, 600.0
"""After so many seconds a uWSGI is asked about for the second time; later each time, up to the longest."""

_READ_SECONDS = _PLACES_SECONDS = 3.0
_MOST_PROCESSES = 16  # of one uWSGI: one that waits for requests is enough
_MOST_UWSGIS = 2000
_MOST_READ = 40
"""How many are read in one look: to decode the document of a hostile one may take 70 ms, in which nothing else runs."""

_Key = tuple[int, int]
"""PID and start."""


class _Known(Struct):
    """What is known of a uWSGI. due: when it is asked about again (monotonic); pause: seconds until then."""

    masters: Sequence[FoundMaster] = ()
    due: float = float("-inf")
    pause: float = FIRST_AGAIN / 2


class Finder:
    """Finds the uWSGIs that are not watched. connects: whether to read each stats server once, and to find where those
    without stats can be watched; spent: seconds that the last look took."""

    def __init__(self, *, connects: bool) -> None:
        self.connects = connects
        self.spent = 0.0
        self._known: dict[_Key, _Known] = {}
        self._reader = Aside()

    async def find(self, here: Collection[int], said: Collection[int]) -> list[FoundMaster]:
        """Find every uWSGI but those that are watched, their emperors, and what they forked; users take turns. here:
        the PIDs of watched ones; said: those that their stats say, in a PID namespace that is not proven.

        Each is found once. With `connects`, it can be watched at its address unless it has a trouble.
        """
        begin = time.monotonic()
        # Not in a thread of asyncio's, for whose end an exporter that ends would wait.
        _, look = ask_in_thread(partial(self._look, here, said, begin), "find servers")
        keys, asked = await asyncio.shield(asyncio.wrap_future(look))
        if self.connects:
            asked = await read_stats(list(_leave_some(asked)), time.monotonic() + _READ_SECONDS)
        entries = defaultdict[int, list[FoundMaster]](list)
        for entry in asked:
            entries[entry.pid].append(entry)
        self._known = {key: self._known.get(key) or _Known() for key in keys}
        for key, known in self._known.items():
            if known.due <= begin:
                own = entries[key[0]]
                known.masters = [_choose(each) for each in (own,) if each]
                known.pause = min(LAST_AGAIN, 2 * known.pause)
                known.due = begin + known.pause * all(entry.trouble != NO_TIME for entry in own)
        self.spent = time.monotonic() - begin
        found = [entry for known in self._known.values() for entry in known.masters]
        emperors = find_emperors(found)
        return [entry for entry in found if entry.pid not in emperors or (entry.address and not entry.trouble)]

    def _look(self, here: Collection[int], said: Collection[int], now: float) -> tuple[list[_Key], list[FoundMaster]]:
        """The uWSGIs that are not watched, and the entries of those that had to be asked about. Waits."""
        uwsgis = list(islice(list_uwsgis(), _MOST_UWSGIS))
        pids = [master.pid for master, _ in uwsgis]
        watched = {pid for pid in pids if pid in here or (said and {*read_pid_numbers(pid)} & {*said})}
        watched |= {parent for master, parent in uwsgis if parent and master.pid in watched}
        others = {(each[0].pid, read_start_ticks(each[0].pid)): each for each in uwsgis if each[0].pid not in watched}
        others = {key: each for key, each in others.items() if key[1] >= 0}  # without those that have ended
        due = [each for key, each in others.items() if key not in self._known or self._known[key].due <= now]
        if not due:
            return list(others), []
        try:
            start_reader(self._reader)
            return list(others), list(self._ask(due, time.monotonic() + _PLACES_SECONDS))
        except OSError as error:  # there is no process for it
            return list(others), [replace(master, trouble=explain(error)) for master, _ in due]
        finally:
            self._reader.end()

    def _ask(self, due: Uwsgis, end: float) -> Iterator[FoundMaster]:
        parents = {master.pid: parent for master, parent in due}
        for entry in list_masters(due, self._reader):
            # A fork of another one, such as a worker that runs a program, is none of its own.
            if not parents[entry.pid] or entry.emperor is not None:
                if self.connects and entry.trouble not in (NOT_ALLOWED, NO_TIME):
                    yield self._place(entry, end)
                else:
                    yield entry

    def _place(self, entry: FoundMaster, end: float) -> FoundMaster:
        """The entry with where it can be watched without stats, or with why not; and with its unit."""
        # A user can have a unit of any name, but not the main process of one of the machine's.
        is_enabled = bool(entry.unit) and time.monotonic() < end and is_enabled_unit(entry.unit, entry.pid)
        entry = replace(entry, enabled_unit=entry.unit * is_enabled)
        processes = tuple([entry.pid, *list_children(entry.pid)][:_MOST_PROCESSES])
        try:
            place, why = ask_in_time(end, find_place, processes, of=self._reader)
        except Exception as error:  # noqa: BLE001 - the others are to be found
            place, why = None, explain(error)
        if why:
            return replace(entry, trouble=entry.trouble * (entry.role != "process") or why * (not entry.address))
        return replace(entry, place=SocketOfApp(place) if place else ProcessOfApp(entry.pid))


def is_enabled_unit(unit: str, pid: int | None) -> bool:
    """Whether systemd starts a service of the machine at each boot; with a PID, whether it is its main process, too."""
    shown = show_properties(unit, "MainPID", "UnitFileState")
    return shown.get("UnitFileState") == "enabled" and pid in (None, int(shown.get("MainPID") or 0))


def _leave_some(entries: Sequence[FoundMaster]) -> Iterator[FoundMaster]:
    """The entries, of which so many may be read; the others later."""
    left = _MOST_READ
    for entry in entries:
        left -= entry.address is not None
        if left < 0 and entry.address is not None:
            yield replace(entry, trouble=NO_TIME)
        else:
            yield entry


def _choose(entries: Sequence[FoundMaster]) -> FoundMaster:
    """The entry of one uWSGI that can be watched best: by its stats, else by the kernel."""
    unread = [entry for entry in entries if entry.trouble == NO_TIME]
    readable = [entry for entry in entries if entry.address and not entry.trouble]
    if unread or readable or not entries[0].place:
        return [*unread, *readable, *entries][0]
    return replace(entries[0], address=entries[0].place, trouble="")

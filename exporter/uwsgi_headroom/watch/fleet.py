"""Keeps the watch of every server of one exporter."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct, structs

from uwsgi_headroom.clock import Clock, within
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, ProbeConfig, Settings
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.discover.follow import Finder
from uwsgi_headroom.kernel.aside import SAMPLES, STRANGERS, Aside, Questions
from uwsgi_headroom.kernel.backlogs import ListenerDumps
from uwsgi_headroom.kernel.cpus import MachineCpu
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.procfs import ask_in_thread
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.routes import Templates
from uwsgi_headroom.source import Address, ProcessOfApp, Room, SocketOfApp
from uwsgi_headroom.watch.code_watch import CodeSetting
from uwsgi_headroom.watch.found import MOST_FOUND, FoundServers
from uwsgi_headroom.watch.globbed import GLOB_SECONDS, NO_MEMORY, GlobbedServers, Match, Remembered
from uwsgi_headroom.watch.kept_history import restore_deploys
from uwsgi_headroom.watch.log_reader import LogReader
from uwsgi_headroom.watch.observation import ExporterHealth, HistoryHealth, LastReload, Observation
from uwsgi_headroom.watch.pace import MOST_CPU, CpuBudget, LoopLag
from uwsgi_headroom.watch.probed import ProbedServers
from uwsgi_headroom.watch.reader import RouteNamer, WorkerPlaces
from uwsgi_headroom.watch.silence import Work
from uwsgi_headroom.watch.tasks import Progress, Task, supervise
from uwsgi_headroom.watch.turns import Turns
from uwsgi_headroom.watch.watch import Watch

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter

FIRST_SECONDS = 1.0
"""How long a response waits for servers not read yet, in seconds."""

CLOSE_SECONDS = 2.0
"""How long the exporter's end waits for the history to be written, in seconds."""


_FOUND_CPU = MOST_CPU / 4
"""The share of a CPU for sampling the servers that nobody configured."""

_FIND_AFTER_SECONDS = 5.0


class _Shared(Struct):
    """What configured servers share, and found ones, which may cost the others nothing. places: for the workers of
    servers without an entry of their own; templates: of routes, None if they are off."""

    budget: CpuBudget
    room: Room
    aside: Aside
    places: WorkerPlaces
    templates: Templates | None = None


class Fleet:
    """Makes and keeps the watch of every server. All share the clock, readings of the machine, lists of listeners, the
    CPU budget, the room for documents in transfer, places for workers, templates of routes and the writer of the
    history. most_cpu: the share of a CPU that sampling them may take; finder: of servers that nobody configured."""

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        servers: Sequence[ServerConfig],
        settings: Settings = DEFAULT_SETTINGS,
        clock: Clock | None = None,
        writer: HistoryWriter | None = None,
        on_turn: Callable[[Sequence[Watch]], None] = lambda _watches: None,
        probe: ProbeConfig | None = None,
        memory: Remembered = NO_MEMORY,
        *,
        most_cpu: float = MOST_CPU,
        finder: Finder | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.settings = settings
        self.writer = writer
        self.lag = LoopLag(self.clock.monotonic)
        self.reload = LastReload(is_successful=True, succeeded_at=self.clock.epoch())
        monotonic = self.clock.monotonic
        self._started = settings
        self._machine_cpu = MachineCpu(monotonic)
        self._listeners = ListenerDumps(monotonic)
        self._waits = WaitSetting(
            enabled=settings.waits,
            backends={address: name for name, address in settings.backends},
            read_pollfds=settings.read_pollfds,
            read_locks=settings.read_locks,
        )
        self._shared = _Shared(
            CpuBudget(monotonic, most_cpu),
            Room(monotonic=monotonic),
            SAMPLES,
            WorkerPlaces(settings.max_servers),
            Templates(settings.route_templates) if settings.routes else None,
        )
        self._of_found = _Shared(
            CpuBudget(monotonic, _FOUND_CPU), Room(monotonic=monotonic), STRANGERS, WorkerPlaces(MOST_FOUND)
        )
        self.restarts: Counter[str] = Counter()
        self._log_reader = LogReader(self.watches, self.clock.monotonic)
        self._progress = Progress(self.clock.monotonic, on_turn)
        self._changed = asyncio.Event()
        self.probed = ProbedServers(probe.targets, self._watch_probed, self.clock, self._changed.set) if probe else None
        self._paused = False
        self._kept: dict[object, Watch] = {}
        self._globbed = GlobbedServers(self._watch, settings.max_servers, self.clock, memory)
        self._trial: asyncio.Task[None] | None = None
        self._globbed.configure(*self._name_servers(servers))
        self._finder = finder
        self._found = FoundServers(self._watch_found, self._configured, self.clock, self._changed.set)

    def _name_servers(self, servers: Sequence[ServerConfig]) -> tuple[list[ServerConfig], list[Watch]]:
        self._named = [self._watch(server.name, server.address, server) for server in servers if server.address]
        return [server for server in servers if server.address is None], self._named

    def watches(self) -> list[Watch]:
        """Return every watch: named ones in the order of the configuration, those of the last `refresh`, and those of
        found servers."""
        return self._configured() + self._found.shown()

    def _configured(self) -> list[Watch]:
        return self._named + self._globbed.watches()

    def _sampled(self) -> list[Watch]:
        """Return every watch, those of servers that were not up yet, and those of addresses that probes ask for."""
        return self._configured() + self._found.watches() + (self.probed.watches() if self.probed else [])

    def refresh(self) -> None:
        """Expand the globs: add new sockets, and forget sockets that have been gone for long and are not expected."""
        self._globbed.take(self._globbed.expand())

    async def wait_for_first(self, watches: Sequence[Watch], seconds: float = FIRST_SECONDS) -> None:
        """Wait until each of these servers was read once or failed, but at most `seconds`."""
        unread = [watch.reader.finished_first for watch in watches if not watch.reader.finished_first.is_set()]
        waiting = [asyncio.create_task(event.wait(), name="first reading") for event in unread]
        try:
            if waiting:
                await asyncio.wait(waiting, timeout=seconds)
        finally:
            for task in waiting:
                task.cancel()

    async def observe(self, wait: float = FIRST_SECONDS) -> list[Observation]:
        """Observe every server as last read, without reading. Waits up to `wait` seconds for servers that were never
        read."""
        watches = self.watches()
        await self.wait_for_first(watches, wait)
        observations = []
        turns, on_demand = Turns(), self._globbed.on_demand()
        for watch in watches:
            if not self._found.is_optional(watch) and watch not in on_demand:
                observations.append(watch.observe(self.settings.windows))
            elif watch.state != "down":
                observations.append(structs.replace(watch.observe(self.settings.windows), is_optional=True))
            await turns.pause_if_due()
        return observations

    async def read_logs(self) -> NoReturn:
        await supervise("log", self._log_reader.run, self.restarts)

    async def run(self) -> None:
        """Expand the globs now and every GLOB_SECONDS, and sample every server on its own timer, until cancelled."""
        tasks: dict[Watch, asyncio.Task[NoReturn]] = {}
        works: dict[Task, Callable[[], Awaitable[None]]] = {"log": self._log_reader.run, "globs": self._expand_globs}
        works["restore"] = partial(restore_deploys, self.watches, self.clock)
        if self._finder:
            works["find"] = partial(self._find, self._finder)
        others = [asyncio.create_task(supervise(name, work, self.restarts), name=name) for name, work in works.items()]
        if not self._paused:  # a new socket would be read at once
            self.refresh()
        try:
            while True:
                if not self._paused:
                    self._try_left_out()
                if self.probed:
                    self.probed.forget_idle()
                self._found.forget()
                watches = self._sampled()
                for watch in watches:
                    if watch not in tasks or tasks[watch].done():
                        work = supervise("sample", partial(self._progress.sample, watch), self.restarts)
                        tasks[watch] = asyncio.create_task(work, name=f"sample {watch.name}")
                for forgotten in tasks.keys() - set(watches):
                    tasks.pop(forgotten).cancel()
                for shared in (self._shared, self._of_found):
                    shared.places.keep({watch.reader for watch in watches})
                self._progress.end_turn(self._configured())
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(GLOB_SECONDS, self._changed.wait())
                self._changed.clear()
        finally:
            for task in (*others, *tasks.values()):
                task.cancel()

    async def _expand_globs(self) -> NoReturn:
        """Expand the globs every GLOB_SECONDS. A directory may be slow, or hang: nothing waits for it."""
        while True:
            await asyncio.sleep(GLOB_SECONDS)
            settings = self.settings
            matches = await self._expand()
            if not self._paused and self.settings is settings:  # else these are matches of other globs
                self._globbed.take(matches)
                self._changed.set()

    async def _expand(self, entries: Sequence[ServerConfig] | None = None) -> list[Match]:
        """Expand the globs in a thread that ends with the exporter, even if its directory hangs."""
        _, answer = ask_in_thread(partial(self._globbed.expand, entries), "expand globs")
        return await asyncio.shield(asyncio.wrap_future(answer))

    async def _find(self, finder: Finder) -> NoReturn:
        """Look for servers that nobody configured; which ones those are is known when the others were read."""
        await self.wait_for_first(self._configured(), _FIND_AFTER_SECONDS)
        await self._found.run(finder)

    def _try_left_out(self) -> None:
        """Begin to try the sockets that have no place, unless that is under way."""
        if self._trial is None or self._trial.done():
            self._trial = asyncio.create_task(self._globbed.try_left_out(), name="try sockets")

    async def _end_trial(self) -> None:
        self._found.is_paused = self._paused
        for trial in filter(None, (self._trial, self._found.looking)):
            trial.cancel()
            await asyncio.wait({trial})

    async def reconfigure(self, servers: Sequence[ServerConfig], settings: Settings) -> tuple[int, int]:
        """Watch these servers from here on, with these settings' objective, windows, age of stuck requests and most
        servers. Returns how many servers were added and removed.

        A server keeps its history if its name, address and objective are the same. No other is read before the reads of
        removed servers have ended, and their part of the present minute is written.
        """
        matches = await self._expand([server for server in servers if server.address is None])
        before = self._configured()
        taken = {name: getattr(settings, name) for name in ("slo", "stuck_seconds", "windows", "max_servers")}
        self.settings = replace(self.settings, **taken)
        self._shared.places.most_servers = settings.max_servers
        self._kept = {_identity(watch.name, watch.address, watch.slo): watch for watch in before}
        self._globbed.reconfigure(*self._name_servers(servers), settings.max_servers)
        self._globbed.take(matches)
        removed = list(self._kept.values())
        self._kept = {}
        added = [watch for watch in self._configured() if watch not in before]
        ends = [*(watch.reader.pause() for watch in added), *(watch.reader.close() for watch in removed)]
        try:
            await asyncio.gather(*ends)
        finally:
            for watch in removed:
                watch.finish_minute()
        if not self._paused:
            for watch in added:
                watch.reader.resume()
        self._changed.set()
        return len(added), len(removed)

    @property
    def health(self) -> ExporterHealth:
        writer = self.writer
        history = HistoryHealth(not writer.problem, writer.size, writer.dropped) if writer else None
        found, patterns = self._found.not_watched, self._globbed.patterns
        return ExporterHealth(self.lag.largest, self.restarts, history, self.reload, patterns, found)

    def fail(self, name: str, error: Exception) -> Observation | None:
        """Turn a bug in this package into a failed observation of a server; None if it is no longer watched."""
        for watch in self.watches():
            if watch.name == name:
                return watch.failed_observation(watch.reader.fault(error))
        return None

    async def close(self) -> None:
        """End reads in flight, and write the rest of the history."""
        ending = self._sampled()
        if self.probed:
            self.probed.close()
        await self._end_trial()
        await asyncio.gather(*(watch.reader.close() for watch in ending))
        if self.writer:
            for watch in self.watches():
                watch.finish_minute()
            await asyncio.to_thread(self.writer.close, CLOSE_SECONDS)

    async def pause(self) -> None:
        self._paused = True
        if self.probed:
            self.probed.accepting = False
        await self._end_trial()
        await asyncio.gather(*(watch.reader.pause() for watch in self._sampled()))

    def resume(self) -> None:
        self._paused = self._found.is_paused = False
        for watch in self._sampled():
            watch.reader.resume()
        if self.probed:
            self.probed.accepting = True

    def _watch(self, name: str, address: Address, config: ServerConfig) -> Watch:
        kept = self._kept.pop(_identity(name, address, config.slo or self.settings.slo), None)
        if kept:
            kept.reader.timeout, kept.reader.size_cap = config.timeout, config.size_cap
            kept.stuck_seconds = config.stuck_seconds or self.settings.stuck_seconds
            kept.set_log(find_log(config, name, self.settings))
            kept.set_code(find_code(config, self.settings))
            return kept
        is_kept = not isinstance(address, ProcessOfApp | SocketOfApp)  # a file has no figures without uWSGI's counters
        return self._make(name, address, config, self.writer if is_kept else None)

    def _watch_probed(self, name: str, address: Address) -> Watch:
        return self._make(name, address, ServerConfig(name, address), None)

    def _watch_found(self, name: str, address: Address) -> Watch:
        """Make the watch of a server that nobody configured: without what is opt-in, or lasts."""
        return self._make(name, address, ServerConfig(name, None, code=False), None, self._of_found)

    def _make(
        self,
        name: str,
        address: Address,
        config: ServerConfig,
        writer: HistoryWriter | None,
        shared: _Shared | None = None,
    ) -> Watch:
        """Make the watch of a server, with the settings with which the exporter started, but for the objective, the age
        of stuck requests, the log and the code. shared: for a server that was found."""
        shared = shared or self._shared
        settings, started, monotonic = self.settings, self._started, self.clock.monotonic
        return Watch(
            name,
            address,
            timeout=config.timeout,
            size_cap=config.size_cap,
            samples_per_second=started.samples_per_second,
            slo=config.slo or settings.slo,
            stuck_seconds=config.stuck_seconds or settings.stuck_seconds,
            host=Host(
                started.cpu_residency,
                monotonic,
                self._machine_cpu,
                self._waits,
                self._listeners,
                Questions(monotonic, shared.aside),
            ),
            routes=RouteNamer(shared.templates) if shared.templates is not None else None,
            clock=self.clock,
            lag=self.lag,
            writer=writer,
            budget=shared.budget,
            room=shared.room,
            places=None if config.address else shared.places,
            # The log of a server whose stats do not answer is read for its own watch.
            log="" if isinstance(address, ProcessOfApp) else find_log(config, name, settings),
            code=find_code(config, settings),
            make_other=lambda process: self._make_other(name, process, config, shared),
        )

    def _make_other(
        self, name: str, process: ProcessOfApp, config: ServerConfig, shared: _Shared
    ) -> tuple[Watch, Work]:
        """Make the watch of a server by the kernel, and what samples it. Verdicts are by the server's settings."""
        watch = self._make(name, process, config, None, shared)
        return watch, partial(supervise, "sample", watch.sample, self.restarts)


def find_log(config: ServerConfig, name: str, settings: Settings) -> str:
    """The path of a server's log: of its own entry, or of the flag with its name; "" for none."""
    return config.log or dict(settings.logs).get(name, "")


def find_code(config: ServerConfig, settings: Settings) -> CodeSetting | None:
    """How the code of a server is looked at: by its own entry, or the settings of all; None if it is not."""
    if not (settings.code if config.code is None else config.code):
        return None
    return CodeSetting(config.code_prefixes or settings.code_prefixes, kept_seconds=settings.windows[-1])


def _identity(name: str, address: Address, slo: Slo | None) -> object:
    return name, address, slo and (slo.threshold, slo.objective)

"""All servers of one exporter: those named in its configuration, and those that its globs match."""

from __future__ import annotations

import asyncio
import glob
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.model import SETTINGS, ProbeConfig, ServerConfig, Settings
from uwsgi_headroom.config.names import GlobNames
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.machine_cpu import MachineCpu
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.routes.templates import Templates
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.loop_lag import LoopLag
from uwsgi_headroom.watch.observation import ExporterHealth, HistoryHealth, Observation
from uwsgi_headroom.watch.probed import ProbedServers
from uwsgi_headroom.watch.route_namer import RouteNamer
from uwsgi_headroom.watch.supervise import supervise
from uwsgi_headroom.watch.watch import Watch

GLOB_SECONDS = 5.0
"""Seconds between two expansions of the globs."""

FIRST_SECONDS = 1.0
"""How long a response waits for servers that have not been read yet, in seconds."""

CLOSE_SECONDS = 2.0
"""How long the end of the exporter waits for the history to be written, in seconds."""

FORGET_SECONDS = 600.0
"""How long a globbed server is reported as down after its socket is gone, in seconds: long enough for an alert."""


@dataclass
class _GlobbedServer:
    watch: Watch
    last_seen_at: float


class Fleet:
    """Makes and keeps the watch of every server."""

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        settings: Settings = SETTINGS,
        clock: Clock | None = None,
        writer: HistoryWriter | None = None,
        probe: ProbeConfig | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.settings = settings
        self.writer = writer
        self.lag = LoopLag(self.clock.monotonic)
        self._machine_cpu = MachineCpu(self.clock.monotonic)
        self._wait_setting = WaitSetting(
            enabled=settings.waits,
            backends={address: name for name, address in settings.backends},
            read_pollfds=settings.read_pollfds,
        )
        self._templates = Templates(settings.route_templates) if settings.routes else None
        self.restarts: Counter[str] = Counter()
        self.probed = ProbedServers(probe.targets, self._watch_probed, self.clock, self.restarts) if probe else None
        self._paused = False
        self._named = [self._watch(server.name, server.address, server) for server in servers if server.address]
        self._globs = [server for server in servers if server.address is None]
        self._names = GlobNames([server.pattern for server in self._globs], {watch.name for watch in self._named})
        self._globbed: dict[str, _GlobbedServer] = {}

    def watches(self) -> list[Watch]:
        """Return every watch: named ones in the order of the configuration, then those of the last `refresh`."""
        return self._named + [globbed.watch for _, globbed in sorted(self._globbed.items())]

    def refresh(self) -> None:
        """Expand the globs: add new sockets, and forget sockets that have been gone for FORGET_SECONDS."""
        now = self.clock.monotonic()
        named_addresses = {watch.address for watch in self._named}
        for entry in self._globs:
            for path in sorted(glob.glob(entry.pattern)):
                if Unix(path) in named_addresses:
                    continue  # already watched under its own name
                if path in self._globbed:
                    self._globbed[path].last_seen_at = now
                elif _is_socket(path):
                    self._globbed[path] = _GlobbedServer(self._watch(self._names.name(path), Unix(path), entry), now)
        for path, server in list(self._globbed.items()):
            if now - server.last_seen_at >= FORGET_SECONDS:
                server.watch.finish_minute()
                del self._globbed[path]

    async def wait_for_first(self, watches: Sequence[Watch], seconds: float = FIRST_SECONDS) -> None:
        """Wait until each of these servers has been read once or has failed, but at most `seconds`."""
        unread = [watch.reader.finished_first for watch in watches if not watch.reader.finished_first.is_set()]
        waiting = [asyncio.create_task(event.wait(), name="first reading") for event in unread]
        try:
            if waiting:
                await asyncio.wait(waiting, timeout=seconds)
        finally:
            for task in waiting:
                task.cancel()

    async def observe(self) -> list[Observation]:
        """Observe every server as last read, without reading. Waits up to a second for servers that were never read."""
        watches = self.watches()
        await self.wait_for_first(watches)
        observations = []
        for watch in watches:
            observations.append(watch.observe(self.settings.windows))
            await asyncio.sleep(0)  # reads in flight have a deadline
        return observations

    async def run(self) -> None:
        """Expand the globs now and every GLOB_SECONDS, and sample every server on its own timer, until cancelled."""
        tasks: dict[Watch, asyncio.Task[NoReturn]] = {}
        try:
            while True:
                if not self._paused:  # a new socket would be read at once
                    self.refresh()
                if self.probed:
                    self.probed.forget_idle()
                watches = self.watches()
                for watch in watches:
                    if watch not in tasks or tasks[watch].done():
                        name = f"sample {watch.name}"
                        tasks[watch] = asyncio.create_task(supervise("sample", watch.sample, self.restarts), name=name)
                for forgotten in tasks.keys() - set(watches):
                    tasks.pop(forgotten).cancel()
                await asyncio.sleep(GLOB_SECONDS)
        finally:
            for task in tasks.values():
                task.cancel()

    @property
    def health(self) -> ExporterHealth:
        """The health of the exporter itself."""
        writer = self.writer
        history = HistoryHealth(not writer.problem, writer.size, writer.dropped) if writer else None
        return ExporterHealth(self.lag.largest, self.restarts, history)

    def fail(self, name: str, error: Exception) -> Observation:
        """Turn a bug in this package into a failed observation of a server."""
        watch = next(watch for watch in self.watches() if watch.name == name)
        return watch.failed_observation(watch.reader.fault(error))

    async def close(self) -> None:
        """End reads in flight, and write the rest of the history."""
        if self.probed:
            await self.probed.close()
        await asyncio.gather(*(watch.reader.close() for watch in self.watches()))
        if self.writer:
            for watch in self.watches():
                watch.finish_minute()
            await asyncio.to_thread(self.writer.close, CLOSE_SECONDS)

    async def pause(self) -> None:
        """End reads in flight, and start none until `resume`."""
        self._paused = True
        if self.probed:
            await self.probed.pause()
        await asyncio.gather(*(watch.reader.pause() for watch in self.watches()))

    def resume(self) -> None:
        """Read again after a `pause`."""
        self._paused = False
        for watch in self.watches():
            watch.reader.resume()
        if self.probed:
            self.probed.resume()

    def _watch_probed(self, name: str, address: Address) -> Watch:
        return self._watch(name, address, ServerConfig(name, address), keeps_history=False)

    def _watch(self, name: str, address: Address, config: ServerConfig, *, keeps_history: bool = True) -> Watch:
        return Watch(
            name,
            address,
            timeout=config.timeout,
            size_cap=config.size_cap,
            samples_per_second=self.settings.samples_per_second,
            slo=config.slo or self.settings.slo,
            host=Host(self.settings.cpu_residency, self.clock.monotonic, self._machine_cpu, self._wait_setting),
            routes=RouteNamer(self._templates) if self._templates is not None else None,
            clock=self.clock,
            lag=self.lag,
            writer=self.writer if keeps_history else None,
        )


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False

"""All the servers of one exporter: those named in its configuration, and those a glob finds."""

from __future__ import annotations

import asyncio
import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.model import SETTINGS, ServerConfig, Settings
from uwsgi_headroom.config.names import free_name
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.watch import Watch

GLOB_SECONDS = 5.0
"""How often globs are looked up again."""

FORGET_SECONDS = 600.0
"""How long a globbed server is still reported as down after its socket is gone: long enough to be paged about."""


@dataclass
class _GlobbedServer:
    watch: Watch
    last_seen_at: float


class Fleet:
    """The watches of every server, made once and kept."""

    def __init__(
        self, servers: Sequence[ServerConfig], settings: Settings = SETTINGS, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self.settings = settings
        self._named = [self._watch(server.name, server.address, server) for server in servers if server.address]
        self._globs = [server for server in servers if server.address is None]
        self._globbed: dict[str, _GlobbedServer] = {}
        self._answer_lock = asyncio.Lock()

    def watches(self) -> list[Watch]:
        """Every server: those named, in the order of the configuration, then those that the last `refresh` left."""
        return self._named + [globbed.watch for _, globbed in sorted(self._globbed.items())]

    def refresh(self) -> None:
        """Look the globs up: add the sockets that are new, and forget those gone for FORGET_SECONDS."""
        now = self.clock.monotonic()
        named_addresses = {watch.address for watch in self._named}
        for entry in self._globs:
            for path in sorted(glob.glob(entry.pattern)):
                if Unix(path) in named_addresses:
                    continue  # it has a name, and a reader, already
                if path in self._globbed:
                    self._globbed[path].last_seen_at = now
                elif _is_socket(path):
                    self._globbed[path] = _GlobbedServer(self._watch(self._name(path), Unix(path), entry), now)
        self._globbed = {
            path: server for path, server in self._globbed.items() if now - server.last_seen_at < FORGET_SECONDS
        }

    async def read_all(self, timeout: float | None = None) -> list[Observation]:
        """Read every server, all at once, each within `timeout` seconds.

        Whoever asks is answered in turn: making an answer of hundreds of workers takes a while, and a hundred askers in
        a row would keep the event loop from reads in flight for longer than the deadline.
        """
        watches = self.watches()
        outcomes = await asyncio.gather(*(watch.reader.read(timeout=timeout) for watch in watches))
        async with self._answer_lock:
            await asyncio.sleep(0)  # the event loop's own turn
        return [
            Observation(
                name=watch.name,
                address=str(watch.address),
                outcome=outcome,
                read_errors=watch.reader.errors,
                totals=watch.integrals.totals,
                pace=watch.pace,
                figures=watch.figures(outcome, self.settings.windows) if isinstance(outcome, Reading) else [],
            )
            for watch, outcome in zip(watches, outcomes, strict=True)
        ]

    async def run(self) -> None:
        """Look the globs up now and every GLOB_SECONDS, and sample every server on its own timer, until cancelled."""
        tasks: dict[Watch, asyncio.Task[None]] = {}
        try:
            while True:
                self.refresh()
                watches = self.watches()
                for watch in watches:
                    if watch not in tasks or tasks[watch].done():
                        tasks[watch] = asyncio.create_task(watch.sample(), name=f"sample {watch.name}")
                for forgotten in tasks.keys() - set(watches):
                    tasks.pop(forgotten).cancel()
                await asyncio.sleep(GLOB_SECONDS)
        finally:
            for task in tasks.values():
                task.cancel()

    async def close(self) -> None:
        """End reads in flight."""
        await asyncio.gather(*(watch.reader.close() for watch in self.watches()))

    async def pause(self) -> None:
        """End reads in flight, and begin none until `resume`."""
        await asyncio.gather(*(watch.reader.pause() for watch in self.watches()))

    def resume(self) -> None:
        """Read again after a `pause`."""
        for watch in self.watches():
            watch.reader.resume()

    def _watch(self, name: str, address: Address, config: ServerConfig) -> Watch:
        return Watch(
            name,
            address,
            timeout=config.timeout,
            size_cap=config.size_cap,
            samples_per_second=self.settings.samples_per_second,
            cpu_residency=self.settings.cpu_residency,
            clock=self.clock,
        )

    def _name(self, path: str) -> str:
        """After its file, without the ending (`/run/uwsgi/shop.stats` is `shop`); after its path if that is taken."""
        taken = {watch.name for watch in self._named} | {globbed.watch.name for globbed in self._globbed.values()}
        return free_name(Unix(path), taken)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False

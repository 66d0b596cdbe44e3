"""All the servers of one exporter: those named in its configuration, and those a glob finds."""

from __future__ import annotations

import asyncio
import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from uwsgi_headroom.config import ServerConfig, default_name, printable
from uwsgi_headroom.metrics.subject import Subject
from uwsgi_headroom.reader import Clock, Reader
from uwsgi_headroom.source import Unix

GLOB_SECONDS = 5.0
"""How often globs are looked up again, at most."""

FORGET_SECONDS = 600.0
"""How long a globbed server is still reported as down after its socket is gone: long enough to be paged about."""


@dataclass
class _Found:
    reader: Reader
    seen: float


class Fleet:
    """The readers of every server, made once and kept."""

    def __init__(self, servers: Sequence[ServerConfig], clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._named = [
            Reader(it.name, it.address, timeout=it.timeout, size_cap=it.size_cap) for it in servers if it.address
        ]
        self._globs = [it for it in servers if it.address is None]
        self._found: dict[str, _Found] = {}
        self._globbed_at = float("-inf")

    def readers(self) -> list[Reader]:
        """Every server's reader, in the order of the configuration; globs are looked up again now and then."""
        now = self._clock.monotonic()
        if self._globs and now - self._globbed_at >= GLOB_SECONDS:
            self._globbed_at = now
            self._look_up(now)
        return self._named + [found.reader for _, found in sorted(self._found.items())]

    async def look(self, timeout: float | None = None) -> list[Subject]:
        """Read every server, all at once, each within `timeout` seconds."""
        readers = self.readers()
        outcomes = await asyncio.gather(*(reader.read(timeout=timeout) for reader in readers))
        return [Subject(reader.name, outcome, reader.errors) for reader, outcome in zip(readers, outcomes, strict=True)]

    async def close(self) -> None:
        """End reads in flight."""
        await asyncio.gather(*(reader.close() for reader in self.readers()))

    def _look_up(self, now: float) -> None:
        told = {reader.address for reader in self._named}
        for entry in self._globs:
            for path in sorted(glob.glob(entry.pattern)):
                if Unix(path) in told:
                    continue  # it has a name, and a reader, already
                if path in self._found:
                    self._found[path].seen = now
                elif _is_socket(path):
                    reader = Reader(self._name(path), Unix(path), timeout=entry.timeout, size_cap=entry.size_cap)
                    self._found[path] = _Found(reader, now)
        self._found = {path: it for path, it in self._found.items() if now - it.seen < FORGET_SECONDS}

    def _name(self, path: str) -> str:
        """After its file, without the ending (`/run/uwsgi/shop.stats` is `shop`); after its path if that is taken."""
        name = default_name(Unix(path))
        taken = {reader.name for reader in self._named} | {found.reader.name for found in self._found.values()}
        return printable(path) if name in taken else name


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False

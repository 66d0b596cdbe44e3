"""The servers that `/probe` has asked for: each is sampled like all others while probes ask for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NoReturn

from msgspec import Struct

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import TargetPattern, find_allowed
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.watch.tasks import supervise
from uwsgi_headroom.watch.watch import Watch

MOST_PROBED = 50
"""The most addresses that are sampled for probes at a time."""

FORGET_SECONDS = 300.0
"""How long an address is sampled after its last probe, in seconds: longer than scrape intervals are."""


class NoPlaceError(HeadroomError):
    """No further address can be sampled now."""


class _Probed(Struct):
    watch: Watch
    sampling: asyncio.Task[NoReturn]
    probed_at: float


class ProbedServers:
    """Makes and keeps the watch of every address that probes ask for. make_watch: makes one by name and address."""

    def __init__(
        self,
        patterns: Sequence[TargetPattern],
        make_watch: Callable[[str, Address], Watch],
        clock: Clock,
        restarts: Counter[str],
    ) -> None:
        self._patterns = patterns
        self._make_watch = make_watch
        self._clock = clock
        self._restarts = restarts
        self._probed: dict[Address, _Probed] = {}
        self._accepting = True

    def watches(self) -> list[Watch]:
        """Return the watches that are kept, in the order of their first probe."""
        return [probed.watch for probed in self._probed.values()]

    def find(self, target: str, watches: Sequence[Watch]) -> Watch | None:
        """Return the watch of a target: that of `watches` with this name or address, or one that is kept here. None if
        the target is neither a name nor an address that a pattern allows. Raises NoPlaceError.

        Does no I/O. A watch that is made here is sampled from then on.
        """
        named = next((watch for watch in watches if watch.name == target), None)
        if named:
            return named
        address = find_allowed(target, self._patterns)
        if address is None:
            return None
        # As text: a configured address is not guarded, which does not make it another server.
        watched = next((watch for watch in watches if str(watch.address) == str(address)), None)
        if watched:
            self._forget(address)
            return watched
        self.forget_idle()
        probed = self._probed.get(address)
        if probed is None:
            if not self._accepting:
                raise NoPlaceError("the exporter is stopping")
            if len(self._probed) >= MOST_PROBED:
                raise NoPlaceError(
                    f"{MOST_PROBED} addresses are probed already; one is forgotten {FORGET_SECONDS:g} s after its last "
                    "probe"
                )
            # The target in its shortest form.
            name = address.path if isinstance(address, Unix) else str(address).removeprefix("tcp://")
            watch = self._make_watch(name, address)
            sampling = asyncio.create_task(supervise("sample", watch.sample, self._restarts), name=f"sample {name}")
            probed = self._probed[address] = _Probed(watch, sampling, self._clock.monotonic())
        probed.probed_at = self._clock.monotonic()
        return probed.watch

    def forget_idle(self) -> None:
        """Stop sampling the addresses whose last probe was FORGET_SECONDS ago."""
        now = self._clock.monotonic()
        for address, probed in list(self._probed.items()):
            if now - probed.probed_at >= FORGET_SECONDS:
                self._forget(address)

    def _forget(self, address: Address) -> None:
        probed = self._probed.pop(address, None)
        if probed:
            probed.sampling.cancel()

    async def pause(self) -> None:
        """End reads in flight, and start none until `resume`."""
        self._accepting = False
        await asyncio.gather(*(watch.reader.pause() for watch in self.watches()))

    def resume(self) -> None:
        """Read again after a `pause`."""
        self._accepting = True
        for watch in self.watches():
            watch.reader.resume()

    async def close(self) -> None:
        """End sampling and reads in flight, and keep no watch any more."""
        self._accepting = False
        for probed in self._probed.values():
            probed.sampling.cancel()
        await asyncio.gather(*(watch.reader.close() for watch in self.watches()))
        self._probed.clear()

"""The servers that `/probe` has asked for: each is sampled like all others while probes ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import TargetPattern, find_allowed
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.watch.watch import Watch

MOST_PROBED = 50
"""The most addresses that are sampled for probes at a time."""

FORGET_SECONDS = 300.0
"""How long an address is sampled after its last probe, in seconds: longer than scrape intervals."""


class NoPlaceError(HeadroomError):
    """No further address can be sampled now."""


class _Probed(Struct):
    watch: Watch
    probed_at: float


class ProbedServers:
    """Makes and keeps the watch of every address that probes ask for. make_watch: makes one by name and address;
    on_change: called when `watches` are others. `accepting`: whether further addresses may be watched."""

    def __init__(
        self,
        patterns: Sequence[TargetPattern],
        make_watch: Callable[[str, Address], Watch],
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._patterns, self._make_watch, self._clock, self._on_change = patterns, make_watch, clock, on_change
        self._probed: dict[Address, _Probed] = {}
        self.accepting = True

    def watches(self) -> list[Watch]:
        return [probed.watch for probed in self._probed.values()]

    def find(self, target: str, watches: Sequence[Watch]) -> Watch | None:
        """Return the watch of a target: that of `watches` with this name or address, or one that is kept here. None if
        the target is neither a name nor an address that a pattern allows. Raises NoPlaceError.

        Does no I/O. The fleet samples a watch that is made here from then on.
        """
        if named := next((watch for watch in watches if watch.name == target), None):
            return named
        address = find_allowed(target, self._patterns)
        if address is None:
            return None
        # As text: a configured address is not guarded, which does not make it another server.
        if watched := next((watch for watch in watches if str(watch.address) == str(address)), None):
            self._forget(address)
            return watched
        self.forget_idle()
        probed = self._probed.get(address)
        if probed is None:
            if not self.accepting:
                raise NoPlaceError("the exporter is stopping")
            if len(self._probed) >= MOST_PROBED:
                forgotten = f"one is forgotten {FORGET_SECONDS:g} s after its last probe"
                raise NoPlaceError(f"{MOST_PROBED} addresses are probed already; {forgotten}")
            # The target in its shortest form.
            name = address.path if isinstance(address, Unix) else str(address).removeprefix("tcp://")
            probed = self._probed[address] = _Probed(self._make_watch(name, address), self._clock.monotonic())
            self._on_change()
        probed.probed_at = self._clock.monotonic()
        return probed.watch

    def forget_idle(self) -> None:
        now = self._clock.monotonic()
        for address, probed in list(self._probed.items()):
            if now - probed.probed_at >= FORGET_SECONDS:
                self._forget(address)

    def _forget(self, address: Address) -> None:
        if self._probed.pop(address, None):
            self._on_change()

    def close(self) -> None:
        """Keep no watch any more, and make none."""
        self.accepting = False
        self._probed.clear()

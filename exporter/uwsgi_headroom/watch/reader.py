"""One server, read by whoever asks, once at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from uwsgi_headroom import source, stats
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import SIZE_CAP, TIMEOUT_SECONDS
from uwsgi_headroom.errors import ReadError, Reason, SourceError
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.reading import Reading

FRESH_SECONDS = 0.1
"""A reading younger than this answers whoever asks: twenty scrapers at once cost a server one read."""

_log = logging.getLogger(__name__)


class Reader:
    """Reads one server, with at most one read in flight however many ask (uWSGI's master serves its stats itself).

    `outcome` is what the last finished read brought, None before the first; `errors` counts failed reads by reason.
    Each outcome goes to `on_outcome` once, with its monotonic instant, for any caller. A change from readable to
    not, or from one reason to another, is logged; the same failure again is not.
    """

    def __init__(
        self,
        name: str,
        address: source.Address,
        *,
        timeout: float = TIMEOUT_SECONDS,
        size_cap: int = SIZE_CAP,
        clock: Clock | None = None,
        cpu_residency: bool = False,
        on_outcome: Callable[[float, Reading | ReadError], None] = lambda _at, _outcome: None,
    ) -> None:
        self.name = name
        self.address = address
        self.outcome: Reading | ReadError | None = None
        self.errors: Counter[Reason] = Counter()
        self._timeout = timeout
        self._size_cap = size_cap
        self._clock = clock or Clock()
        self._on_outcome = on_outcome
        self._host = Host(cpu_residency, self._clock.monotonic)
        self._in_flight: asyncio.Task[Reading | ReadError] | None = None
        self._closed = False
        self._not_paused = asyncio.Event()
        self._not_paused.set()

    async def read(self, *, timeout: float | None = None) -> Reading | ReadError:
        """A reading at most FRESH_SECONDS old (the last one, the one under way, or a new one), or why there is none.

        Waits at most `timeout` seconds; the read itself goes on to its own deadline for whoever else waits for it.
        """
        if isinstance(self.outcome, Reading) and self._clock.monotonic() - self.outcome.at < FRESH_SECONDS:
            return self.outcome
        await self._not_paused.wait()
        if self._closed:
            return SourceError("unreachable", "the exporter is stopping")
        if self._in_flight is None:
            self._in_flight = asyncio.create_task(self._read(), name=f"read {self.name}")
        task = self._in_flight
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            return SourceError("timeout", f"no answer yet after the {timeout:g} s that the scrape leaves")
        if task.cancelled():  # by `pause`, or by `close`, which the next turn tells apart
            return await self.read(timeout=timeout)
        return task.result()

    async def close(self) -> None:
        """End the read in flight, if any, close its connection, and begin no other."""
        self._closed = True
        self._not_paused.set()
        if self._in_flight is not None:
            self._in_flight.cancel()
            await asyncio.wait({self._in_flight})

    async def pause(self) -> None:
        """End the read in flight, if any, and close its connection; whoever wants a reading waits until `resume`."""
        self._not_paused.clear()
        if self._in_flight is not None:
            self._in_flight.cancel()
            await asyncio.wait({self._in_flight})

    def resume(self) -> None:
        """Read again after a `pause`."""
        self._not_paused.set()

    async def _read(self) -> Reading | ReadError:
        outcome: Reading | ReadError
        try:
            outcome = await self._read_once()
        except ReadError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - our own mistake about one server must not take the others down
            outcome = ReadError("internal", f"a fault of the exporter itself, please report it: {error!r}")
            _log.error("internal error", extra={"fields": {"server": self.name}}, exc_info=True)
        finally:
            self._in_flight = None
        self._log_change(outcome)
        self._on_outcome(self._clock.monotonic(), outcome)
        self.outcome = outcome
        return outcome

    async def _read_once(self) -> Reading:
        start = self._clock.monotonic()
        answer = await source.read_document(self.address, timeout=self._timeout, size_cap=self._size_cap)
        at, epoch = self._clock.monotonic(), self._clock.epoch()
        snapshot = stats.decode(answer.body)
        return Reading(
            at=at,
            time=epoch,
            read_seconds=at - start,
            document_bytes=len(answer.body),
            snapshot=snapshot,
            host=self._host.read_facts(snapshot, answer),
        )

    def _log_change(self, outcome: Reading | ReadError) -> None:
        fields: dict[str, object] = {"server": self.name, "address": str(self.address)}
        before = self.outcome
        if isinstance(outcome, ReadError):
            self.errors[outcome.reason] += 1
            if not isinstance(before, ReadError) or before.reason != outcome.reason:
                _log.warning(
                    "cannot read",
                    extra={"fields": {**fields, "reason": outcome.reason, "detail": str(outcome)}},
                )
            return
        if not isinstance(before, Reading):
            fields |= {"kind": outcome.snapshot.kind, "uwsgi": outcome.snapshot.version}
            _log.info("reading", extra={"fields": fields})
        if outcome.host.off and (not isinstance(before, Reading) or before.host.off != outcome.host.off):
            _log.info("no process facts", extra={"fields": {"server": self.name, "detail": outcome.host.off}})

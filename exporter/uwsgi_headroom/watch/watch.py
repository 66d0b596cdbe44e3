"""One server under watch: what is read of it, by whomever, becomes its totals and its history."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND, SIZE_CAP, TIMEOUT_SECONDS
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.window import History
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.pace import Pace, sample
from uwsgi_headroom.watch.reader import Reader


class Watch:
    """A server's reader, pace, totals and history. `sample` reads on its own timer; scrapes read through `reader`.

    `reading` is the last that succeeded, None before the first; `reader.outcome` says what came of the last attempt.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        timeout: float = TIMEOUT_SECONDS,
        size_cap: int = SIZE_CAP,
        samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND,
        cpu_residency: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.reader = Reader(
            name,
            address,
            timeout=timeout,
            size_cap=size_cap,
            clock=clock,
            cpu_residency=cpu_residency,
            on_outcome=self._record,
        )
        self.pace = Pace(samples_per_second)
        self.integrals = Integrals()
        self.history = History()
        self.reading: Reading | None = None

    async def sample(self) -> None:
        """Read on the watch's own timer until cancelled."""
        await sample(self.reader, self.pace)

    def figures(self, reading: Reading, windows: Sequence[float]) -> list[Figures]:
        """The figures of the last so many seconds, for each window that the history has two rows of. An emperor or a
        router has none."""
        snapshot = reading.snapshot
        if not isinstance(snapshot, Snapshot):
            return []
        windows_known = (self.history.window(seconds) for seconds in windows)
        return [compute_figures(window, snapshot, reading.host.cpus) for window in windows_known if window]

    def _record(self, at: float, outcome: Reading | ReadError) -> None:
        if isinstance(outcome, ReadError):
            self.integrals.miss(at)
            return
        self.reading = outcome
        if not isinstance(outcome.snapshot, Snapshot):
            return
        self.integrals.add(outcome, self.pace.longest_step)
        self.history.add(outcome.at, self.integrals.totals)

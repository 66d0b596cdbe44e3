"""The servers of the ramp, and what is to be compared: which loads are predicted from, and what counts as a miss."""

from __future__ import annotations

from dataclasses import dataclass

from tools.bench.clients import Kind

LIMIT, WAITING, HOT = 0.10, 0.15, 0.20
"""Tolerances as parts of what was measured: of the limit, of the load at which requests wait, and of that load for a
worker that is hotter than the others."""


@dataclass(frozen=True)
class Case:
    """A server under random arrivals. rate: requests per second while it is predicted from, at 20 to 40 % of its limit.
    shares: of the sockets, if each worker has one of its own; else of the only socket. tolerance: of the waiting
    point."""

    name: str
    processes: int
    threads: int
    kinds: tuple[Kind, ...]
    rate: float
    shares: tuple[float, ...] = (1.0,)
    tolerance: float = WAITING

    @property
    def setting(self) -> str:
        return f"{self.processes}x{self.threads}"

    @property
    def mean(self) -> float:
        """The mean seconds that a request takes if it waits for nothing."""
        return sum(kind.weight * kind.io for kind in self.kinds) / 1e3


def make_kind(name: str, seconds: float, weight: float = 1.0) -> Kind:
    """Requests of a kind of the application, with a mean of an exponential distribution."""
    return Kind(weight, f"/{name}/{{s}}", io=1e3 * seconds, spread=None)


def _sleeping(seconds: float) -> tuple[Kind, ...]:
    return (make_kind("sleep", seconds),)


_LOCKING = (make_kind("lock", 0.08, 0.6), make_kind("sleep", 0.02, 0.4))
_COMPUTING = (make_kind("cpu", 0.02),)

GROUPS = (
    (
        Case("sleeping", 1, 1, _sleeping(0.05), 5.0),
        Case("sleeping", 4, 1, _sleeping(0.1), 12.0),
        Case("sleeping", 2, 4, _sleeping(0.1), 24.0),
        Case("sleeping", 4, 8, _sleeping(0.2), 48.0),
        Case("sleeping", 8, 8, _sleeping(0.4), 48.0),
        Case("lock-bound", 4, 8, _LOCKING, 33.0),
        Case("one hot worker", 2, 4, _sleeping(0.1), 16.0, shares=(0.8, 0.2), tolerance=HOT),
    ),
    (Case("computing", 1, 1, _COMPUTING, 15.0),),
    (Case("computing", 4, 1, _COMPUTING, 30.0),),
    (Case("computing", 2, 4, _COMPUTING, 30.0),),
)
"""Servers that run side by side: those that sleep leave the CPUs to each other. Two of the machine's CPUs are the limit
of more workers that compute than two, so there is no 4x8 or 8x8 of these."""

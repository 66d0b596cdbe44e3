"""The routes in service at one sample, by worker and thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServedRoutes:
    """The routes in service at one sample.

    names, generations: as in `RouteBook`, at the time of the sample. numbers: of the route in each busy thread, by
    worker id and thread number.
    """

    names: tuple[str, ...]
    generations: tuple[int, ...]
    numbers: Mapping[int, Mapping[int, int]]

    def of_worker(self, worker_id: int) -> dict[int, str]:
        """Return the route of each busy thread of a worker, by thread number."""
        return {thread: self.names[number] for thread, number in self.numbers.get(worker_id, {}).items()}

"""Bounds the workers of all servers that patterns find: anybody who may create a socket in such a directory could
otherwise let the exporter keep figures of 1,000 workers for each of `max_servers`.

The servers with the fewest workers have their places first, so that a large one costs no other server its own.
"""

from __future__ import annotations

from collections.abc import Collection

from uwsgi_headroom.errors import StatsError

WORKERS_PER_SERVER = 10
"""Places for each of `max_servers`. A server with no more workers always has places. 4,000 workers, with 400 servers,
take 40 MB after an hour, and the CPU for a second in a scrape."""


class WorkerPlaces:
    """Who has how many workers. most_servers: `max_servers`."""

    def __init__(self, most_servers: int) -> None:
        self.most_servers = most_servers
        self._workers: dict[object, int] = {}

    def keep(self, servers: Collection[object]) -> None:
        """Forget all servers but these."""
        self._workers = {server: number for server, number in self._workers.items() if server in servers}

    def take(self, server: object, number: int) -> None:
        """Take a place for each worker of a server. Raises StatsError if there are not enough."""
        self._workers[server] = number
        most = WORKERS_PER_SERVER * self.most_servers
        if number <= WORKERS_PER_SERVER or sum(self._workers.values()) <= most:
            return
        left = most
        for other, workers in sorted(self._workers.items(), key=lambda item: item[1]):
            left -= workers
            if other is server:
                break
        if left < 0:
            raise StatsError(
                "too_large",
                f"the servers that patterns find have more than {most:,} workers, the limit, and this one has "
                f"{number:,}: name the server in the configuration, or raise `max_servers`",
            )

"""Plans a fleet of stand-in hosts: which server carries how much load, and what is wrong with which of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SLOTS = 4
"""Servers on each host."""
HOSTS_PER_SERVICE = 50
HOT_WORKER = 2.2
"""Load of the first worker of an uneven server, relative to the mean of all workers."""
QUEUED = 60.0
"""Connections that wait in the listen queue of a server with a filling queue; its limit is 100."""


@dataclass(frozen=True)
class Server:
    """A server of the fleet. name: of its service; load: relative to the captured server; trouble: "", "uneven",
    "queue" or "down"."""

    host: int
    slot: int
    name: str
    load: float
    trouble: str

    @property
    def instance(self) -> str:
        return instance(self.host)


@dataclass(frozen=True)
class Fleet:
    """A number of hosts with `SLOTS` servers each. Hosts come in groups that run the same services."""

    hosts: int

    def servers(self) -> Iterator[Server]:
        """Yields all servers, also those of hosts that do not answer."""
        for host in range(self.hosts):
            yield from self.of_host(host)

    def of_host(self, host: int) -> list[Server]:
        return [_server(host, slot) for slot in range(SLOTS)]

    def answering(self) -> Iterator[Server]:
        """Yields the servers that the store has figures of: neither down nor on a host that does not answer."""
        return (server for server in self.servers() if server.trouble != "down" and not is_unreachable(server.host))

    def troubled(self, trouble: str) -> set[tuple[str, str]]:
        """Returns instance and name of the servers with this trouble."""
        return {
            (server.instance, server.name)
            for server in self.servers()
            if server.trouble == trouble and not is_unreachable(server.host)
        }

    def unreachable(self) -> set[str]:
        return {instance(host) for host in range(self.hosts) if is_unreachable(host)}


def instance(host: int) -> str:
    """Returns the label `instance` of a host."""
    return f"host-{host:04d}.example:9238"


def is_unreachable(host: int) -> bool:
    """Whether the host answers every scrape with an error."""
    return host % 100 == 11


def _server(host: int, slot: int) -> Server:
    trouble = {(3, 1): "uneven", (5, 2): "queue", (7, 3): "down"}.get((host % 20, slot), "")
    load = 4.0 if trouble == "uneven" else 0.5 + (host * 7 + slot * 3) % 10 * 0.3
    return Server(host, slot, f"app-{host // HOSTS_PER_SERVICE:02d}-{slot}", load, trouble)

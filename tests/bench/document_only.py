"""The exporter without facts of the kernel: what the stats document says, and nothing else.

The exporter has no switch for this, so the benchmark puts it together itself: the same reading, decoding, families,
rendering and HTTP; without asking the kernel for processes, CPUs and listen queues.

    python -m tests.bench.document_only STATS_SOCKET PORT
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Sequence

from uwsgi_headroom import cli, config, fleet, source, stats
from uwsgi_headroom.errors import Reason
from uwsgi_headroom.metrics.subject import Subject
from uwsgi_headroom.reading import HostFacts, Reading


class DocumentOnly(fleet.Fleet):
    """A fleet whose look at a server ends with its document."""

    def __init__(self, servers: Sequence[config.ServerConfig]) -> None:
        super().__init__(())
        self._servers = servers
        self._errors: dict[Reason, int] = {}

    async def look(self, timeout: float | None = None) -> list[Subject]:
        readings = await asyncio.gather(*(_read(it, timeout or it.timeout) for it in self._servers))
        return [Subject(it.name, reading, self._errors) for it, reading in zip(self._servers, readings, strict=True)]


async def _read(server: config.ServerConfig, timeout: float) -> Reading:
    assert server.address is not None
    start = time.monotonic()
    answer = await source.read(server.address, timeout=timeout)
    at = time.monotonic()
    return Reading(
        at, time.time(), at - start, len(answer.body), stats.decode(answer.body), HostFacts(off="not asked for")
    )


if __name__ == "__main__":
    servers = [config.server(f"unix://{sys.argv[1]}")]
    asyncio.run(cli.run(DocumentOnly(servers), [socket.create_server(("127.0.0.1", int(sys.argv[2])))]))

"""The exporter without facts of the kernel: what the stats document says, and nothing else.

The exporter has no switch for this, so the benchmark puts it together itself: the same reading, decoding, families,
rendering and HTTP; without asking the kernel for processes, CPUs and listen queues, and without sampling.

    python3 -m tools.bench.document_only STATS_SOCKET PORT
"""

from __future__ import annotations

import socket
import sys
import time

from uwsgi_headroom import source, stats
from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.config.values import make_server
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.serve import serve_until_signal
from uwsgi_headroom.watch import fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import Pace


class DocumentOnly(fleet.Fleet):
    """A fleet whose look at a server ends with its document, and which looks only when it is asked."""

    def __init__(self, server: ServerConfig) -> None:
        super().__init__(())
        self._server = server
        self._pace = Pace()

    async def observe(self) -> list[Observation]:
        server = self._server
        assert server.address is not None
        start = time.monotonic()
        answer = await source.read_document(server.address, timeout=server.timeout)
        at = time.monotonic()
        snapshot = stats.decode(answer.body)
        seconds = at - start, answer.transfer_seconds
        reading = Reading(at, time.time(), *seconds, len(answer.body), snapshot, HostFacts(off="not asked for"))
        return [Observation(server.name, str(server.address), reading, {}, Totals(), self._pace, [])]


if __name__ == "__main__":
    only = DocumentOnly(make_server(f"unix://{sys.argv[1]}"))
    serve_until_signal(only, [socket.create_server(("127.0.0.1", int(sys.argv[2])))])

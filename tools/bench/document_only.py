"""Runs the exporter without kernel facts and samples, for which it has no option: it exports what the document
contains.

Reading, decoding, metric families, rendering and HTTP are the same.

    python3 -m tools.bench.document_only STATS_SOCKET PORT
"""

import sys
import time

from uwsgi_headroom import source, stats
from uwsgi_headroom.config.servers import ServerConfig, make_server
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.service.serve import serve_until_signal
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.pace import Pace
from uwsgi_headroom.web import metrics_route
from uwsgi_headroom.web.listeners import open_listener


class DocumentOnly(Fleet):
    """A fleet that reads one server's document on each scrape, and nothing else."""

    def __init__(self, server: ServerConfig) -> None:
        super().__init__(())
        self._server = server
        self._pace = Pace()

    async def observe(self, wait: float = 0.0) -> list[Observation]:
        server = self._server
        assert server.address is not None
        start = time.monotonic()
        answer = await source.read_document(server.address, timeout=server.timeout, size_cap=server.size_cap)
        at = time.monotonic()
        snapshot = stats.decode(answer.body)
        seconds = at - start, answer.transfer_seconds
        reading = Reading(at, time.time(), *seconds, len(answer.body), snapshot, HostFacts(off="not asked for"))
        return [Observation(server.name, str(server.address), reading, {}, Totals(), self._pace, [])]


if __name__ == "__main__":
    metrics_route.fleet_state = lambda fleet: object  # always another: samples in between would end each shared answer
    only = DocumentOnly(make_server(f"unix://{sys.argv[1]}"))
    serve_until_signal(only, [open_listener("127.0.0.1", int(sys.argv[2]))])

"""Documents of servers to report on."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from tests.support.captured_documents import document
from tests.support.simulated_server import Server as SimulatedServer
from uwsgi_headroom.check.command import describe_unread
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.source import File
from uwsgi_headroom.watch.watch import Watch

SECONDS = 30.0


def busy_server(name: str = "shop") -> ServerDocument:
    """A server that is ok: 50 requests in ten seconds, with known headroom and times."""
    simulated = SimulatedServer()
    now = 1000.0
    clock = Clock(monotonic=lambda: now, epoch=lambda: 1.7e9 + now)
    watch = Watch(name, File(f"/{name}"), clock=clock)
    for _ in range(11):
        now += 1.0
        simulated.serve(1, 5)
        watch.reader.outcome = simulated.read(now)
        watch._record(now, watch.reader.outcome)
    server = build.build_server(watch, clock, SECONDS, (SECONDS,))
    return replace(
        server,
        status="ok",
        verdict="All is well.",
        headroom=replace(server.headroom, factor=4.0, first="threads"),
        flow=replace(server.flow, response_time=0.05, queue_wait=0.001, total_time=0.051),
        findings=(),
    )


def emperor(folder: Path) -> ServerDocument:
    path = folder / "emperor.json"
    path.write_bytes(document("emperor"))
    watch = Watch("emperor", File(str(path)))
    asyncio.run(watch.reader.read())
    return build.build_server(watch, Clock(), SECONDS, (SECONDS,))


def unreadable(name: str = "gone") -> ServerDocument:
    return describe_unread(name, File(f"/{name}"), "refused", "It cannot be read: connection refused.")

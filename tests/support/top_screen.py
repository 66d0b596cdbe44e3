"""Screen models for the tests of `top`."""

import functools

from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.top.feeds import Concurrency, Headroom, Trend
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.servers import ScreenModel, ServerEntry
from uwsgi_headroom.top.view.screen import draw

TREND = Trend(5.0, Concurrency([None, 1.0, 4.0, 9.0] * 15), Headroom([9.0, 3.0, 1.5, 1.1] * 15))


@functools.cache
def hot(processes: int = 4, threads: int = 8) -> schema.ServerDocument:
    """A server whose last worker takes most of the load and has a saturated interpreter, as an exporter of an earlier
    version sends it, without lines. Documents never change, so one of each size is made."""
    server = Server(processes, threads)

    def second(_: int) -> None:
        for worker_id in range(1, processes):
            server.serve(worker_id, 2, each=0.1, cpu=0.05)
        server.serve(processes, 10, each=0.6, cpu=0.099)
        server.busy(*[1] * (processes - 1), threads)

    server[1].request_starts = (EPOCH + 8,)
    return replace(ScriptedWatch().seconds(server, 70, second).document(), lines=())


def screen_model(*servers: schema.ServerDocument) -> ScreenModel:
    """A screen model of these servers; the first is selected."""
    listed = build.build_server_list(servers, ScriptedWatch().clock).servers
    return ScreenModel(
        entries=tuple(ServerEntry((0, server.name), server) for server in listed),
        server=servers[0] if servers else None,
        trend=TREND,
        where="http://127.0.0.1:9238",
    )


def lines(what: ScreenModel, navigation: Navigation, width: int = 80, height: int = 24) -> list[str]:
    """The screen, as text."""
    return [line.plain for line in draw(what, navigation, width, height, EPOCH + 75.0).lines]

"""The application of the benchmark of WSGI servers, as little work as a request can be, and how some servers serve it.

`python -m app.lab.applications.pong NAME PORT` serves it with a server that has no program of its own. Each server runs
with its defaults and without a log of requests. It listens on 127.0.0.1. The servers have no types of their own and are
not in the project's environment, so each is imported where it is used.
"""

# mypy: ignore-errors

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

Start = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, object], start_response: Start) -> Iterable[bytes]:
    """Answers every request with `Pong!` as text/plain, with its length."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]


ADDRESS = "127.0.0.1"


def serve_gevent(port: int) -> None:
    from gevent import monkey  # noqa: PLC0415
    from gevent.pywsgi import WSGIServer  # noqa: PLC0415

    monkey.patch_all()
    WSGIServer((ADDRESS, port), application, log=None).serve_forever()


def serve_eventlet(port: int) -> None:
    import eventlet  # noqa: PLC0415
    from eventlet import wsgi  # noqa: PLC0415

    eventlet.monkey_patch()
    wsgi.server(eventlet.listen((ADDRESS, port)), application, log_output=False, max_size=10_000)


def serve_tornado(port: int) -> None:
    import asyncio  # noqa: PLC0415

    from tornado.httpserver import HTTPServer  # noqa: PLC0415
    from tornado.wsgi import WSGIContainer  # noqa: PLC0415

    async def run() -> None:
        HTTPServer(WSGIContainer(application)).listen(port, ADDRESS)
        await asyncio.Event().wait()

    asyncio.run(run())


def serve_twisted(port: int) -> None:
    from twisted.internet import reactor  # noqa: PLC0415
    from twisted.web.server import Site  # noqa: PLC0415
    from twisted.web.wsgi import WSGIResource  # noqa: PLC0415

    site = Site(WSGIResource(reactor, reactor.getThreadPool(), application))
    reactor.listenTCP(port, site, interface=ADDRESS)
    reactor.run()


def serve_cheroot(port: int) -> None:
    from cheroot.wsgi import Server  # noqa: PLC0415

    Server((ADDRESS, port), application).start()


def serve_bjoern(port: int) -> None:
    import bjoern  # noqa: PLC0415

    bjoern.run(application, ADDRESS, port)


def serve_wsgiref(port: int) -> None:
    from wsgiref.simple_server import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    make_server(ADDRESS, port, application, handler_class=Quiet).serve_forever()


def serve_paste(port: int) -> None:
    from paste import httpserver  # noqa: PLC0415

    httpserver.serve(application, host=ADDRESS, port=str(port))


SERVERS = {
    "gevent": serve_gevent,
    "eventlet": serve_eventlet,
    "tornado": serve_tornado,
    "twisted": serve_twisted,
    "cheroot": serve_cheroot,
    "bjoern": serve_bjoern,
    "paste": serve_paste,
    "wsgiref": serve_wsgiref,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]))

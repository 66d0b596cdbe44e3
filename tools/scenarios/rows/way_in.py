"""The way from clients to the workers, and what stands beside these: routers, spoolers, the socket of a log."""

from pathlib import Path

from tools.scenarios import actions
from tools.scenarios.beside import needs
from tools.scenarios.scenario import NO_MORE, Event, Expected, Load, Scenario, Server, healthy

ROUTED = ("--http", "{tcp}", "--http-to", "{directory}/app", "--socket", "{directory}/app")

LOGGED = ("--logto", "{directory}/log")
STATUS_APP = """
def application(environ, start_response):
    start_response("404 Not Found" if environ["PATH_INFO"] == "/none" else "200 OK", [])
    return [b"ok"]
"""

SPOOLED = ("--spooler", "{directory}/spool", "--spooler-frequency", "1")
SPOOLED_APP = """
import os, time, uwsgi
def process(task):
    time.sleep(0.2)
    return os.kill(os.getpid(), 9) if task[b"path"] == b"/kill" else uwsgi.SPOOL_OK
uwsgi.spooler = process
def application(environ, start_response):
    if environ["PATH_INFO"] != "/":
        uwsgi.spool({b"path": environ["PATH_INFO"].encode()})
    start_response("200 OK", [])
    return [b"ok"]
"""

LOG_SINK = """python3 -c "import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.settimeout(60); s.bind(os.path.abspath('devlog'))
{}" > sink 2>&1 & sleep 1"""
LOGS_APP = """
import logging.handlers, os
log = logging.getLogger()
log.addHandler(logging.handlers.SysLogHandler(os.path.abspath("devlog")))
def application(environ, start_response):
    log.warning("GET %s", environ["PATH_INFO"])
    start_response("200 OK", [])
    return [b"ok"]
"""

ROWS = (
    Scenario(
        "the path of the socket is gone",
        Server(2, 2),
        Expected("warning", ("socket_gone",), words=("restart uwsgi", "/run"), not_words=NO_MORE),
        events=(Event(1, actions.remove_socket),),
        seconds=15,
        why="uWSGI listens on a socket that no client finds, and counts no request.",
        twin=healthy(""),
    ),
    Scenario(
        "nginx names a path that is gone",
        Server(2, 2, nginx="proxy_read_timeout 60s;"),
        Expected("critical", ("socket_gone",), words=("restart uwsgi", "nginx.conf:"), not_words=NO_MORE),
        events=(Event(0.1, actions.remove_socket),),
        seconds=15,
        skip=needs(servers=("nginx",)),
        twin=healthy("", Load(rate=5, io_ms=20, socket="front")),
    ),
    Scenario(
        "nobody listens at the path of the socket",
        Server(2, 2),
        Expected("warning", ("socket_replaced",), words=("nobody listens", "restart uwsgi"), not_words=NO_MORE),
        events=(Event(1, actions.replace_socket),),
        seconds=15,
        twin=healthy(""),
    ),
    Scenario(
        "nginx speaks HTTP to a uwsgi socket",
        Server(2, 2, ("--http-socket", "{tcp}", "--socket", "{directory}/web"), nginx="proxy_read_timeout 60s;"),
        Expected("warning", ("protocol_mismatch",), words=("uwsgi_pass", "nginx.conf:"), not_words=("buffer-size",)),
        (Load(rate=5, socket="front"),),
        skip=needs(servers=("nginx",)),
        why="uWSGI reads the first letters of each request as a size, and closes the connection.",
        twin=healthy("", Load(rate=5, io_ms=20, socket="front"), server={"options": ()}),
    ),
    Scenario(
        "clients speak HTTP to a uwsgi socket",
        Server(2, 2, ("--socket", "{tcp}")),
        Expected(
            "warning", ("connections_without_request",), words=("protocols", "http-socket"), not_words=("buffer-size",)
        ),
        (Load(rate=5, socket="tcp"),),
        twin=healthy("", Load(rate=5, io_ms=20, socket="tcp"), server={"options": ("--http-socket", "{tcp}")}),
    ),
    Scenario(
        "heads without an end make the stats empty",
        Server(2, 2, ("--socket", "{tcp}", "--buffer-size", "32768")),
        Expected("warning", ("unfinished_requests",), words=("stats",), not_words=("raise `buffer-size`", *NO_MORE)),
        (Load(rate=5, io_ms=20),),
        (Event(0.5, actions.ask_without_end),),
        why="While a thread waits for the rest of a head that is none, uWSGI writes no stats.",
        twin=healthy(""),
    ),
    Scenario(
        "the http router is stopped",
        Server(2, 2, ROUTED),
        Expected("warning", ("router_stopped",), words=("kill -cont",), not_words=NO_MORE),
        (Load(rate=5, io_ms=20, socket="tcp"),),
        (Event(2, actions.stop_router),),
        twin=healthy(""),
    ),
    Scenario(
        "the http router has no target",
        Server(2, 2, (*ROUTED[:3], "{directory}/none", *ROUTED[4:])),
        Expected("warning", ("router_dead_end",), words=("http-to",), not_words=NO_MORE),
        (Load(rate=5, io_ms=20, socket="tcp"),),
        why="The router closes each connection, and no worker sees a request.",
        twin=healthy("", server={"options": ROUTED}),
    ),
    Scenario(
        "all responses are 404, with the log",
        Server(2, 2, LOGGED, app=Path("status.py"), files={"status.py": STATUS_APP}),
        Expected("warning", ("client_errors",), words=("404", "mount"), not_words=NO_MORE),
        (Load(rate=10, path="/none"),),
        log=True,
        twin=healthy("a tenth of the responses is 404, with the log", Load(rate=9), Load(rate=1, path="/none")),
    ),
    Scenario(
        "a task that ends the spooler",
        Server(2, 2, SPOOLED, before="mkdir spool", app=Path("spooled.py"), files={"spooled.py": SPOOLED_APP}),
        Expected("warning", ("spooler_dies",), words=("managing request",), not_words=NO_MORE),
        (Load(clients=1, requests=1, path="/kill"), Load(rate=5)),
        why="The task stays in its directory, and the next process takes it again.",
        twin=healthy(
            "a spooler that is recycled",
            Load(rate=8, path="/work"),
            server={"options": (*SPOOLED, "--spooler-max-tasks", "10")},
            lead=5,
        ),
    ),
    Scenario(
        "nobody reads the socket of the log",
        Server(2, 4, app=Path("logs.py"), files={"logs.py": LOGS_APP}, before=LOG_SINK.format("time.sleep(60)")),
        Expected("critical", ("output_blocked",), words=("devlog",), not_words=(*NO_MORE, "lock of the application")),
        (Load(clients=6, patience_ms=5000),),
        lead=5,
        why="The queue of the socket is full, so that each message waits, with the handler's lock held.",
        twin=healthy("", Load(rate=5), server={"before": LOG_SINK.format("[s.recv(999) for _ in range(999)]")}),
    ),
)

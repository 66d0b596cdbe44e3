"""Requests that uWSGI refuses, and starts that fail: what uWSGI's log says of them, each beside a healthy twin."""

from __future__ import annotations

from pathlib import Path

from tools.scenarios import actions
from tools.scenarios.scenario import Event, Expected, Load, Scenario, Server, healthy

FASTEST = """def application(environ, start_response):
    start_response("204 No Content", [])
    return []
"""

LARGE_HEADS = (Load(rate=20, io_ms=5), Load(rate=10, io_ms=5, path=f"/?cookie={'x' * 5000}"))
NO_PLUGIN = ("--http-socket-modifier1", "5")

ROWS = (
    Scenario(
        "heads above buffer-size, with the log",
        Server(2, 2),
        Expected(
            "warning",
            ("requests_rejected",),
            words=("log says", "larger than `buffer-size`", "raise `buffer-size` (4096)"),
            not_words=("processes", "threads"),
        ),
        LARGE_HEADS,
        log=True,
        twin=healthy(
            "large heads that fit, with the log",
            server=Server(2, 2, ("--buffer-size", "32768")),
        ),
    ),
    Scenario(
        "the http router sends to an http-socket",
        Server(2, 2, ("--http", "{tcp}")),
        Expected(
            "critical",
            ("slow_clients",),
            words=(
                "no request is completed",
                "the threads wait for their clients",
                "speaks the protocol of the socket",
            ),
            not_words=("raise `threads`", "raise `processes`"),
        ),
        (Load(clients=12, io_ms=100, socket="tcp"),),
        why="The router speaks uwsgi to the first socket, and that one expects HTTP: each thread waits for the end of "
        "a head that never comes, until `socket-timeout`.",
        twin=healthy(
            "the http router sends to a socket",
            Load(clients=1, io_ms=100, socket="tcp"),
            server=Server(2, 2, ("--http", "{tcp}", "--http-to", "{directory}/app", "--socket", "{directory}/app")),
        ),
    ),
    Scenario(
        "a modifier without a plugin",
        Server(2, 2, NO_PLUGIN),
        Expected(
            "critical",
            ("requests_unanswered",),
            words=("at once, without a response", "no application", "modifier", "`plugins`"),
            not_words=("processes", "threads", "exception"),
            limits=(None,),
        ),
        (Load(rate=30),),
        quick=True,
        why="All requests fail within microseconds, and uWSGI counts them as requests like any other.",
        twin="the fastest application",
    ),
    Scenario(
        "a modifier without a plugin, with the log",
        Server(2, 2, NO_PLUGIN),
        Expected(
            "critical",
            ("requests_rejected",),
            words=("no plugin serves", "uwsgi's log says", "now 5"),
            not_words=("processes", "threads"),
        ),
        (Load(rate=30),),
        log=True,
        twin="the fastest application",
    ),
    Scenario(
        "the fastest application",
        Server(2, 2, app=Path("fastest.py"), files={"fastest.py": FASTEST}),
        Expected("ok"),
        (Load(rate=30),),
        quick=True,
        log=True,
    ),
    Scenario(
        "most responses are errors, with the log",
        Server(2, 2, ("--log-5xx",)),
        Expected("critical", ("server_errors",), words=("status 500 to 599", "the application's own log")),
        (Load(rate=10, io_ms=20, path="/failed"), Load(rate=3, io_ms=20)),
        log=True,
        why="Flask and Django catch exceptions: uWSGI counts none, threads are free, and requests are fast.",
        twin=healthy(
            "few responses are errors, with the log",
            Load(rate=30, io_ms=20),
            Load(rate=0.13, io_ms=20, path="/failed"),
            expected=Expected("ok", also=("server_errors",)),
        ),
    ),
    Scenario(
        "an import that fails, with the log",
        Server(4, 1, ("--lazy-apps",)),
        Expected(
            "critical",
            ("no_application",),
            words=("no worker has loaded its application", "importerror at scenarios/app.py:"),
            not_words=("processes",),
            limits=(None,),
        ),
        (Load(part=0.3, io_ms=100),),
        (Event(1.0, actions.deploy_broken),),
        log=True,
        seconds=20.0,
        twin=healthy(
            "a reload that works, with the log",
            Load(clients=1, io_ms=20),
            expected=Expected("ok", also=("reloaded",)),
            events=(Event(4.0, actions.reload),),
            seconds=12.0,
        ),
    ),
)

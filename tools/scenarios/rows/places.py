"""Checks from elsewhere: as another user, and of an emperor's address."""

from __future__ import annotations

from tools.scenarios.scenario import Expected, Load, Scenario, Server, healthy
from tools.scenarios.servers import why_not_root

ROWS = (
    Scenario(
        "stats over TCP, as another user",
        Server(2, 2, tcp_stats=True),
        Expected("ok", also=("no_process_facts",), limits=("threads",)),
        (Load(part=0.3, io_ms=100),),
        as_nobody=True,
        skip=why_not_root,
        why="A part of the figures is missing, which is no fault of the server.",
        resized=True,
    ),
    Scenario(
        "emperor with a broken vassal",
        Server(
            options=("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"),
            bare=True,
            files={"vassals/broken.ini": "[uwsgi]\nmaster = true\nhttp-socket = /nonexistent/web\n"},
        ),
        Expected("warning", first=("vassals_throttled",), words=("log",)),
        seconds=8.0,
        lead=5.0,
        why="The other vassals serve; the application of this one is down, and only its emperor's log says why.",
        twin=healthy("", server={"files": {"vassals/good.ini": "[uwsgi]\nmaster = true\nhttp-socket = %dweb\n"}}),
    ),
)

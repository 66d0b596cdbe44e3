"""The scenes of the demo, each a uWSGI, its load and its events: `make demo SCENE=NAME`. The first is the default."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.load import Load

SECOND = "{second}"
"""Placeholder in a scene's options: the address of a second socket, for loads with the socket "second"."""

DIRECTORY = "{directory}"
"""Placeholder in a scene's options: the demo's directory."""


CONFIGURATION = "{configuration}"
"""Placeholder in the lines of a vassal: the path of app/uwsgi.ini."""


@dataclass(frozen=True)
class Happening:
    """An event that repeats during a scene. words: the message that the demo prints when it happens.

    act: "touch" touches `file` in the demo's directory; "crash" kills all of uWSGI and restarts it after `away`
    seconds. first: seconds from the start of the demo to the first event; every: seconds from one event to the next.
    """

    words: str
    act: Literal["touch", "crash"]
    first: float
    every: float
    file: str = ""
    away: float = 0.0


@dataclass(frozen=True)
class Scene:
    """A situation for the demo to show.

    summary: a line for the list of scenes; shown: the expected result, where it appears, and after how many seconds.
    findings: the expected codes. One of them leads the verdict, or is an INFO finding of an OK verdict; empty: no
    finding above INFO is expected of the demo's server.
    cores: about how many CPUs the whole demo uses, estimated from its load. options: uWSGI options added to
    app/uwsgi.ini; a repeated option overrides the earlier value.
    cpus: how many CPUs uWSGI and its neighbours may use together, 0 for all. neighbours: how many busy loops run beside
    uWSGI.
    vassals: the lines of each vassal's ini file, by vassal name; uWSGI is then an emperor.
    needs: a module that uWSGI's Python must have.
    """

    name: str
    summary: str
    shown: str
    cores: float
    findings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    loads: tuple[Load, ...] = ()
    happenings: tuple[Happening, ...] = ()
    cpus: int = 0
    neighbours: int = 0
    vassals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: str = ""


API = Load(clients=10, fewest=2, period=60, path="/mixed", cpu_ms=6, io_ms=215, spread=0.6, think_ms=60)
"""The load of an API that queries a database; the number of clients swings once a minute."""

GENTLE = (
    API,
    Load(rate=2.0, path="/9000"),
    Load(rate=1.5, path="/pong"),
    Load(rate=0.3, path="/slow?s=2"),
    Load(rate=0.05, path="/error"),
)
"""A light mixed load: a quarter of one CPU."""

FEW = Load(rate=4.0, path="/mixed", io_ms=100, cpu_ms=2)
LONGEST = 900
"""Seconds: the longest request that the application accepts."""

SCENES = (
    Scene(
        "hot",
        "one worker of four takes most requests, and its interpreter is saturated",
        "Worker 1 takes two thirds of the requests, and each takes twice as long as elsewhere,\n"
        "while 20 threads idle. CRITICAL on the page after 20 s; the alert fires after minutes.",
        cores=1.4,
        findings=("unevenness_hurts",),
        options=("--map-socket", "0:1", "--http-socket", SECOND, "--map-socket", "1:2,3,4"),
        loads=(
            Load(clients=8, path="/mixed", io_ms=60, cpu_ms=18, spread=0.3),
            Load(rate=20, path="/mixed", io_ms=60, cpu_ms=18, spread=0.3, socket="second"),
        ),
    ),
    Scene(
        "calm",
        "a server with room: uneven shares that cost nothing",
        "The kernel gives some workers more requests than others, and no request is slower.\n"
        "OK on the page after 20 s, with the headroom to each limit.",
        cores=0.4,
        loads=GENTLE,
    ),
    Scene(
        "overload",
        "more load than threads: the listen queue is full, and clients are refused",
        "Every thread is busy, 40 connections wait, and the kernel drops further connections.\n"
        "CRITICAL on the page after 10 s; look at Listen queues.",
        cores=0.4,
        findings=("saturation", "clients_refused"),  # the cause, which has the harm in its title
        options=("--processes", "2", "--threads", "4", "--listen", "40"),
        loads=(Load(clients=80, path="/mixed", io_ms=200, cpu_ms=2),),
    ),
    Scene(
        "cheaper",
        "cheaper mode starts workers as load grows, and ends them as it falls",
        "Between 2 and 8 workers are up, with the load that swings once in 90 s: look at the\n"
        "workers. OK on the page after 20 s: workers in reserve count as headroom.",
        cores=0.4,
        options=("--processes", "8", "--threads", "1", "--cheaper", "2", "--cheaper-initial", "2"),
        loads=(Load(clients=6, fewest=0, period=90, path="/mixed", io_ms=300, cpu_ms=2, think_ms=20),),
    ),
    Scene(
        "harakiri",
        "requests that take too long, whose workers uWSGI kills",
        "One request in 15 takes longer than the 3 s that harakiri allows, and is lost.\n"
        "CRITICAL on the page after 20 s; look at the workers that restart.",
        cores=0.4,
        findings=("harakiri",),
        options=("--processes", "8", "--threads", "1", "--harakiri", "3"),
        loads=(Load(rate=10, path="/mixed", io_ms=100, cpu_ms=2), Load(rate=0.7, path="/slow?s=20")),
    ),
    Scene(
        "reload",
        "live reloads: the whole server, then worker by worker",
        "20 s after the start all workers are replaced at once, 40 s later one after the other,\n"
        "and so on. OK on the page, which names the reload. No request is lost.",
        cores=0.5,
        findings=("reloaded",),
        options=(
            "--lazy-apps",
            "--touch-reload",
            f"{DIRECTORY}/reload",
            "--touch-chain-reload",
            f"{DIRECTORY}/chain-reload",
        ),
        loads=(API,),
        happenings=(
            Happening("uWSGI is reloaded", "touch", first=20, every=80, file="reload"),
            Happening("uWSGI is reloaded worker by worker", "touch", first=60, every=80, file="chain-reload"),
        ),
    ),
    Scene(
        "restarts",
        "workers that are recycled too often, by a max-requests that is too low",
        "Each worker ends after 8 requests, which is every few seconds, and its successor starts.\n"
        "WARNING on the page after 20 s; look at the age of the workers.",
        cores=0.6,
        findings=("respawn_loop",),
        options=("--threads", "1", "--max-requests", "8", "--min-worker-lifetime", "0"),
        loads=(Load(rate=7, path="/mixed", io_ms=50, cpu_ms=2),),
    ),
    Scene(
        "stuck",
        "requests of 15 minutes hold half of the threads",
        "Four of eight threads are stuck; the others serve requests.\n"
        "CRITICAL on the page after 30 s, the age from which a request counts as stuck.",
        cores=0.3,
        findings=("request_stuck",),
        options=("--processes", "2", "--threads", "4", "--harakiri", "0"),
        loads=(Load(clients=4, path=f"/slow?s={LONGEST}"), FEW),
    ),
    Scene(
        "async",
        "gevent: as many requests as coroutines (needs gevent beside uWSGI)",
        "Two processes of 20 coroutines each are full, while their interpreters are idle.\n"
        "WARNING on the page after 20 s: the threads, here coroutines, run out first.",
        cores=0.5,
        findings=("saturation",),
        options=("--processes", "2", "--threads", "1", "--gevent", "20", "--gevent-monkey-patch"),
        loads=(Load(clients=40, path="/mixed", io_ms=400, cpu_ms=1),),
        needs="gevent",
    ),
    Scene(
        "neighbours",
        "other processes take the CPU that uWSGI needs",
        "Two endless loops share one CPU with uWSGI (the others stay free for you).\n"
        "WARNING on the page after 20 s: uWSGI gets what it needs now, and no more.",
        cores=1.2,
        findings=("cpu_used_by_others",),
        options=("--processes", "2", "--threads", "2"),
        loads=(Load(rate=4, path="/mixed", cpu_ms=40, io_ms=20),),
        cpus=1,
        neighbours=2,
    ),
    Scene(
        "idle",
        "a server with hardly anything to do",
        "A request every three seconds: nothing to estimate a headroom from.\nOK on the page at once, as nearly idle.",
        cores=0.2,
        loads=(Load(rate=0.3, path="/pong"),),
    ),
    Scene(
        "down",
        "the server crashes, and comes back 20 s later",
        "25 s after the start uWSGI is killed, and started again after 20 s; then every 90 s.\n"
        "The headline turns red within seconds; in Prometheus, UwsgiDown is pending.",
        cores=0.4,
        loads=(API,),
        happenings=(Happening("uWSGI is killed", "crash", first=25, every=90, away=20),),
    ),
    Scene(
        "emperor",
        "an emperor with two vassals, one of which cannot start",
        "The list shows the emperor and the working vassal. The emperor keeps restarting the\n"
        "broken one: WARNING on its page after 20 s.",
        cores=0.4,
        vassals={
            "shop": (f"ini = {CONFIGURATION}",),
            "broken": ("master = true", "http-socket = /no/such/directory/web"),
        },
        loads=(API,),
    ),
)

DEFAULT = SCENES[0]


def find_scene(name: str) -> Scene:
    """The scene of this name. Raises `LookupError` with a list of all scenes and the most similar name."""
    found = next((scene for scene in SCENES if scene.name == name), None)
    if found:
        return found
    near = difflib.get_close_matches(name, [scene.name for scene in SCENES], n=1)
    meant = f": did you mean {near[0]}?" if near else "."
    raise LookupError(f"there is no scene {name!r}{meant}\n\n{list_scenes()}")


def list_scenes() -> str:
    """Returns one line for each scene, the default first."""
    return "\n".join(f"  {scene.name:<12}{scene.summary}" for scene in SCENES)

"""Data classes of the demo's scenes: a uWSGI, its load, and scheduled events such as a reload."""

from __future__ import annotations

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

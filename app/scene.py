"""Data classes of the demo's scenes: a uWSGI, its load, and scheduled events such as a reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.load import Load

SECOND = "{second}"
"""Placeholder in a scene's options: a second address to serve, for loads with the socket "second"."""

DIRECTORY = "{directory}"
"""Placeholder in a scene's options: the demo's directory."""


CONFIGURATION = "{configuration}"
"""Placeholder in the lines of a vassal: the path of app/uwsgi.ini."""


@dataclass(frozen=True)
class Happening:
    """An event that repeats during a scene, and the words printed when it happens.

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

    summary: a line for the list of scenes; shown: what the user sees, where, and after how many seconds.
    findings: codes, one of which leads the verdict, or is part of it where the verdict is OK; empty: the verdict is OK
    without a finding. cores: about how many CPUs the whole demo uses, estimated from its load.
    options: uWSGI options added to app/uwsgi.ini; the last value of an option counts. cpus: how many CPUs uWSGI and its
    neighbours may use together, 0 for all. neighbours: how many busy loops run beside uWSGI.
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

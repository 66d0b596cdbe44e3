"""What a scene of the demo is: a uWSGI, its load, and what happens to it. Data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.load import Load

SECOND = "{second}"
"""Stands in the options of a scene for a second address to serve, to which loads of the socket "second" go."""

DIRECTORY = "{directory}"
"""Stands in the options of a scene for the demo's own directory."""


CONFIGURATION = "{configuration}"
"""Stands for app/uwsgi.ini in the lines of a vassal."""


@dataclass(frozen=True)
class Happening:
    """What happens to the uWSGI of a scene again and again, and what is printed then.

    act: "touch" touches the file `file` in the demo's directory, "crash" kills all of uWSGI and starts it again after
    `away` seconds. first: seconds after the demo is up; every: seconds from one time to the next.
    """

    words: str
    act: Literal["touch", "crash"]
    first: float
    every: float
    file: str = ""
    away: float = 0.0


@dataclass(frozen=True)
class Scene:
    """A situation to look at.

    summary: a line for the list of scenes; shown: what will be seen, where, and after how many seconds.
    findings: the codes of which one leads the verdict, or is in it where the verdict is OK; empty: the verdict is OK
    without one. cores: about how many CPUs all of the demo uses, by its load.
    options: of uWSGI, beside those of app/uwsgi.ini; the last one of a name counts. cpus: how many CPUs uWSGI and its
    neighbours may use together, 0 for all. neighbours: how many other processes use all the CPU they get.
    vassals: the lines of the ini file of each, by its name; uWSGI itself is then their emperor.
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

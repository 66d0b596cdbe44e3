"""Makes happen to the uWSGI of a scene what the scene says, when it is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from app.programs import Program, Running
from app.scene import Happening


class Happenings:
    """What is due of the happenings of a scene. They begin to count when this is made."""

    def __init__(self, happenings: Iterable[Happening], up: Running, uwsgi: Program, directory: Path) -> None:
        self._up, self._uwsgi, self._directory = up, uwsgi, directory
        begun = time.monotonic()
        self._due: list[tuple[float, Callable[[], str]]] = []
        for happening in happenings:
            self._plan(begun + happening.first, happening)

    def run_due(self) -> list[str]:
        """Do what is due; a line for each. Raises `ProgramError` if uWSGI cannot be started again."""
        now = time.monotonic()
        due = [act for at, act in self._due if at <= now]
        self._due = [(at, act) for at, act in self._due if at > now]
        return [act() for act in due]

    def _plan(self, at: float, happening: Happening) -> None:
        def act() -> str:
            self._plan(at + happening.every, happening)
            if happening.act == "touch":
                (self._directory / happening.file).touch()
                return happening.words
            self._up.kill(self._uwsgi.name)
            self._due.append((time.monotonic() + happening.away, self._come_back))
            return f"{happening.words}; it starts again in {happening.away:g} s"

        self._due.append((at, act))

    def _come_back(self) -> str:
        self._up.start(replace(self._uwsgi, ready=lambda: True))  # the figures go on meanwhile
        return "uWSGI is started again"

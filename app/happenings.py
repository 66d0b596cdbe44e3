"""Runs the scheduled events of a scene (a reload, a crash) on its uWSGI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from app.programs import Program, Running
from app.scene import Happening


class Happenings:
    """The schedule of a scene's happenings; their times count from the creation of this object."""

    def __init__(self, happenings: Iterable[Happening], up: Running, uwsgi: Program, directory: Path) -> None:
        self._up, self._uwsgi, self._directory = up, uwsgi, directory
        begun = time.monotonic()
        self._due: list[tuple[float, Callable[[], str]]] = []
        for happening in happenings:
            self._plan(begun + happening.first, happening)

    def run_due(self) -> list[str]:
        """Runs what is due; returns a line for each happening. Raises `ProgramError` if uWSGI does not restart."""
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
            return f"{happening.words}; it restarts in {happening.away:g} s"

        self._due.append((at, act))

    def _come_back(self) -> str:
        self._up.start(replace(self._uwsgi, ready=lambda: True))  # does not wait: figures are printed meanwhile
        return "uWSGI has been restarted"

"""The programs of a scene: uWSGI, its load, its neighbours and the exporter; and what happens to uWSGI on schedule."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from app import load
from app.loopback import address, free_ports, get
from app.programs import Program, Running
from app.scenes import CONFIGURATION, DIRECTORY, SECOND, Happening, Scene
from tools.commands import show_step
from tools.environments import ROOT, SetupError

SECONDS = 4 * 3600
"""A forgotten demo stops making requests after this time."""

INI = ROOT / "app" / "uwsgi.ini"


@dataclass(frozen=True)
class Stage:
    """Where a scene runs: its directory and the ports of its application."""

    scene: Scene
    directory: Path
    ports: tuple[int, ...] = field(default_factory=lambda: free_ports(2))

    @property
    def web(self) -> int:
        """The port of its application."""
        return self.ports[0]

    @property
    def second(self) -> int:
        """The port of its second socket."""
        return self.ports[1]

    @property
    def stats(self) -> dict[str, Path]:
        """The stats sockets of the servers that come up, by the server's name."""
        served = self.directory / "stats"
        return {SERVER: served, "emperor": self.directory / "emperor-stats"} if self.scene.vassals else {SERVER: served}

    @property
    def history(self) -> Path:
        """The exporter's history file."""
        return self.directory / "history.sqlite"

    def filled(self, options: tuple[str, ...]) -> list[str]:
        """Returns uWSGI options with the placeholders in braces replaced."""
        values = {SECOND: address(self.second), DIRECTORY: str(self.directory), CONFIGURATION: str(INI)}
        return [re.sub("|".join(values), lambda match: values[match[0]], option) for option in options]

    def is_served(self) -> bool:
        """Whether the application answers and every stats socket exists."""
        return all(path.exists() for path in self.stats.values()) and get(self.web, "/pong") is not None


def uwsgi_program(stage: Stage, uwsgi: Path) -> Program:
    """The uWSGI of the scene. Writes the configuration of its vassals, if it has any."""
    scene = stage.scene
    command: list[str | Path] = [uwsgi, "--ini", INI, *stage.filled(scene.options)]
    if scene.vassals:
        command = _emperor(stage, uwsgi)
    elif _is_script(uwsgi):
        # A reload executes the binary again. The uWSGI of a wheel would execute the Python that the environment was
        # made with, and that Python does not find the environment.
        command += ["--binary-path", uwsgi.with_name("python")]
    return Program(
        name="uwsgi",
        sentence=f"starting uWSGI for the scene {scene.name}",
        command=[*_on_few_cpus(scene), *command],
        ready=stage.is_served,
        variables={"RUN_DIR": str(stage.directory), "HTTP": address(stage.web)},
    )


def load_program(stage: Stage) -> Program:
    """The clients of the scene."""
    ports = {"web": stage.web, "second": stage.second}
    loads = [(declared, ("127.0.0.1", ports[declared.socket])) for declared in stage.scene.loads]
    return Program(
        name="load",
        sentence="starting its load",
        command=[sys.executable, "-m", "app.load", load.as_json(loads), "--seconds", str(SECONDS)],
        ready=lambda: True,
    )


_BURN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
"""A busy loop that runs for a bounded time."""


def neighbour_programs(scene: Scene) -> list[Program]:
    """The processes that compete with the scene's uWSGI for CPU."""
    return [
        Program(
            name=f"neighbour-{number}",
            sentence=f"starting neighbour {number} of {scene.neighbours}",
            command=[*_on_few_cpus(scene), sys.executable, "-c", _BURN, str(SECONDS)],
            ready=lambda: True,
        )
        for number in range(1, scene.neighbours + 1)
    ]


SERVER = "demo"
"""The name of the demo's server."""
OBJECTIVE = "1s:99%"
"""The service level objective of all servers."""


def exporter_program(stage: Stage, exporter: Path, port: int) -> Program:
    """uwsgi-headroom, which reads all servers of the stage."""
    stats = [word for name, path in stage.stats.items() for word in ("--stats", f"{name}=unix://{path}")]
    settings = ["--slo", OBJECTIVE, "--history", str(stage.history)]
    return Program(
        name="uwsgi-headroom",
        sentence="starting uwsgi-headroom",
        command=[exporter, *stats, "--web.listen-address", address(port), *settings],
        ready=lambda: get(port, "/-/ready") is not None,
    )


def programs(stage: Stage, uwsgi: Path, exporter: Path, port: int) -> list[Program]:
    """All programs of the scene, in the order in which they start."""
    return [
        uwsgi_program(stage, uwsgi),
        *neighbour_programs(stage.scene),
        load_program(stage),
        exporter_program(stage, exporter, port),
    ]


def refuse_without_needs(scene: Scene, uwsgi: Path) -> None:
    """Raises `SetupError` if uWSGI's Python lacks a module that the scene needs."""
    if not scene.needs:
        return
    python = uwsgi.with_name("python")
    with show_step(f"looking for {scene.needs}"):
        found = subprocess.run([python, "-c", f"import {scene.needs}"], capture_output=True, check=False)
    if found.returncode:
        raise SetupError(
            f"the scene {scene.name} needs {scene.needs} beside uWSGI: {python} -m pip install {scene.needs}\n"
            "The other scenes do not need it."
        )


def _on_few_cpus(scene: Scene) -> list[str]:
    """The prefix that restricts a command to the CPUs of the scene; empty if the scene has no limit."""
    cpus = sorted(os.sched_getaffinity(0))[: scene.cpus]
    return ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []


def _emperor(stage: Stage, uwsgi: Path) -> list[str | Path]:
    """Writes the configuration of the vassals; returns the command of their emperor."""
    vassals = stage.directory / "vassals"
    vassals.mkdir(exist_ok=True)
    for name, lines in stage.scene.vassals.items():
        (vassals / f"{name}.ini").write_text("\n".join(["[uwsgi]", *stage.filled(lines), ""]))
    # Without the wrapper, a wheel's emperor would start its vassals with the Python that the environment was made with.
    return [uwsgi, "--emperor", vassals, "--emperor-stats", stage.stats["emperor"], "--emperor-wrapper", uwsgi]


def _is_script(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(2) == b"#!"


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

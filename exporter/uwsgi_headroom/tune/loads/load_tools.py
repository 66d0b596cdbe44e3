"""The programs that apply a load: this package's clients, ApacheBench (ab) and wrk."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import msgspec

from uwsgi_headroom.tune.loads.ab_output import read_ab
from uwsgi_headroom.tune.loads.load import Answers, Load, Task
from uwsgi_headroom.tune.loads.wrk_output import parse_wrk
from uwsgi_headroom.tune.processes.guarded import RunError

PACKAGES = {"ab": "apache2-utils", "wrk": "wrk"}
"""The package of Debian and Ubuntu that holds each tool."""

_AB_MOST_PER_SECOND = 50_000  # ab reserves 32 bytes for each request in advance


@dataclass(frozen=True, slots=True)
class LoadTool:
    """How a load is applied. warm_up: the command of the warm-up, None if `measured` warms up itself and prints `begin`
    when the measured time begins. parse: makes the answers of the output of `measured`; raises ValueError."""

    name: str
    warm_up: Sequence[str] | None
    measured: Sequence[str]
    parse: Callable[[str], Answers]


def find_tool(load: Load, port: int, directory: Path) -> LoadTool:
    """Return how a load is applied to a port of 127.0.0.1. Raises `RunError` if its tool is missing, or cannot do it.

    directory: where a script, or the task of the clients, may be written.
    """
    if load.tool == "own":
        command = [sys.executable, "-m", "uwsgi_headroom.tune.loads", str(_write_task(Task(load, port), directory))]
        return LoadTool("the clients", None, command, lambda text: msgspec.json.decode(text, type=Answers))
    binary = shutil.which(load.tool)
    if not binary:
        raise RunError(f"{load.tool} is not installed: install the package {PACKAGES[load.tool]}.")
    _refuse_impossible(load)
    make = _ab if load.tool == "ab" else _wrk
    warm_up = make(binary, load, port, load.warm_up, directory) if load.warm_up else ["true"]
    parse = functools.partial(read_ab, file=_percentiles(directory)) if load.tool == "ab" else parse_wrk
    return LoadTool(load.tool, warm_up, make(binary, load, port, load.seconds, directory), parse)


def _write_task(task: Task, directory: Path) -> Path:
    """Write the task of the clients into a file that they remove."""
    path = directory / "task.json"
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode(task))
    return path


def _percentiles(directory: Path) -> Path:
    """The file for the percentiles of ab: those on its standard output are whole milliseconds."""
    return directory / "percentiles.csv"


def _refuse_impossible(load: Load) -> None:
    for is_asked, what in (
        (load.rate > 0 or load.clients < 1, "only loads with a number of clients (a closed loop)"),
        (load.idle > 0, "no idle connections"),
        (load.tool == "ab" and len(load.paths) > 1, "one path only"),
    ):
        if is_asked:
            raise RunError(f"{load.tool} knows {what}: use the tool `own` for this load.")


def _url(load: Load, port: int) -> str:
    return f"http://127.0.0.1:{port}{load.paths[0]}"


def _ab(binary: str, load: Load, port: int, seconds: float, directory: Path) -> list[str]:
    """The command of ab. -r: go on after a failure; -l: responses may differ in length; -n after -t, which sets it."""
    seconds = max(1, ceil(seconds))  # whole seconds are all that it takes
    command = [binary, "-q", "-r", "-l", "-t", str(seconds), "-n", str(_AB_MOST_PER_SECOND * seconds)]
    command += ["-c", str(load.clients), "-s", str(max(1, ceil(load.timeout)))]
    return [*command, "-e", str(_percentiles(directory)), *(["-k"] if load.keep_alive > 1 else []), _url(load, port)]


def _wrk(binary: str, load: Load, port: int, seconds: float, directory: Path) -> list[str]:
    script = []
    if len(load.paths) > 1:
        lua = directory / "paths.lua"
        lua.write_text(lua_script(load.paths))
        script = ["-s", str(lua)]
    times = ["-d", f"{max(1, ceil(seconds))}s", "--timeout", f"{max(1, ceil(load.timeout))}s"]
    return [binary, "-t", "1", "-c", str(load.clients), *times, "--latency", *script, _url(load, port)]


def lua_script(paths: Sequence[str]) -> str:
    """Return a script for wrk that requests paths in turn."""
    quoted = ", ".join('"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths)
    return (
        f"local paths = {{{quoted}}}\nlocal place = 0\n"
        "request = function()\n  place = place % #paths + 1\n  return wrk.format(nil, paths[place])\nend\n"
    )

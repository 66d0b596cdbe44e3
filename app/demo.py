"""`make demo`: runs the exporter beside a real uWSGI under load; needs only Python.

It decides which programs run, in which order and on which addresses; the modules next to it start them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from app import demo_monitoring, scenes
from app.demo_monitoring import DemoMonitoring
from app.demo_programs import SERVER, Happenings, Stage, programs, refuse_without_needs
from app.loopback import PREFIX, address, get, listener, why_taken
from app.programs import ProgramError, Running, running
from app.scenes import Scene
from tools import environments
from tools.commands import CommandError, note
from tools.environments import ROOT, SetupError
from uwsgi_headroom.tune.guard import guard_this_process, interrupt_on_signals
from uwsgi_headroom.words.formats import factor, mean_count, percent
from uwsgi_headroom.words.states import LIMITS

PORT = 9238  # the exporter's own default
EVERY = 1.5  # seconds between two lines of figures
ANSWER = 0.9  # seconds that the exporter may take to answer: after three seconds of silence the demo would look hung
LEAVE = 2.0  # seconds that a killed demo may need to free its port


def main(argv: list[str] | None = None) -> int:
    """Runs the demo until Ctrl-C. Returns the exit status: 0 if the user ended the demo."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--scene", default=scenes.DEFAULT.name, help="the scene, or list (default: %(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="port of the exporter (default: %(default)s)")
    parser.add_argument("--parent", type=int, help="pid of the parent process: the demo ends when that process ends")
    chosen = parser.parse_args(argv)
    if chosen.scene == "list":
        note(scenes.list_scenes())
        return 0
    try:
        scene = scenes.find_scene(chosen.scene)
    except LookupError as error:
        print(f"make demo: {error.args[0]}", file=sys.stderr)
        return 1
    interrupt_on_signals()
    try:
        if chosen.parent is not None:
            end_with(chosen.parent)
        refuse_taken(chosen.port)
        directory = guard_this_process(PREFIX)
        project = environments.project("demo,top")
        uwsgi = environments.uwsgi_for_demo()
        monitoring = demo_monitoring.prepare_monitoring(chosen.port, directory, project.path / "bin")
        refuse_without_needs(scene, uwsgi)
        show(Stage(scene, directory), chosen.port, uwsgi, project.program("uwsgi-headroom"), monitoring)
    except (SetupError, CommandError, ProgramError) as error:
        print(f"\nmake demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        note("stopped")
    except BrokenPipeError:  # the reader has gone, as in `make demo | head`; Python's last flush would fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def show(stage: Stage, port: int, uwsgi: Path, exporter: Path, monitoring: DemoMonitoring) -> None:
    """Runs all programs and prints figures until an exception; `KeyboardInterrupt` is the normal end."""
    demo = programs(stage, uwsgi, exporter, port)
    everything = itertools.chain(demo, monitoring.programs())
    with running(everything, stage.directory, cwd=ROOT, ending="stopping everything") as up:
        places = {
            "live page": {f"http://{address(port)}/": ""},
            "terminal": {f"{terminal(exporter)} top http://{address(port)}/": ""},
            "metrics": {f"http://{address(port)}/metrics": ""},
            "application": {f"http://{address(stage.web)}/": ""},
            **monitoring.addresses(up.names()),
        }
        note(f"\n{_table(places)}\n\n{introduction(stage.scene)}\n")
        _watch(port, up, Happenings(stage.scene.happenings, up, demo[0], stage.directory))


def introduction(scene: Scene) -> str:
    """Describes the scene, the CPU it uses, and the names of the other scenes."""
    shown = scene.shown.replace("\n", "\n  ")
    others = " ".join(other.name for other in scenes.SCENES if other is not scene)
    return (
        f"  Scene {scene.name}: {scene.summary}.\n  {shown}\n"
        f"  It uses about {scene.cores:g} CPUs. Ctrl-C ends everything. make demo SCENE=... shows others:\n  {others}"
    )


def terminal(exporter: Path) -> Path:
    """The path of the command, relative to the working directory where possible."""
    return exporter.relative_to(Path.cwd()) if exporter.is_relative_to(Path.cwd()) else exporter


def _table(places: dict[str, dict[str, str]]) -> str:
    """Formats one line for each address: the name of the program, the address, and what the address shows."""
    lines = []
    for name, shown in places.items():
        for number, (place, words) in enumerate(shown.items()):
            lines.append(f"  {'' if number else name:<13}{place}{f'  {words}' if words else ''}")
    return "\n".join(lines)


def _watch(port: int, up: Running, happenings: Happenings) -> None:
    """Prints a line of figures every `EVERY` seconds, and the verdict when it changes.

    On a terminal, each line of figures overwrites the one before.
    """
    terminal = sys.stdout.isatty()
    said: str | None = None
    try:
        while True:
            document = get(port, PATH, timeout=ANSWER)
            verdict = read_verdict(document)
            if verdict and verdict != said:
                said = verdict
                _say(f"  {time.strftime('%H:%M:%S')}  {verdict}")
            line = "  " + (read_figures(document) or "waiting for figures")
            if terminal:  # cut to its width, because a wrapped line cannot be overwritten
                print("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1], end="", flush=True)
            else:
                print(line, flush=True)
            until = time.monotonic() + EVERY
            while time.monotonic() < until:
                for words in happenings.run_due():
                    _say(f"  {time.strftime('%H:%M:%S')}  {words}")
                up.check()
                for text in up.news():
                    _say(text)
                time.sleep(0.2)
    finally:
        if terminal:
            note("")


def _say(text: str) -> None:
    """Prints a line that stays; on a terminal it replaces the line of figures."""
    note(f"\r\x1b[K{text}" if sys.stdout.isatty() else text)


def refuse_taken(port: int) -> None:
    """Raises `SetupError` if the port cannot be listened on; called before anything slow begins."""
    until = time.monotonic() + LEAVE
    while (reason := why_taken(port)) and time.monotonic() < until:
        by = listener(port)
        if by and not by.demo:
            break
        time.sleep(0.05)  # a demo, perhaps one that was killed a moment ago and is still ending
    if reason:
        by = listener(port)
        raise SetupError(
            f"port {port} on 127.0.0.1 cannot be used ({reason})"
            f"{f': {by} listens on it' if by else ''}.\nChoose another one: make demo PORT=9300"
        )


PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Makes the kernel send SIGTERM to this process when its parent (PID `parent`) ends or has already ended."""
    with contextlib.suppress(ImportError, AttributeError):  # without ctypes, only Ctrl-C ends this process
        import ctypes  # noqa: PLC0415  # missing from some builds of Python

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the call of prctl
        os.kill(os.getpid(), signal.SIGTERM)


PATH = f"/api/v2/servers/{SERVER}"
"""Path of the exporter's API document of the demo's server."""


def read_verdict(text: str | None) -> str | None:
    """The severity and verdict from a server's document, or None if the document has no figures yet."""
    document = _read(text)
    if document is None:
        return None
    if document["state"] == "down":
        return "DOWN: the server cannot be read."
    return f"{document['status'].upper()}: {document['verdict']}" if document["flow"] else None


def read_figures(text: str | None) -> str | None:
    """A line of figures from a server's document, or None if the server is down or has no figures yet."""
    document = _read(text)
    if document is None or document["state"] == "down" or not document["flow"]:
        return None
    shares = [worker["share"] for worker in document["workers"] if worker["share"] is not None]
    busy, available = document["flow"]["observed"], document["threads"]["available"]
    parts = [f"shares {'/'.join(map(percent, shares)).replace(' ', '')}"] if shares else []
    if busy is not None and available is not None:
        parts.append(f"{mean_count(busy)} of {available} threads busy")
    headroom = document["headroom"]
    if headroom["factor"] is not None and headroom["first"]:
        parts.append(f"headroom {factor(headroom['factor'])}, first limit: {LIMITS[headroom['first']].name}")
    return "; ".join(parts) or None


def _read(text: str | None) -> dict[str, Any] | None:
    document: dict[str, Any] | None = json.loads(text) if text else None
    return document


if __name__ == "__main__":
    sys.exit(main())

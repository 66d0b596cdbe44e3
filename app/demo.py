"""`make demo`: the exporter beside a real, loaded uWSGI, from nothing but a Python.

What runs, in which order and on which addresses is composed here; how is known by the modules next to it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from app import demo_monitoring, scenes, status_line
from app.demo_monitoring import DemoMonitoring
from app.demo_programs import Stage, programs, refuse_without_needs
from app.guard import Guarded, GuardError, guarded
from app.happenings import Happenings
from app.listener import listener
from app.loopback import address, get, why_taken
from app.parent import end_with
from app.programs import ProgramError, Running, running
from app.scene import Scene
from tools import environments
from tools.commands import CommandError
from tools.environments import ROOT, SetupError
from tools.progress import note

PORT = 9238  # the exporter's own default
EVERY = 1.5  # seconds between two lines of figures
ANSWER = 0.9  # seconds that the exporter has for them: a silence of three would look like an end
LEAVE = 2.0  # seconds that a killed demo may need until its port is free


def main(argv: list[str] | None = None) -> int:
    """Run the demo until Ctrl-C. The status is 0 if it was ended on purpose."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--scene", default=scenes.DEFAULT.name, help="what to show, or list (default: %(default)s)")
    parser.add_argument("--port", type=int, default=PORT, help="of the exporter (default: %(default)s)")
    parser.add_argument("--parent", type=int, help="the process that started this one: end with it")
    chosen = parser.parse_args(argv)
    if chosen.scene == "list":
        note(scenes.list_scenes())
        return 0
    try:
        scene = scenes.find_scene(chosen.scene)
    except LookupError as error:
        print(f"make demo: {error.args[0]}", file=sys.stderr)
        return 1
    _interrupt_on_signals()
    try:
        if chosen.parent is not None:
            end_with(chosen.parent)
        refuse_taken(chosen.port)
        with guarded() as guard:
            project = environments.project("demo,top")
            uwsgi = environments.uwsgi_for_demo()
            monitoring = demo_monitoring.prepare_monitoring(chosen.port, guard.directory, project.path / "bin")
            refuse_without_needs(scene, uwsgi)
            guard.check()
            stage = Stage(scene, guard.directory)
            show(stage, chosen.port, uwsgi, project.program("uwsgi-headroom"), monitoring, guard)
    except (SetupError, CommandError, ProgramError, GuardError) as error:
        print(f"\nmake demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        note("stopped")
    except BrokenPipeError:  # nobody reads on, as in `make demo | head`; nor would Python's last flush be read
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def show(stage: Stage, port: int, uwsgi: Path, exporter: Path, monitoring: DemoMonitoring, guard: Guarded) -> None:
    """Run everything and print figures until an exception, of which `KeyboardInterrupt` is the good one."""
    demo = programs(stage, uwsgi, exporter, port)
    with running([*demo, *monitoring.programs], guard.directory, cwd=ROOT, ending="stopping everything") as up:
        places = {
            "live page": {f"http://{address(port)}/": ""},
            "terminal": {f"{terminal(exporter)} top http://{address(port)}/": ""},
            "metrics": {f"http://{address(port)}/metrics": ""},
            "application": {f"http://{address(stage.web)}/": ""},
            **monitoring.addresses(up.names()),
        }
        note(f"\n{_table(places)}\n\n{introduction(stage.scene)}\n")
        _watch(port, up, guard, Happenings(stage.scene.happenings, up, demo[0], stage.directory))


def introduction(scene: Scene) -> str:
    """What the scene shows, what it takes, and which others there are."""
    shown = scene.shown.replace("\n", "\n  ")
    others = " ".join(each.name for each in scenes.SCENES if each is not scene)
    return (
        f"  Scene {scene.name}: {scene.summary}.\n  {shown}\n"
        f"  It uses about {scene.cores:g} CPUs. Ctrl-C ends everything. make demo SCENE=... shows others:\n  {others}"
    )


def terminal(exporter: Path) -> Path:
    """The command as one may type it here."""
    return exporter.relative_to(Path.cwd()) if exporter.is_relative_to(Path.cwd()) else exporter


def _table(places: dict[str, dict[str, str]]) -> str:
    """A line for each place, by what is there, with what it shows."""
    lines = []
    for name, shown in places.items():
        for number, (place, words) in enumerate(shown.items()):
            lines.append(f"  {'' if number else name:<13}{place}{f'  {words}' if words else ''}")
    return "\n".join(lines)


def _watch(port: int, up: Running, guard: Guarded, happenings: Happenings) -> None:
    """Print a line of figures every few seconds, on a terminal over the one before; a verdict when it is another."""
    terminal = sys.stdout.isatty()
    said: str | None = None
    try:
        while True:
            document = get(port, status_line.PATH, timeout=ANSWER)
            verdict = status_line.verdict(document)
            if verdict and verdict != said:
                said = verdict
                _say(f"  {time.strftime('%H:%M:%S')}  {verdict}")
            line = "  " + (status_line.figures(document) or "waiting for figures")
            if terminal:  # cut to its width, because a wrapped line cannot be overwritten
                print("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1], end="", flush=True)
            else:
                print(line, flush=True)
            until = time.monotonic() + EVERY
            while time.monotonic() < until:
                guard.check()
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
    """A line that stays, in place of the figures where they are overwritten."""
    note(f"\r\x1b[K{text}" if sys.stdout.isatty() else text)


def refuse_taken(port: int) -> None:
    """Raise `SetupError` if nobody can listen on the port, before anything slow is begun."""
    until = time.monotonic() + LEAVE
    while (reason := why_taken(port)) and time.monotonic() < until:
        by = listener(port)
        if by and not by.demo:
            break
        time.sleep(0.05)  # a demo, or what is left of one that was killed a moment ago
    if reason:
        by = listener(port)
        raise SetupError(
            f"port {port} on 127.0.0.1 cannot be used ({reason})"
            f"{f': {by} listens on it' if by else ''}.\nChoose another one: make demo PORT=9300"
        )


def _interrupt_on_signals() -> None:
    """The first SIGINT, SIGTERM or SIGHUP is a `KeyboardInterrupt`; more must not disturb the ending."""
    every = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(*_: object) -> None:
        for each in every:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in every:
        signal.signal(each, interrupt)


if __name__ == "__main__":
    sys.exit(main())

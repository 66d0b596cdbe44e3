"""`make demo`: the exporter beside a real, loaded uWSGI, from nothing but a Python.

What runs, in which order and on which addresses is composed here; how is known by the modules next to it.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app import environments, figures, watchers
from app.commands import CommandError
from app.environments import ROOT, SetupError
from app.loopback import address, free_port, get, why_taken
from app.programs import Program, ProgramError, running
from app.watchers import Watchers

PORT = 9238  # the exporter's own default
LOAD_SECONDS = 4 * 3600  # a demo that was forgotten ends some day
EVERY = 3.0  # seconds between two lines of figures


def main(argv: list[str] | None = None) -> int:
    """Run the demo until Ctrl-C. The status is 0 if it was ended on purpose."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help="of the exporter (default: %(default)s)")
    port = parser.parse_args(argv).port
    _interrupt_on_signals()
    try:
        refuse_taken(port)
        project = environments.project("demo,top")
        uwsgi = environments.uwsgi_for_demo()
        # A short name: the path of a UNIX socket holds 107 bytes.
        with tempfile.TemporaryDirectory(prefix="headroom-demo-") as directory:
            watching = watchers.found(port, Path(directory), project.path / "bin")
            show(port, uwsgi, project.program("uwsgi-headroom"), watching, Path(directory))
    except (SetupError, CommandError, ProgramError) as error:
        print(f"\nmake demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


def show(port: int, uwsgi: Path, exporter: Path, watching: Watchers, directory: Path) -> None:
    """Run everything and print figures until an exception, of which `KeyboardInterrupt` is the good one."""
    app_port = free_port()
    demo = programs(port, app_port, uwsgi, exporter, directory)
    with running([*watching.programs, *demo], directory, cwd=ROOT) as check:
        print(
            f"\n  live page    http://{address(port)}/"
            f"\n  terminal     {terminal(exporter)} top http://{address(port)}/"
            f"\n  metrics      http://{address(port)}/metrics"
            f"\n  application  http://{address(app_port)}/"
            f"{watching.addresses()}"
            "\n  Ctrl-C ends everything. Below: each worker's share of the requests, mean requests in service,"
            "\n  and by what factor load can grow before which limit.\n"
        )
        _watch(port, check)


def terminal(exporter: Path) -> Path:
    """The command as one may type it here."""
    return exporter.relative_to(Path.cwd()) if exporter.is_relative_to(Path.cwd()) else exporter


def programs(port: int, app_port: int, uwsgi: Path, exporter: Path, directory: Path) -> list[Program]:
    """What the demo consists of, in the order of starting."""
    stats = directory / "stats"
    return [
        Program(
            name="uwsgi",
            sentence="starting uWSGI with 4 workers of 8 threads",
            command=[uwsgi, "--ini", ROOT / "app" / "uwsgi.ini"],
            ready=lambda: stats.exists() and get(app_port, "/pong") is not None,
            variables={"RUN_DIR": str(directory), "HTTP": address(app_port)},
        ),
        Program(
            name="load",
            sentence="starting a gentle load",
            command=[sys.executable, "-m", "app.load", str(app_port), "--seconds", str(LOAD_SECONDS)],
            ready=lambda: True,
        ),
        Program(
            name="uwsgi-headroom",
            sentence="starting uwsgi-headroom",
            command=[exporter, "--stats", f"{figures.SERVER}=unix://{stats}", "--web.listen-address", address(port)],
            ready=lambda: get(port, "/-/ready") is not None,
        ),
    ]


def _watch(port: int, check: Callable[[], None]) -> None:
    """Print a line of figures every few seconds, on a terminal over the one before."""
    terminal = sys.stdout.isatty()
    while True:
        line = "  " + (figures.line(get(port, "/metrics") or "") or "waiting for the first figures")
        if terminal:  # cut to its width, because a wrapped line cannot be overwritten
            print("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(line, flush=True)
        until = time.monotonic() + EVERY
        while time.monotonic() < until:
            check()
            time.sleep(0.2)


def refuse_taken(port: int) -> None:
    """Raise `SetupError` if nobody can listen on the port, before anything slow is begun."""
    reason = why_taken(port)
    if reason:
        raise SetupError(
            f"port {port} on 127.0.0.1 cannot be used ({reason}).\nChoose another one: make demo PORT=9300"
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

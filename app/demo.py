"""`make demo`: the exporter beside a real, loaded uWSGI, from nothing but a Python.

What runs, in which order and on which addresses is composed here; how is known by the modules next to it.
Another program, say a Prometheus, is one more entry in `programs`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app import environments
from app.commands import CommandError
from app.environments import ROOT, SetupError
from app.programs import Program, ProgramError, running

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
        exporter = environments.project("demo").program("uwsgi-headroom")
        uwsgi = environments.uwsgi_for_demo()
        # A short name: the path of a UNIX socket holds 107 bytes.
        with tempfile.TemporaryDirectory(prefix="headroom-demo-") as directory:
            show(port, uwsgi, exporter, Path(directory))
    except (SetupError, CommandError, ProgramError) as error:
        print(f"\nmake demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


def show(port: int, uwsgi: Path, exporter: Path, directory: Path) -> None:
    """Run everything and print figures until an exception, of which `KeyboardInterrupt` is the good one."""
    app_port = free_port()
    with running(programs(port, app_port, uwsgi, exporter, directory), directory, cwd=ROOT) as check:
        print(
            f"\n  exporter     http://{address(port)}/ and http://{address(port)}/metrics"
            f"\n  application  http://{address(app_port)}/"
            "\n  Ctrl-C ends everything. Below: each worker's share of the requests, mean requests in service,"
            "\n  and by what factor load can grow before which limit.\n"
        )
        _watch(port, check)


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
            command=[exporter, "--stats", f"demo=unix://{stats}", "--web.listen-address", address(port)],
            ready=lambda: get(port, "/-/ready") is not None,
        ),
    ]


def address(port: int) -> str:
    return f"127.0.0.1:{port}"


def figures(metrics: str) -> str | None:
    """A line of figures out of an exposition, or nothing if it has none yet."""
    shares = [value for _, value in _samples(metrics, "uwsgi_worker_request_share")]
    concurrency = [
        value
        for labels, value in _samples(metrics, "uwsgi_concurrency")
        if (labels["method"], labels["window"]) == ("observed", "1m")
    ]
    available = [value for _, value in _samples(metrics, "uwsgi_threads_available")]
    if not shares or not concurrency or not available:
        return None
    line = f"shares {'/'.join(f'{share:.0%}' for share in shares)}"
    line += f"; concurrency {concurrency[0]:.1f} of {available[0]:.0f} threads"
    room = [
        (value, labels["limit"])
        for labels, value in _samples(metrics, "uwsgi_headroom_ratio")
        if labels["window"] == "1m"
    ]
    if room:
        factor, limit = min(room)
        line += f"; headroom {factor:.1f}x, then {limit.replace('_', ' ')}"
    return line


def _samples(metrics: str, name: str) -> list[tuple[dict[str, str], float]]:
    """The labels and values of a metric of the server `demo`."""
    found = []
    for text, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)", metrics, re.MULTILINE):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', text))
        if labels.get("server") == "demo":
            found.append((labels, float(value)))
    return found


def _watch(port: int, check: Callable[[], None]) -> None:
    """Print a line of figures every few seconds, on a terminal over the one before."""
    terminal = sys.stdout.isatty()
    while True:
        line = "  " + (figures(get(port, "/metrics") or "") or "waiting for the first figures")
        if terminal:  # cut to its width, because a wrapped line cannot be overwritten
            print("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(line, flush=True)
        until = time.monotonic() + EVERY
        while time.monotonic() < until:
            check()
            time.sleep(0.2)


def get(port: int, path: str) -> str | None:
    """The answer to a GET on 127.0.0.1 if its status is 200."""
    # Not urllib: that would ask the proxy which the environment may name.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        return body if response.status == 200 else None
    return None


def refuse_taken(port: int) -> None:
    """Raise `SetupError` if nobody can listen on the port, before anything slow is begun."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, for a port just given up
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"port {port} on 127.0.0.1 cannot be used ({error}).\nChoose another one: make demo PORT=9300"
            ) from error


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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

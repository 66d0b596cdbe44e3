"""Runs `uwsgi-headroom check` on a server, and the scenario's events once the check has begun.

`python3 -m tools.scenarios.checking ADDRESS SECONDS` runs `check` as the user `nobody`. It imports everything first:
that user may lack access to the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from tools.scenarios.judge import Seen, read_document
from tools.scenarios.scenario import Event, Scenario
from tools.scenarios.servers import Place
from uwsgi_headroom.check import command as check_command
from uwsgi_headroom.check.request import Request

PATIENCE = 60.0
"""Seconds that `check` may take to begin, and by which its end may be late."""

RUNNER: tuple[str, ...] = ()
"""Arguments of Python before `-m` and the module of `check`, such as a program that runs it."""

NOBODY = 65534

BEGUN = b"watching for"
"""Text that `check` shows on a terminal after its first reading."""


class Terminal:
    """A terminal that a program writes to. fd: the program's end."""

    def __init__(self) -> None:
        self._ours, self.fd = os.openpty()
        self.text = b""
        self._reading = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Closes the program's end in this process, and reads in a thread until the program has ended."""
        os.close(self.fd)
        self._reading.start()

    def close(self) -> None:
        self._reading.join()
        os.close(self._ours)

    def _read(self) -> None:
        try:
            while part := os.read(self._ours, 4096):
                self.text += part
        except OSError:  # EIO: no process has the other end open
            return


def check(row: Scenario, place: Place, *more: str) -> Seen:
    if row.as_nobody:
        command = [sys.executable, *RUNNER, "-m", "tools.scenarios.checking", place.stats, f"{row.seconds:g}"]
    else:
        command = [sys.executable, *RUNNER, "-m", "uwsgi_headroom", "check", place.stats]
        command += ["--seconds", f"{row.seconds:g}", "--format", "json", *more]
        command += ["--log", str(place.uwsgi.log)] if row.log else []
    terminal = Terminal()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal.fd, text=True)
    terminal.start()
    try:
        if row.events:
            wait_until(lambda: BEGUN in terminal.text, PATIENCE, "the check to begin")
            _act(row.events, place)
        output, _ = process.communicate(timeout=row.seconds + PATIENCE)
    finally:
        process.kill()
        process.wait()
    terminal.close()
    directory = f"{place.uwsgi.directory}/"  # differs from run to run
    document = json.loads(output.replace(directory, ""))
    if document["status"] == "unknown":
        return Seen("unknown", process.returncode, verdict=document["verdict"])
    return read_document(document, process.returncode, row)


def _act(events: Sequence[Event], place: Place) -> None:
    begun = time.monotonic()
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        event.act(place.uwsgi)


def _check_as_nobody(address: str, seconds: str) -> int:
    "localhost".encode("idna")  # Python imports a codec at its first use
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return check_command.run(Request((address,), float(seconds), "json"))


if __name__ == "__main__":
    sys.exit(_check_as_nobody(*sys.argv[1:]))

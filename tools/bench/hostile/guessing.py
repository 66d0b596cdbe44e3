"""Measures how long a right login waits while others guess, and what guessing costs, on the real exporter.

`python -m tools.bench.hostile.guessing` prints the table alone. As root, guessers are another user too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt

from tools.bench.exporters import cpu_seconds
from tools.bench.login import DOCUMENT, PASSWORD, connect, get
from tools.support.exporter import Exporter, exporter

_BEFORE = 4.0
"""Seconds of guessing before the first right login, which is then sent every five seconds."""

_INTERVAL, _TIMEOUT = 5.0, 10.0
_OTHER_USER = 65534


@dataclass(frozen=True)
class Case:
    """Guesses at `rate` a second against hashes of a cost. other: from another user of the machine; times: how often
    each guess is sent; addresses: from how many of loopback; seconds: how long at least."""

    cost: int
    rate: int
    other: bool = False
    times: int = 1
    addresses: int = 1
    seconds: float = 12.0


CASES = (
    Case(10, 50),
    Case(12, 50),
    Case(13, 50),
    Case(10, 2000),
    Case(12, 2000),
    Case(13, 2000),
    Case(13, 2000, other=True),
    Case(13, 2000, other=True, times=2),
    Case(10, 2000, times=2),
    Case(13, 2000, times=2),
    Case(13, 2000, times=2, addresses=50),
    Case(17, 50, other=True, seconds=100.0),
)


def table() -> Iterator[str]:
    """The lines of a Markdown table, as they are measured."""
    yield "| cost | guesses a second, asked for and sent | from | tries of the right login | seconds of the last try "
    yield "| CPU of checks | CPU of the exporter |\n|---|---|---|---|---|---|---|\n"
    for case in CASES:
        if not case.other or os.geteuid() == 0:
            yield measure(case)


def report() -> str:
    """The table with what it means."""
    return (
        "\n\nRight logins while others guess. Each row is a new exporter, guessed at for four seconds before the first "
        "right login; that is sent again every five seconds until it is accepted. All clients are on loopback. "
        "CPU is a part of one CPU, as the checks' threads and the whole exporter used it.\n\n"
        + "".join(table()).rstrip()
    )


def measure(case: Case) -> str:
    """One row."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(case.cost if case.cost < 15 else 4)).decode()
        hashed = hashed.replace("$04$", f"${case.cost}$")  # too costly to make: no password has it
        config = Path(name, "web.yml")
        config.write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
        stats = f"shop=file://{DOCUMENT}"
        running = stack.enter_context(
            exporter("--stats", stats, "--samples-per-second", "0.25", "--web.config.file", str(config))
        )
        user = _OTHER_USER if case.other else os.geteuid()
        command = [sys.executable, "-m", "tools.bench.hostile.guesser"]
        command += map(str, (running.port, case.rate, case.times, user, case.addresses))
        guesser = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(guesser.kill)
        began, cpu, checks = time.monotonic(), cpu_seconds(running.pid), _check_seconds(running)
        time.sleep(_BEFORE)
        tries, waited = _log_in(running) if case.cost < 15 else (0, 0.0)
        time.sleep(max(0.0, began + case.seconds - time.monotonic()))
        passed = time.monotonic() - began
        used, checked = cpu_seconds(running.pid) - cpu, _check_seconds(running) - checks
        sent = int(guesser.communicate("\n", timeout=30)[0])
    who = "another user" if case.other else "the same user"
    who += f", {case.addresses} addresses" if case.addresses > 1 else ""
    who += ", each twice" if case.times > 1 else ""
    entered = f"{tries} | {waited:.1f}" if tries > 0 else "- | -" if tries == 0 else f"none of {-tries} | -"
    return (
        f"| {case.cost} | {case.rate}, {sent / passed:.0f} | {who} | {entered} "
        f"| {checked / passed:.0%} | {used / passed:.0%} |\n"
    )


def _log_in(running: Exporter) -> tuple[int, float]:
    """Send the right login as a scraper does: the number of tries, negative if none succeeded, and the last one's
    seconds."""
    for tries in range(1, 7):
        began = time.monotonic()
        with contextlib.closing(connect(running, None)) as client, contextlib.suppress(OSError):
            client.timeout = _TIMEOUT
            if get(client, "/metrics", PASSWORD) == 200:
                return tries, time.monotonic() - began
        time.sleep(max(0.0, began + _INTERVAL - time.monotonic()))
    return -tries, 0.0


def _check_seconds(running: Exporter) -> float:
    """CPU time of all threads but the event loop's: those that check passwords, and hardly any other."""
    threads = [each for each in Path(f"/proc/{running.pid}/task").iterdir() if each.name != str(running.pid)]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def main() -> None:
    for line in table():
        print(line, end="", flush=True)


if __name__ == "__main__":
    main()

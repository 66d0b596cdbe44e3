"""`make bare-machine`: checks on a minimal Debian that `make demo` does what the README promises.

Needs root. Makes a minimal Debian root, installs the packages that the README names, clones HEAD as an ordinary user,
and runs the demo in a terminal.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from app.loopback import free_port, get
from tools import commands, debian_root
from tools.commands import show_step
from tools.debian_root import USER, FailedError, Machine, Terminal, in_terminal, machine
from tools.environments import ROOT

START_SECONDS = 600.0  # pip and apt download about 150 MB
STAY_SECONDS = 10.0  # a program that fails at its start has ended by then
END_SECONDS = 30.0  # the demo gives its programs 10
SILENCE_SECONDS = 3.0  # after about this long without output, people think that a program hangs
POLL_SECONDS = 0.1
REQUESTS = 20

_CLONE = "uwsgi-headroom"
_INSTALL = re.compile(r"On a fresh Debian or Ubuntu[^`]*`apt-get install ([^`]+)`")
_REQUESTS = re.compile(r"^uwsgi_worker_requests_total\{[^}]*\} (\S+)", re.MULTILINE)


def main(argv: list[str] | None = None) -> int:
    return debian_root.check_suite("bare_machine", __doc__, _check, argv)


def packages(readme: str) -> list[str]:
    """The packages that the README names for the demo. Raises `FailedError` if the line is missing."""
    lines = _INSTALL.findall(readme)
    if len(lines) != 1:
        raise FailedError("README.md has no single line 'On a fresh Debian or Ubuntu, ...: `apt-get install ...`'")
    names = [word for word in lines[0].split() if not word.startswith("-")]
    if not all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in names):
        raise FailedError(f"README.md: these are not package names: {' '.join(names)}")
    return names


def requests(metrics: str) -> float:
    return sum(float(value) for value in _REQUESTS.findall(metrics))


def complaints(output: str, running: list[str], silence: float, requests_later: float) -> list[str]:
    """A sentence for each fault of a running demo.

    output: what the demo has printed; running: paths of its programs; silence: the longest time without output in
    seconds, less the longest time for which the machine itself stalled; requests_later: requests counted in the last
    `STAY_SECONDS`.
    """
    wrong = []
    if requests_later <= 0:
        wrong.append(f"no request was counted for {STAY_SECONDS:g} s")
    if silence > SILENCE_SECONDS:
        wrong.append(f"nothing was printed for {silence:.1f} s; at most {SILENCE_SECONDS:g} s are allowed")
    wrong += [f"the demo says '{line.strip()}'" for line in output.splitlines() if "Going on without" in line]
    programs = {Path(path).name.removeprefix("prometheus-") for path in running}
    for name in ("Prometheus", "Alertmanager"):
        if not re.search(rf"^ *{name} +http://", output, re.MULTILINE):
            wrong.append(f"the demo does not print the address of {name}")
        if name.lower() not in programs:
            wrong.append(f"{name} does not run")
    return wrong


def _check(suite: str) -> None:
    names = packages((ROOT / "README.md").read_text())
    with debian_root.copied(suite, debian_root.cache()) as copy, machine(copy) as bare:
        bare.install(*names)
        with show_step("git clone of HEAD, as an ordinary user"):
            _clone(bare)
        _demo(bare, free_port())
    print("bare-machine: the demo does what the README says")


def _clone(bare: Machine) -> None:
    """Clones HEAD of the checkout, which may belong to another user and may be shallow."""
    as_owner = "git -c safe.directory=* upload-pack"
    source = bare.root / "srv" / "source.git"
    clone = ["git", "clone", "--quiet", "--bare", "--depth=1", f"--upload-pack={as_owner}"]
    commands.run_command([*clone, f"file://{ROOT}", source])
    bare.run("chown", "--recursive", USER, "/srv/source.git")
    bare.run("git", "clone", "--quiet", "/srv/source.git", _CLONE, user=USER, directory=f"/home/{USER}")


def _demo(bare: Machine, port: int) -> None:
    make = ["make", "demo", f"PORT={port}"]
    with in_terminal(bare.command(make, USER, f"/home/{USER}/{_CLONE}", terminal=True)) as terminal:
        try:
            with show_step("make demo, until it prints its addresses"):
                stalls = [_wait(lambda: f"http://127.0.0.1:{port}/" in terminal.text(), START_SECONDS, terminal)]
            with show_step(f"until its page answers and {REQUESTS} requests are counted"):
                stalls.append(_wait(lambda: _counted(port) > REQUESTS and _page(port), END_SECONDS, terminal))
            before = _counted(port)
            with show_step(f"let it run for {STAY_SECONDS:g} s more"):
                stalls.append(_wait(_after(STAY_SECONDS), 2 * STAY_SECONDS, terminal))
            silence = terminal.silence() - max(stalls)
            wrong = complaints(terminal.text(), bare.programs(), silence, _counted(port) - before)
            with show_step("Ctrl-C, until nothing runs"):
                terminal.interrupt()
                wrong += _left(bare)
            if wrong:
                raise FailedError("\n".join(wrong))
        except (FailedError, KeyboardInterrupt):
            print(f"\nWhat `{' '.join(make)}` printed:\n\n{terminal.text()}\n")
            raise


def _left(bare: Machine) -> list[str]:
    """Waits until the demo has ended; returns a sentence for each kind of process or file that remains."""
    end = time.monotonic() + END_SECONDS
    while (running := bare.programs()) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    files = sorted(path.name for path in (bare.root / "tmp").iterdir())
    left = [f"still running {END_SECONDS:g} s after Ctrl-C: {', '.join(running)}"] if running else []
    return left + ([f"left in /tmp: {', '.join(files)}"] if files else [])


def _wait(ready: Callable[[], object], seconds: float, terminal: Terminal) -> float:
    """Waits for `ready`; returns the longest stall in seconds, by which this process overslept on a busy machine."""
    end = time.monotonic() + seconds
    stall = 0.0
    while not ready():
        if terminal.process.poll() is not None:
            raise FailedError("the demo has ended by itself")
        if time.monotonic() > end:
            raise FailedError(f"the last step did not succeed within {seconds:g} s")
        before = time.monotonic()
        time.sleep(POLL_SECONDS)
        stall = max(stall, time.monotonic() - before - POLL_SECONDS)
    return stall


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _counted(port: int) -> float:
    return requests(get(port, "/metrics") or "")


def _page(port: int) -> bool:
    return "<!doctype html>" in (get(port, "/") or "").lower()


if __name__ == "__main__":
    sys.exit(main())

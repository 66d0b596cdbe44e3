"""The programs that the lab starts: where they are, their versions, and why others are missing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from app import fibonacci
from app.lab import published
from app.lab.results import Setup
from tools import prepare
from tools.environments import ROOT, Environment

MASKS = "app.lab.applications.masks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What the experiments start, and where they keep what they record.

    uwsgi: the program. lab: the environment of the other servers. results: directory. missing: by the name of a
    package, why it is not there.
    """

    uwsgi: Path
    lab: Environment
    results: Path
    missing: dict[str, str] = field(default_factory=dict)

    def uwsgi_setup(self, experiment: str, name: str, options: tuple[str, ...], path: str = "") -> Setup:
        """Returns a uWSGI with the figures of its stats server, which records the affinity masks of its workers.

        path: a directory of Python modules, beside the project's.
        """
        standing = (
            "--master",
            "--need-app",
            "--die-on-term",
            "--no-orphans",
            "--stats",
            "{directory}/stats",
            "--import",
            MASKS,
        )
        directories = [str(ROOT), *([path] if path else [])]
        return Setup(
            name=name,
            command=(str(self.uwsgi), *standing, *options),
            cwd=ROOT,
            environment={
                "PYTHONPATH": os.pathsep.join(directories),
                "LAB_MASKS": str(mask_file(self.results, experiment, name)),
            },
        )


def mask_file(results: Path, experiment: str, setup: str) -> Path:
    """The file in which the workers of a setup record their affinity masks."""
    return results / "masks" / f"{experiment}-{''.join(c if c.isalnum() else '-' for c in setup)}.jsonl"


def find_programs(uwsgi: Path, results: Path) -> Programs:
    """Finds what is installed."""
    lab = prepare.lab_environment()
    names = [*(package.name for package in prepare.PACKAGES), prepare.COMPILED]
    missing = {name: reason for name in names if (reason := prepare.why_missing(lab, name))}
    return Programs(uwsgi=uwsgi, lab=lab, results=results, missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the runs took place.

    missing: as in `Programs`. fibonacci: seconds of a call for E1's sequence, `interpreted` and `compiled`. fib_n: the
    n of E2's naive fib(n), and fib_seconds: of a call.
    """

    cpus: int
    system: str
    python: str
    versions: dict[str, str]
    missing: dict[str, str]
    fibonacci: dict[str, float]
    fib_n: int
    fib_seconds: float


def describe_machine(programs: Programs, fib_n: int = 0) -> Machine:
    """Asks the programs for their versions, and times the Fibonacci module as it is and compiled.

    fib_n: 0 to choose one.
    """
    versions = {"uWSGI": _first_line([programs.uwsgi, "--version"])}
    versions |= prepare.versions(programs.lab)
    if "mod_wsgi" in versions:
        versions["Apache"] = _first_line(["apache2", "-v"]).removeprefix("Server version: Apache/")
    timed = {"interpreted": _best_time(lambda: fibonacci.beyond(9000))}
    if compiled := _compiled_time(programs.lab):
        timed["compiled"] = compiled
    n = fib_n or choose_n()
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        versions=versions,
        missing=programs.missing,
        fibonacci=timed,
        fib_n=n,
        fib_seconds=_best_time(lambda: fibonacci.naive(n), 1),
    )


def keep_machine(results: Path, machine: Machine) -> None:
    (results / "machine.json").write_text(json.dumps(asdict(machine), indent=1) + "\n")


def kept_machine(results: Path) -> Machine:
    """The machine of the results. Raises OSError if there are none."""
    return Machine(**json.loads((results / "machine.json").read_text()))


def choose_n(seconds: float = 0.1, most: int = published.E2_N) -> int:
    """The n for which naive fib(n) takes about so many seconds here: each step takes 1.618 times as long."""
    for n in range(20, most):
        if min(timeit.repeat(partial(fibonacci.naive, n), number=1, repeat=3)) > seconds / 1.27:
            return n
    return most


def _best_time(call: Callable[[], object], number: int = 5000) -> float:
    return min(timeit.repeat(call, number=number, repeat=5)) / number


def _compiled_time(lab: Environment) -> float | None:
    """The seconds of a call of the compiled module, in the lab's Python; None if there is none."""
    module = prepare.compiled_module(lab)
    if module is None:
        return None
    program = (
        f"import timeit, {prepare.COMPILED} as module\n"
        "print(min(timeit.repeat(lambda: module.beyond(9000), number=5000, repeat=5)) / 5000)"
    )
    done = subprocess.run(
        [lab.program("python"), "-c", program], cwd=module.parent, capture_output=True, text=True, check=False
    )
    return float(done.stdout) if done.returncode == 0 else None


def _first_line(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()

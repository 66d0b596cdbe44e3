"""Captures windows: `python -m tests.frozen.capture scenarios|hostile|tests FOLDER [NAME...]`, one folder for each.

scenarios: runs the rows and twins that are named, or those without a frozen window, on a real uWSGI. hostile: checks
all hostile servers. tests: runs the tests of the judge. `python -m tests.frozen write FOLDER...` freezes the windows.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.frozen.judgement import WINDOWS, read_lines
from tests.support.hostile.process import hostile_servers
from tools.environments import ROOT
from tools.scenarios import checking, run
from tools.scenarios.__main__ import line
from tools.scenarios.checking import Seen
from tools.scenarios.rows import find_rows
from tools.scenarios.run import plan
from tools.scenarios.scenario import Scenario
from tools.scenarios.servers import Place

SECONDS = 6
"""How long hostile servers are watched."""

BESIDE = 4
"""Scenarios that run at a time."""

PATIENCE = 300.0
"""Seconds that a check may be late: what it sees on a busy machine is an input, too."""

TESTS = sorted(str(path) for path in (ROOT / "tests" / "analysis").glob("test_*findings.py"))


def capture_scenarios(folder: Path, names: list[str]) -> None:
    """Runs rows and twins: the named ones, or those without a frozen window."""
    checking.RUNNER, checking.PATIENCE = ("-m", "tests.frozen.watched", str(folder)), PATIENCE

    def check(row: Scenario, place: Place, *more: str) -> Seen:
        with (folder / "names").open("a") as file:
            print(f"{place.stats}\t{row.name}", file=file)
        return checking.check(row, place, *more)

    run.check = check
    known = set() if names else {frozen["name"] for frozen in read_lines(WINDOWS)}
    rows = [each.row for each in plan(find_rows(names), 1) if each.row.name not in known]
    run.run_all(rows, run.run_row, lambda result: print(line(result), flush=True), BESIDE)


def capture_hostile(folder: Path) -> None:
    with hostile_servers() as servers:
        with (folder / "names").open("a") as file:
            for each in servers:
                print(f"{each['stats']}\thostile: {each['name']}", file=file)
        command = [sys.executable, "-m", "tests.frozen.watched", str(folder), "-m", "uwsgi_headroom", "check"]
        addresses = [f"hostile{number}={each['stats']}" for number, each in enumerate(servers)]
        subprocess.run([*command, *addresses, "--seconds", str(SECONDS)], cwd=ROOT, check=False)


def capture_tests(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.frozen.watched", "-p", "no:cacheprovider", *TESTS]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "FROZEN_FOLDER": str(folder)}, check=True)


def main(kind: str, place: str, *names: str) -> None:
    folder = Path(place)
    folder.mkdir(parents=True)
    folder.chmod(0o1777)  # a scenario's check runs as nobody
    match kind:
        case "scenarios":
            capture_scenarios(folder, list(names))
        case "hostile":
            capture_hostile(folder)
        case "tests":
            capture_tests(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs the failed tests of `make test` once more, alone, and says which are flaky: for continuous integration.

    python3 -m tools.rerun RESULTS      after `make test` failed: a second try, and the exit status of the whole

As a plugin of pytest (`-p tools.rerun`), it writes RESULTS (the variable TEST_RESULTS). A test that passes the second
time does not fail the run, unless it is one of which no failure is chance (ONE_TRY), it is listed in tests/flaky.txt
already, or more than MOST failed. A person adds it to that list, and fixes its cause.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
FLAKY = ROOT / "tests" / "flaky.txt"

MOST = 3

ONE_TRY = re.compile(
    r"^tests/(hostile|web)/|never_hurts|^tests/kernel/(namespaces/|test_(proof|hostile_documents)\.py)"
    r"|_pro(ve|of)|cancel|interrupt|^tests/top/test_loop\.py"
)
"""Tests of which no failure is chance: hostile input, the web server, harm to uWSGI, proof of PIDs, cancellation."""


class Results:
    """The plugin: writes the results of a session when it ends. place: the file."""

    def __init__(self, place: str) -> None:
        self.place, self.began, self.failed = place, time.monotonic(), dict[str, str]()
        self.outcomes: dict[str, set[str]] = {"passed": set(), "skipped": set(), "failed": set()}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or not report.passed:
            self.outcomes[report.outcome].add(report.nodeid)
        if report.failed:
            self.failed.setdefault(report.nodeid, f"{report.longreprtext}\n{report.capstdout}{report.capstderr}")

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be collected has failed as a whole."""
        if report.failed:
            self.failed.setdefault(report.nodeid, report.longreprtext)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        passed, skipped = self.outcomes["passed"] - self.failed.keys(), self.outcomes["skipped"]
        results = {"status": int(exitstatus), "failed": self.failed, "passed": sorted(passed), "skipped": len(skipped)}
        Path(self.place).write_text(json.dumps(results | {"seconds": time.monotonic() - self.began}))


def pytest_configure(config: Any) -> None:
    """Registers the plugin, but in no process of xdist's, and in no pytest that a test starts."""
    os.environ.pop("PYTEST_ADDOPTS", None)
    if (place := os.environ.pop("TEST_RESULTS", "")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(place))


def read_flaky(text: str) -> dict[str, str]:
    """The listed tests, each with its line: `DATE COMMIT TEST`, without comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split(maxsplit=2)[2]: line for line in lines}


def refuse(results: Mapping[str, Any], listed: Mapping[str, str]) -> list[str]:
    """Why there is no second try; empty if there is one. Status 1: the session ended, and tests failed."""
    if results["status"] != 1 or not results["failed"]:
        return ["No second try: the tests did not run to their end."]
    failed: Mapping[str, str] = results["failed"]
    crashed = any(re.search(r"^(\[gw\d+\].*\n)?worker '\w+' crashed", text) for text in failed.values())
    reasons = ["No second try: a process of the tests crashed."] if crashed else []
    if len(failed) > MOST:
        reasons.append(f"No second try: {len(failed)} tests failed, more than {MOST}.")
    reasons += [f"No second try: a failure of {test} is never chance." for test in failed if ONE_TRY.search(test)]
    reasons += [f"No second try: {test} is known to be flaky: {listed[test]}" for test in failed if test in listed]
    return reasons


def run_again(tests: Sequence[str]) -> tuple[set[str], str]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "results")
        path = f"{PYTHON.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        command = [str(PYTHON), "-m", "pytest", "-q", "-p", "tools.rerun", *tests]
        environment = {**os.environ, "PATH": path, "TEST_RESULTS": str(place)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        passed = set(json.loads(place.read_text())["passed"]) if place.exists() else set()
    return passed, done.stdout + done.stderr


def main(place: str) -> int:
    results: dict[str, Any] = json.loads(Path(place).read_text()) if Path(place).exists() else {"status": None}
    if reasons := refuse(results, read_flaky(FLAKY.read_text())):
        print(*reasons, sep="\n")
        return 1
    passed, printed = run_again(list(results["failed"]))
    asked = ["git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    flaky = {test: text for test, text in results["failed"].items() if test in passed}
    for test, text in flaky.items():
        print(f"FLAKY {test}: it failed, then passed alone. Its first output:\n{text.rstrip()}\n")
        line = f"{date.today()} {commit} {test}"  # noqa: DTZ011 - the day is near enough
        print(f"Add this line to tests/flaky.txt, and fix the cause:\n{line}\n")
    left = len(results["failed"]) - len(flaky)
    if left:
        print(printed)
    counts = f"{left} failed, " if left else ""
    counts += f"{len(results['passed']) + len(flaky)} passed, {results['skipped']} skipped, {len(flaky)} flaky"
    print(f"{counts} in {results['seconds']:.2f}s")
    return min(1, left)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

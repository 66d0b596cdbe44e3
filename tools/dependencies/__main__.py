"""Runs the tests that use the dependencies with the lowest and with the newest versions that setup.cfg allows.

Makes two virtual environments, below build/dependencies: the lowest versions on the lowest Python, the newest on the
newest. Needs a package index, and both Pythons under pyenv or on PATH.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.dependencies import environments
from tools.dependencies.ranges import ROOT, read_dependencies
from tools.dependencies.table import FILE, render
from tools.generated_files import replace_section

LOWEST_PYTHON, NEWEST_PYTHON = "3.10", "3.13"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.dependencies", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the table into docs/{FILE.name} if all tests pass")
    parser.add_argument(
        "--versions", nargs="+", metavar="NAME==VERSION", help="test only the limits of the server with these versions"
    )
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "dependencies", help="of the environments")
    options = parser.parse_args(argv)
    if options.versions:
        return _test_versions(options.versions)
    dependencies = read_dependencies()
    names = [each.name for each in dependencies]
    newest = environments.make_environment(
        options.directory / "newest",
        environments.find_python(NEWEST_PYTHON),
        environments.newest_packages(dependencies),
    )
    lowest = environments.make_environment(
        options.directory / "lowest",
        environments.find_python(LOWEST_PYTHON),
        environments.lowest_packages(dependencies),
    )
    failed = 0
    for name, python in ((f"lowest, Python {LOWEST_PYTHON}", lowest), (f"newest, Python {NEWEST_PYTHON}", newest)):
        status, summary = environments.run_tests(python, environments.SUBSET)
        print(f"{name}: {summary}", flush=True)
        failed |= status
    tested = {name: version for name, (version, _) in environments.read_installed(lowest, names).items()}
    table = render(dependencies, tested, environments.read_installed(newest, names))
    print(table)
    if options.write and not failed:
        FILE.write_text(replace_section(FILE.read_text(), "tested", table))
    return min(failed, 1)


def _test_versions(versions: Sequence[str]) -> int:
    failed = 0
    for version in versions:
        status, summary = environments.run_tests_with(version, environments.LIMITS[version.partition("==")[0]])
        print(f"{version}: {summary}", flush=True)
        failed |= status
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())

"""Makes virtual environments with chosen versions, and runs tests in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.dependencies.ranges import ROOT, Dependency

TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis", "jsonschema", "playwright", "pyte")

SUBSET = (
    "tests/config/test_yaml_file.py",
    "tests/metrics/test_exposition.py",
    "tests/report/render/test_forms.py",
    "tests/report/statistics/test_usl.py",
    "tests/source/test_read.py",
    "tests/stats/test_decode.py",
    "tests/top/test_once.py",
    "tests/web/test_connection_limits.py",
    "tests/web/test_ended_connections.py",
    "tests/web/test_event_stream.py",
    "tests/web/test_host_check.py",
    "tests/web/test_metrics_route.py",
    "tests/web/test_probe_route.py",
    "tests/web/test_request_head.py",
)
"""The tests that use the dependencies: the HTTP server and its limits, metrics, documents, YAML, processes, charts."""

LIMITS = {
    "starlette": ("tests/web/test_host_check.py",),
}
"""The tests of every minor version: the host check uses the whole application."""

_VERSIONS = """
import importlib.metadata, json, sys
def licence(package):
    classifiers = [entry.rpartition(" :: ")[2] for entry in package.get_all("Classifier") or [] if "License" in entry]
    said = package.get("License") or ""
    return package.get("License-Expression") or (said if said and len(said) < 40 else " and ".join(classifiers))
packages = {name: importlib.metadata.metadata(name) for name in sys.argv[1:]}
print(json.dumps({name: [package["Version"], licence(package)] for name, package in packages.items()}))
"""


def find_python(version: str) -> str:
    """Return the path of a Python such as "3.10": of pyenv, else on PATH. Raises FileNotFoundError."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(versions.glob(f"{version}.*/bin/python")) if versions.is_dir() else []
    path = str(found[-1]) if found else shutil.which(f"python{version}")
    if not path:
        raise FileNotFoundError(f"no Python {version}, neither under pyenv nor on PATH")
    return path


def make_environment(directory: Path, python: str, packages: Sequence[str]) -> Path:
    """Make an environment with these packages, unless it is there with the same ones; returns its Python."""
    stamp, own = directory / "packages", directory / "bin" / "python"
    wanted = "\n".join([python, *packages])
    if not (stamp.is_file() and stamp.read_text() == wanted):
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(directory)], check=True)
        install(own, packages)
        stamp.write_text(wanted)
    return own


def install(python: Path, packages: Sequence[str]) -> None:
    """Install packages into an environment. Raises CalledProcessError."""
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)


def run_tests_with(version: str, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests with another version of one package (`NAME==VERSION`), in front of those of this environment."""
    with tempfile.TemporaryDirectory(prefix="headroom-dependency-") as directory:
        target = ["--no-deps", "--no-compile", "--target", directory, version]
        install(Path(sys.executable), target)
        return run_tests(Path(sys.executable), tests, directory)


def lowest_packages(dependencies: Sequence[Dependency]) -> list[str]:
    """Return the lower end of each range, as pip's arguments."""
    return [*(f"{each.name}=={each.lowest}" for each in dependencies), *TEST_TOOLS]


def newest_packages(dependencies: Sequence[Dependency]) -> list[str]:
    """Return each range, of which pip takes the newest version."""
    return [*(f"{each.name}>={each.lowest},<{each.below}" for each in dependencies), *TEST_TOOLS]


def read_installed(python: Path, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return version and licence of installed packages, from their metadata."""
    answer = subprocess.run([str(python), "-c", _VERSIONS, *names], capture_output=True, text=True, check=True)
    return {name: (version, licence) for name, (version, licence) in json.loads(answer.stdout).items()}


def run_tests(python: Path, tests: Sequence[str], directory: str = "") -> tuple[int, str]:
    """Run tests; returns pytest's exit status and its last line. directory: of packages that come first."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--durations=0", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{directory}:{ROOT / 'exporter'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = answer.stdout.strip().splitlines() or answer.stderr.strip().splitlines() or [""]
    if answer.returncode:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))) or answer.stdout[-3000:])
    return answer.returncode, lines[-1]

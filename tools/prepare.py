"""Installs what `make lint`, `make bench`, `make lab` and `make test` need.

`.venv-lab` has the WSGI servers that the lab compares, and the demo's Fibonacci module compiled by Cython. What cannot
be installed is left out, and the lab reports the reason.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tools import commands, debian, environments
from tools.commands import CommandError, note, show_step
from tools.environments import BUILD_PACKAGES, PYTHON, ROOT, Environment, SetupError, cannot_build

COMPILED = "compiled_fibonacci"
"""The module that Cython makes of app/fibonacci.py."""


class Package(NamedTuple):
    """A package of the environment. programs: without them it cannot be installed. advice: where they come from."""

    name: str
    programs: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    compiles: bool = False
    advice: str = ""

    def obstacle(self) -> str | None:
        """The reason why it cannot be installed on this machine, or None if nothing is known to be missing."""
        if self.compiles and (reason := cannot_build()):
            return f"{reason}; on Debian and Ubuntu: apt-get install {BUILD_PACKAGES}"
        missing = [name for name in self.programs if not shutil.which(name)]
        missing += [name for name in self.headers if not Path("/usr/include", name).is_file()]
        return f"this machine lacks {' and '.join(missing)}; {self.advice}" if missing else None


PACKAGES = (
    Package("gunicorn"),
    Package("gevent"),
    Package("eventlet"),
    Package("tornado"),
    Package("twisted"),
    Package("cheroot"),
    Package("paste"),
    Package("waitress"),
    Package("granian"),
    Package("bjoern", headers=("ev.h",), compiles=True, advice="on Debian and Ubuntu: apt-get install libev-dev"),
    Package(
        "mod_wsgi",
        programs=("apxs", "apache2"),
        compiles=True,
        advice="on Debian and Ubuntu: apt-get install apache2-bin apache2-dev",
    ),
    Package("cython", compiles=True),
)


def lab_environment(root: Path = ROOT) -> Environment:
    return Environment(root / ".venv-lab")


def prepare_lab(root: Path = ROOT) -> None:
    environment = lab_environment(root)
    environment.ensure()
    for package in PACKAGES:
        if not environment.holds(package.name, PYTHON):
            _keep_reason(environment, package.name, _install(environment, package, root))
    if environment.holds("cython", PYTHON):
        _keep_reason(environment, COMPILED, _compile(environment, root))


def why_missing(environment: Environment, name: str) -> str | None:
    if environment.holds(name, PYTHON) or (name == COMPILED and compiled_module(environment)):
        return None
    reason = _reason_file(environment, name)
    return reason.read_text() if reason.is_file() else "it was not installed: run `make lab`"


def compiled_module(environment: Environment) -> Path | None:
    return next(environment.path.glob(f"compiled/{COMPILED}.*.so"), None)


def versions(environment: Environment) -> dict[str, str]:
    command = [str(environment.program("python")), "-m", "pip", "list", "--format=freeze"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    installed = dict(line.lower().split("==", 1) for line in listing.splitlines() if "==" in line)
    return {package.name: installed[package.name] for package in PACKAGES if package.name in installed}


def _install(environment: Environment, package: Package, root: Path) -> str | None:
    if reason := package.obstacle():
        return reason
    try:
        with show_step(f"installing {package.name}"):
            # A build in pip's cache may be linked to another Python of the same version.
            options = ["--no-cache-dir"] if package.compiles else []
            environment.install(package.name, PYTHON, [*options, package.name], cwd=root)
    except CommandError as error:
        return f"it cannot be installed: {error.last_line}"
    return None


def _compile(environment: Environment, root: Path) -> str | None:
    """Compiles app/fibonacci.py, unless the compiled module has the same source. Returns the reason if it fails."""
    source, directory = root / "app" / "fibonacci.py", environment.path / "compiled"
    copy = directory / f"{COMPILED}.py"
    if compiled_module(environment) and copy.is_file() and copy.read_bytes() == source.read_bytes():
        return None
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copyfile(source, copy)
    try:
        with show_step("compiling app/fibonacci.py with Cython"):
            commands.run_command([environment.program("cythonize"), "--inplace", "-3", copy], cwd=directory)
    except (CommandError, OSError) as error:
        return f"Cython cannot compile it: {error.last_line if isinstance(error, CommandError) else error}"
    return None


def _reason_file(environment: Environment, name: str) -> Path:
    return environment.path / f"lacks-{name}"


def _keep_reason(environment: Environment, name: str, reason: str | None) -> None:
    file = _reason_file(environment, name)
    file.unlink(missing_ok=True)
    if reason:
        note(f"  {name}: {reason}\n  so the lab runs without it")
        file.write_text(reason)


EXTRAS = "dashboards,demo,lint,test"


def main(argv: list[str]) -> str | None:
    """Prepares for `lint` (project and tools), `bench` (also uWSGI), `lab` (also the servers that it compares), `test`
    (all but those), or `chosen-tests` (also without the browser). Returns a message about what is missing."""
    try:
        project = environments.project(EXTRAS)
        if argv != ["lint"]:
            environments.uwsgi_for_tests()
        if argv == ["test"]:
            find_browser()
        if argv == ["lab"]:
            prepare_lab()
        if argv in (["test"], ["chosen-tests"]):
            debian.ensure_programs(project.path / "bin")
    except (SetupError, CommandError) as error:
        return f"\nmake {argv[0]}: {error}"
    except KeyboardInterrupt:
        return "\nstopped"
    return None


NAMES = ("chromium", "google-chrome", "google-chrome-stable")

ADVICE = (
    "this machine lacks Chromium, which the tests of the page need.\n"
    "On Debian, as root: apt-get install --no-install-recommends chromium\n"
    "On Ubuntu the package is a snap, which cannot access /tmp: put Google Chrome (google-chrome) on PATH"
)


def find_browser() -> str:
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        raise SetupError(ADVICE)
    return browser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

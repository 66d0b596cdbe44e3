"""Installs what `make lint`, `make bench`, `make lab` and `make test` need."""

from __future__ import annotations

import shutil
import sys

from tools import debian, environments, lab_environment
from tools.commands import CommandError
from tools.environments import SetupError

EXTRAS = "dashboards,demo,lint,test"


def main(argv: list[str]) -> str | None:
    """Prepares for `lint` (project and tools), `bench` (also uWSGI), `bench-days` (the project, and promtool), `lab`
    (also the servers that it compares), `test` (all but those), or `chosen-tests` (also without the browser, which the
    tests of the page look for themselves).

    Returns a message about what is missing.
    """
    try:
        project = environments.project(EXTRAS)
        if argv not in (["lint"], ["bench-days"]):
            environments.uwsgi_for_tests()
        if argv == ["test"]:
            find_browser()
        if argv == ["lab"]:
            lab_environment.prepare()
        if argv in (["test"], ["chosen-tests"], ["bench-days"]):
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
    """Returns the path of the browser. Raises `SetupError`, which says what to install, if none is on PATH."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    if browser is None:
        raise SetupError(ADVICE)
    return browser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
